"""VAR, STDDEV, SKEWNESS, KURTOSIS, COVAR, CORR, REGR: all the moments of one or two values, as one vector.

With p = x' - L' and q = U' - x' for the clamped integer x', every row has p + q = W, so for a degree d

    (p + q)^d = sum over i of C(d, i) p^i q^(d-i) = W^d

and the d + 1 addends are cells that a row moves by exactly W^d together, none of them negative: the Bernstein polynomials of degree d.
For two values the cells are the products of both values' polynomials, W_x^dx W_y^dy together. Sums of those cells hold every moment
up to the degrees: with i of the cell (p^i q^(d-i)) and u = p / W,

    N = sum of cells     sum u^k = sum of C(i, k) / C(d, k) cells, for every k up to d

so COUNT, SUM, AVG and VAR of one value are one release at one price, and so are CORR and what it is made of: COUNT, SUM, AVG and VAR of
each of its values can be read off the cells of both. Where one value can be there without the other, cells of its own hold such rows:
the polynomials of the one that is there, times the whole W^d of the other. If COUNT(*) over the same rows is asked too, one more cell
gets the weight of a row for each row without a value. A row is in the cells of both, in those of one, or in the last one: never in two.

A unit with m rows in a group that is cut to m_c of them has every cell scaled by m_c / m and rounded down: no cell is negative, so
together they stay at or below W^d m_c. What the cells say is worked out in of_moments.py.

Source: Kulesza, Suresh, Wang 2024 (arXiv 2312.06658) for degree 1; Harini, Tandon 2026 (arXiv 2604.11820) for regression; the rows
without a value and the scaling are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.base import (
    CUT,
    ROWS,
    Limits,
    Sensitivity,
    Statistic,
    StatisticDefaults,
    UnitSums,
    sensitivity_of_rows,
)
from dpsql.aggregates.count import Rows, counting
from dpsql.aggregates.forms import Form, finest, readable
from dpsql.aggregates.telling import Say, clamped, where
from dpsql.aggregates.term import Term, filtered, may_be_missing, whole_number
from dpsql.core.sqltypes import HUGEINT
from dpsql.core.wording import listed
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Aggregate, Bare, Binary, Call, Case, Chain, Is, Node, Number, own

Numbers = npt.NDArray[Any]
"""Cells, one row each: Python integers, for values that are exact until the last division, or DOUBLE."""
Weights = npt.NDArray[np.int64]
"""One for each cell."""
Places = tuple[int, ...]
"""The terms that an aggregate is of: its rows are those in which all of them are there."""

FINEST_GRID = 40
"""[bits] W^d is about 2^40 at most, and all cells of one row add up to it, so that each fits BIGINT."""


def widest(degree: int) -> int:
    """The most quanta between the bounds of each value, where `degree` is that of all values together."""
    return int(2 ** (FINEST_GRID // degree))


@dataclass(frozen=True, slots=True)
class Moments(StatisticDefaults):
    """The Bernstein cells of one or two terms up to a degree each, over the rows for which `counted` is true.

    terms      one or two
    degrees    of each term, 1 to 4; 1 or 2 of two
    with_rows  whether a last cell counts the rows without a value
    lone       of two terms, whether rows with one of them have cells too; else they are rows without a value
    """

    terms: tuple[Term, ...]
    degrees: tuple[int, ...]
    counted: Scalar | None
    with_rows: bool = False
    lone: bool = False

    @property
    def identity(self) -> Hashable:
        parts = tuple((t.identity, d) for t, d in zip(self.terms, self.degrees, strict=True))
        return "moments", self.with_rows, *(("lone",) if self.lone else ()), parts, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        values = tuple(t.scalar for t in self.terms)
        return values if self.counted is None else (*values, self.counted)

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        """The values in quanta."""
        return tuple(part.quanta(name) for part, name in zip(self.terms, names, strict=False))

    @property
    def weight(self) -> int:
        """Distance by which one row moves all cells together at most [quanta]."""
        return math.prod(t.width**d for t, d in zip(self.terms, self.degrees, strict=True))

    @property
    def places(self) -> tuple[tuple[int | None, ...], ...]:
        """Of each cell but the last that counts rows: of each term the power of p, or None where it is not there."""
        powers: list[list[int | None]] = [list(range(d + 1)) for d in self.degrees]
        both = tuple(product(*powers))
        if not self.lone:
            return both
        return (*both, *((i, None) for i in powers[0]), *((None, j) for j in powers[1]))

    @property
    def cells(self) -> int:
        return len(self.places) + self.with_rows

    @property
    def sums(self) -> int:
        return self.cells

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return sensitivity_of_rows(limits, weight=self.weight, cells=self.cells)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        kept = filtered(self._condition(names))
        found = tuple(Aggregate("sum", (product,), where=kept) for product in self._products(names))
        return (*found, self._without_value(names)) if self.with_rows else found

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        kept = filtered(self._condition(names))
        products = self._products(names)
        sums = [Aggregate("sum", (product,), where=kept) for product in products]
        inner: list[tuple[str, Node]] = [(f"b{i}_", Call("COALESCE", (part, Number(0)))) for i, part in enumerate(sums)]
        rows: Node = Aggregate("count", (self._there(names) or products[0],), where=kept)
        if self.with_rows:
            inner.append((f"b{len(products)}_", self._without_value(names)))
            rows = counting(kept)
        return UnitSums(rows, tuple(inner), tuple(self._kept(own(name)) for name, _ in inner))

    def _kept(self, cell: Node) -> Node:
        """A unit's cell after its rows are cut: a row adds at most the weight to it, and the tree says so too."""
        share = Bare(Binary("//", Binary("*", cell, CUT), Call("GREATEST", (ROWS, Number(1)))))
        kept = Bare(Case(((Bare(Binary("=", CUT, ROWS)), cell),), share))
        return Call("LEAST", (Bare(Binary("*", whole_number(self.weight, HUGEINT), CUT)), kept))

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        return tuple(sums)

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return rows * self.weight

    def with_terms(self, change: Callable[[Term], Term]) -> Moments:
        return replace(self, terms=tuple(map(change, self.terms)))

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> None:
        return None

    def told(self, say: Say) -> str:
        values = listed([f"{clamped(t, say)} up to power {d}" for t, d in zip(self.terms, self.degrees, strict=True)])
        beside = ", each in rows without the other too" * self.lone + ", beside the number of rows" * self.with_rows
        return f"moments of {values}{beside}{where(self.counted, say)}"

    def _condition(self, names: Sequence[Node]) -> Sequence[Node]:
        return names[len(self.terms) : len(self.inputs)]

    def _there(self, names: Sequence[Node]) -> Node | None:
        """The value that is there; None where a row needs both."""
        return Call("COALESCE", tuple(names[len(self.inputs) :])) if self.lone else None

    def _products(self, names: Sequence[Node]) -> list[Node]:
        """Each cell for one row: NULL where a value is that it is of, or there is one that it is not of."""
        values = names[len(self.inputs) :]
        found: list[Node] = []
        for powers in self.places:
            factors: list[Node] = []
            absent: list[Node] = []
            for i, part, degree, x in zip(powers, self.terms, self.degrees, values, strict=True):
                if i is None:
                    factors.append(whole_number(part.width**degree))
                    absent.append(Bare(Is(x, "NULL")))
                    continue
                p = Binary("-", x, Number(part.lower)) if part.lower else x
                q = Binary("-", Number(part.upper), x)
                factors += (*[p] * i, *[q] * (degree - i), *([Number(math.comb(degree, i))] if 0 < i < degree else []))
            whole: Node = Bare(Chain("*", tuple(factors)))
            found.append(Bare(Case(((absent[0], whole),))) if absent else whole)
        return found

    def _without_value(self, names: Sequence[Node]) -> Node:
        """Number of counted rows without a value, times the weight."""
        missing = Chain("AND" if self.lone else "OR", tuple(Bare(Is(x, "NULL")) for x in names[len(self.inputs) :]))
        lacking = counting(Bare(Chain("AND", (missing, *self._condition(names)))))
        return Bare(Binary("*", whole_number(self.weight, HUGEINT), lacking))

    def same(self, *, cut: bool) -> Iterator[tuple[Statistic, tuple[Form, ...]]]:
        """By the number of rows, n and T of each value; where two are the degree, only of those whose own grid is as coarse.

        cut  whether rows of a unit may be cut: all that are counted here count towards its limit
        """
        all_rows = Form((1 / self.weight,) * self.cells) if self.with_rows else None
        if all_rows is not None:
            yield Rows(self.counted), (all_rows,)
        missing = any(may_be_missing(t) for t in self.terms)
        if len(self.terms) > 1 and missing and (cut or not self.lone):
            return
        for i, (part, degree) in enumerate(zip(self.terms, self.degrees, strict=True)):
            if sum(self.degrees) > 2 and finest(part).quantum != part.quantum:
                continue
            n = self._form(self.rows((i,)))
            total = n.times(part.lower).plus(self._form(self.power(1, i, (i,))).times(part.width / degree))
            alone = not (cut and self.with_rows and missing)
            if alone and self.with_rows and len(self.terms) == 1:
                own = replace(self, with_rows=False)
                yield own, tuple(Form.of(self.cells, {cell: 1.0}) for cell in range(own.cells))
            yield from readable(part, self.counted, all_rows, n, total, alone=alone)

    def _form(self, weights: Weights) -> Form:
        return Form(tuple((weights / self.weight).tolist()))

    # --- what the cells say -------------------------------------------------------------------------------------------

    def rows(self, of: Places) -> Weights:
        """Weights that add the cells up to the number of rows with the values at some places, times `weight`."""
        return self._weights(of, lambda powers: 1)

    def power(self, k: int, term: int, of: Places) -> Weights:
        """C(d, k) * sum of u^k, times `weight`: the sum of C(i, k) of the cells."""
        return self._weights(of, lambda powers: math.comb(powers[term] or 0, k))

    def product(self, of: Places) -> Weights:
        """d_x d_y * sum of u v, times `weight`; of two terms."""
        return self._weights(of, lambda powers: math.prod(i or 0 for i in powers))

    def _weights(self, of: Places, weigh: Callable[[tuple[int | None, ...]], int]) -> Weights:
        found = [0 if any(powers[place] is None for place in of) else weigh(powers) for powers in self.places]
        return np.array([*found, *[0] * self.with_rows])
