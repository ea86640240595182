"""The contract of an engine, and the wall around what it returns.

The contract
    1. An answer is columns of integers, one array each: keys in canonical form, sums in quanta, of scale 0, checked (rule 48); its rows
       are in no particular order.
    2. No statement fails because of a value (rule 45): every cast, operator and function is total in the engine's dialect, by its
       limits or in the way it is written; what is neither is refused before the charge, naming the engine.
    3. Every scalar has one meaning, DuckDB's: DOUBLE to integer rounds half to even, division of integers truncates exactly, text
       compares by its bytes, a TIMESTAMP has no zone, -0.0 = 0.0, NaN is the largest number and equal to itself. Where a dialect
       differs and no exact form is known, the function is refused there.
    4. The cut of contributions keeps the same rows everywhere: it hashes the text of canonical keys.
    5. Nothing depends on partitions, order, retries or threads. All tables of a statement are read at one version, and it is the
       approved one: an engine that cannot tell without reading reads, inside the statement's own transaction (rules 61, 63).
    6. Errors are constant text. The engine's own logs get no value and no secret: what is secret is bound, or lies in a table
       (rule 49).

Several threads may ask one engine at once; each is ended by its own statement alone (core/cancellation.py). In a fork of the process
that opened it an engine refuses (rule 51).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from dpsql.core.columns import Column
from dpsql.core.errors import OperationalError, error
from dpsql.core.sqltypes import SqlType
from dpsql.engines.signature import ALL_FILES, NO_LENGTHS, Digests, FileParts, Lengths
from dpsql.engines.snapshot import Snapshot
from dpsql.plan.checked import Checked
from dpsql.plan.tables import KeyValue, PublicTable
from dpsql.schema.drafted import DraftTable
from dpsql.schema.model import Schema, Table


class RaisedError(OperationalError):
    """701 where the engine raised on what it computed, and not for want of memory, disk or time: that may be somebody's value."""


class ExactTable:
    """Exact sums per group, on their way to the release stage.

    Nothing but dpsql/release/noisy.py calls `open_exact` (tests/architecture checks it); there is no repr, no iteration, no pickle.
    """

    __slots__ = ("__keys", "__sums", "units")

    def __init__(
        self, keys: tuple[Sequence[KeyValue], ...], sums: tuple[Sequence[int], ...], units: Column[int] | None = None
    ) -> None:
        """units: noisy numbers of units, where only groups are left in which they reach the threshold; None: nothing was drawn yet"""
        self.__keys = tuple(map(Column.of, keys))
        self.__sums = tuple(map(Column.of, sums))
        self.units = units

    @classmethod
    def joined(cls, pieces: Sequence[ExactTable]) -> ExactTable:
        """The groups of several tables of the same columns, which have none in common."""
        if len(pieces) == 1:
            return pieces[0]
        units = [piece.units for piece in pieces if piece.units is not None]
        return cls(
            tuple(map(Column.joined, zip(*(piece.__keys for piece in pieces), strict=True))),
            tuple(map(Column.joined, zip(*(piece.__sums for piece in pieces), strict=True))),
            Column.joined(units) if units else None,
        )

    def __repr__(self) -> str:
        return "<ExactTable>"

    def __reduce__(self) -> str:
        raise TypeError("an ExactTable cannot be copied or pickled")

    def open_exact(self) -> tuple[tuple[Column[KeyValue], ...], tuple[Column[int], ...]]:
        """(keys, sums), rows in the engine's order. For the release stage alone."""
        return self.__keys, self.__sums


Sieve = Callable[[ExactTable], ExactTable]
"""Of some groups those that are released."""


def answer(batches: Iterable[Sequence[Sequence[object]]], keys: int, sums: int, sieve: Sieve | None) -> ExactTable:
    """The answer of an engine, of columns that come batch by batch, one at least; what a sieve leaves of a batch is all that is kept
    of it. Raises 901, 903 where it is not what was planned."""
    pieces = []
    for columns in batches:
        if len(columns) != keys + sums:
            raise error(901, "a result does not have the columns that were planned")
        piece = ExactTable(tuple(map(key_column, columns[:keys])), tuple(map(integers, columns[keys:])))
        pieces.append(piece if sieve is None else sieve(piece))
    return ExactTable.joined(pieces)


_DIGITS = "-?[0-9]{1,39}"
"""As long as the largest HUGEINT."""
_WHOLE = re.compile(_DIGITS)
_WHOLE_COLUMN = re.compile(rf"{_DIGITS}(?:\n{_DIGITS})*")
_AT_ONCE = 2**16
"""Texts that are read together: one call is faster than one a value, and a copy of all of them would be large."""


def key_column(column: Sequence[object]) -> Column[KeyValue]:
    """A column of group keys: integers, booleans, text and NULL. Raises 903 for anything else."""
    found = Column.of(column)
    kind = found.values.dtype.kind
    if kind not in "ib" and (kind != "O" or set(map(type, found)) - {int, str, bool, type(None)}):
        raise error(903, "a group key that crossed from the engine is neither an integer, a boolean nor text")
    return found  # type: ignore[return-value]


def integers(column: Sequence[object]) -> Column[int]:
    """A column of sums as integers [quanta]: NULL, the sum of nothing, is 0.

    Why     the noise is made for quanta: of a sum that is in other ones by mistake, it would hide too little
    Raises  903 for what is no integer of scale 0, or has more digits than any sum (rule 48)

    >>> integers(["-5", None, "170141183460469231731687303715884105727"]).tolist()
    [-5, 0, 170141183460469231731687303715884105727]
    """
    found = Column.of(column)
    if found.values.dtype == np.int64:
        return Column(found.values if found.nulls is None else np.where(found.nulls, 0, found.values))
    return Column.joined([Column.of(_read(found[i : i + _AT_ONCE])) for i in range(0, len(found), _AT_ONCE)])


def _read(column: Sequence[object]) -> list[int]:
    values = list(column)
    if set(map(type, values)) == {str}:
        joined = "\n".join(values)  # type: ignore[arg-type]
        found = joined.split("\n")
        if len(found) == len(values) and _WHOLE_COLUMN.fullmatch(joined):
            return list(map(int, found))
    return [_integer(value) for value in values]


def _integer(value: object) -> int:
    match value:
        case None:
            return 0
        case int() if not isinstance(value, bool):
            return value
        case str() if _WHOLE.fullmatch(value):
            return int(value)
        case _:
            raise error(903, "a sum that crossed from the engine is not an integer")


class Dialect(Protocol):
    """Words that an engine is spoken to in.

    engine  its name, in refusals
    guards    whether an operator that is not proved total can be guarded in place; where not, it is refused
    verbatim  whether a checked statement is written as it is, whatever its constants are
    """

    @property
    def engine(self) -> str: ...

    @property
    def guards(self) -> bool: ...

    @property
    def verbatim(self) -> bool: ...

    def write(self, statement: Checked) -> str:
        """A checked statement in the engine's own words. Raises 104 naming what the engine has not, and the engine."""
        ...

    # the owner's questions, which are written in what all engines have but for these

    def relation(self, table: str) -> str:
        """A declared table, or one of dpsql's own beside it, in FROM."""
        ...

    def is_nan(self, column: str) -> str: ...

    def is_infinite(self, column: str, sqltype: SqlType) -> str: ...

    def measured(self, column: str, sqltype: SqlType) -> str:
        """The value in its domain's unit, dates in days and timestamps in microseconds; NULL where it is infinite or NaN."""
        ...

    def hashed(self, columns: Sequence[str]) -> str:
        """An aggregate that reads every value of some columns."""
        ...


class Identity(Protocol):
    """By what contents are known again."""

    def keyed(self, secret: bytes, structure: str) -> str:
        """Text that stands for these contents and what is declared about them, found without reading them; "" where nothing can say."""
        ...

    def holds(self) -> bool:
        """True while the contents are these, as far as is known without reading them."""
        ...

    def digests(self, secret: bytes, lengths: Lengths = NO_LENGTHS) -> Digests:
        """Bytes that change with any byte of the contents, and by table with any of its own or of what is stored with it; the engine
        reads these from here on, and no other. Reads everything.

        secret   the key of the hashes, where they would say something without one
        lengths  as many first bytes of files are told apart, where there are more
        Raises  OSError where not everything can be read
        """
        ...


Find = Callable[[Identity], Snapshot | None]
"""Given by what the contents are known, the prepared snapshot to read private tables from."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Closed periods, by their names, whose rows are those of a file that `copy` wrote before (rule 62)."""

    file: Path
    periods: tuple[str, ...]


class Engine(Protocol):
    """Runs checked SQL on the private data; opened by a EngineKind. See the contract above.

    tables        by name, with all columns, those of public tables too
    shared_views  DuckDB's SQL that shows public tables to the sandbox, and
    shared_files  all files that these read; both empty where public tables have no files of their own
    Errors        701 with constant text, a RaisedError where a value may be the reason, 702 when the data is not the version that was
                  opened, 703, 710 and 711 when the statement is ended, 802 in a fork; 903 where something else crosses than keys and
                  integers
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def tables(self) -> Mapping[str, Table]: ...

    @property
    def signature(self) -> Identity: ...

    @property
    def shared_views(self) -> tuple[str, ...]: ...

    @property
    def shared_files(self) -> tuple[Path, ...]: ...

    def limit(self, memory: int | None) -> None:
        """From here on it is open to statements, and holds this much memory at most [bytes]. Before, all it reads is of one version."""
        ...

    def exact(
        self,
        sql: str,
        keys: int,
        sums: int,
        bound: Sequence[PublicTable] = (),
        cut: str = "",
        sieve: Sieve | None = None,
    ) -> ExactTable:
        """Run one statement whose first `keys` columns are group keys and whose next `sums` columns are integers of scale 0 (as
        text, or of an integer type).

        bound   public tables that this statement alone sees, under their unqualified names; a declared table of the same
                name is hidden from it
        cut     the secret that the parameter `$cut` of the statement stands for; it is bound, and enters no text
        sieve   is given the groups batch by batch as they come, and what it leaves of them is the answer
        """
        ...

    def owner_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Exact rows, for the owner's check and about public tables; never on an analyst's behalf. Raises 707, 702."""
        ...

    def show_added(self, table: Table, since: Mapping[str, int], columns: Sequence[str]) -> Table | None:
        """Show the rows that were added to a private table as a table of another name beside it, for the owner's questions, before it
        is limited, and some columns of all its rows as `grouped` names them; None where added rows cannot be told from the others.
        Raises 707, 901 where no table has files.

        since    by the name of each file that has such rows, the bytes before them
        columns  those of all rows: see structure.py
        """
        ...

    def public_table(self, table: str) -> PublicTable:
        """All rows of a public table, ready for the sandbox. Raises 707, 702."""
        ...

    def copy(self, schema: Schema, table: Table, file: Path, kept: Kept | None = None) -> None:
        """Write a private table's rows into a file that it was opened for; with their units and sorted by these, where people are
        units. Raises 704, 702, 703.

        kept  rows of a table with periods that are taken from an earlier copy
        """
        ...

    @property
    def is_pinned(self) -> bool:
        """True if private tables are known by what changes with any byte: read from a prepared copy of ours, or compared with a
        checksum inside each statement. Path, size, times and inode of a file are no such thing (rule 63)."""
        ...

    def unchanged(self) -> bool:
        """True while the contents that are read are those that were opened, as far as is known without reading them."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """A place where units are kept, as a ledger's mark names it.

    text    tells it from any other place
    beside  the file that a mark may stand beside; None where there is none
    """

    text: str
    beside: Path | None = None


class EngineKind(Protocol):
    """One kind of engine, named by the scheme of a dataset's source: what an entry point of the group `dpsql.engines` holds, under its
    scheme.

    version  in which values are read as the same: facts that were verified in another one are not believed
    """

    @property
    def version(self) -> str: ...

    def begin(
        self,
        schema: Schema,
        find: Find,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Engine:
        """Reach the declared tables. It answers the owner's questions, and nothing else before it is limited. Raises 707, 804.

        outputs  files that `copy` may write
        only     by table that is read from files of its own, those to read, or their first bytes; its contents give such tables
        """
        ...

    def places(self, schema: Schema) -> tuple[UnitPlace, ...]:
        """The places of the units. Raises 707."""
        ...

    def describe(self, source: str, *, sniff: bool = False) -> tuple[str, str, list[DraftTable]]:
        """(name, source, tables) of a source for a first schema: names and types alone. Raises 707.

        sniff  where values have no types of their own, take these from the values
        """
        ...

    def require_copies(self, schema: Schema) -> None:
        """Raise 801 where the engine makes no prepared snapshot."""
        ...
