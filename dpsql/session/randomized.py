"""Statements about randomized tables: CREATE RANDOMIZED TABLE, DROP, SHOW RANDOMIZED TABLES, EXPLAIN, and what reads one.

Its reports are bought as any release is: judged, charged whole, drawn once and stored. From then on they are public: a table of its
values with the number of reports and the debiased count of each, in place of a name (expanding.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.named import Names
from dpsql.accounting.randomized import RANDOMIZED, RandomizedTable
from dpsql.aggregates.reports import Debiased, Reports
from dpsql.answers.look_up import Missing
from dpsql.core import cancellation
from dpsql.core.escaping import harmless
from dpsql.core.wording import number
from dpsql.mechanisms.randomized_response import RandomizedResponse
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Selected
from dpsql.plan.tables import PublicTable
from dpsql.planner.explain import explain_cube
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateTable, parse
from dpsql.planner.qualified import in_main
from dpsql.planner.randomized import calibrate_table
from dpsql.planner.table_terms import DropTable
from dpsql.release.buying import Bought
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import naming
from dpsql.session.planned import Planned
from dpsql.session.result import Answer
from dpsql.session.world import World
from dpsql.sql.duckdb import literal_sql

NOUN = "randomized table"
LEVEL = Fraction(95, 100)


def names(world: World) -> Names[RandomizedTable]:
    return world.stored.names(RANDOMIZED)


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A randomized table up to its reports, as the query that it is bought by."""

    statement: CreateTable
    planned: Planned
    reports: Reports
    fingerprint: str

    @property
    def plan(self) -> Compiled:
        return self.planned.plan

    @property
    def part(self) -> Selected:
        return self.planned.plan.releases[0].release.chosen[0]


def asked(statement: CreateTable | DropTable, world: World) -> PlannedTable | Answer:
    """A table up to its reports; of DROP the answer. Raises 105 where its name stands for another."""
    with cancellation.current().planning():
        if isinstance(statement, DropTable):
            one = naming.known(names(world), statement.name, NOUN, statement.span)
            return naming.dropped(names(world), one, NOUN, "make one under another name", world)
        planned = plan(statement, world)
        naming.require_free(names(world).get(statement.name), planned.fingerprint, NOUN, "DROP")
        return planned


def plan(statement: CreateTable, world: World) -> PlannedTable:
    """A table up to its reports."""
    query = in_main(replace(statement.query, options=Options(), session=Options()), world.schema)
    bounded = naming.bounded(query, world)
    made = calibrate_table(bounded, statement.terms, world.schema, world.identities)
    compiled = made.compiled
    written = replace(compiled.plan.post_query, written=naming.written(statement.query), traced=False)
    compiled = replace(compiled, plan=replace(compiled.plan, post_query=written))
    planned = Planned(query, naming.judged(query, bounded, world), compiled)
    return PlannedTable(statement, planned, made.reports, world.stored.fingerprint(compiled.releases[0]))


def missing(statement: CreateTable | DropTable, world: World) -> tuple[Missing, ...]:
    """The releases of a table that would be bought now; none for DROP."""
    if isinstance(statement, DropTable):
        return ()
    return world.stored.look_up(plan(statement, world).plan, Options()).missing


def columns(statement: CreateTable | DropTable, world: World) -> Columns:
    """The columns of the answer, free."""
    return naming.DROPPED if isinstance(statement, DropTable) else _columns(plan(statement, world))


def explain(statement: CreateTable | DropTable, world: World) -> str:
    """The plan of a table that is to be bought. Raises 103 for DROP."""
    if isinstance(statement, DropTable):
        raise naming.not_bought(NOUN)
    planned = plan(statement, world)
    is_stored = not world.stored.look_up(planned.plan, Options()).missing
    guarded = world.guard.lines(planned.planned.judged, planned.plan.plan.releases)
    told = [*_told(planned, is_stored), explain_cube(planned.plan, world.schema), *guarded]
    return "\n".join(harmless(line) for text in told for line in text.splitlines())


def _told(planned: PlannedTable, is_stored: bool) -> Iterator[str]:
    reports, epsilon = planned.reports, planned.part.terms.epsilon
    column = printable(planned.statement.column)
    yield f"randomized table {printable(planned.statement.name)}: {reports.population:,} reports of {column}, then public"
    if is_stored:
        yield "price: stored already, so it is free"
    else:
        yield f"price: epsilon {number(epsilon)}; the reports are drawn once, and what is asked of them is free"
    # as if every value were as frequent
    even = [reports.population // reports.cells] * reports.cells
    width = _debiased(epsilon, reports.cells).half_widths(even, LEVEL)[0]
    yield f"  the debiased count of a value: 95 % half-width about {width:.3g}, as if all values were as frequent"


# --- buying -------------------------------------------------------------------------------------------------------------


def named(planned: PlannedTable, found: Bought, world: World) -> Answer:
    """A table that was bought, or was stored already, under its name from now on."""
    one, count = _table(planned, found, world), len(found.held.missing)
    naming.keep(names(world), one)
    rows = [(value, *row) for value, row in zip(planned.reports.histogram.values, numbers(one), strict=True)]
    shown = _columns(planned)
    accuracy = Accuracies.nothing(len(shown), len(rows))
    free = () if count else ("it is stored already: nothing was charged",)
    return Answer(shown, rows, accuracy, found.receipt, not count, count, (*found.notes, *free), (one.fingerprint,))


def _table(planned: PlannedTable, found: Bought, world: World) -> RandomizedTable:
    release, scalar = planned.plan.releases[0].release, planned.reports.histogram.scalar
    cells = found.staged.noisy[release.name].cells
    return RandomizedTable(
        planned.statement.name,
        world.analyst.name,
        naming.written(planned.statement.query),
        planned.fingerprint,
        planned.statement.column,
        tuple(literal_sql(value, scalar.sqltype) for value in planned.reports.histogram.values),
        tuple(int(number) for (number,) in cells if number is not None),
        planned.part.terms.epsilon,
    )


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


def table(world: World) -> PublicTable:
    """dpsql.randomized_tables."""
    return naming.shown(spent.RANDOMIZED, [_row(one, world) for one in names(world).all()])


def _row(one: RandomizedTable, world: World) -> tuple[object, ...]:
    made = one.time.partition("+")[0]
    current = naming.is_current(one.fingerprint, lambda: _again(one, world))
    return (one.name, one.column, len(one.values), sum(one.reports), float(one.epsilon), made, current)


def _again(one: RandomizedTable, world: World) -> str | None:
    """The fingerprint that its statement has now."""
    statement = parse(one.statement)
    return plan(statement, world).fingerprint if isinstance(statement, CreateTable) else None
