"""Published statements and questions of our own: how many are answered, with the guard and without, and why the others are not.

python -m tests.bench workloads [--workloads FOLDER]

Public texts are not bundled; those that FOLDER has are asked, beside TPC-H and the questions in tests/fixtures/questions:

FOLDER/public_bi/*       the folders of cwida/public_bi_benchmark's benchmark/, with tables/*.sql and queries/*.sql
FOLDER/clickbench        tables/create.sql and queries/queries.sql: duckdb/create.sql and duckdb/queries.sql of ClickHouse/ClickBench
FOLDER/tpcds             queries/*.sql, one a file, and rows/*.parquet at scale factor 0.01: tpcds_queries() and dsdgen() of DuckDB's
                         extension, which the package duckdb-extension-tpcds brings
FOLDER/smartnoise/pums, telemetry   queries/*.sql: validate_pums.sql, and rewrites.sql, of the tests of opendp/smartnoise-sdk
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import duckdb

from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.planner.options import Options
from dpsql.planner.parse import Query
from dpsql.schema.model import Schema, Table
from dpsql.schema.toml import read_schema
from dpsql.session.answer import read
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.bench.declaring import ROWS, Told, declare
from tests.bench.timing import Aim, heading, ms, p95
from tests.support import tpch
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODES = ("off", "block")
PLANNED, LONGEST = Aim(15, " ms at p95"), Aim(1000, " ms at most")
R3 = "DPSQL-602: rule R3"
CHEAP = EpsilonDelta(Fraction(1, 10), Fraction(1, 10**9))
"""A usual price, at which statements are asked whether what they buy has a value."""


@dataclass(frozen=True, slots=True)
class Part:
    """Statements over one schema.

    units  how many there are in the data
    """

    name: str
    schema: Schema
    texts: tuple[str, ...]
    units: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Several parts that are counted together, and how many statements are to be answered with the guard."""

    name: str
    aim: int
    parts: Callable[[Path], Iterator[Part]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The end of one statement: "" or its refusal, and the processor's time from text to plan without the guard [seconds]."""

    part: str
    text: str
    refusal: str
    planned: float


@dataclass(frozen=True, slots=True)
class Cheap:
    """The end of one statement at a usual price.

    refusal  or ""
    unsold   the statement and what was said of it, where it was charged and gave nothing but keys; else ""
    """

    refusal: str = ""
    unsold: str = ""


def compare(folder: Path | None, cache: Path) -> None:
    """Ask every workload that is there, with the guard off and in its default mode, and print the counts."""
    heading("Published statements and our own: how many are answered without the guard, and with it")
    planned: list[float] = []
    refused: dict[str, Counter[str]] = {}
    unsold: list[str] = []
    for workload in _workloads(folder, cache):
        with tempfile.TemporaryDirectory() as place:
            parts = list(workload.parts(Path(place)))
            off, block = ([one for part in parts for one in _asked(part, mode)] for mode in MODES)
            cheap = [one for part in parts for one in _at_usual_price(part)]
        unsold += [f"{workload.name}: {one.unsold}" for one in cheap if one.unsold]
        few = sum(R3 in one.refusal for one in cheap)
        print(
            f"  {workload.name}: {_counts(off, block, workload.aim)}; {few} of them refused by R3 at a usual price",
            flush=True,
        )
        planned += [one.planned for one in off]
        refused[workload.name] = Counter(one.refusal.partition("\n")[0] for one in block if one.refusal)
    print(f"  planning: {ms(p95(planned))}, {PLANNED.verdict(1000 * p95(planned))}; ", end="")
    print(f"longest {ms(max(planned))}, {LONGEST.verdict(1000 * max(planned))}")
    heading(
        "Refusals with the guard on, whole: how many of a workload, the code, what is wrong, and what to write instead"
    )
    for name, kinds in refused.items():
        for refusal, count in sorted(kinds.items()):
            print(f"  {name}: {count} {refusal}")
    heading("Charged at a usual price, and without a value")
    print("\n".join(f"  {line}" for line in unsold) or "  none")


def _counts(off: Sequence[Asked], block: Sequence[Asked], aim: int) -> str:
    without, kept = (sum(not one.refusal for one in found) for found in (off, block))
    took = [one.planned for one in off]
    met = "met" if kept >= aim else "MISSED"
    return f"{len(off)} statements, {without} and {kept} answered, aim {aim}: {met}; planned in {ms(p95(took))} at p95"


def _workloads(folder: Path | None, cache: Path) -> Iterator[Workload]:
    if folder is not None and (folder / "public_bi").is_dir():
        bi = folder / "public_bi"
        yield Workload("public BI", 585, lambda place: _dashboards(bi, place, "none"))
        yield Workload("public BI, lists declared", 600, lambda place: _dashboards(bi, place, "declared"))
    if folder is not None and (folder / "clickbench").is_dir():
        visits = 'references = { UserID = "visitor.UserID" }\nmax_rows_per_unit = 100\nmax_groups_per_unit = 100'
        told = Told("visitor.UserID", 1_000_000, rows=visits)
        yield Workload("ClickBench", 31, lambda place: iter([_made(folder / "clickbench", place, told)]))
    yield Workload("TPC-H, customer", 19, lambda place: iter([_tpch(cache, tpch.schema)]))
    yield Workload("TPC-H, lineitem", 19, lambda place: iter([_tpch(cache, by_row)]))
    if folder is not None and (folder / "tpcds").is_dir():
        yield Workload("TPC-DS, customer", 72, lambda place: iter([_tpcds(folder / "tpcds")]))
    if folder is not None and (folder / "smartnoise").is_dir():
        told_of = FIXTURES / "published"
        names = [path.name for path in sorted((folder / "smartnoise").iterdir())]
        texts = {name: _texts(folder / "smartnoise" / name / "queries") for name in names}
        yield Workload(
            "SmartNoise", 30, lambda place: (_filled(told_of / name, place / name, texts[name]) for name in names)
        )
    own = sorted((FIXTURES / "questions").iterdir())
    yield Workload("our own questions", 46, lambda place: (own_questions(path, place / path.name) for path in own))


# --- where statements and schemas come from -----------------------------------------------------------------------


def _texts(folder: Path) -> tuple[str, ...]:
    return tuple(text for path in sorted(folder.glob("*.sql")) for text in statements(path.read_text()))


def statements(text: str) -> list[str]:
    """The statements of a file, without those that are commented out."""
    parted = re.split(r";\s*\n|;\s*\Z", text)
    return [one for one in parted if re.sub(r"(?m)^\s*--.*$", "", one).strip()]


def _dashboards(folder: Path, place: Path, lists: str) -> Iterator[Part]:
    for path in sorted(path for path in folder.iterdir() if (path / "queries").is_dir()):
        yield _made(path, place / path.name, Told(lists=lists))


def _made(folder: Path, place: Path, told: Told) -> Part:
    place.mkdir(exist_ok=True)
    creating = [path.read_text() for path in sorted((folder / "tables").glob("*.sql"))]
    texts = _texts(folder / "queries")
    return Part(folder.name, read_schema(declare(place, creating, texts, told)), texts, ROWS)


def _tpch(cache: Path, declared: Callable[[Path], Schema]) -> Part:
    schema = declared(tpch.generate(cache / f"sf{tpch.SCALE}", tpch.SCALE))
    dear = replace(schema.privacy, query=replace(schema.privacy.query, epsilon=Fraction(50_000)))
    texts = tuple(tpch.query(number) for number in tpch.QUERIES)
    units = round(Fraction(tpch.SCALE) * (schema.privacy.units or 1))
    return Part("TPC-H", replace(schema, privacy=dear), texts, units)


def by_row(folder: Path) -> Schema:
    """TPC-H where each row of lineitem is a unit; every other table is public, and what lineitem refers to is a dimension of it."""
    schema = tpch.schema(folder)
    privacy = replace(schema.privacy, unit="row", units=6_000_000)
    return replace(schema, privacy=privacy, tables=tuple(map(_public_beside_rows, schema.tables)))


def _public_beside_rows(table: Table) -> Table:
    if table.name != "lineitem":
        return replace(table, public=True, columns=(), references=(), max_rows_per_unit=None)
    columns = (replace(c, role="dimension") if table.reference(c.name) else c for c in table.columns)
    return replace(table, columns=tuple(columns), max_rows_per_unit=None)


def _tpcds(folder: Path) -> Part:
    schema = read_schema(FIXTURES / "published" / "tpcds" / "schema.toml")
    return Part("TPC-DS", replace(schema, folder=folder), _texts(folder / "queries"), 1000)


def own_questions(folder: Path, place: Path) -> Part:
    """The questions of one place, with rows made for them."""
    return _filled(folder, place, tuple(statements((folder / "questions.sql").read_text())))


def _filled(told: Path, place: Path, texts: tuple[str, ...]) -> Part:
    place.mkdir(parents=True)
    with duckdb.connect(str(place / "data.duckdb")) as connection:
        connection.execute((told / "tables.sql").read_text())
    schema = replace(read_schema(told / "schema.toml"), folder=place)
    return Part(told.name, schema, texts, schema.privacy.units or 0)


# --- asking -------------------------------------------------------------------------------------------------------


def _asked(part: Part, mode: str) -> list[Asked]:
    guarded = replace(part.schema, guard=replace(part.schema.guard, mode=mode))
    with _opened(guarded) as session:
        return [_one(part, session, text) for text in part.texts]


@contextmanager
def _opened(schema: Schema) -> Iterator[Session]:
    """A session in which nobody is asked back whether what is stored will do."""
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as session:
        session.execute("SET dp_buy = on")
        yield session


def _one(part: Part, session: Session, text: str) -> Asked:
    begun, refusal = time.process_time(), ""
    try:
        statement = read(text, (), session._world)
        if isinstance(statement, Query):
            world = session._world
            compile_statement(statement, Options(), session.schema, world.catalog, world.sandbox, world.identities)
    except Error:
        pass  # the same is raised below, unless the guard is first
    planned = time.process_time() - begun
    try:
        session.execute(text)
    except Error as problem:
        refusal = str(problem)
    return Asked(part.name, text, refusal, planned)


def _at_usual_price(part: Part) -> Iterator[Cheap]:
    """The ends of statements at a usual price, with as many units declared as there are."""
    privacy = replace(part.schema.privacy, units=part.units, query=CHEAP)
    with _opened(replace(part.schema, privacy=privacy)) as session:
        for text in part.texts:
            try:
                found = session.execute(text)
            except Error as problem:
                yield Cheap(refusal=str(problem))
                continue
            sold = not found.receipt.loss.epsilon or _has_value(found)
            yield Cheap(unsold="" if sold else f"{part.name}: {_reason(found)}: {' '.join(text.split())[:100]}")


def _has_value(found: Answer) -> bool:
    """Tell whether any noisy cell is not NULL; where all columns are keys, whether there is a row."""
    noisy = [i for i, is_noisy in enumerate(found.accuracy.noisy) if is_noisy] or range(len(found.columns))
    return any(row[i] is not None for row in found.rows for i in noisy)


def _reason(found: Answer) -> str:
    told: Sequence[str] = (*found.notes, *found.remarks)
    return " | ".join(told) or f"{len(found.rows)} rows, and no note"
