"""Statements beside what a stage makes of them: the files of tests/fixtures/STAGE.

A paragraph is a case: comments, the statement, and behind `-->` the lines that are expected. A statement that is refused has one line,
the first of its message. `python -m tests.support.stages [FILE ...]` writes the lines anew, to be read before they are kept.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from dpsql.aggregates.histogram import Terms
from dpsql.aggregates.record import Aggregate
from dpsql.core.domains import Categories, Interval
from dpsql.core.errors import Error
from dpsql.core.loss import PrivacyLoss
from dpsql.expressions.scalar import Scalar
from dpsql.plan.releases import BoundedBlock, Release
from dpsql.plan.resolved import Block, GroupKey
from dpsql.planner.measure import Identities
from dpsql.planner.options import Options
from dpsql.planner.parse import DUCKDB, Catalog, Explain, Query, Setting, parse
from dpsql.planner.planning import bound, calibrate
from dpsql.planner.resolve import resolve
from dpsql.relations.relations import Relation
from dpsql.schema.model import Schema
from tests.support import clinic, staging
from tests.support.statements import FIXTURES
from tests.support.trees import text, told

MARK = "--> "


@dataclass(frozen=True, slots=True)
class Case:
    """A paragraph of a file.

    head   its comments
    level  of privacy: "patient" or "row"
    """

    head: str
    sql: str
    expected: tuple[str, ...]
    level: str


def read(path: Path) -> list[Case]:
    """The cases of a file; its first paragraph may say that they are at the row level."""
    return [case for case in _paragraphs(path) if case.sql]


def _paragraphs(path: Path) -> Iterator[Case]:
    level = "patient"
    for paragraph in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = paragraph.split("\n")
        expected = tuple(line.removeprefix(MARK) for line in lines if line.startswith(MARK))
        head = [line for line in lines if line.startswith("--") and not line.startswith(MARK)]
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        if not sql and "row level" in paragraph:
            level = "row"
        yield Case("\n".join(head), sql, expected, level)


@cache
def schema_of(level: str) -> Schema:
    with tempfile.TemporaryDirectory() as folder:
        return clinic.schema(Path(folder), unit=level)


def shown(stage: str, case: Case) -> tuple[str, ...]:
    """The stage's own form of a statement."""
    try:
        return tuple(STAGES[stage](case.sql, schema_of(case.level)))
    except Error as refused:
        return (str(refused).split("\n")[0],)


# --- parse --------------------------------------------------------------------------------------------------------


def _parsed(sql: str, _: Schema) -> Iterator[str]:
    found = parse(sql)
    match found:
        case Query():
            yield from _query(found)
        case Explain(query):
            yield "explain"
            yield from _query(query)
        case Setting(name, options):
            yield f"reset {name}" if options is None else f"set {_options(options)}"
        case Catalog():
            yield "catalog"


def _query(query: Query) -> Iterator[str]:
    yield f"query {DUCKDB.generate(query.tree)}"
    if query.options != Options():
        yield f"options {_options(query.options)}"


def _options(options: Options) -> str:
    plain = Options()
    names = [one.name for one in fields(options) if getattr(options, one.name) != getattr(plain, one.name)]
    return ", ".join(f"{name} = {getattr(options, name)}" for name in names)


# --- resolve ------------------------------------------------------------------------------------------------------


def _resolved(sql: str, schema: Schema) -> Iterator[str]:
    found = resolve(_asked(sql), schema)
    for block in found.blocks:
        yield block.name
        yield from (f"  {line}" for line in _block(block))
    for one in found.bounds:
        yield f"{one.name}: {one.sql}"
    if not found.blocks:
        yield f"answered by {found.post_query.sql}"


def _asked(sql: str) -> Query:
    found = parse(sql)
    assert isinstance(found, Query)
    return found


def _block(block: Block) -> Iterator[str]:
    yield from _relation(block.source)
    yield from (f"where {text(condition)}" for condition in block.source.where)
    yield from (f"key {key.name}: {_value(key.scalar)}" for key in block.keys)
    yield from map(_aggregate, block.aggregates)


def _relation(relation: Relation, depth: int = 0) -> Iterator[str]:
    """The relation's maker and its inputs; how many rows of a unit it can have."""
    unit = relation.unit
    rows = "public" if unit is None else "a unit a row" if unit.column is None else f"{unit.max_rows} rows of a unit"
    tables = ", ".join(table.name for table in relation.tables)
    yield f"{'  ' * depth}{relation.made.step} {tables}: {rows}"
    for source in relation.made.sources:
        yield from _relation(source, depth + 1)


def _aggregate(aggregate: Aggregate) -> str:
    of = ", ".join(map(_value, aggregate.values))
    number = "" if aggregate.number is None else f" number {aggregate.number}"
    rows = "" if aggregate.condition is None else f" of rows with {text(aggregate.condition)}"
    return f"{aggregate.name}: {aggregate.function}({of}){number}{rows} {aggregate.sqltype}"


def _value(value: Scalar) -> str:
    """A value with its type and what it can be, by the declarations."""
    match value.domain:
        case Interval() as found:
            domain = f" in [{_number(found.lower)}, {_number(found.upper)}]"
        case Categories() as found:
            domain = f" in {', '.join(map(str, found.values[:8]))}{', ...' if len(found.values) > 8 else ''}"
        case _:
            domain = ""
    return f"{text(value)} {value.sqltype}{domain}"


def _number(number: Fraction | int) -> str:
    return str(number) if number == int(number) else f"{float(number):.6g}"


def _called(sql: str, schema: Schema) -> Iterator[str]:
    """The values of COUNT alone."""
    for block in resolve(_asked(sql), schema).blocks:
        yield from (_value(value) for aggregate in block.aggregates for value in aggregate.values)


# --- bound and calibrate ------------------------------------------------------------------------------------------


def _bounded(sql: str, schema: Schema) -> Iterator[str]:
    query = _asked(sql)
    for block in bound(query, resolve(query, schema), schema).blocks:
        yield f"{block.block.name}: {_limits(block)}"
        yield from (f"  {_key(block.block, place, key)}" for place, key in enumerate(block.block.keys))


def _key(block: Block, place: int, key: GroupKey) -> str:
    values = "selected" if block.is_selected(place) else "listed" if key.values is None else f"{list(key.values)}"
    return f"key {key.name}: {text(key.scalar)} {values}"


def _limits(found: BoundedBlock) -> str:
    most = found.limits
    values = "" if most.values is None else f", {most.values} values in a group"
    cut = "enforced" if found.enforced else "nothing to cut"
    return f"{most.rows} rows, {most.groups} groups{values} of a unit; {cut}"


def _calibrated(sql: str, schema: Schema, types: staging.Types | None = None) -> Iterator[str]:
    query = _asked(sql)
    query.settled.price(schema)
    resolved = resolve(query, schema, types, types.sandbox if types is not None else None)
    plan = calibrate(bound(query, resolved, schema), query.settled, schema, Identities(schema)).plan
    for release in plan.releases:
        yield f"{release.name}: {_limits(release.limited)}; costs {_loss(release.loss)}"
        yield from (f"  {line}" for line in _parts(release))


def _parts(release: Release) -> Iterator[str]:
    for measure in release.measures:
        s = measure.sensitivity
        yield f"{told(measure.statistic.identity)}, {measure.statistic.cells} cells"
        yield f"  l0 {s.l0}, linf {s.linf}, l1 {s.l1}, l2^2 {s.l2_squared}; {measure.describe()}; {_loss(measure.loss)}"
    for part in release.chosen:
        yield f"{part.name}: {part.describe()}; {_terms(part.terms)}; {_loss(part.loss)}"
    if release.selection is not None:
        yield f"groups from {release.selection.tau} units on"


def _terms(terms: Terms) -> str:
    return f"{terms.kind}, {terms.limits.rows} rows"


def _loss(loss: PrivacyLoss) -> str:
    epsilon = "rho " + f"{float(loss.rho):.6g}" if loss.epsilon is None else f"epsilon {float(loss.epsilon):.6g}"
    return epsilon + (f", delta {float(loss.delta):.6g}" if loss.delta else "")


# --- files --------------------------------------------------------------------------------------------------------

STAGES: dict[str, Callable[[str, Schema], Iterator[str]]] = {
    "parse": _parsed,
    "resolve": _resolved,
    "bound": _bounded,
    "calibrate": _calibrated,
    "relations": _resolved,
    "aggregates": lambda sql, schema: _calibrated(sql, schema, staging.Types()),
    "functions": _called,
}
"""By the folder of tests/fixtures."""


def files(stage: str) -> list[Path]:
    return sorted((FIXTURES / stage).glob("*.sql"))


def cases(stage: str) -> list[ParameterSet]:
    """Those of all files of a stage, for a test that is given one."""
    return [pytest.param(case, id=f"{file.stem}: {case.sql[:70]}") for file in files(stage) for case in read(file)]


def rewrite(path: Path, shown: Callable[[Case], tuple[str, ...]]) -> bool:
    """Write what is made of each statement of a file; True if the file changed."""
    written = []
    for case in _paragraphs(path):
        lines = [MARK + line for line in shown(case)] if case.sql else []
        written.append("\n".join([*([case.head] if case.head else []), *([case.sql] if case.sql else []), *lines]))
    before, after = path.read_text(encoding="utf-8"), "\n\n".join(written) + "\n"
    path.write_text(after, encoding="utf-8")
    return before != after


def main(arguments: Sequence[str]) -> int:
    for path in [Path(one) for one in arguments] or [file for stage in STAGES for file in files(stage)]:
        rewrite(path, partial(shown, path.parent.name))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
