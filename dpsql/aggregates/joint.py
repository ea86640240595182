"""COUNT, SUM and AVG of several values of the same rows: one vector, of one price.

Of a group let M be its rows, n_i those with a value of x_i, T_i the sum of the clamped values v_i in [L_i, U_i], W_i = U_i - L_i. The
cells are whole: each value has a block of them, on a scale s_i of its own, and one cell more may count rows.

    rows           a M
    a pair         s (T - L n)  and  s (U n - T)
    one centred    s (2 T - (L + U) n)
    gaps           s W (M - n)                      beside either, where there may be rows without a value

A row with a value adds to a pair two numbers >= 0 that are s W together, to a centred cell a number in [-s W, s W], and nothing to the
gap; a row without one adds s W to the gap and nothing else. So it moves a block by at most s W in L1, and in L2 too, and all cells by

    L1 <= a + sum of s_i W_i        L2^2 <= a^2 + sum of (s_i W_i)^2

and a unit with at most K rows moves them by at most K times that: the sum of K vectors that are no longer is no longer than K of them.
A unit with m rows in a group that is cut to m_c of them has n_c = round(n m_c / m) <= m_c with a value and its total clamped to
[L n_c, U n_c], so its cells are such a sum too.

n_i is counted, never taken to be M: where a value was declared to be there and is not, with M in its place the row would move the cell
by L + U, whatever W is (rule 57). That n_i = M is used afterwards alone, to read the cells.

What is read off them is a weighted sum (forms.py) with the least variance there is, all cells having the same noise. Each of these
tells M without the others: the cell of rows; a pair (A, B) without a gap, by (A + B) / (s W); one with a gap N, by (A + B + N) / (s W).
They are averaged, weighted by their precision. n_i is M where there are no gaps, else of M - N / (s W) and of (A + B) / (s W) the
average; T_i = ((L + U) n_i + d) / 2 where d is (A - B) / s, or the centred cell over s: neither says anything of n_i.
Source: Kulesza, Suresh, Wang 2024 (arXiv 2312.06658) for pairs; the rest is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Literal

from dpsql.aggregates.avg import Pair, kept_with_value
from dpsql.aggregates.base import CUT, ROWS, Estimate, Limits, Sensitivity, Statistic, StatisticDefaults, UnitSums
from dpsql.aggregates.count import Rows, counted_rows, counting
from dpsql.aggregates.forms import CountOfForm, Form
from dpsql.aggregates.record import value_key
from dpsql.aggregates.sum import Total, clamped_total, numbers_and_sums
from dpsql.aggregates.telling import Say, clamped, where
from dpsql.aggregates.term import Term
from dpsql.core.columns import combined
from dpsql.core.errors import error
from dpsql.core.wording import listed
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Node, own

_FINE = 2**40


@dataclass(frozen=True, slots=True)
class ValueCells:
    """The cells of one value.

    scale   s: a quantum is so much in its cells
    split   whether it is a pair; else it is one centred cell
    gaps    whether a cell counts the rows without a value
    """

    term: Term
    scale: int
    split: bool
    gaps: bool

    @property
    def weight(self) -> int:
        """Distance by which one row moves its cells at most."""
        return self.scale * self.term.width

    @property
    def cells(self) -> int:
        return 1 + self.split + self.gaps


def may_be_missing(term: Term) -> bool:
    return term.scalar.nullable or term.scalar.sqltype.is_float


@dataclass(frozen=True, slots=True)
class ReadOff:
    """The number of rows, of those with a value, and the sum of the values [quanta], as weighted sums of cells."""

    rows: Form
    count: Form
    total: Form
    term: Term


@dataclass(frozen=True, slots=True)
class Layout:
    """Choice of the cells of a joint vector.

    pairs  which values have a pair: all, those with gaps, or none
    root   the cell of rows weighs the root of this degree of the number of values, in blocks; 0: there is none
    """

    pairs: Literal["all", "gaps", "none"]
    root: Literal[0, 2, 4]


LAYOUTS = (Layout("all", 0), Layout("none", 4), Layout("none", 2), Layout("gaps", 4), Layout("gaps", 2))
"""Those that are tried.

Why  of k values without gaps all blocks weigh the same, 1, and let the cell of rows weigh a. Under Laplace noise a centred cell has
     the scale k + a, the rows (k + a) / a; under Gaussian noise they have the squares k + a^2 and (k + a^2) / a^2. Their relative
     variances, added up, are smallest near a = k^(1/2) and a = k^(1/4). Pairs have the scale k: less for a few values, under Laplace
     noise. Where there are gaps a pair also tells how many they are
"""
_BITS, _MOST_BITS = 10, 40


def joint(terms: Sequence[Term], counted: Scalar | None, layout: Layout, parts: int) -> Joint:
    """A joint vector of some values.

    Why  scales are whole: rounded down from so fine a weight that blocks weigh the same but for one in a thousand
    """
    widest = max(t.width for t in terms)
    each = widest << max(0, min(_BITS, _MOST_BITS - widest.bit_length()))
    blocks = []
    for term in terms:
        gaps = may_be_missing(term)
        split = layout.pairs == "all" or (layout.pairs == "gaps" and gaps)
        blocks.append(ValueCells(term, each // term.width, split, gaps))
    k = len(blocks)
    rows = {0: 0, 2: isqrt(each**2 * k), 4: isqrt(isqrt(each**4 * k))}[layout.root]
    return Joint(tuple(blocks), counted, rows, parts)


def of_cube(term: Term) -> Joint:
    """The cells of one value in a cube: centred, without a pair, beside a number of rows with noise of its own."""
    return Joint((ValueCells(term, 1, False, may_be_missing(term)),), None, 0, 1)


@dataclass(frozen=True, slots=True)
class Joint(StatisticDefaults):
    """The cells of some values over the rows for which `counted` is true.

    rows   a: what a row adds to the first cell; 0: there is none
    parts  statistics that it stands for, by which it shares the price with others
    """

    blocks: tuple[ValueCells, ...]
    counted: Scalar | None
    rows: int
    parts: int
    _shape: _Shape = field(init=False, repr=False, compare=False)
    _places: Mapping[Hashable, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # each value is read off it, by all of its cells
        each = tuple((b.scale, b.term.lower, b.term.upper, b.split, b.gaps) for b in self.blocks)
        object.__setattr__(self, "_shape", (self.rows, each))
        object.__setattr__(self, "_places", {value_key(b.term.scalar): i for i, b in enumerate(self.blocks)})

    @property
    def identity(self) -> Hashable:
        return (
            "joint",
            tuple((b.term.identity, b.scale, b.split, b.gaps) for b in self.blocks),
            self.rows,
            tree_of(self.counted),
        )

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        values = tuple(b.term.scalar for b in self.blocks)
        return values if self.counted is None else (*values, self.counted)

    @property
    def cells(self) -> int:
        return bool(self.rows) + sum(b.cells for b in self.blocks)

    @property
    def sums(self) -> int:
        return 1 + 2 * len(self.blocks)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        each = [self.rows, *(b.weight for b in self.blocks)]
        k, moved = limits.rows, min(limits.rows, limits.groups) * self.cells
        return Sensitivity(moved, k * max(each), k * sum(each), k * k * sum(w * w for w in each))

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(tree for b, name in zip(self.blocks, names, strict=False) for tree in b.term.steps(name))

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        kept, pairs = numbers_and_sums(self.terms, self.counted, names)
        return (counting(kept), *(tree for pair in pairs for tree in pair))

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        kept, pairs = numbers_and_sums(self.terms, self.counted, names)
        inner = [(f"{name}{i}_", tree) for i, pair in enumerate(pairs) for name, tree in zip("nt", pair, strict=True)]
        outer: list[Node] = [CUT]
        for block, (n, _), (total, _) in zip(self.blocks, inner[::2], inner[1::2], strict=True):
            taken = kept_with_value(own(n))
            outer += [taken, clamped_total(block.term, own(total), own(n), taken)]
        return UnitSums(counting(kept), tuple(inner), tuple(outer), (ROWS, *(own(name) for name, _ in inner)))

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        cells: list[Sequence[int]] = [combined((self.rows, sums[0]))] if self.rows else []
        for block, n, total in zip(self.blocks, sums[1::2], sums[2::2], strict=True):
            s, low, high = block.scale, block.term.lower, block.term.upper
            if block.split:
                cells += [combined((s, total), (-s * low, n)), combined((s * high, n), (-s, total))]
            else:
                cells.append(combined((2 * s, total), (-s * (low + high), n)))
            if block.gaps:
                cells.append(combined((block.weight, sums[0]), (-block.weight, n)))
        return tuple(cells)

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        """The size at which noise of a cell is as large, relative to it, as that of all columns together, in squares."""
        forms = _forms(self._shape)
        precise = forms.rows.square / float(rows) ** 2
        for total, block in zip(forms.sums, self.blocks, strict=True):
            precise += total.square / float(rows * block.term.typical) ** 2
        return Fraction(max(1, isqrt(int(_FINE**2 / precise))), _FINE)

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(b.term for b in self.blocks)

    def with_terms(self, change: Callable[[Term], Term]) -> Joint:
        return replace(self, blocks=tuple(replace(b, term=change(b.term)) for b in self.blocks))

    def told(self, say: Say) -> str:
        values = listed([clamped(b.term, say) for b in self.blocks])
        return f"one vector: number of rows, sums and counts of {values}{where(self.counted, say)}"

    @property
    def number(self) -> Estimate:
        """Of all rows, also where nobody asks for it by itself."""
        return CountOfForm(self.all_rows)

    def of(self, value: Scalar) -> ReadOff:
        """The forms of one of its values."""
        forms, place = _forms(self._shape), self._places[value_key(value)]
        return ReadOff(forms.rows, forms.counts[place], forms.sums[place], self.blocks[place].term)

    # --- what the cells say -----------------------------------------------------------------------------------------------

    @property
    def all_rows(self) -> Form:
        """M"""
        return _forms(self._shape).rows

    def count_of(self, place: int) -> Form:
        """n_i"""
        return _forms(self._shape).counts[place]

    def sum_of(self, place: int) -> Form:
        """T_i [quanta]"""
        return _forms(self._shape).sums[place]

    def same(self, *, cut: bool) -> Iterator[tuple[Statistic, tuple[Form, ...]]]:
        """By M, n and T (PartOfJoint).

        cut  whether rows of a unit may be cut: those without a value count towards its limit here, so then not what leaves them out
        """
        rows = self.all_rows
        yield Rows(self.counted), (rows,)
        for i, block in enumerate(self.blocks):
            term, n, total = block.term, self.count_of(i), self.sum_of(i)
            yield Pair(term, self.counted, True), (rows, n, total)
            if cut and block.gaps:
                continue
            yield Rows(counted_rows(term.scalar, self.counted)), (n,)
            yield Total(term, self.counted), (rows, n, total)
            yield Pair(term, self.counted, False), (rows, n, total)


@dataclass(frozen=True, slots=True)
class PartOfJoint(StatisticDefaults):
    """A statistic as it is read off the cells of a stored joint vector: never asked of data.

    forms  what its columns are made of: M or n of a number of rows; else M, n and T
    """

    statistic: Statistic
    forms: tuple[Form, ...]

    @property
    def cells(self) -> int:
        return len(self.forms[0].weights)

    @property
    def number(self) -> Estimate:
        """A number of rows, as it is read off."""
        return CountOfForm(self.forms[0])

    @property
    def seen(self) -> ReadOff:
        rows, count, total = self.forms
        return ReadOff(rows, count, total, self.terms[0])

    @property
    def identity(self) -> Hashable:
        return "part", self.statistic.identity, self.forms

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return self.statistic.inputs

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.statistic.terms

    def with_terms(self, change: Callable[[Term], Term]) -> PartOfJoint:
        return replace(self, statistic=self.statistic.with_terms(change))

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return self.statistic.sensitivity(limits)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        raise error(901, "what is stored was about to be asked anew")

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        raise error(901, "what is stored was about to be asked anew")

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> None:
        return None

    def told(self, say: Say) -> str:
        return f"{self.statistic.told(say)}, read off one vector with others"


_Shape = tuple[int, tuple[tuple[int, int, int, bool, bool], ...]]


@dataclass(frozen=True, slots=True)
class _Forms:
    rows: Form
    counts: tuple[Form, ...]
    sums: tuple[Form, ...]


@lru_cache(maxsize=256)
def _forms(shape: _Shape) -> _Forms:
    """The weighted sums with the least variance, where all cells have the same noise."""
    a, blocks = shape
    width = bool(a) + sum(1 + split + gaps for *_, split, gaps in blocks)
    start, starts = int(bool(a)), list[int]()
    # by block, or -1 for the cell of rows: what tells M
    tells = {-1: Form.of(width, {0: 1 / a})} if a else {}
    for i, (s, low, high, split, gaps) in enumerate(blocks):
        starts.append(start)
        if split:
            tells[i] = Form.of(width, {start + j: 1 / (s * (high - low)) for j in range(2 + gaps)})
        start += 1 + split + gaps
    rows, precision = _averaged(list(tells.values()))
    counts, sums = list[Form](), list[Form]()
    for i, (s, low, high, split, gaps) in enumerate(blocks):
        at, weight = starts[i], s * (high - low)
        n = rows
        if gaps:
            ways = [Form.of(width, {at: 1 / weight, at + 1: 1 / weight})] if split else []
            if len(tells) > (i in tells):
                others = _without(rows, precision, tells[i]) if i in tells else rows
                ways.append(others.plus(Form.of(width, {at + 1 + split: -1 / weight})))
            n, _ = _averaged(ways)
        half = 1 / (2 * s)
        apart = Form.of(width, {at: half, at + 1: -half} if split else {at: half})
        counts.append(n)
        sums.append(n.times((low + high) / 2).plus(apart))
    return _Forms(rows, tuple(counts), tuple(sums))


def _averaged(told: Sequence[Form]) -> tuple[Form, float]:
    """Independent estimates of one number, weighted by their precision; and the precision of that."""
    whole = sum([1 / form.square for form in told], 0.0)
    first, *rest = [form.times(1 / form.square / whole) for form in told]
    for form in rest:
        first = first.plus(form)
    return first, whole


def _without(average: Form, precision: float, one: Form) -> Form:
    """An average without one of the estimates in it: exactly 0 where that has its weights."""
    own = 1 / one.square
    left = average.times(precision / (precision - own)).plus(one.times(-own / (precision - own)))
    return Form(tuple(0.0 if mine else w for w, mine in zip(left.weights, one.weights, strict=True)))
