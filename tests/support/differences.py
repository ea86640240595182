"""Exact results of one release on two neighbouring databases, or of one person alone, against what its plan claims."""

from __future__ import annotations

import duckdb

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.grid import Grid
from dpsql.aggregates.joint import Joint
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.sum import Total
from dpsql.aggregates.term import Term
from dpsql.mechanisms.threshold import delta_per_group
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import NoisyStatistic
from dpsql.schema.model import Schema
from dpsql.sql.duckdb import printed
from tests.support import clinic, losses, tallies
from tests.support.trees import name_of, text, told
from tests.support.vectors import Exact, Key, Part, exact, vectors
from tests.support.violation import Violation


def compare_all(part: CompiledRelease, one: Exact, other: Exact, sql: str) -> None:
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
        measure.sensitivity.l1 // (statistic.rows + sum(b.moved[0] for b in statistic.blocks)),
    )
    parts = [(statistic.rows, 1)] if statistic.rows else []
    parts += [(block.moved[0], block.cells) for block in statistic.blocks]
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


def check_noise(part: CompiledRelease, sql: str) -> None:
    for measure in part.release.measures:
        if not measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss):
            raise Violation(f"the noise of {measure.name} is too small in {sql}")
    losses.check_release(part.release, sql)


def check_selection(part: CompiledRelease, sql: str) -> None:
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


def check_inside(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> None:
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


def check_alone(
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
            void = bare <= set(names) if isinstance(statistic, Moments) and statistic.lone else bare & set(names)
            if void and any(any(cells[: len(cells) - with_rows]) for cells in found.values()):
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
