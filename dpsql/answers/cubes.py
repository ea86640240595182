"""cubes: what is read off a stored cube, free, with its error in closed form.

A statement whose rows, limits and keys are a cube's is not bought: its groups are marginals of the cube, summed over the keys that are
not asked. A condition that chooses among a key's declared values gives each of them the weight 1 or 0. Numbers of rows, sums and
averages are made of what the cube holds (aggregates/joint.py). All of it is post-processing of released coefficients.

It is read off the cube where the error of each column is at most the one that was asked for, or, at the default price, at most twice
the error that this price buys.

Where a key of a cube has no list, a statement by that key is given the groups that the cube selected. A condition that names some of
these chooses among them; what names another value is bought.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import inf, prod

import numpy as np

from dpsql.accounting.cubes import CubeNames, StoredCube
from dpsql.aggregates.record import Aggregate
from dpsql.answers.cube_columns import Columns, error_in, suppressions
from dpsql.answers.cube_view import View
from dpsql.answers.questions import Questions, RowsKey
from dpsql.answers.reusing import Reused, combinations_of
from dpsql.core.columns import Column
from dpsql.core.errors import error
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.helmert import Floats
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.suppressing import suppressed
from dpsql.plan.tables import KeyValue, NoisyTable
from dpsql.planner.slices import Slice, every_slice
from dpsql.schema.mistakes import printable

WIDER = 2
"""The largest error of what is read off a cube, in errors of what the default price buys."""
MOST_OPEN = 4
"""Cubes whose coefficients stay in memory."""


class Cubes:
    """Looks for cubes that a release can be read off.

    readable  a noise that deviates by fewer units than this can tell about one of them
    """

    def __init__(self, questions: Questions, names: CubeNames, readable: Fraction) -> None:
        self._questions, self.names, self._readable = questions, names, readable
        self._open: OrderedDict[str, tuple[Floats, ...]] = OrderedDict()

    def find(self, part: CompiledRelease, wider: float, cubes: Sequence[StoredCube] | None = None) -> Reused | None:
        """A release that is read off a cube; None where there is none, or it errs more than it may.

        wider  the most that its error may be, in errors of the release as it would be bought
        cubes  that are looked at; None: all
        """
        known = () if not _is_of_cells(part) else self.names.all() if cubes is None else cubes
        for one, rows, cube in self._asked(part, known):
            view = _view(part.release, one, rows, cube)
            found = self._read(part, rows, view, wider) if view is not None else None
            if found is not None:
                return found
        return None

    def would_answer(self, part: CompiledRelease, wider: float, cubes: Sequence[StoredCube]) -> str:
        """The name of the first of some cubes, bought or not, that a release is read off once it is; "" where there is none.

        Why  whether one answers, and how exactly, are declarations: no coefficient is looked at
        """
        for one, rows, cube in self._asked(part, cubes):
            view = _view(part.release, one, rows, cube)
            if view is not None and _off(part.release, rows, view, wider) is not None:
                return cube.name
        return ""

    def would_be_read(self, part: CompiledRelease, cube: StoredCube) -> Release | None:
        """A release with the noise that is in it as it is read off a cube, bought or not, however wide; None where it cannot be."""
        for one, rows, known in self._asked(part, [cube]):
            view = _view(part.release, one, rows, known)
            made = _off(part.release, rows, view, inf) if view is not None else None
            if made is not None:
                return made[1]
        return None

    def widest(self, part: CompiledRelease) -> tuple[StoredCube, Release] | None:
        """A cube that answers a release, however wide, and the release as it would be read off it; None where none does."""
        for cube in self.names.all() if _is_of_cells(part) else ():
            read = self.would_be_read(part, cube)
            if read is not None:
                return cube, read
        return None

    def _asked(self, part: CompiledRelease, cubes: Sequence[StoredCube]) -> Iterator[tuple[Slice, RowsKey, StoredCube]]:
        """The ways to ask a release of cubes of its rows."""
        known = cubes if _is_of_cells(part) else ()
        for one in chain([Slice(part.release, ())], every_slice(part.release, named=True)) if known else ():
            rows = self._questions.rows(one.release)
            yield from ((one, rows, cube) for cube in known if cube.question == rows.question)

    def _read(self, part: CompiledRelease, rows: RowsKey, view: View, wider: float) -> Reused | None:
        release = part.release
        made = _off(release, rows, view, wider)
        if made is None:
            return None
        columns, again = made
        count = columns.rows()
        cells = columns.cells(self._coefficients(view.cube))
        table = suppressed(again, NoisyTable(combinations_of(view.shown), cells, prod(map(len, view.places))))
        read = replace(part, release=again)
        narrow = not columns.deviates_by(self._readable)
        fewest = min(cells[count.measure], default=0)
        return Reused(read, table, (view.cube.fingerprint,), _note(view, release), view.cube.name, fewest, narrow)

    def counts(self, cube: StoredCube, kept: Sequence[int]) -> Floats:
        """The released numbers of rows by the values of some axes, the last one first to change."""
        places = tuple(tuple(range(cube.shape[axis])) for axis in kept)
        return View(cube, (None,) * len(cube.keys), tuple(kept), places, (), {}).numbers(self._coefficients(cube)[0])

    def deviates(self, cube: StoredCube) -> bool:
        """True if the noise of every number of rows is at least that of `readable` units, as far as one can move it."""
        rows = cube.statistics[0].residual
        least = min(map(rows.of_marginal, rows.squared))
        return least >= (self._readable * cube.rows) ** 2

    def _coefficients(self, cube: StoredCube) -> tuple[Floats, ...]:
        """Of every cell of its statistics, in DOUBLE: what is lost of a number is far less than its noise."""
        if cube.fingerprint not in self._open:
            table = self._questions.answers.get(cube.fingerprint)
            if table is None:
                raise error(901, "a cube's answer is not stored")
            found = tuple(np.asarray(Column.of(c).values, dtype=np.float64) for c in table.cells)
            self._open[cube.fingerprint] = found
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(cube.fingerprint)
        return self._open[cube.fingerprint]


def _off(release: Release, rows: RowsKey, view: View, wider: float) -> tuple[Columns, Release] | None:
    """The columns of a release off a view, and the release with them; None where the cube has not all of them, or errs too much."""
    columns = Columns(view)
    count = columns.rows()
    if any(a.record.units for a in release.limited.block.aggregates):
        # what is shown is keys alone: of one of them, without a condition, the cube has the list itself, which has no error
        if view.allowed or len(view.kept) > 1:
            return None
        wider = inf
    for output in release.outputs:
        aggregate = next(a for a in release.limited.block.aggregates if a.name == output.name)
        if not columns.add(output, aggregate, _statistic(aggregate, rows, view.cube)):
            return None
    few = suppressions(release, count)
    if few is None or not error_in(columns.of(release), release) <= wider:
        return None
    present = count if release.present is not None else None
    return columns, columns.of(replace(release, selection=None, compared=None, present=present, suppressed=few))


def _view(release: Release, one: Slice, rows: RowsKey, cube: StoredCube) -> View | None:
    """The part of a cube that is asked for; None where it has no such keys, or not together."""
    axes = {key: axis for axis, key in enumerate(cube.keys)}
    weights: list[list[float] | None] = [None] * len(cube.keys)
    kept: list[int] = []
    places: list[list[int]] = []
    shown: list[tuple[KeyValue, ...]] = []
    for key, full in zip(release.keys, one.release.keys, strict=True):
        axis = axes.get(rows.key(full))
        if axis is None or axis in kept:
            return None
        known = (full.values if full.values is not None else cube.values_of(axis)) or ()
        listed = {value: place for place, value in enumerate(known)}
        kept.append(axis)
        shown.append(key.values if key.values is not None else known)
        places.append([listed.get(value, -1) for value in shown[-1]])
    allowed: dict[int, frozenset[int]] = {}
    for subject in one.subjects:
        axis = axes.get(rows.key(subject.key))
        if axis is None:
            return None
        known = (subject.key.values if subject.key.values is not None else cube.values_of(axis)) or ()
        if subject.key.values is None and not subject.allowed <= set(known):
            # what was not selected is on the level of all others
            return None
        places_of = frozenset(i for i, value in enumerate(known) if value in subject.allowed)
        allowed[axis] = allowed.get(axis, places_of) & places_of
    for axis, chosen in allowed.items():
        if axis not in kept:
            weights[axis] = [float(place in chosen) for place in range(cube.shape[axis])]
    view = View(cube, tuple(weights), tuple(kept), tuple(map(tuple, places)), tuple(shown), allowed)
    there = all(place >= 0 for own in places for place in own)
    return view if there and all(one.residual.answers(view.involved) for one in cube.statistics) else None


def _statistic(aggregate: Aggregate, rows: RowsKey, cube: StoredCube) -> tuple[int, Scalar | None] | None:
    """The place of the statistic of an aggregate's value, and of what it is: of the value or of that without its factor; 0 where it
    has no value, None where the cube has not."""
    if aggregate.argument is None:
        return 0, None
    places = {one.question: i for i, one in enumerate(cube.statistics)}
    held = ((places.get(rows.value(value)), value) for value in (aggregate.argument, *aggregate.bases))
    return next(((place, value) for place, value in held if place is not None), None)


def _is_of_cells(part: CompiledRelease) -> bool:
    """True if a release is of numbers of listed groups alone, as a cube's are."""
    release, block = part.release, part.release.limited.block
    return bool(release.measures) and not (release.chosen or part.bounds or block.lists or release.stands_alone)


def _note(view: View, release: Release) -> str:
    filtered = any(w is not None for w in view.weights) or bool(view.allowed)
    limited = ", each person's rows are limited before the condition" if filtered and release.limited.enforced else ""
    chosen = ", groups are of the values that it selected" if release.limited.block.selects else ""
    return (
        f"read off the cube {printable(view.cube.name)}, free: rows without a declared key of its own are left out{chosen}{limited}; "
        "write /* dpsql: cube=off */ to ask and pay anew"
    )
