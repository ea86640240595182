"""The record of an aggregate over people: all that is known of it, in one place.

How SQL calls it and in what words it is told; the type of its column; what it needs of the values, and how it is read off the cells
that are released; what it adds for one row, for the guard. The grammar, completion, EXPLAIN and the planner read the records
(registry.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from dpsql.aggregates.base import Estimate, Limits, Statistic
from dpsql.aggregates.histogram import OverHistogram, Reading, Value
from dpsql.aggregates.term import WIDEST, Term, term
from dpsql.core.errors import Error, error
from dpsql.core.spans import Span
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType
from dpsql.expressions.factors import factored
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Node

Adds = Literal["rows", "values", "values and rows", "itself"]
"""Amount that one row adds to what is released: 1, its value, both, or something of the aggregate's own."""
Part = Literal["sum", "count", "rows"]
"""A stored statistic of the same rows: SUM(x), COUNT(x), COUNT(*)."""
OfCube = Literal["centred", "count", "rows"]
"""A number that is read off a cube: the sum of x around its middle (joint.py), COUNT(x), COUNT(*)."""
Words = str | Callable[[str, Fraction | None], str]
Constant = int | Fraction | str | tuple["Constant", ...] | None
"""A whole number, another, a text, a list of them; None for anything else."""
ANY_NUMBER = -1
"""Of values that an aggregate takes: it is one of all of them together."""
Exact = Literal["sum", "avg", "min", "max", "bool_and", "bool_or", "median"]
"""Aggregates computed exactly of one unit's rows: functions of their multiset, bit for bit (planner/resolve/unit_aggregates.py)."""


def value_key(value: Scalar) -> Hashable:
    """Identity of what is counted or added up of a value: equal ones share cells."""
    return value.tree, value.domain, value.unit_bounds


@dataclass(frozen=True, slots=True)
class Given:
    """A call of an aggregate.

    word       what errors call it
    shown      writes its value as it stands, for messages
    constants  the arguments after its value
    named      those with a name
    """

    record: Record
    word: str
    shown: Callable[[], str]
    value: Scalar
    constants: tuple[Constant, ...]
    named: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class Built:
    """Aggregates that a call asks for: one of the value for each number, as a list where `listed`."""

    value: Scalar
    numbers: tuple[Fraction | None, ...] = (None,)
    listed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """An aggregate over people.

    name        of its own, in lower case
    calls       how SQL calls it, and in a few words what that gives; "": what the call before it gives
    told        what it is, in words, with {value} and {number}, or made of them; "": as it is written
    written     as SQL, likewise; "": name(value)
    short       what errors call it; "": its name
    takes       how many values, or ANY_NUMBER
    degree      the highest power of its value that it needs: 0 where only rows are counted
    squares     of an aggregate of two values (y, x), which of them it needs the square of
    sqltype     of its column, by its value's
    booleans    whether it takes BOOLEAN
    temporal    whether it takes DATE, TIMESTAMP and TIME
    inside      the function of its value that it is of, in place of the value
    build       what a call with more than values asks for; raises Error
    bounded     how a call brings bounds of its own, over {value}
    exact       what it is of one unit's rows; "": it is refused there
    over_parts  how it is made of the same over disjoint parts of its rows: they are added up, or it is their sum over their count;
                "": not at all
    deciding    the condition of the rows by whose number it is decided, from its value, which is a truth value
    read        its column, off a statistic that holds it
    alone       the statistic that it needs where nothing stands beside it, if that is less noisy than a shared one
    unit_total  the statistic of what each unit has in all, for values with bounds of their own for that
    own         a statistic that it shares with nothing else
    histogram       what is released of the values themselves
    apart       the stored statistics that it can be read off together, and by what
    of_cube     what of a cube it is read off, and by what, of the terms of its values; None: a cube has nothing of it
    units       whether it counts units, so that a unit's rows are no matter
    spread      whether it divides by a variance, and is NULL where that does not stand out of its noise (rule 44)
    only_counts whether it shows how many there are, and no value
    adds        what one row adds to it
    sampled     the engine's own form, over {v} with the number {n} and a FILTER at {kept}, for the guard's sample units;
                "": there is none
    plain       what the same is in SQL, of x, where the engine has it not, or not with FILTER: over public and released rows it is
                refused then
    largest     the greatest size of a released value that the engine's own form takes: a greater one counts as NULL there
    grows       whether it grows with the number of units, so that a sample's is scaled up
    each        each of the arguments of its value in words, where these are values of their own; "": it has one value
    """

    name: str
    calls: Mapping[str, str]
    told: Words = ""
    written: Words = ""
    short: str = ""
    takes: int = 1
    degree: int = 1
    squares: tuple[bool, bool] = (False, False)
    sqltype: Callable[[SqlType], SqlType] = field(default=lambda _: DOUBLE)
    booleans: bool = False
    temporal: bool = False
    inside: str = ""
    build: Callable[[Given], Built] | None = None
    bounded: str = ""
    exact: Exact | Literal[""] = ""
    over_parts: Literal["", "sum", "mean"] = ""
    deciding: Callable[[Scalar], Scalar] | None = None
    read: Callable[[Statistic, Aggregate], Estimate] | None = None
    alone: Callable[[Term, Scalar | None], Statistic] | None = None
    unit_total: Callable[[Scalar, Scalar | None], Statistic] | None = None
    own: Callable[[Aggregate, Around], Statistic] | None = None
    histogram: Callable[[Aggregate, Scalar, Around], tuple[OverHistogram, Reading]] | None = None
    apart: tuple[tuple[Part, ...], Callable[[Term, SqlType], Estimate]] | None = None
    of_cube: tuple[tuple[OfCube, ...], Callable[[Sequence[Term], SqlType], Estimate]] | None = None
    units: bool = False
    spread: bool = False
    only_counts: bool = False
    adds: Adds = "itself"
    sampled: str = ""
    plain: str = ""
    largest: float = math.inf
    grows: bool = False
    each: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Names in SQL, in lower case."""
        return tuple(dict.fromkeys(call.partition("(")[0].lower() for call in self.calls))

    @property
    def named(self) -> list[str]:
        """The arguments with a name, of the calls that show any."""
        return [name for call in self.calls for name in re.findall(r"(\w+) :=", call)]

    @property
    def example(self) -> str:
        return next(iter(self.calls))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate that the statement asks for; equal ones are asked once.

    argument   of all but COUNT(*) and COUNT(DISTINCT unit); of COUNT(x) so that it can share cells with SUM(x) and others
    condition  of FILTER, or None
    name       the column of the released table
    sqltype    of the released column
    second     the other value, of an aggregate of two
    number     of a quantile which one, of top values the place, of randomised reports the epsilon of each
    """

    record: Record
    argument: Scalar | None
    condition: Scalar | None
    name: str
    span: Span | None = field(default=None, compare=False)
    sqltype: SqlType = BIGINT
    second: Scalar | None = None
    number: Fraction | None = None

    @property
    def function(self) -> str:
        return self.record.name

    @property
    def values(self) -> tuple[Scalar, ...]:
        return tuple(value for value in (self.argument, self.second) if value is not None)

    @property
    def factors(self) -> tuple[tuple[Fraction, Scalar], ...]:
        """Of each of its values the factor that its text shows, and of what: equal ones share cells, whatever the factor."""
        # a column has none
        found = tuple(factored(v) if v.args else (Fraction(1), v) for v in self.values)
        # two that are told apart by their factors alone keep them
        return (
            found
            if len({value_key(base) for _, base in found}) == len(found)
            else tuple((Fraction(1), v) for v in self.values)
        )

    @property
    def bases(self) -> tuple[Scalar, ...]:
        """Its values without their factors."""
        return tuple(base for _, base in self.factors)

    @property
    def is_scaled(self) -> bool:
        return any(factor != 1 for factor, _ in self.factors)

    def seen(self, term: Term) -> Term:
        """The term of one of its bases in quanta of the value itself."""
        factor = next(
            (factor for factor, base in self.factors if value_key(base) == value_key(term.scalar)), Fraction(1)
        )
        return replace(term, quantum=term.quantum * factor)

    @property
    def shown(self) -> Scalar | None:
        """Its value as the caller wrote it."""
        if self.argument is None or not self.record.inside:
            return self.argument
        return next(iter(self.argument.args), self.argument)

    @property
    def looks_at_values(self) -> bool:
        """True if it is released of a histogram: its error is not that of noise that was added to a sum."""
        return self.record.histogram is not None

    @property
    def is_redrawn(self) -> bool:
        """True if what is computed of it has an interval from drawing its noise again: not what divides by a noisy spread either,
        whose interval knows when that is too small."""
        return not self.looks_at_values and not self.record.spread

    @property
    def asked(self) -> Hashable:
        """Identity of the question: equal ones are the same question."""
        values = tuple((v.tree, v.domain, v.unit_bounds, v.step) for v in self.values)
        return self.function, values, tree_of(self.condition), self.sqltype, self.number

    def term(self, value: Scalar, most: int = WIDEST) -> Term:
        """One of its values in at most so many quanta between its bounds. Raises 201."""
        problem: Error
        try:
            return term(value, self.function.upper(), most)
        except Error as raised:
            problem = raised
        problem.span = problem.span or self.span
        raise problem


@dataclass(frozen=True, slots=True)
class Around:
    """Surroundings of an aggregate: the block that it stands in.

    limits     what one unit may contribute
    groups     the number of declared groups; None where one key is not declared
    units      the declared number of units
    beside     all aggregates of the same rows
    listed     the declared values of a value and the form in which they travel; raises Error where there are none
    intervals  whether what is chosen is bought with an interval, where that costs a share of the price
    """

    limits: Limits
    groups: int | None
    units: int | None
    beside: Sequence[Aggregate]
    listed: Callable[[Aggregate, Scalar], tuple[Node, tuple[Value, ...]]]
    intervals: bool = True


def read_off(statistic: Statistic, aggregate: Aggregate) -> Estimate:
    """The column of an aggregate, off a statistic that holds it; of values times a factor, in quanta as many times as large."""
    if aggregate.record.read is None:
        raise error(901, f"{aggregate.function} is read off no statistic")
    return aggregate.record.read(statistic.with_terms(aggregate.seen) if aggregate.is_scaled else statistic, aggregate)
