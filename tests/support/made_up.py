"""A function and two aggregates that nobody has, added as a newcomer would: one record each, in the registry. Run by itself, before
anything that reads the registries: python -m tests.support.made_up. Prints what every part of the house then says of them, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.aggregates import registry
from dpsql.aggregates.base import Estimate, EstimateDefaults, Noise, ReleasedColumn, Statistic
from dpsql.aggregates.bounds import check_bounds
from dpsql.aggregates.record import Aggregate, Built, Given, Record
from dpsql.aggregates.shared import mean
from dpsql.core.domains import UNBOUNDED, Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import DOUBLE, SqlType
from dpsql.expressions import functions
from dpsql.expressions.arithmetic import add_subtract_multiply
from dpsql.expressions.conversion import convert
from dpsql.expressions.functions.record import Function
from dpsql.expressions.known import Known, Ruled, always
from dpsql.expressions.literals import integer_literal
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.sql.nodes import Call

# --- a function: the next even number away from zero --------------------------------------------------------------


def _even(value: Scalar) -> Scalar:
    inner, bounds = convert(value, DOUBLE), finite_hull(value)
    domain = Interval(bounds.lower - 2, bounds.upper + 2) if bounds is not None else UNBOUNDED
    return Scalar("even", (value,), Call("even", (inner.tree,)), DOUBLE, domain, None, value.nullable)


def _even_of(args: Sequence[Known]) -> Ruled | None:
    return always(Known(DOUBLE, null=args[0].null)) if len(args) == 1 and args[0].sqltype == DOUBLE else None


EVEN = Function(("even",), "EVEN(x)", "the next even number", ("value",), _even, {"even": _even_of})

# --- an aggregate: the square of the mean of square roots ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SquareOf(EstimateDefaults):
    inner: Estimate
    sqltype: SqlType = DOUBLE

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def column(self, cells: Sequence[list[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        found = self.inner.column(cells, noise, level)
        ends = [None if end is None else (end[0] ** 2, end[1] ** 2) for end in found.intervals]
        return ReleasedColumn([v * v if isinstance(v, float) else None for v in found.values], ends)


def _of_mean(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    return SquareOf(mean(statistic, aggregate))


ROOT_MEAN = Record(
    "root_mean",
    {"ROOT_MEAN(x)": "DOUBLE, the square of the mean of square roots"},
    "the root mean of {value}",
    inside="sqrt",
    read=_of_mean,
    adds="values and rows",
    sampled="pow(avg({v}){kept}, 2)",
    plain="POW(AVG(SQRT(x)), 2)",
)

# --- an aggregate with a constant: the mean of a multiple -------------------------------------------------------------


def _times(given: Given) -> Built:
    check_bounds(given)
    match given.constants:
        case (int() as times,) if not given.named and 0 < times < 100:
            return Built(add_subtract_multiply("*", given.value, integer_literal(times)))
    raise error(106, "MEAN_TIMES takes a value and a constant from 1 to 99", hint="write MEAN_TIMES(x, 2)")


MEAN_TIMES = Record(
    "mean_times",
    {"MEAN_TIMES(x, 2)": "DOUBLE, the mean of a multiple"},
    "the mean of {value}",
    "AVG({value})",
    build=_times,
    read=mean,
    adds="values and rows",
    sampled="avg({v}){kept}",
    plain="AVG(x * 2)",
)


def register() -> None:
    functions.FUNCTIONS += (EVEN,)
    functions.BY_NAME = {**functions.BY_NAME, "even": EVEN}
    functions.ENGINE = {**functions.ENGINE, **EVEN.engine}
    for record in (ROOT_MEAN, MEAN_TIMES):
        registry.RECORDS += (record,)
        registry.BY_SPELLING[record.name] = record


# --- what the house says of them ----------------------------------------------------------------------------------

ASKED = {
    "alone": "SELECT ROOT_MEAN(age) FROM patient",
    "beside others": "SELECT COUNT(*), SUM(age), ROOT_MEAN(age) FILTER (WHERE female), AVG(SQRT(age)) FROM patient",
    "of groups": "SELECT site, ROOT_MEAN(EVEN(age)) AS r FROM patient GROUP BY site HAVING ROOT_MEAN(age) > 0 ORDER BY site",
    "a sum and a count first": "SELECT SUM(age), COUNT(age) FROM patient",
    "then": "SELECT ROOT_MEAN(age) FROM patient",
    "again": "SELECT ROOT_MEAN(age) FROM patient",
    "with an accuracy": "/* dpsql: error=3 */ SELECT ROOT_MEAN(age) FROM patient",
    "nested": "SELECT AVG(ROOT_MEAN(age)) FROM patient",
    "in a condition": "SELECT COUNT(*) FROM patient WHERE ROOT_MEAN(age) > 3",
    "over released rows": "SELECT ROOT_MEAN(n) FROM (SELECT site, COUNT(*) AS n FROM patient GROUP BY site)",
    "with a constant": "SELECT site, MEAN_TIMES(age, 3), COUNT(*) FROM patient GROUP BY site ORDER BY site",
    "without its constant": "SELECT MEAN_TIMES(age) FROM patient",
    "with a column for it": "SELECT MEAN_TIMES(age, age) FROM patient",
    "without bounds": "SELECT ROOT_MEAN(code) FROM patient",
    "of two": "SELECT ROOT_MEAN(age, age) FROM patient",
    "the function": "SELECT COUNT(*), AVG(EVEN(age)) FROM patient WHERE EVEN(age) > 30",
    "the function as a key": "SELECT EVEN(site) AS k, COUNT(*) FROM patient GROUP BY k ORDER BY k",
    "the function over released rows": "SELECT EVEN(n) FROM (SELECT COUNT(*) AS n FROM patient)",
    "the function of two": "SELECT AVG(EVEN(age, 2)) FROM patient",
    "explained": "EXPLAIN SELECT ROOT_MEAN(age) FROM patient WHERE EVEN(age) > 30",
    "listed": "SHOW FUNCTIONS",
}


def main() -> None:
    register()
    # only now: what reads the registries
    from dpsql.clients.repl import words
    from dpsql.core.errors import Error
    from tests.support import clinic
    from tests.support.opened import clinic_data

    found: dict[str, object] = {"completed": sorted({"root_mean", "even"} & {w.lower() for w in words.FUNCTIONS})}
    for mode in ("off", "block"):
        text = clinic.schema_text(guard=mode).replace("delta = 0.5", "delta = 0.5\nunits = 300")
        with clinic_data(text, clinic.database(random.Random(17), wild=False)).without_noise() as session:
            for name, sql in ASKED.items():
                try:
                    answer = session.execute(sql)
                    rows = [row for row in answer.rows if name != "listed" or row[0] in ("root_mean", "even")]
                    found[f"{name}, {mode}"] = [list(map(str, row)) for row in rows]
                except Error as refused:
                    found[f"{name}, {mode}"] = f"{refused.code}: {refused}"
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
