"""A scalar expression that cannot fail, with what is known about its values.

Every Scalar is built by a function of this package, and each of those makes what the engine computes *total*: where it would raise it
is NULL, by a guard in the tree (soundness: an engine failure is an event that no privacy loss covers). Two kinds of knowledge are kept
apart:

domain  what the owner's declarations say the value is; only clamps and key lists rely on it, and they enforce it
limits  what the value can be whatever the data holds, from its type and from constants; only overflow checks rely on it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpsql.core.domains import UNBOUNDED, Domain, Interval, Value, hull, interval
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import VARCHAR, SqlType
from dpsql.expressions.lengths import check, longest
from dpsql.schema.paths import HeldKey, HeldPart, Name
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Column, Literal, Node, Number

LARGEST = 200_000
"""[characters] The largest expression."""
NO_KEYS: frozenset[HeldKey] = frozenset()
NO_PARTS: frozenset[HeldPart] = frozenset()
NO_NAMES: frozenset[Name] = frozenset()
NULL_TYPE = SqlType("NULL")
_OF_LISTS = ("column", "list_contains", "len", "is null", "exists")
"""Functions that take a list as it is."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression over the columns of one relation.

    function  "column", "literal", or the operation's name alone: its constants stand in the tree
    args      operands, in order
    tree      what the engine computes
    sqltype   the type that DuckDB gives the same expression
    domain    declared values, without NULL and NaN
    limits    hard limits, or None where the value may be infinite, NaN or no number
    nullable  whether NULL can occur for rows inside the declared domains
    integral  whether every value is an integer, whatever the type
    value     of a literal; None for NULL
    role      of a column
    step      the declared grid of a column, else None
    origin    of a column as it is declared: "table.column"
    declared  of such a column: the hull of its domain, whatever conditions narrow it to
    keys      the private keys whose values a column holds, each with its path to the unit; none where it also holds NULLs of a join
    names     the private keys that a column names, whoever they belong to: for the guard, never to equate units
    parts     the shares that a column has in private keys of several columns, as `keys`
    maybe     the private keys whose values a column of a join's other side holds where it is not NULL
    constant  whether a column, EXISTS or a value that is bound before the block runs has one value in all rows of a unit
    steady    whether a column is declared to have one value in all rows of a unit: only a cut may rely on it, which enforces it
    unit_bounds  declared bounds of a unit's total of a column
    ties      of EXISTS: the private keys of the row around it, which do no more than tie it to its own unit's rows. They are
              read, but no condition on an identifier
    length    of text: the most characters that a value has, whatever the data holds; None where it is no text
    is_identifying       whether any part, however deep, is an identifier
    computes_identifier  whether something is computed of one; a bare one, however often it was carried on, is only itself
    """

    function: str
    args: tuple[Scalar, ...]
    tree: Node
    sqltype: SqlType
    domain: Domain = UNBOUNDED
    limits: Interval | None = None
    nullable: bool = False
    integral: bool = False
    value: Value | None = None
    role: str = ""
    step: Fraction | None = None
    origin: str = ""
    declared: Interval | None = None
    keys: frozenset[HeldKey] = NO_KEYS
    names: frozenset[Name] = NO_NAMES
    maybe: frozenset[HeldKey] = NO_KEYS
    parts: frozenset[HeldPart] = NO_PARTS
    constant: bool = False
    steady: bool = False
    unit_bounds: Interval | None = None
    ties: tuple[Scalar, ...] = ()
    length: int | None = None
    is_identifying: bool = field(init=False, compare=False, default=False)
    computes_identifier: bool = field(init=False, compare=False, default=False)

    def __post_init__(self) -> None:
        if self.function not in _OF_LISTS and any(arg.sqltype.element is not None for arg in self.args):
            raise no_value()
        held = self.role == "identifier" or any(arg.is_identifying for arg in self.args)
        computed = any(arg.computes_identifier for arg in self.args) or (held and not self.is_column)
        object.__setattr__(self, "is_identifying", held)
        object.__setattr__(self, "computes_identifier", computed)
        if self.sqltype.is_text:
            own = self.length if self.length is not None else longest(self.function, self.args, self.value)
            object.__setattr__(self, "length", own)
            check(self.function, own)
        if self.tree.size > LARGEST:
            raise error(
                107, "the expression grows too large when it is made safe", hint="split it, or nest fewer functions"
            )

    @property
    def is_literal(self) -> bool:
        return self.function == "literal"

    @property
    def is_null(self) -> bool:
        return self.is_literal and self.value is None

    @property
    def is_column(self) -> bool:
        return self.function == "column"

    @property
    def is_bounded(self) -> bool:
        """True if it is a value with bounds that a call names."""
        return self.function == "bounded"

    def walk(self) -> Iterator[Scalar]:
        """This scalar and all its operands, each once; of a derived column also what it is derived from."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            part = waiting.pop()
            if id(part) not in seen:
                seen.add(id(part))
                yield part
                waiting += reversed(part.args)

    def leaves(self) -> Iterator[Scalar]:
        """The columns that the expression reads, as the relation around it knows them."""
        if self.is_column:
            yield self
        else:
            for arg in (*self.args, *self.ties):
                yield from arg.leaves()

    @property
    def is_constant(self) -> bool:
        """True if the value is the same in all rows of a unit.

        EXISTS says so itself: of the columns that it reads only those of the row around it count.
        """
        if self.is_literal or not self.args or self.function in ("column", "exists"):
            return self.is_literal or self.constant
        return all(arg.is_constant for arg in self.args)

    @property
    def is_steady(self) -> bool:
        """True if the value is declared to be the same in all rows of a unit, or is (rules 35, 60)."""
        if self.is_literal or not self.args or self.function in ("column", "exists"):
            return self.is_literal or self.constant or self.steady
        return all(arg.is_steady for arg in self.args)

    @property
    def held(self) -> frozenset[HeldKey]:
        """The private keys whose values a bare column holds."""
        return self.keys if self.is_column else NO_KEYS

    @property
    def is_unit(self) -> bool:
        """True if a bare column holds the unit's own key."""
        return any(key.is_unit for key in self.held)

    @property
    def held_or_null(self) -> frozenset[HeldKey]:
        """The private keys of which a bare column holds a value or NULL."""
        return self.held | self.maybe if self.is_column else NO_KEYS


def no_value() -> Error:
    """The refusal of a list where a value is computed with, grouped by or shown."""
    what = "a list is no value to compute with"
    return error(106, what, hint="write LIST_CONTAINS(x, 'a'), LEN(x) or x IS NULL of the list x, or leave it out")


def tree_of(scalar: Scalar | None) -> Node | None:
    """Tree of the computed value, if there is one."""
    return scalar.tree if scalar is not None else None


def same_key(one: Scalar, other: Scalar) -> bool:
    """True if two columns hold the same private key by the same path to the unit: where they are equal, so are the units (rule 46)."""
    return bool(one.held & other.held)


def held_together(columns: Iterable[Scalar]) -> frozenset[HeldKey]:
    """The private keys that bare columns hold, by themselves or together: rows that agree in all of the columns are of one unit.

    Why  all parts of a key are of one row, so together they are a value of it
    """
    found = set[HeldKey]()
    shares: dict[tuple[HeldKey, str], set[str]] = {}
    for column in columns:
        found |= column.held
        for part in column.parts if column.is_column else ():
            shares.setdefault((part.key, part.row), set()).add(part.column)
    return frozenset(found | {key for (key, _), parts in shares.items() if parts == set(key.columns)})


def equate_keys(pairs: Iterable[tuple[Scalar, Scalar]]) -> bool:
    """True if columns that are equal pair by pair hold the same private key by the same path, by themselves or together (rule 46).

    Why  of a key of several columns each part equals the same part, and all parts of a side are of one row
    """
    shares: dict[tuple[HeldKey, str, str], set[str]] = {}
    for one, other in pairs:
        if same_key(one, other):
            return True
        for mine, theirs in same_parts(one, other):
            shares.setdefault((mine.key, mine.row, theirs.row), set()).add(mine.column)
    return any(parts == set(key.columns) for (key, _, _), parts in shares.items())


def same_parts(one: Scalar, other: Scalar) -> Iterator[tuple[HeldPart, HeldPart]]:
    """The shares in which two bare columns agree, of both."""
    for mine in one.parts if one.is_column and other.is_column else ():
        for theirs in other.parts:
            if (mine.key, mine.column) == (theirs.key, theirs.column):
                yield mine, theirs


def same_unit(one: Scalar, unit: Scalar) -> bool:
    """True if a column holds the unit of its row, by the path by which `unit` does."""
    return any(key.is_unit for key in one.held & unit.held)


def goes_with(one: Scalar, other: Scalar) -> bool:
    """True if two bare columns name the same private key: where they are equal, rows go together, and nobody is looked up."""
    return one.is_column and other.is_column and bool(one.names & other.names)


def column(
    tree: Column,
    sqltype: SqlType,
    domain: Domain,
    *,
    nullable: bool = False,
    role: str = "measure",
    step: Fraction | None = None,
    length: int | None = None,
) -> Scalar:
    """A column of a relation, as a scalar."""
    return Scalar(
        "column",
        (),
        tree,
        sqltype,
        domain,
        sqltype.range,
        nullable,
        integral=sqltype.is_integer,
        role=role,
        step=step,
        length=length,
    )


def called(
    function: str,
    args: Sequence[Scalar],
    sqltype: SqlType,
    domain: Domain = UNBOUNDED,
    limits: Interval | None = None,
    *,
    nullable: bool | None = None,
    length: int | None = None,
) -> Scalar:
    """A call of the engine's function of a name.

    nullable  None: where an argument is
    """
    tree = Call(function, tuple(a.tree for a in args))
    null = any(a.nullable for a in args) if nullable is None else nullable
    return Scalar(function, tuple(args), tree, sqltype, domain, limits, null, sqltype.is_integer, length=length)


def bounded(value: Scalar, rows: Interval | None, total: Interval | None) -> Scalar:
    """A value within the bounds that a call names: of each row, and of a unit's total. Where there are none, the declared ones."""
    return replace(
        value,
        function="bounded",
        args=(value,),
        domain=rows if rows is not None else value.domain,
        unit_bounds=total if total is not None else value.unit_bounds if rows is None else None,
    )


def one_form(value: Scalar) -> Scalar:
    """The same value with one zero and one NaN: 0.0 equals -0.0 and every NaN every other, though their texts differ, so which of
    them is met first would depend on the order of rows."""
    if not value.sqltype.is_float:
        return value
    x, t = value.tree, value.sqltype
    nan, zero = Cast(Literal("nan", VARCHAR), t, tries=False), Cast(Number(0), t, tries=False)
    whole = Bare(Case(((Call("isnan", (x,)), nan), (Bare(Binary("=", x, Number(0))), zero)), x))
    return replace(value, function="one form", args=(value,), tree=whole, value=None)


def finite_hull(scalar: Scalar) -> Interval | None:
    """The interval of a numeric scalar's declared values, or None."""
    return hull(scalar.domain) if scalar.sqltype.is_number or scalar.sqltype.is_boolean else None


def limits_of(scalar: Scalar) -> Interval | None:
    """Hard limits for overflow checks; a boolean counts as 0 or 1."""
    return interval(0, 1) if scalar.sqltype.is_boolean else scalar.limits


def limits_of_any(values: Iterable[Scalar]) -> Interval | None:
    """Hard limits that hold whichever of some values is taken.

    Why  one without limits of its own is in its type; one that is computed wider than its type always has some, which must not be lost
         beside it
    """
    found = [v.limits if v.limits is not None else v.sqltype.range for v in values if not v.is_null]
    known = [limits for limits in found if limits is not None]
    if not known or len(known) < len(found):
        return None
    return Interval(min(x.lower for x in known), max(x.upper for x in known))
