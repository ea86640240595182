"""Statements about randomized tables: CREATE RANDOMIZED TABLE, DROP, SHOW RANDOMIZED TABLES, EXPLAIN, and what reads one.

Its reports are bought once (naming.py). From then on they are public: a table of its values with the number of reports and the debiased
count of each, in place of a name (expanding.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.randomized import RANDOMIZED, RandomizedTable
from dpsql.aggregates.reports import Debiased, Reports
from dpsql.core.wording import number
from dpsql.mechanisms.randomized_response import RandomizedResponse
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateTable
from dpsql.planner.qualified import in_main
from dpsql.planner.randomized import calibrate_table
from dpsql.release.buying import Bought
from dpsql.release.staging import Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import naming
from dpsql.session.naming import BoughtKind, Row, UpToNoise
from dpsql.session.planned import Planned
from dpsql.session.world import World
from dpsql.sql.duckdb import literal_sql

LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class PlannedTable(UpToNoise):
    """A randomized table up to its reports, as the query that it is bought by."""

    statement: CreateTable
    reports: Reports

    @property
    def epsilon(self) -> Fraction:
        return self.release.chosen[0].terms.epsilon


class RandomizedKind(BoughtKind[RandomizedTable, PlannedTable]):
    """Randomized tables, as CREATE RANDOMIZED TABLE makes them."""

    noun, register, table, creates = "randomized table", RANDOMIZED, spent.RANDOMIZED, CreateTable

    def plan(self, statement: CreateTable, world: World) -> PlannedTable:
        query = in_main(replace(statement.query, options=Options(), session=Options()), world.schema)
        bounded = naming.bounded(query, world)
        made = calibrate_table(bounded, statement.terms, world.schema, world.identities)
        compiled = naming.under_its_text(made.compiled, statement.query)
        planned = Planned(query, naming.judged(query, bounded, world), compiled)
        return PlannedTable(planned, world.stored.fingerprint(compiled.releases[0]), statement, made.reports)

    def answers(self, statement: CreateTable, world: World) -> Columns:
        return _columns(self.plan(statement, world))

    def told(self, planned: PlannedTable, is_stored: bool) -> Iterator[str]:
        reports, epsilon = planned.reports, planned.epsilon
        name, column = printable(planned.statement.name), printable(planned.statement.column)
        yield f"randomized table {name}: {reports.population:,} reports of {column}, then public"
        if is_stored:
            yield "price: stored already, so it is free"
        else:
            yield f"price: epsilon {number(epsilon)}; the reports are drawn once, and what is asked of them is free"
        # as if every value were as frequent
        even = [reports.population // reports.cells] * reports.cells
        width = _debiased(epsilon, reports.cells).half_widths(even, LEVEL)[0]
        yield f"  the debiased count of a value: 95 % half-width about {width:.3g}, as if all values were as frequent"

    def made(self, planned: PlannedTable, found: Bought, world: World) -> RandomizedTable:
        histogram = planned.reports.histogram
        cells = found.staged.noisy[planned.release.name].cells
        return RandomizedTable(
            planned.statement.name,
            world.analyst.name,
            naming.written(planned.statement.query.sql),
            planned.fingerprint,
            planned.statement.column,
            tuple(literal_sql(value, histogram.scalar.sqltype) for value in histogram.values),
            tuple(int(number) for (number,) in cells if number is not None),
            planned.epsilon,
        )

    def result(self, planned: PlannedTable, one: RandomizedTable) -> tuple[Columns, list[Row]]:
        values = planned.reports.histogram.values
        return _columns(planned), [(value, *row) for value, row in zip(values, numbers(one), strict=True)]

    def row(self, one: RandomizedTable) -> Row:
        return (one.name, one.column, len(one.values), sum(one.reports), float(one.epsilon))


KIND = RandomizedKind()


def _columns(planned: PlannedTable) -> Columns:
    own = (planned.statement.column, str(planned.reports.histogram.scalar.sqltype))
    return (own, ("reports", "BIGINT"), ("estimate", "DOUBLE"), ("half_width", "DOUBLE"))


def numbers(table: RandomizedTable) -> list[tuple[int, float, float]]:
    """Of each value its reports, its debiased count and the 95 % half-width of that."""
    debiased = _debiased(table.epsilon, len(table.values))
    widths = debiased.half_widths(table.reports, LEVEL)
    return list(zip(table.reports, debiased.estimates(table.reports), widths, strict=True))


def _debiased(epsilon: Fraction, values: int) -> Debiased:
    return Debiased(RandomizedResponse(epsilon, values))
