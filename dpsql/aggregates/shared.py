"""Aggregates that share cells: COUNT, SUM, AVG, and what is computed of moments. How each is read off the statistics that hold it."""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.aggregates.apart import AvgOfTwo, PartOfStatistic
from dpsql.aggregates.avg import AvgOf, Pair, SumOfPair
from dpsql.aggregates.base import Estimate, Statistic
from dpsql.aggregates.bounds import bounded_sum, clamped
from dpsql.aggregates.count import CountOf, Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.distinct_values import DistinctValues, declared_values
from dpsql.aggregates.forms import AvgOfForms, CountOfForm, SumOfForm, off_cube
from dpsql.aggregates.formulas import BY_NAME
from dpsql.aggregates.joint import Joint, ReadOff
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.of_moments import CountOfMoments, OfMoments, SumOfMoments
from dpsql.aggregates.record import Aggregate, Around, Record, value_key
from dpsql.aggregates.sum import SumOf, Total, sum_type
from dpsql.aggregates.term import Term
from dpsql.aggregates.unit_total import UnitTotal, unit_total
from dpsql.core.domains import LARGEST_DOUBLE
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, SqlType


def unreadable(statistic: Statistic, aggregate: Aggregate) -> Exception:
    """For a statistic that an aggregate is not held by: a fault of planning."""
    return error(901, f"{aggregate.function} is not read off {type(statistic).__name__}")


def _seen(statistic: Joint | PartOfStatistic, aggregate: Aggregate) -> ReadOff:
    return statistic.of(aggregate.bases[0]) if isinstance(statistic, Joint) else statistic.seen


def _places(statistic: Moments, aggregate: Aggregate) -> tuple[int, ...]:
    """The places of its values among the terms; of two values the second is x, whose place comes first."""
    terms = [value_key(term.scalar) for term in statistic.terms]
    found = [terms.index(value_key(base)) for base in reversed(aggregate.bases)]
    return tuple(found) if len(set(found)) == len(found) else (0, 1)


def _integer(_: SqlType) -> SqlType:
    return BIGINT


# --- counts -----------------------------------------------------------------------------------------------------------


def all_rows(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    match statistic:
        case Rows() | Units():
            return CountOf(1, sqltype=aggregate.sqltype)
        case Pair(with_rows=True):
            return CountOf(3, statistic.term.width, aggregate.sqltype)
        case Joint():
            return CountOfForm(statistic.all_rows, aggregate.sqltype)
        case PartOfStatistic():
            return CountOfForm(statistic.forms[0], aggregate.sqltype)
        case Moments(with_rows=True):
            return CountOfMoments(statistic, None, aggregate.sqltype)
    raise unreadable(statistic, aggregate)


def _rows_with_value(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    match statistic:
        case Rows():
            return CountOf(1)
        case Pair():
            return CountOf(2, statistic.term.width)
        case Joint():
            return CountOfForm(statistic.of(aggregate.bases[0]).count)
        case PartOfStatistic():
            return CountOfForm(statistic.forms[-2:][0])
        case Moments():
            return CountOfMoments(statistic, _places(statistic, aggregate)[0])
    raise unreadable(statistic, aggregate)


def _different(aggregate: Aggregate, around: Around) -> DistinctValues:
    """COUNT(DISTINCT x): of one unit no more values than are declared, and one where all of its rows have the same."""
    argument, limits = aggregate.values[0], around.limits
    declared = declared_values(argument)
    most = 1 if argument.is_constant else min(limits.rows, limits.values or limits.rows, declared or limits.rows)
    return DistinctValues(argument, aggregate.condition, most)


ROWS = Record(
    "rows", {"COUNT(*)": "the number of rows", "COUNT_IF(condition)": ""}, "the number of rows", "COUNT(*)", "COUNT(*)",
    takes=0, degree=0, sqltype=_integer, read=all_rows, apart=(("rows",), lambda _, sqltype: CountOf(1, sqltype=sqltype)),
    of_cube=(("rows",), lambda _, sqltype: CountOf(1, sqltype=sqltype)),
    only_counts=True, adds="rows", sampled="count(*){kept}", grows=True,
)  # fmt: skip
UNITS = Record(
    "units", {"COUNT(DISTINCT id)": "the number of people"}, "the number of people",
    "COUNT(DISTINCT privacy unit)", "COUNT(DISTINCT unit)",
    takes=0, degree=0, sqltype=_integer, read=all_rows, units=True,
    only_counts=True, adds="rows", sampled="count(DISTINCT u){kept}", grows=True,
)  # fmt: skip
PEOPLE = replace(UNITS, of_cube=ROWS.of_cube)
"""The same where it is asked for to select keys alone, so that a cube that selected them answers it by whatever it counts."""
COUNT = Record(
    "count", {"COUNT(x)": "the number of rows with a value"}, "the number of rows with {value}", 
    degree=0, sqltype=_integer, read=_rows_with_value, apart=(("count",), lambda _, sqltype: CountOf(1, sqltype=sqltype)),
    of_cube=(("count",), lambda _, sqltype: CountOf(1, sqltype=sqltype)),
    only_counts=True, adds="rows", sampled="count({v}){kept}", grows=True,
)  # fmt: skip
DISTINCT = Record(
    "distinct", {"COUNT(DISTINCT x)": "the number of different values"}, "the number of different values of {value}",
    "COUNT(DISTINCT {value})", "COUNT(DISTINCT)",
    degree=0, sqltype=_integer, read=lambda _, aggregate: CountOf(1, sqltype=aggregate.sqltype), own=_different,
    only_counts=True, sampled="count(DISTINCT {v}){kept}", grows=True,
)  # fmt: skip


# --- sums and averages ------------------------------------------------------------------------------------------------


def _sum(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    match statistic:
        case Total() | UnitTotal():
            return SumOf(statistic.term.quantum, aggregate.sqltype)
        case Pair():
            return SumOfPair(statistic.term, aggregate.sqltype)
        case Joint() | PartOfStatistic():
            seen = _seen(statistic, aggregate)
            return SumOfForm(seen.total, seen.term.quantum, aggregate.sqltype)
        case Moments():
            return SumOfMoments(statistic, _places(statistic, aggregate)[0], aggregate.sqltype)
    raise unreadable(statistic, aggregate)


def mean(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    match statistic:
        case Pair():
            return AvgOf(statistic.term)
        case Joint() | PartOfStatistic():
            seen = _seen(statistic, aggregate)
            return AvgOfForms(seen.total, seen.count, seen.term)
        case Moments():
            return OfMoments(statistic, BY_NAME["avg"], _places(statistic, aggregate))
    raise unreadable(statistic, aggregate)


SUM = Record(
    "sum", {"SUM(x)": "a number like x, which needs bounds"}, "the sum of {value}",
    bounded="dp_sum({value}, lower := 0, upper := 100), or bounds := 'auto'", exact="sum", over_parts="sum",
    sqltype=sum_type, booleans=True, read=_sum, alone=Total, unit_total=lambda value, counted: unit_total(value, counted, "SUM"),
    apart=(("sum",), lambda term, sqltype: SumOf(term.quantum, sqltype)),
    of_cube=(("centred", "count"), lambda terms, sqltype: SumOfForm(off_cube(terms[0])[0], terms[0].quantum, sqltype)),
    adds="values", sampled="sum({v}){kept}", grows=True,
)  # fmt: skip
BOUNDED_SUM = replace(
    SUM, calls={"dp_sum(x, lower := 0, upper := 100)": "a sum within bounds of its own"}, build=bounded_sum
)
AVG = Record(
    "avg", {"AVG(x)": "DOUBLE, within the bounds", "MEAN(x)": ""}, "the average of {value}", exact="avg", over_parts="mean",
    read=mean, apart=(("sum", "count"), lambda term, _: AvgOfTwo(term)),
    of_cube=(("centred", "count"), lambda terms, _: AvgOfForms(*off_cube(terms[0]), terms[0])),
    adds="values and rows", sampled="avg({v}){kept}",
)  # fmt: skip
CLAMPED = replace(
    AVG, name="clamped", calls={"dp_clamped(x)": "DOUBLE, the share of rows that a clamp changes"}, written="AVG({value})",
    build=clamped, exact="", over_parts="",
)  # fmt: skip


# --- computed of moments ----------------------------------------------------------------------------------------------


def _of_moments(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    formula = BY_NAME[aggregate.function]
    match statistic:
        case Moments():
            return OfMoments(statistic, formula, _places(statistic, aggregate))
        case PartOfStatistic(statistic=Moments() as held):
            return OfMoments(held, formula, forms=statistic.forms)
        case Joint():
            held, forms = statistic.moments_of(aggregate.bases[0])
            return OfMoments(held, formula, forms=forms)
    raise unreadable(statistic, aggregate)


def moments(
    terms: tuple[Term, ...], degrees: tuple[int, ...], aggregate: Aggregate, with_rows: bool, lone: bool = False
) -> Moments:
    """Raises 201 where squares and products of the values are beyond DOUBLE."""
    spreads = [t.width * t.quantum for t in terms]
    if max(spreads) ** 2 > LARGEST_DOUBLE / 4:
        what = f"the bounds of {aggregate.function.upper()} are so wide that their square is beyond the range of DOUBLE"
        raise error(201, what, hint="write smaller bounds", span=aggregate.span)
    return Moments(terms, degrees, aggregate.condition, with_rows, lone)


def _spread(name: str, *others: str, gives: str, degree: int = 2) -> Record:
    calls = {f"{name.upper()}(x)": gives, **{f"{other.upper()}(x)": "" for other in others}}
    divides = bool(BY_NAME[name].divides)
    return Record(
        name, calls, degree=degree, read=_of_moments, spread=divides,
        adds="values and rows", sampled=f"{name}({{v}}){{kept}}" if degree == 2 else "", largest=math.inf if degree == 2 else 1e50,
    )  # fmt: skip


def _two(name: str, *squares: bool, gives: str) -> Record:
    divides = bool(BY_NAME[name].divides)
    return Record(
        name, {f"{name.upper()}(y, x)": gives}, takes=2, squares=(squares[0], squares[1]), read=_of_moments, spread=divides,
    )  # fmt: skip


SPREADS = (
    _spread("var_samp", "variance", gives="DOUBLE, the variance of a sample"),
    _spread("var_pop", gives="DOUBLE, the variance"),
    _spread("stddev_samp", "stddev", gives="DOUBLE, the standard deviation of a sample"),
    _spread("stddev_pop", gives="DOUBLE, the standard deviation"),
    _spread("skewness", gives="DOUBLE, how far values lean to one side", degree=3),
    _spread("kurtosis", gives="DOUBLE, how much lies far out, of a sample", degree=4),
    _spread("kurtosis_pop", gives="DOUBLE, how much lies far out", degree=4),
)
OF_TWO = (
    _two("covar_pop", False, False, gives="DOUBLE, the covariance"),
    _two("covar_samp", False, False, gives="DOUBLE, the covariance of a sample"),
    _two("corr", True, True, gives="DOUBLE, the correlation"),
    _two("regr_r2", True, True, gives="DOUBLE, the share of the variance that a line explains"),
    _two("regr_slope", False, True, gives="DOUBLE, the slope of the line through (x, y)"),
    _two("regr_intercept", False, True, gives="DOUBLE, where that line is at x = 0"),
)
