"""The values that pass between the stages. Frozen, slotted, exact: `int` and `Fraction` until a number has been released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from dpsql.aggregates.base import Estimate, Limits, Sensitivity, Statistic
from dpsql.aggregates.of_moments import DIVIDED_BY_SPREAD
from dpsql.aggregates.tally import Reading, Tallied, Tally, Terms
from dpsql.algebra.relations import Relation
from dpsql.algebra.scalar import Scalar, limits_of
from dpsql.domains import hull
from dpsql.errors import error
from dpsql.loss import EpsilonDelta, PrivacyLoss, only_delta, total
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.prices import costs_at_most
from dpsql.mechanisms.threshold import delta_per_group
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.schema.model import RESERVED
from dpsql.spans import Span
from dpsql.sqltypes import BIGINT, SqlType, smallest_integer

KeyValue = int | str | bool | None
"""How a group key travels: integers, booleans and text as they are, everything else as DuckDB's text of it."""


ROW_NUMBER = "release_row"
"""The column of a released table that numbers its rows."""


def intervals_table(release: str) -> str:
    """The sandbox's table of the ends of a release's intervals."""
    return f"{RESERVED}intervals {release}"


def redrawn_table(release: str) -> str:
    """The sandbox's table of a release with its noise drawn again, many times."""
    return f"{RESERVED}redrawn {release}"


def end_column(column: str, low: bool) -> str:
    """The column of an intervals table for one end."""
    return f"{RESERVED}{'low' if low else 'high'} {column}"


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """What the release stage made of one release: the only form in which anything of people's rows leaves it.

    keys   one list per key column, all of the same length [groups]
    cells  one list per noisy integer cell, in quanta of its measure, then one per integer that is chosen of a tally; as long as
           the keys. None where it is suppressed
    """

    keys: tuple[list[KeyValue], ...]
    cells: tuple[Sequence[int | None], ...]
    groups: int

    def known(self, begin: int = 0, end: int | None = None) -> tuple[list[int], ...]:
        """Some columns of cells of which none is suppressed."""
        found = tuple([value for value in column if value is not None] for column in self.cells[begin:end])
        if any(len(column) < self.groups for column in found):
            raise error(901, "a suppressed cell was about to be added up")
        return found


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table that holds nothing private: a release's estimates or a declared public table, ready for the sandbox.

    columns  (name, type)
    data     one list per column; types that Python does not hold exactly (DECIMAL, HUGEINT, dates) as DuckDB's text
    """

    name: str
    columns: tuple[tuple[str, SqlType], ...]
    data: tuple[list[object], ...]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """low <= the exact value of the limited and clamped data <= high, with probability `level`, in the column's own unit."""

    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True)
class Goal:
    """An accuracy in place of a price: each column is at most `error` off with this confidence.

    error     in the column's own unit, or, where `relative`, a share of the declared number of people
    """

    error: Fraction
    relative: bool
    confidence: Fraction

    @property
    def words(self) -> str:
        error = f"{float(100 * self.error):g}%" if self.relative else f"{float(self.error):g}"
        return f"{error} with {float(100 * self.confidence):g} %"


TALLIED = frozenset({"quantile", "min", "max", "top", "auto_sum", "randomized_response"})
"""What is released of the values of a group themselves (aggregates/tally.py)."""


# --- the stages' own types -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate that the statement asks for; equal ones are asked once.

    function   "rows" (COUNT), "units" (COUNT(DISTINCT unit)), "distinct" (of other values), or what it is called in lower case
               (resolve/aggregates.py)
    argument   of all but COUNT(*) and COUNT(DISTINCT unit); of COUNT(x) so that it can share cells with SUM(x) and others
    condition  of FILTER, or None
    name       the column of the released table
    sqltype    of the released column
    second     the other value, of an aggregate of two
    number     of a quantile which one, of top values the place, of randomised reports the epsilon of each
    """

    function: str
    argument: Scalar | None
    condition: Scalar | None
    name: str
    span: Span | None = field(default=None, compare=False)
    sqltype: SqlType = BIGINT
    second: Scalar | None = None
    number: Fraction | None = None

    @property
    def values(self) -> tuple[Scalar, ...]:
        return tuple(value for value in (self.argument, self.second) if value is not None)

    @property
    def looks_at_values(self) -> bool:
        """Whether it is released of a tally: its error is not that of noise that was added to a sum."""
        return self.function in TALLIED

    @property
    def is_redrawn(self) -> bool:
        """Whether what is computed of it has an interval from drawing its noise again: not what divides by a noisy spread either,
        whose interval knows when that is too small."""
        return not self.looks_at_values and self.function not in DIVIDED_BY_SPREAD

    @property
    def text(self) -> str:
        """What is asked, for comparison: equal text is the same question."""
        values = (f"{v.sql} {v.domain} {v.unit_bounds} {v.step}" for v in self.values)
        condition = self.condition.sql if self.condition is not None else ""
        return "|".join([self.function, *values, condition, str(self.sqltype), str(self.number)])


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One grouping expression.

    values  the declared keys in the order in which they are shown, NULL last where it is one; None: selected privately, or
            listed by a bound table
    """

    name: str
    scalar: Scalar
    values: tuple[KeyValue, ...] | None = None
    span: Span | None = field(default=None, compare=False)

    def released_type(self, asked: SqlType) -> SqlType:
        """The type asked for if it holds every key, else a wider one: keys are computed wider than DuckDB names them."""
        possible = limits_of(self.scalar) if self.values is None else hull(self.scalar.domain)
        held = asked.range
        if held is None or possible is None or (possible.lower in held and possible.upper in held):
            return asked
        return (smallest_integer(possible) if self.scalar.integral else None) or self.scalar.sqltype


@dataclass(frozen=True, slots=True)
class KeyList:
    """Group keys that a public table lists together: its columns c0, c1, ... are the keys at `keys`.

    bound  the name of the bound table
    """

    keys: tuple[int, ...]
    bound: str


@dataclass(frozen=True, slots=True)
class Bound:
    """A public table that a release reads: computed from public tables and earlier releases before the release runs.

    sql      over tables named as the blocks and as other bound tables; its columns are `columns`
    public   declared public tables that it reads
    reads    the blocks and bound tables that it reads, each earlier
    one_row  whether more than one row is an error, as in a scalar subquery
    unique   sets of column positions that no two rows may agree in: people's rows are joined by them
    """

    name: str
    sql: str
    columns: tuple[tuple[str, SqlType], ...]
    public: tuple[str, ...]
    reads: tuple[str, ...]
    one_row: bool = False
    unique: frozenset[frozenset[int]] = frozenset()

    def repeats(self, table: PublicTable) -> bool:
        """Whether rows agree where they must not; what the engine takes for equal counts as equal."""
        return any(_repeats([table.data[i] for i in positions], len(table.data[0])) for positions in self.unique)


def _repeats(columns: list[list[object]], rows: int) -> bool:
    seen = {tuple("NaN" if x != x else x for x in row) for row in zip(*columns, strict=True)} if columns else {()}
    return len(seen) < rows


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT block that aggregates a private relation over people: what becomes a release.

    lists  keys that bound tables list
    whole  whether every key must have a list, because what is released is added up
    """

    name: str
    source: Relation
    keys: tuple[GroupKey, ...]
    aggregates: tuple[Aggregate, ...]
    lists: tuple[KeyList, ...] = ()
    whole: bool = False

    def is_selected(self, position: int) -> bool:
        """Whether a key is selected privately."""
        return self.keys[position].values is None and all(position not in listed.keys for listed in self.lists)

    @property
    def selects(self) -> bool:
        return any(self.is_selected(i) for i in range(len(self.keys)))


@dataclass(frozen=True, slots=True)
class Shell:
    """The query over released and public tables that makes the answer.

    sql         over tables named as the blocks; its last column is the released row's number where `traced`
    plain_sql   the statement as the caller wrote it, without our clauses: what columns are named after; None where it is
                named after itself
    public      declared public tables that it reads
    direct      for each output column the released column that it shows unchanged, or None
    computed    for each output column its text over a redrawn table, where it is computed from one row of a release; or None
    release     the block whose rows it shows one by one, or None
    written     the statement for people, where it holds what only dpsql knows and `plain_sql` does not; or None
    empty       whether it is answered from the declared tables alone, which are empty
    spent       the tables of what was spent that it reads (schema/spent.py); then it reads nothing else
    """

    sql: str
    plain_sql: str | None
    public: tuple[str, ...]
    direct: tuple[tuple[str, str] | None, ...]
    traced: bool
    empty: bool = False
    spent: tuple[str, ...] = ()
    computed: tuple[str | None, ...] = ()
    release: str | None = None
    written: str | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """Names, types and domains are known; private blocks are set apart from the shell.

    blocks  each after those that it reads
    bounds  each after what it reads
    """

    blocks: tuple[Block, ...]
    bounds: tuple[Bound, ...]
    shell: Shell


@dataclass(frozen=True, slots=True)
class Small:
    """Aggregates that are in some group expected to be about few people.

    condition  on the rows that they are about; None: all rows
    outputs    their names
    """

    condition: Scalar | None
    outputs: tuple[str, ...]


class SmallCells(Protocol):
    """Whom a block asks about: the guard's view of it, from the text and the declared schema alone."""

    def small(self, limited: Sequence[Limited], bounds: Sequence[Bound]) -> dict[str, tuple[Small, ...]]:
        """For each block, by its name, which of its aggregates are in some group about fewer people than the owner lets be shown."""
        ...


class PublicTypes(Protocol):
    """What DuckDB names and types a query over public tables; it is not run."""

    def describe_public(
        self, sql: str, empty: Sequence[PublicTable], public: Sequence[str]
    ) -> tuple[tuple[str, SqlType], ...]:
        """(name, type) of each column.

        empty   released tables that it reads, without rows
        public  declared public tables that it reads

        Raises 106 where it does not bind, or a type is none that dpsql computes with.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limited:
    """A block with what one unit may contribute to it.

    limits    enforced by the engine SQL
    enforced  False only where the declared keys give a unit one row (verified structure): there is nothing to cut
    """

    block: Block
    limits: Limits
    enforced: bool


@dataclass(frozen=True, slots=True)
class Measure:
    """One statistic with the noise that its sensitivity and its loss call for."""

    name: str
    statistic: Statistic
    sensitivity: Sensitivity
    noise: AdditiveNoise
    loss: PrivacyLoss

    def describe(self) -> str:
        return self.noise.describe()


@dataclass(frozen=True, slots=True)
class Chosen:
    """Something released of a tally, and on what terms."""

    name: str
    tallied: Tallied
    terms: Terms

    @property
    def loss(self) -> PrivacyLoss:
        return self.tallied.loss(self.terms)

    def describe(self) -> str:
        return self.tallied.describe(self.terms)


@dataclass(frozen=True, slots=True)
class Selection:
    """Private key selection: a group is released iff its noisy number of units (the measure at `measure`) reaches tau.

    delta  [probability] of the threshold: that any group is released that only one unit is in, at most; 0 where the noise is
           cut off, and pays for it
    """

    measure: int
    tau: int
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Comparison:
    """Why a mechanism was taken that was not asked for by name.

    mechanism  "laplace" or "gaussian"
    share      of what is compared, its own over the other's; None where the other is not possible
    what       what is compared
    """

    mechanism: str
    share: Fraction | None
    what: str


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the released table: an estimate over the noisy cells of one measure, or of two that were released apart."""

    name: str
    measure: int
    estimate: Estimate
    beside: int | None = None

    @property
    def measures(self) -> tuple[int, ...]:
        return (self.measure,) if self.beside is None else (self.measure, self.beside)


@dataclass(frozen=True, slots=True)
class Read:
    """A column of the released table: made of what the part at `chosen` released."""

    name: str
    chosen: int
    reading: Reading


@dataclass(frozen=True, slots=True)
class Suppression:
    """Groups with too few people are shown without their values (rule 44).

    measure  whose noisy number of people decides
    k        [people] where it is smaller, the columns of `outputs` are NULL
    outputs  names of released columns
    """

    measure: int
    k: int
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """One noisy table: the cells of its measures, then those of what is chosen.

    fingerprint  canonical text of everything that decides its distribution, hashed; without the data version
    compared     why it has its mechanism, where "auto" took it
    entries      the values of the partition column that it is about, as the ledger names them; None: any
    suppressed   what is not shown where the noisy number of people is too small
    raised       whether it costs the owner's least, which is more than the accuracy that was asked needs
    """

    limited: Limited
    measures: tuple[Measure, ...]
    selection: Selection | None
    outputs: tuple[Output, ...]
    loss: PrivacyLoss
    fingerprint: str
    chosen: tuple[Chosen, ...] = ()
    read: tuple[Read, ...] = ()
    compared: Comparison | None = None
    entries: tuple[str, ...] | None = None
    suppressed: tuple[Suppression, ...] = ()
    raised: bool = False

    @property
    def parts(self) -> tuple[Measure | Chosen, ...]:
        """What is paid for; () where only declared keys are shown, which is free."""
        return (*self.measures, *self.chosen)

    @property
    def name(self) -> str:
        return self.limited.block.name

    @property
    def cell_starts(self) -> list[int]:
        """Where the cells of each part begin in the released table, and the end."""
        counts = [*(m.statistic.cells for m in self.measures), *(c.tallied.cells for c in self.chosen)]
        return [sum(counts[:i]) for i in range(len(counts) + 1)]

    def read_by(self, outputs: Sequence[str]) -> set[int]:
        """The parts that columns are made of, by their place among all."""
        measured = {m for output in self.outputs if output.name in outputs for m in output.measures}
        return measured | {len(self.measures) + read.chosen for read in self.read if read.name in outputs}

    @property
    def keys(self) -> tuple[GroupKey, ...]:
        return self.limited.block.keys

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        """Every expression over people's rows that decides what is counted: what rule R1 looks at."""
        block = self.limited.block
        asked = (part for a in block.aggregates for part in (*a.values, a.condition) if part is not None)
        return (*block.source.predicates, *(key.scalar for key in block.keys), *asked)


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be released, at what price, and the shell that makes the answer of it.

    price  what the caller asked for the whole statement; the loss is within it, checked here before anything runs
    goal   the accuracy that was asked instead: then the price is the most that it may cost
    """

    releases: tuple[Release, ...]
    shell: Shell
    loss: PrivacyLoss
    price: EpsilonDelta
    goal: Goal | None = None

    def __post_init__(self) -> None:
        for release in self.releases:
            for measure in release.measures:
                if not measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss):
                    raise error(901, "a measure's noise does not cover its sensitivity at its loss")
            if any(part.terms.limits != release.limited.limits for part in release.chosen):
                raise error(901, "something is chosen on other limits than those that are enforced")
            if not _selects_enough(release):
                raise error(901, "a threshold does not hold its delta")
            delta = release.selection.delta if release.selection is not None else Fraction(0)
            if total([*(m.loss for m in release.parts), only_delta(delta)]) != release.loss:
                raise error(901, "a release's loss is not the sum of its parts")
        if total(r.loss for r in self.releases) != self.loss or not costs_at_most(self.loss, self.price):
            raise error(901, "the plan does not spend what was asked")


def _selects_enough(release: Release) -> bool:
    """Whether a group of one unit is shown with no more than what is paid for: by the threshold, or by noise that is cut off.

    Why  cut-off noise pays for the probability of its largest value itself; a threshold beyond it spends nothing (rule 29)
    """
    selection = release.selection
    cut = [i for i, measure in enumerate(release.measures) if isinstance(measure.noise, TruncatedLaplace)]
    if selection is None:
        return not cut
    measure = release.measures[selection.measure]
    if isinstance(measure.noise, TruncatedLaplace):
        return cut == [selection.measure] and selection.tau >= measure.noise.most + 1 and selection.delta == 0
    share = delta_per_group(measure.sensitivity.l0, selection.delta)
    return not cut and measure.noise.tail(selection.tau - 1) <= share


@dataclass(frozen=True, slots=True)
class Verified:
    """Engine SQL without what is the identity where `facts` were verified for the data version (rule 35)."""

    sql: str
    facts: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompiledTally:
    """The engine SQL of one tally: group keys first, then the value, the number of rows, and their sum where it is summed."""

    tally: Tally
    sql: str
    verified: tuple[Verified, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledMatching:
    """The engine SQL of units that take values: group keys first, then the value's number, the unit's capacity and its turn.

    measure  whose exact sum is how many values are taken
    """

    measure: int
    sql: str
    verified: tuple[Verified, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledRelease:
    """A release and its engine SQL; its parameter `$cut` is the secret that orders what a limit cuts.

    sql       of the measures' exact sums; "" where no measure has any of its own
    bounds    names of the bound tables that the SQL or a key list reads
    verified  shorter SQL for verified data, the one that needs most first
    """

    release: Release
    sql: str
    bounds: tuple[str, ...] = ()
    verified: tuple[Verified, ...] = ()
    tallies: tuple[CompiledTally, ...] = ()
    matchings: tuple[CompiledMatching, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All engine SQL that runs, on data that is not verified."""
        texts = (self.sql, *(m.sql for m in self.matchings), *(t.sql for t in self.tallies))
        return tuple(text for text in texts if text)

    @property
    def sources(self) -> tuple[tuple[str, tuple[Verified, ...]], ...]:
        """All engine SQL, each text with the shorter ones for verified data."""
        matched = tuple((part.sql, part.verified) for part in self.matchings)
        tallied = tuple((part.sql, part.verified) for part in self.tallies)
        return tuple(source for source in ((self.sql, self.verified), *matched, *tallied) if source[0])

    @property
    def key_columns(self) -> int:
        """How many columns of the SQL are group keys: the first ones."""
        return len(self.release.keys)

    @property
    def sum_columns(self) -> int:
        """How many columns of the SQL are exact sums: the rest."""
        matched = {matching.measure for matching in self.matchings}
        return sum(m.statistic.sums for i, m in enumerate(self.release.measures) if i not in matched)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Everything that runs. releases and bounds: each after what it reads."""

    plan: Plan
    releases: tuple[CompiledRelease, ...]
    bounds: tuple[Bound, ...] = ()
