"""Columns: the values of many groups or rows, in one array each.

Whole numbers are int64 where all of them fit, and Python integers where not. What is computed of them is the integer that Python's
arithmetic gives, either way: int64 is used only where the largest of the numbers prove that nothing overflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Generic, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value", covariant=True)
Array = npt.NDArray[np.generic]
Whole = npt.NDArray[np.int64] | npt.NDArray[np.object_]
"""Whole numbers: int64, or Python integers."""
Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

_KINDS: dict[type, type[np.generic]] = {int: np.int64, bool: np.bool_, float: np.float64}
_LEAST, _MOST = -(2**63), 2**63 - 1
_BLOCK = 1024


class Column(Sequence[Value], Generic[Value]):
    """Values of one column: 64-bit integers, booleans, DOUBLE, or objects such as text. It shows none of them where it is printed.

    values  whatever there is in the place of NULL
    nulls   the places of NULL; None: there is none
    coded   whether what is held is another form of the values

    >>> Column.of([5, None, -7])[1:].tolist()
    [None, -7]
    """

    __slots__ = ("nulls", "values")
    coded: ClassVar[bool] = False

    def __init__(self, values: Array, nulls: Flags | None = None) -> None:
        self.values = values
        self.nulls = nulls if nulls is not None and nulls.any() else None

    def _of(self, values: Array, nulls: Flags | None) -> Column[Value]:
        """A column of the same kind."""
        return Column(values, nulls)

    def _read(self, held: object) -> object:
        """The value that is held in this form, where `coded`."""
        return held

    @staticmethod
    def of(values: Sequence[Value]) -> Column[Value]:
        """The values as a column; a column as it is."""
        return values if isinstance(values, Column) else _column(values)

    @staticmethod
    def joined(pieces: Sequence[Column[Value]]) -> Column[Value]:
        """The values of several columns, one after another."""
        if not pieces:
            return Column(np.zeros(0, dtype=np.int64))
        kinds = {piece.values.dtype for piece in pieces}
        values = [piece.values if len(kinds) == 1 else objects(piece.tolist()) for piece in pieces]
        nulls = [np.zeros(len(piece), dtype=np.bool_) if piece.nulls is None else piece.nulls for piece in pieces]
        return Column(np.concatenate(values), np.concatenate(nulls))

    def tolist(self) -> list[Value]:
        """Python's own values; NULL as None."""
        found: list[object] = [*map(self._read, self.values.tolist())] if self.coded else self.values.tolist()
        if self.nulls is not None:
            for place in np.flatnonzero(self.nulls).tolist():
                found[place] = None
        return cast(list[Value], found)

    def take(self, places: Places | Flags) -> Column[Value]:
        """The values at some places, in their order."""
        return self._of(self.values[places], self.nulls[places] if self.nulls is not None else None)

    def without(self, places: Flags) -> Column[Value | None]:
        """The column with NULL at some places, where nothing is left of what was there."""
        nothing = np.array(None if self.values.dtype == np.object_ else 0, dtype=self.values.dtype)
        return self._of(np.where(places, nothing, self.values), places if self.nulls is None else self.nulls | places)

    def order(self) -> Places:
        """The places in the order of the values: numbers by size, text by code point, NULL last; of equal ones the first stays first.

        Why  text is compared by Python, character by character: no array type of numpy holds text of any length
        """
        null = self.nulls if self.nulls is not None else np.zeros(len(self), dtype=np.bool_)
        known = np.flatnonzero(~null)
        found = self.values[known]
        if found.dtype == np.object_:
            listed = found.tolist()
            by_value = np.array(sorted(range(len(listed)), key=listed.__getitem__), dtype=np.intp)
        else:
            by_value = np.argsort(found, kind="stable")
        return np.concatenate([known[by_value], np.flatnonzero(null)])

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.tolist())

    @overload
    def __getitem__(self, i: int) -> Value: ...
    @overload
    def __getitem__(self, i: slice) -> Column[Value]: ...
    def __getitem__(self, i: int | slice) -> Value | Column[Value]:
        if isinstance(i, slice):
            return self._of(self.values[i], self.nulls[i] if self.nulls is not None else None)
        if self.nulls is not None and self.nulls[i]:
            return cast(Value, None)
        found = self.values[i]
        return cast(Value, self._read(found.item() if isinstance(found, np.generic) else found))

    def __eq__(self, other: object) -> bool:
        return (
            self.tolist() == list(other)
            if isinstance(other, Sequence) and not isinstance(other, str)
            else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        whole = self.values if self.nulls is None and not self.coded else objects(self.tolist())
        return np.array(whole, dtype=dtype) if copy or dtype is not None else whole


class Decimals(Column[str]):
    """Decimal fractions: held as whole numbers of 10^-scale, and read as their digits.

    >>> Decimals(np.array([-5, 0, 1234]), 2).tolist()
    ['-0.05', '0.00', '12.34']
    """

    __slots__ = ("scale",)
    coded = True

    def __init__(self, values: Array, scale: int, nulls: Flags | None = None) -> None:
        super().__init__(values, nulls)
        self.scale = scale

    def _of(self, values: Array, nulls: Flags | None) -> Decimals:
        return Decimals(values, self.scale, nulls)

    def _read(self, held: object) -> str:
        digits = str(held).zfill(self.scale + 1 + (str(held)[0] == "-"))
        return f"{digits[: -self.scale]}.{digits[-self.scale :]}"


def _column(values: Sequence[Value]) -> Column[Value]:
    kinds = set(map(type, values))
    nulls = np.array([value is None for value in values], dtype=np.bool_) if type(None) in kinds else None
    kinds.discard(type(None))
    kind = _KINDS.get(next(iter(kinds))) if len(kinds) == 1 else None
    if kind is None:
        return Column(objects(values), nulls)
    known = values if nulls is None else [0 if value is None else value for value in values]
    try:
        return Column(np.array(known, dtype=kind), nulls)
    except OverflowError:
        return Column(objects(values), nulls)


def objects(values: Sequence[object]) -> npt.NDArray[np.object_]:
    """An array of Python's own values, lists among them as they are."""
    return np.fromiter(values, dtype=np.object_, count=len(values))


def ones(size: int, value: int = 0) -> Column[int]:
    """One whole number as often as asked."""
    return Column(np.full(size, value, dtype=np.int64 if _LEAST <= value <= _MOST else np.object_))


def whole(values: Sequence[int]) -> Whole:
    """Whole numbers, of which none is NULL, as an array to compute with."""
    column = Column.of(values)
    if column.nulls is not None or column.values.dtype not in (np.int64, np.object_):
        raise TypeError("whole numbers are integers, and none of them is NULL")
    return cast(Whole, column.values)


def combined(*parts: tuple[int, Sequence[int]]) -> Column[int]:
    """The sum of columns of whole numbers, each times its factor.

    Why  no part of the sum is larger than the sum of |factor| times the largest number of its column: where that is below 2^63, no
         step of int64's arithmetic overflows; elsewhere Python's integers take part, which never do

    >>> combined((1, [2**62]), (-3, [2**62])).tolist() == [-(2**63)]
    True
    """
    arrays = [(factor, whole(values)) for factor, values in parts]
    if len({len(array) for _, array in arrays}) != 1:
        raise ValueError("columns that are added up are as long as one another")
    if sum(abs(factor) * largest(array) for factor, array in arrays) > _MOST:
        arrays = [(factor, array.astype(np.object_)) for factor, array in arrays]
    found = arrays[0][1] * arrays[0][0]
    for factor, array in arrays[1:]:
        found = found + array * factor
    return Column(found) if found.dtype == np.int64 else Column.of(found.tolist())


def largest(array: Whole) -> int:
    """The largest absolute value, and 1 at least: a factor beside it has to fit itself."""
    return max(1, abs(int(array.min())), abs(int(array.max()))) if len(array) else 1


class ResultRows(Sequence[tuple[object, ...]]):
    """ResultRows of columns that are as long as one another, each made when it is read.

    >>> ResultRows((Column.of([1, 2]), Column.of(["a", None])))
    [(1, 'a'), (2, None)]
    """

    __slots__ = ("_block", "columns")

    def __init__(self, columns: tuple[Column[object], ...]) -> None:
        self.columns = columns
        self._block: tuple[int, list[tuple[object, ...]]] = (0, [])

    def __repr__(self) -> str:
        return repr(list(self))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        return zip(*(column.tolist() for column in self.columns), strict=True)

    @overload
    def __getitem__(self, i: int) -> tuple[object, ...]: ...
    @overload
    def __getitem__(self, i: slice) -> ResultRows: ...
    def __getitem__(self, i: int | slice) -> tuple[object, ...] | ResultRows:
        if isinstance(i, slice):
            return ResultRows(tuple(column[i] for column in self.columns))
        return self._row(range(len(self))[i])

    def _row(self, i: int) -> tuple[object, ...]:
        """One row; those beside it are made with it, since most who read one read the next."""
        start, block = self._block
        if not start <= i < start + len(block):
            start = i - i % _BLOCK
            block = list(ResultRows(tuple(column[start : start + _BLOCK] for column in self.columns)))
            # as one value: several threads may read one answer
            self._block = (start, block)
        return block[i - start]

    def __eq__(self, other: object) -> bool:
        return (
            list(self) == list(other) if isinstance(other, Sequence) and not isinstance(other, str) else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]
