"""Does one person change a statement's exact vectors by no more than its plan claims? On generated databases and statements.

`check` raises Violation with what was found. It needs no noise and no session: it compiles the statement, runs the engine SQL on D and
on D without one person, and compares the cells of every measure with the claimed l0, linf, l1 and l2. Beside that it checks what
sensitivity rests on: keys are those declared, rows inside the declarations are not changed by the clamp, values that are NULL or NaN
add nothing, a threshold holds its delta exactly, other people's contributions do not move.

Nested statements are asked more: other people's rows stay as they are, bit for bit, in another order of rows and on other threads;
public tables are as unique as the plan says; the shorter SQL for verified data gives the same sums; every release that is read is
charged once. What a release reads of earlier ones is the same on both databases (adaptive composition). Of tallies the same is asked
(tallies.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import duckdb

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.grid import Grid
from dpsql.aggregates.joint import Joint
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.sum import Total
from dpsql.aggregates.term import Term
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.threshold import delta_per_group
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import NoisyStatistic
from dpsql.plan.resolved import PublicTuples
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.postprocess.sandbox import Sandbox
from dpsql.schema.model import Schema
from dpsql.sql.duckdb import printed
from tests.support import clinic, losses, staging, tallies
from tests.support.generate import statement
from tests.support.planning import compile_statement
from tests.support.trees import name_of, text, told
from tests.support.vectors import Exact, Key, Part, exact, vectors
from tests.support.violation import Violation

ACCOUNTINGS = ("sequential", "zcdp")
"""With which Gaussian noise is charged an epsilon and a delta, or rho."""


@dataclass(slots=True)
class Cases:
    """A stream of generated cases over one table; `refused` counts statements that the planner did not take."""

    folder: Path
    seed: int
    refused: int = 0
    checked: int = 0
    lists: Sandbox = field(default_factory=Sandbox)

    def run(self, count: int) -> None:
        """Check `count` accepted cases. Raises Violation."""
        chance = random.Random(self.seed)
        schemas = {
            (unit, accounting): _modest(clinic.schema(self.folder, unit=unit, accounting=accounting))
            for unit in ("patient", "row")
            for accounting in ACCOUNTINGS
        }
        connections = {unit: staging.opened(schemas[unit, "zcdp"], threads=1) for unit in ("patient", "row")}
        while self.checked < count:
            unit = chance.choice(["patient", "patient", "patient", "row"])
            schema = schemas[unit, chance.choice(ACCOUNTINGS)]
            parts = self._compiled(chance, schema, row_level=unit == "row")
            check(connections[unit], parts, clinic.database(chance, wild=chance.random() < 0.7), chance, schema)
            self.checked += len(parts)
        for connection in connections.values():
            connection.close()

    def _compiled(self, chance: random.Random, schema: Schema, *, row_level: bool) -> list[Part]:
        parts: list[Part] = []
        for _ in range(8):
            sql = statement(chance, row_level=row_level)
            compiled = accepted(sql, schema, lists=self.lists)
            # what reads tables of key lists is checked among the nested ones
            if compiled is None or compiled.bounds:
                self.refused += 1
            else:
                parts += [(sql, part) for part in compiled.releases]
        return parts


def _modest(schema: Schema) -> Schema:
    """The same with a total under which Gaussian noise has a mu."""
    return replace(schema, privacy=replace(schema.privacy, budget=EpsilonDelta(Fraction(20), Fraction(1, 2))))


def accepted(
    sql: str, schema: Schema, types: staging.Types | None = None, lists: PublicTuples | None = None
) -> Compiled | None:
    """A compiled statement; None where it is refused. Raises Violation where an invariant of the planner fails."""
    try:
        return compile_statement(parse(sql), Options(), schema, types, lists)
    except Error as refused:
        if refused.code == "DPSQL-901":
            raise Violation(f"an invariant failed in {sql}: {refused}") from refused
    except (AssertionError, IndexError, KeyError, AttributeError, TypeError, ValueError) as fault:
        raise Violation(f"the planner failed on {sql}: {fault!r}") from fault
    return None


def check(
    connection: duckdb.DuckDBPyConnection,
    parts: list[Part],
    data: clinic.Database,
    chance: random.Random,
    schema: Schema,
) -> None:
    """Some statements on one database, with one person removed."""
    neighbour = _neighbour(data, chance, schema)
    clinic.fill(connection, data)
    before = [exact(connection, part, sql) for sql, part in parts]
    clinic.fill(connection, neighbour)
    after = [exact(connection, part, sql) for sql, part in parts]
    for (sql, part), one, other in zip(parts, before, after, strict=True):
        _compare_all(part, one, other, sql)
        _check_noise(part, sql)
        tallies.check_choices(part, sql)
        _check_selection(part, sql)
    clinic.fill(connection, clinic.database(chance, wild=False))
    for sql, part in parts:
        _check_inside(connection, part, sql)
    _check_alone(connection, parts, before, data, schema)


def _neighbour(data: clinic.Database, chance: random.Random, schema: Schema) -> clinic.Database:
    people = data["patient"]
    if not people:
        return data
    if schema.privacy.unit == "row":
        return clinic.without_row(data, chance.randrange(len(people)))
    # Heavy patients are where limits matter.
    heaviest = max(people, key=lambda row: sum(visit[1] == row[0] for visit in data["visit"]))
    return clinic.without(data, chance.choice([*people, heaviest, heaviest])[0])


def _compare_all(part: CompiledRelease, one: Exact, other: Exact, sql: str) -> None:
    for measure, cells, moved in zip(part.release.measures, one.cells, other.cells, strict=True):
        _compare(measure, cells, moved, sql)
    tallies.compare(part, one.tallies, other.tallies, sql)


def _compare(
    measure: NoisyStatistic, one: dict[Key, tuple[int, ...]], other: dict[Key, tuple[int, ...]], sql: str
) -> None:
    zero = (0,) * measure.statistic.cells
    moves = [
        abs(x - y) for key in {*one, *other} for x, y in zip(one.get(key, zero), other.get(key, zero), strict=True)
    ]
    claimed = measure.sensitivity
    measured = (sum(m > 0 for m in moves), max(moves, default=0), sum(moves), sum(m * m for m in moves))
    allowed = (claimed.l0, claimed.linf, claimed.l1, claimed.l2_squared)
    if any(x > y for x, y in zip(measured, allowed, strict=True)):
        raise Violation(
            f"one person moved {told(measure.statistic.identity)} by {measured}, claimed {allowed}, in {sql}"
        )
    if isinstance(measure.statistic, Joint):
        _compare_blocks(measure, one, other, sql)
    if isinstance(measure.statistic, Pair | Moments):
        for cells in (*one.values(), *other.values()):
            if min(cells) < 0:
                raise Violation(f"a cell of {told(measure.statistic.identity)} is negative in {sql}")


def _compare_blocks(
    measure: NoisyStatistic, one: dict[Key, tuple[int, ...]], other: dict[Key, tuple[int, ...]], sql: str
) -> None:
    """Every block of a joint vector moves by no more than its own weight for each row; so does the cell of rows."""
    statistic = measure.statistic
    assert isinstance(statistic, Joint)
    zero, rows = (
        (0,) * statistic.cells,
        measure.sensitivity.l1 // (statistic.rows + sum(b.weight for b in statistic.blocks)),
    )
    parts = [(statistic.rows, 1)] if statistic.rows else []
    parts += [(block.weight, block.cells) for block in statistic.blocks]
    start = 0
    for weight, cells in parts:
        moved = 0
        for key in {*one, *other}:
            pairs = zip(
                one.get(key, zero)[start : start + cells], other.get(key, zero)[start : start + cells], strict=True
            )
            moved += sum(abs(x - y) for x, y in pairs)
        if moved > rows * weight:
            raise Violation(f"one person moved a block of a joint vector by {moved}, {rows} rows of {weight}, in {sql}")
        start += cells


def _check_noise(part: CompiledRelease, sql: str) -> None:
    for measure in part.release.measures:
        if not measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss):
            raise Violation(f"the noise of {measure.name} is too small in {sql}")
    losses.check_release(part.release, sql)


def _check_selection(part: CompiledRelease, sql: str) -> None:
    """A group of one unit passes with at most its share of delta, which is paid once; one less than tau would not hold it."""
    selection = part.release.selection
    if selection is None:
        return
    units = part.release.measures[selection.measure]
    cut = isinstance(units.noise, TruncatedLaplace)
    delta = units.loss.delta if cut else selection.delta
    if cut and (selection.delta or any(m.loss.delta for m in part.release.measures[1:])):
        raise Violation(f"delta is not paid once in {sql}")
    share = delta_per_group(units.sensitivity.l0, delta)
    if units.noise.tail(selection.tau - 1) > share:
        raise Violation(f"the threshold {selection.tau} does not hold delta in {sql}")
    if isinstance(units.noise, TruncatedLaplace):
        narrower = TruncatedLaplace(units.noise.scale, units.noise.most - 1) if units.noise.most > 1 else None
        small = narrower is not None and narrower.tail(narrower.most) <= share
        if selection.tau != units.noise.most + 1 or small or units.noise.tail(selection.tau) != 0:
            raise Violation(f"the noise behind the threshold {selection.tau} is not the least in {sql}")
    elif units.noise.tail(selection.tau - 2) <= share:
        raise Violation(f"the threshold {selection.tau} is not the smallest that holds delta in {sql}")


def _check_inside(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> None:
    """Every column inside its declaration means every expression is: the clamp changes nothing, no key is lost."""
    source = part.release.limited.block.source
    where = " AND ".join([text(c) for c in source.where]) or "true"
    for term in _terms(part):
        low, high = float(term.lower * term.quantum), float(term.upper * term.quantum)
        slack = float(term.quantum) + 1e-9 * max(abs(low), abs(high))
        x = f"CAST({text(term.scalar)} AS DOUBLE)"
        beyond = f"NOT isnan({x}) AND ({x} < {low - slack} OR {x} > {high + slack})"
        outside = f"SELECT count(*) FROM {printed(source.read())} WHERE {where} AND {beyond}"
        if connection.execute(outside).fetchall() != [(0,)]:
            raise Violation(f"{text(term.scalar)} leaves [{low}, {high}] inside the declarations in {sql}")
    for key in part.release.keys:
        if key.values is not None and None not in key.values:
            missing = f"SELECT count(*) FROM {printed(source.read())} WHERE {where} AND {text(key.scalar)} IS NULL"
            if connection.execute(missing).fetchall() != [(0,)]:
                raise Violation(f"{text(key.scalar)} is NULL inside the declarations in {sql}")


def _terms(part: CompiledRelease) -> list[Term]:
    """The values that are clamped."""
    found: list[Term] = []
    for measure in part.release.measures:
        if isinstance(measure.statistic, Pair | Total):
            found.append(measure.statistic.term)
        elif isinstance(measure.statistic, Joint | Moments):
            found += measure.statistic.terms
    return found + [tally.histogram.term for tally in part.histograms if isinstance(tally.histogram, Grid)]


def _check_alone(
    connection: duckdb.DuckDBPyConnection,
    parts: list[Part],
    together: list[Exact],
    data: clinic.Database,
    schema: Schema,
) -> None:
    """The vector of a database is the sum of the vectors of its people alone; so is a tally."""
    if schema.privacy.unit == "row" or not data["patient"] or len(data["patient"]) > 5:
        return
    alone: list[list[Exact]] = []
    for person in data["patient"]:
        rest = data
        for other in data["patient"]:
            rest = clinic.without(rest, other[0]) if other is not person else rest
        clinic.fill(connection, rest)
        alone.append([exact(connection, part, sql) for sql, part in parts])
    for index, (sql, part) in enumerate(parts):
        for number, measure in enumerate(part.release.measures):
            _compare_sum(measure, [one[index].cells[number] for one in alone], together[index].cells[number], sql)
        tallies.check_additive(part, [one[index].tallies for one in alone], together[index].tallies, sql)
    for sql, part in parts:
        _check_void(connection, part, rest, sql)


def _compare_sum(
    measure: NoisyStatistic, alone: list[dict[Key, tuple[int, ...]]], together: dict[Key, tuple[int, ...]], sql: str
) -> None:
    zero = (0,) * measure.statistic.cells
    for key in {key for one in alone for key in one} | set(together):
        added = tuple(sum(column) for column in zip(*(one.get(key, zero) for one in alone), strict=True))
        if added != together.get(key, zero):
            raise Violation(
                f"people's contributions to {told(measure.statistic.identity)} depend on one another in {sql}"
            )


def _check_void(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, data: clinic.Database, sql: str) -> None:
    """With every number NULL or NaN, a bare column's sum and pair are zero."""
    for void in (None, clinic.NAN):
        clinic.fill(connection, data)
        for table in ("patient", "visit", "item"):
            for column in ("income", "weight", "cost", *(("age", "score", "days", "amount") if void is None else ())):
                if column in clinic.DDL[table]:
                    connection.execute(f"UPDATE {table} SET {column} = ?", [void])
        names = ("income", "weight", "cost") + (("age", "score", "days", "amount") if void is None else ())
        for measure, found in zip(part.release.measures, vectors(connection, part, sql), strict=True):
            statistic = measure.statistic
            if isinstance(statistic, Joint):
                _check_joint_void(statistic, found, names, sql)
            if not isinstance(statistic, Pair | Total | Moments):
                continue
            terms = statistic.terms if isinstance(statistic, Moments) else (statistic.term,)
            bare = {name_of(t.scalar) for t in terms}
            with_rows = not isinstance(statistic, Total) and statistic.with_rows
            if bare & set(names) and any(any(cells[: len(cells) - with_rows]) for cells in found.values()):
                raise Violation(f"{bare} without a value adds to {told(statistic.identity)} in {sql}")
        tallies.check_empty(part, tallies.tallies(connection, part, sql), names, sql)


def _check_joint_void(statistic: Joint, found: dict[Key, tuple[int, ...]], names: tuple[str, ...], sql: str) -> None:
    """Of a value that is NULL or NaN everywhere, the cells hold nothing but the number of rows without it."""
    start = int(statistic.rows > 0)
    for block in statistic.blocks:
        own = slice(start, start + 1 + block.split)
        if name_of(block.term.scalar) in names and any(any(cells[own]) for cells in found.values()):
            raise Violation(f"{name_of(block.term.scalar)} without a value adds to a joint vector in {sql}")
        start += block.cells
