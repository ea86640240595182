"""COUNT, SUM, AVG, VAR and STDDEV of several values of the same rows: one vector, of one price.

Of a group let M be its rows, n_i those with a value of x_i, T_i the sum of the clamped values v_i in [L_i, U_i], W_i = U_i - L_i. The
cells are whole: each value has a block of them, on a scale s_i of its own, and one cell more may count rows.

    rows           a M
    a pair         s (T - L n)  and  s (U n - T)
    one centred    s (2 T - (L + U) n)
    and a square   r (Q - H n)                      where Q is the sum of (2 v - (L + U))^2, beside one that is centred
    gaps           g (M - n)                        beside any, where there may be rows without a value

A row with a value adds to a pair two numbers >= 0 that are s W together, to a centred cell a number in [-s W, s W], and nothing to the
gap. To a centred cell and a square it adds s t and r (t^2 - H), for some t in [-W, W]:

    L2^2 = s^2 t^2 + r^2 (t^2 - H)^2 is convex in t^2, so it is at most that of t = 0 or that of t = W:
           max(r^2 H^2, s^2 W^2 + r^2 (W^2 - H)^2)
    L1   = s |t| + r (H - t^2), at most r H + s^2 / (4 r) wherever t^2 <= H; beyond, it grows with |t|, up to s W + r (W^2 - H)

A row without a value adds g to the gap and nothing else, g being the L2 of its block, which is no more than its L1: for a pair and a
centred cell alone both are s W. So it moves all cells by at most

    L1 <= a + the sum of those of blocks        L2^2 <= a^2 + the sum of those of blocks

and a unit with at most K rows moves them by at most K times that: the sum of K vectors that are no longer is no longer than K of them.
A unit with m rows in a group that is cut to m_c of them has n_c = round(n m_c / m) <= m_c with a value and its total clamped to
[L n_c, U n_c], so its cells are such a sum too. Beside a square P, the sum of p = v - L, is clamped to [0, W n_c], and that of p^2 to
[P^2 / n_c, W P]: then (P, sum of p^2) / n_c lies between the parabola and its chord, where it is an average of points (p, p^2). What
one row moves the cells by is convex, so an average of rows moves them by no more than some row does.

n_i is counted, never taken to be M: where a value was declared to be there and is not, with M in its place the row would move the cell
by L + U, whatever W is (rule 57). That n_i = M is used afterwards alone, to read the cells.

What is read off them is a weighted sum (forms.py) with the least variance there is, all cells having the same noise. Each of these
tells M without the others: the cell of rows; a pair (A, B) without a gap, by (A + B) / (s W); one with a gap N, by (A + B + N) / (s W).
They are averaged, weighted by their precision. n_i is M where there are no gaps, else of M - N / (s W) and of (A + B) / (s W) the
average; T_i = ((L + U) n_i + d) / 2, d being (A - B) / s or the centred cell over s: neither tells n_i. Q is H n_i + the square over r.
Source: Kulesza, Suresh, Wang 2024 (arXiv 2312.06658) for pairs; the rest is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import isqrt
from typing import Literal

from dpsql.aggregates.avg import kept_with_value
from dpsql.aggregates.base import CUT, ROWS, Estimate, Limits, Sensitivity, Statistic, StatisticDefaults, UnitSums
from dpsql.aggregates.count import Rows, counting
from dpsql.aggregates.forms import CountOfForm, Form, averaged, readable, without
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.record import value_key
from dpsql.aggregates.sum import clamped_square, clamped_total
from dpsql.aggregates.telling import Say, clamped, where
from dpsql.aggregates.term import Term, filtered, may_be_missing
from dpsql.core.columns import combined
from dpsql.core.wording import listed
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Aggregate, Bare, Binary, Chain, Node, Number, own

_FINE = 2**40


@dataclass(frozen=True, slots=True)
class ValueCells:
    """The cells of one value.

    scale   s: a quantum is so much in its cells
    split   whether it is a pair; else it is one centred cell
    gaps    whether a cell counts the rows without a value
    square  r; 0: there is none
    middle  H
    """

    term: Term
    scale: int
    split: bool
    gaps: bool
    square: int = 0
    middle: int = 0

    @property
    def weight(self) -> int:
        """Distance in L2 by which one row moves its cells at most, rounded down."""
        return isqrt(self.moved[1]) if self.square else self.scale * self.term.width

    @property
    def moved(self) -> tuple[int, int]:
        """By how much one row moves its cells at most: L1, squared L2."""
        if not self.square:
            return self.weight, self.weight**2
        s, r, width = self.scale, self.square, self.term.width
        low, high = r * self.middle, r * (width**2 - self.middle)
        return max(low + -(-(s**2) // (4 * r)), s * width + high), max(low**2, (s * width) ** 2 + high**2)

    @property
    def cells(self) -> int:
        return 1 + self.split + self.gaps + bool(self.square)

    def steps(self, x: Node) -> tuple[Node, ...]:
        return (self.term.quanta(x),) if self.square else self.term.steps(x)

    def sums(self, x: Node, steps: Iterator[Node], where: Node | None) -> tuple[Node, ...]:
        """Number of values and their sum; beside a square the sums of what is above the lower bound, and of its square."""
        if not self.square:
            return self.term.count_and_total(x, steps, where)
        value = next(steps)
        above = Binary("-", value, Number(self.term.lower)) if self.term.lower else value
        totals = (Aggregate("sum", (Bare(Chain("*", (above,) * power)),), where=where) for power in (1, 2))
        return Aggregate("count", (value,), where=where), *totals


@dataclass(frozen=True, slots=True)
class ReadOff:
    """The number of rows with a value, and the sum of the values [quanta], as weighted sums of cells."""

    count: Form
    total: Form
    term: Term


@dataclass(frozen=True, slots=True)
class Layout:
    """Choice of the cells of a joint vector.

    pairs    which values have a pair: all, those with gaps, or none
    root     the cell of rows weighs the root of this degree of the number of values, in blocks; 0: there is none
    squares  of values whose square is needed, the weight of the value and H, both in that of the square; None: these stay apart
    """

    pairs: Literal["all", "gaps", "none"]
    root: Literal[0, 2, 4]
    squares: tuple[Fraction, Fraction] | None = None


_SQUARES = ((Fraction(1, 2), Fraction(3, 5)), (Fraction(7, 10), Fraction(3, 4)))
LAYOUTS = (
    *(Layout("all", 0), Layout("none", 4), Layout("none", 2), Layout("gaps", 4), Layout("gaps", 2)),
    *(Layout("none", 4, squares) for squares in _SQUARES),
)
"""Those that are tried.

Why  of k values without gaps all blocks weigh the same, 1, and let the cell of rows weigh a. Under Laplace noise a centred cell has
     the scale k + a, the rows (k + a) / a; under Gaussian noise they have the squares k + a^2 and (k + a^2) / a^2. Their relative
     variances, added up, are smallest near a = k^(1/2) and a = k^(1/4). Pairs have the scale k: less for a few values, under Laplace
     noise. Where there are gaps a pair also tells how many they are. Of a grid of weights and H, in those of the square, the two are
     those at which of six values variances err least under Gaussian noise, and variances and averages together
"""
_BITS, _MOST_BITS = 10, 40


def joint(
    terms: Sequence[Term], counted: Scalar | None, layout: Layout, parts: int, squared: Sequence[Term] = ()
) -> Joint:
    """A joint vector of some values.

    Why  scales are whole: rounded down from so fine a weight that blocks weigh the same but for one in a thousand

    squared  of these, those with a square
    """
    alone = [_block(term, layout, term in squared, 1) for term in terms]
    widest = max(block.weight for block in alone)
    each = widest << max(0, min(_BITS, _MOST_BITS - widest.bit_length()))
    blocks = [_block(one.term, layout, bool(one.square), each // one.weight) for one in alone]
    k = len(blocks)
    rows = {0: 0, 2: isqrt(each**2 * k), 4: isqrt(isqrt(each**4 * k))}[layout.root]
    return Joint(tuple(blocks), counted, rows, parts)


def _block(term: Term, layout: Layout, squared: bool, times: int) -> ValueCells:
    """The cells of one value, that many times as heavy as they have to be."""
    gaps = may_be_missing(term)
    if not squared or layout.squares is None:
        return ValueCells(term, times, layout.pairs == "all" or (layout.pairs == "gaps" and gaps), gaps)
    weight, middle = (part * term.width**2 for part in layout.squares)
    return ValueCells(term, max(1, int(weight * times / term.width)), False, gaps, times, int(middle))


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
        each = tuple(
            (b.scale, b.term.lower, b.term.upper, b.split, b.gaps, b.weight, b.square, b.middle) for b in self.blocks
        )
        object.__setattr__(self, "_shape", (self.rows, each))
        object.__setattr__(self, "_places", {value_key(b.term.scalar): i for i, b in enumerate(self.blocks)})

    @property
    def identity(self) -> Hashable:
        return (
            "joint",
            tuple(
                (b.term.identity, b.scale, b.split, b.gaps, *((b.square, b.middle) if b.square else ()))
                for b in self.blocks
            ),
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
        return 1 + sum(2 + bool(b.square) for b in self.blocks)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        each = [(self.rows, self.rows**2), *(b.moved for b in self.blocks)]
        k, moved = limits.rows, min(limits.rows, limits.groups) * self.cells
        l2_squared = [square for _, square in each]
        return Sensitivity(moved, k * isqrt(max(l2_squared)), k * sum(l1 for l1, _ in each), k * k * sum(l2_squared))

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(tree for b, name in zip(self.blocks, names, strict=False) for tree in b.steps(name))

    def _sums(self, names: Sequence[Node]) -> tuple[Node | None, list[tuple[Node, ...]]]:
        """The condition of the rows, and the sums of each value."""
        read = len(self.inputs)
        kept, steps = filtered(names[len(self.blocks) : read]), iter(names[read:])
        return kept, [block.sums(x, steps, kept) for block, x in zip(self.blocks, names, strict=False)]

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        kept, sums = self._sums(names)
        return (counting(kept), *chain.from_iterable(sums))

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        kept, sums = self._sums(names)
        inner: list[tuple[str, Node]] = []
        outer: list[Node] = [CUT]
        shared: list[tuple[str, Node]] = []
        for i, (block, trees) in enumerate(zip(self.blocks, sums, strict=True)):
            inner += [(f"{name}{i}_", tree) for name, tree in zip("ntq", trees, strict=False)]
            n, total, taken = own(f"n{i}_"), own(f"t{i}_"), own(f"k{i}_")
            among = kept_with_value(n)
            shared.append((f"k{i}_", among))
            if not block.square:
                outer += [taken, clamped_total(block.term, total, n, taken)]
                continue
            width, above = block.term.width, own(f"p{i}_")
            shared.append((f"p{i}_", clamped_total(replace(block.term, lower=0, upper=width), total, n, among)))
            outer += [taken, above, clamped_square(width, above, own(f"q{i}_"), n, taken)]
        whole = (ROWS, *(own(name) for name, _ in inner))
        return UnitSums(counting(kept), tuple(inner), tuple(outer), whole, tuple(shared))

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        cells: list[Sequence[int]] = [combined((self.rows, sums[0]))] if self.rows else []
        each = iter(sums[1:])
        for block, n, total in zip(self.blocks, each, each, strict=False):
            s, low, high = block.scale, block.term.lower, block.term.upper
            if block.split:
                cells += [combined((s, total), (-s * low, n)), combined((s * high, n), (-s, total))]
            elif block.square:
                r, width = block.square, block.term.width
                cells.append(combined((2 * s, total), (-s * width, n)))
                # t = 2 p - W, so that t^2 = 4 p^2 - 4 W p + W^2
                cells.append(combined((4 * r, next(each)), (-4 * r * width, total), (r * (width**2 - block.middle), n)))
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
        values = listed([clamped(b.term, say) + " up to power 2" * bool(b.square) for b in self.blocks])
        return f"one vector: number of rows, sums and counts of {values}{where(self.counted, say)}"

    @property
    def number(self) -> Estimate:
        return CountOfForm(self.all_rows)

    def of(self, value: Scalar) -> ReadOff:
        """The forms of one of its values."""
        forms, place = _forms(self._shape), self._places[value_key(value)]
        return ReadOff(forms.counts[place], forms.sums[place], self.blocks[place].term)

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
        """By M, n and T, or by the cells of moments (apart.py)."""
        yield Rows(self.counted), (self.all_rows,)
        for i, block in enumerate(self.blocks):
            alone = not (cut and block.gaps)
            yield from readable(block.term, self.counted, self.all_rows, self.count_of(i), self.sum_of(i), alone=alone)
            if block.square and alone:
                yield self.moments_of(block.term.scalar)

    def moments_of(self, value: Scalar) -> tuple[Moments, tuple[Form, ...]]:
        """The moments of a value with a square, and their cells as sums of these.

        Why  with t = 2 p - W they are sums of p^2, of 2 p q and of q^2, where p = (W + t) / 2 and q = (W - t) / 2
        """
        forms, place = _forms(self._shape), self._places[value_key(value)]
        term, n, square = self.blocks[place].term, forms.counts[place], forms.squares[place]
        assert self.blocks[place].square
        both = square.plus(n.times(term.width**2)).times(1 / 4)
        # W t / 2, with T = ((L + U) n + t) / 2
        odd = forms.sums[place].plus(n.times(-(term.lower + term.upper) / 2)).times(term.width)
        middle = n.times(term.width**2 / 2).plus(square.times(-1 / 2))
        return Moments((term,), (2,), self.counted), (both.plus(odd.times(-1)), middle, both.plus(odd))


_Shape = tuple[int, tuple[tuple[int, int, int, bool, bool, int, int, int], ...]]


@dataclass(frozen=True, slots=True)
class _Forms:
    rows: Form
    counts: tuple[Form, ...]
    sums: tuple[Form, ...]
    squares: tuple[Form, ...]


@lru_cache(maxsize=256)
def _forms(shape: _Shape) -> _Forms:
    """The weighted sums with the least variance, where all cells have the same noise."""
    a, blocks = shape
    width = bool(a) + sum(1 + split + gaps + bool(square) for *_, split, gaps, _, square, _ in blocks)
    start, starts = int(bool(a)), list[int]()
    # by block, or -1 for the cell of rows: what tells M
    tells = {-1: Form.of(width, {0: 1 / a})} if a else {}
    for i, (*_, split, gaps, weight, square, _) in enumerate(blocks):
        starts.append(start)
        if split:
            tells[i] = Form.of(width, {start + j: 1 / weight for j in range(2 + gaps)})
        start += 1 + split + gaps + bool(square)
    rows, precision = averaged(list(tells.values()))
    counts, sums, squares = list[Form](), list[Form](), list[Form]()
    for i, (s, low, high, split, gaps, weight, square, middle) in enumerate(blocks):
        at, n = starts[i], rows
        if gaps:
            ways = [Form.of(width, {at: 1 / weight, at + 1: 1 / weight})] if split else []
            if len(tells) > (i in tells):
                others = without(rows, precision, tells[i]) if i in tells else rows
                ways.append(others.plus(Form.of(width, {at + 1 + split + bool(square): -1 / weight})))
            n, _ = averaged(ways)
        half = 1 / (2 * s)
        apart = Form.of(width, {at: half, at + 1: -half} if split else {at: half})
        counts.append(n)
        sums.append(n.times((low + high) / 2).plus(apart))
        squares.append(n.times(middle).plus(Form.of(width, {at + 1: 1 / square} if square else {})))
    return _Forms(rows, tuple(counts), tuple(sums), tuple(squares))
