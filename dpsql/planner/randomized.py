"""randomized: the release of CREATE RANDOMIZED TABLE, calibrated. It is never read off others, nor they off it.

The number of reports is public: it is the declared `population` of the table, whoever is in the data (rule 72). So one unit has one row
by declared keys, and no condition decides who answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsql.aggregates.histogram import Terms
from dpsql.aggregates.mode import MOST
from dpsql.aggregates.reports import Reports
from dpsql.core.errors import error
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.randomized_response import LEAST
from dpsql.mechanisms.randomized_response import MOST as MOST_EPSILON
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, BoundedBlock, Plan, Release, Selected
from dpsql.planner.lower import lower
from dpsql.planner.measure import Identities, depends_on, unread
from dpsql.planner.partition import entries
from dpsql.planner.statistics import listed_histogram
from dpsql.planner.table_terms import TableTerms
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Schema
from dpsql.sql.trees import VERSION, fingerprint


@dataclass(frozen=True, slots=True)
class CalibratedTable:
    """A randomized table up to its reports."""

    compiled: Compiled
    reports: Reports


def calibrate_table(bounded: Bounded, terms: TableTerms, schema: Schema, identities: Identities) -> CalibratedTable:
    """The release of a randomized table at its price, and its engine SQL. Raises 104, 203, 302, 304, 502, 503.

    bounded  of a statement that counts its rows and then its column, as table_terms.asked_column makes it
    """
    price = terms.price(schema)
    if not LEAST <= price.epsilon <= MOST_EPSILON:
        what = f"the epsilon of a randomized table is from {float(LEAST):g} to {float(MOST_EPSILON):g}"
        raise error(104, what, hint="write OPTIONS (epsilon = 1)")
    part = _only_block(bounded)
    population = _population(part)
    aggregate = part.block.aggregates[-1]
    if aggregate.argument is None:
        raise error(
            203, "a randomized table reports a column, and this is the same for everybody", hint="write its name"
        )
    _require_list(aggregate.argument)
    reports = Reports(listed_histogram(aggregate, aggregate.argument), population)
    if not reports.cells:
        hint = "declare a domain for the column, or group its values with CASE ... END AS name"
        raise error(203, "a randomized table reports values of a declared list, and this has none", hint=hint)
    if not 2 <= reports.cells <= MOST:
        what = f"a randomized table has a list of 2 to {MOST} values, and this has {reports.cells:,}"
        raise error(304, what, hint="group its values with CASE ... END AS name")
    chosen = Selected("c0", reports, Terms(part.limits, price.epsilon, "permute_and_flip"))
    of = depends_on(part.block, schema)
    name = _fingerprint(part, chosen, identities.of(of))
    release = Release(part, (), None, (), chosen.loss, name, (chosen,), entries=entries(part.block.source, schema))
    release = replace(release, tables=of, unread=unread(part, of, schema), is_table=True)
    compiled = Compiled(Plan((release,), bounded.post_query, release.loss, price), (lower(release),))
    return CalibratedTable(compiled, reports)


def _only_block(bounded: Bounded) -> BoundedBlock:
    """Raises 104 where a release of its own is read: reports would depend on its noise, and the terms do not price it."""
    if len(bounded.blocks) != 1 or bounded.bounds:
        what = (
            "a randomized table reports what one row of a person says, and this compares it with a number of everybody"
        )
        raise error(104, what, hint="ask for that number first, and write it in place of the subquery")
    return bounded.blocks[0]


def _population(part: BoundedBlock) -> int:
    """[units] The declared number of reports. Raises 104 where who answers, or how often, is not decided by declarations alone."""
    source = part.block.source
    if part.enforced or not source.one_row_per_unit or len(source.tables) != 1 or part.limits.rows != 1:
        what = "a randomized table has one report of each person, and this table may have several rows of one"
        raise error(104, what, hint="make it of the table that has one row for each person")
    if part.periods or source.where or source.predicates or source.publics:
        what = "a randomized table is made of every row of one table, whoever it is about"
        raise error(104, what, hint="write SELECT column FROM t, and leave conditions to what is asked of it")
    (table,) = source.tables
    if table.population is None:
        what = f"a randomized table shows how many report, and the number of people in {printable(table.name)} is not declared"
        raise error(104, what, hint="its owner may write population = 10000 in the table's section of the schema")
    return table.population


def _require_list(value: Scalar) -> None:
    """Raises 203, 302."""
    if value.is_identifying:
        raise error(302, "a randomized table would report an identifier", hint="ask for what people share")
    if not (value.sqltype.is_integer or value.sqltype.is_boolean or value.sqltype.name == "VARCHAR"):
        what = f"a randomized table reports integers, texts, or true and false, not {value.sqltype}"
        raise error(203, what, hint="write CAST(... AS VARCHAR) AS name, or group its values with CASE")
    if value.nullable:
        # who has none would report like who is missing, and each value would seem more frequent than it is
        what = "who has NULL has nothing to report"
        raise error(203, what, hint="write COALESCE(..., 'none') AS name, or COALESCE(..., 0) AS name for numbers")


def _fingerprint(part: BoundedBlock, chosen: Selected, identity: str) -> str:
    """Fingerprint of the question."""
    source = part.block.source
    unit = tree_of(source.unit.column) if source.unit is not None else None
    asked = (chosen.over_histogram.identity, f"{chosen.terms.epsilon}")
    return fingerprint(
        source.read(), VERSION, "randomized table", unit, (part.limits.rows, part.enforced), *asked, identity
    )
