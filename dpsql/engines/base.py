"""Engine, as a protocol, and the wall around what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpsql.core.errors import OperationalError
from dpsql.plan.tables import KeyValue, PublicTable


class RaisedError(OperationalError):
    """701 where the engine raised on what it computed, and not for want of memory, disk or time: that may be somebody's value."""


class ExactTable:
    """Exact sums per group, on their way to the release stage.

    Nothing but dpsql/release/noisy.py calls `open_exact` (tests/architecture checks it); there is no repr, no iteration, no pickle.
    """

    __slots__ = ("__keys", "__sums")

    def __init__(self, keys: tuple[list[KeyValue], ...], sums: tuple[list[int], ...]) -> None:
        self.__keys = keys
        self.__sums = sums

    def __repr__(self) -> str:
        return "<ExactTable>"

    def __reduce__(self) -> str:
        raise TypeError("an ExactTable cannot be copied or pickled")

    def open_exact(self) -> tuple[tuple[list[KeyValue], ...], tuple[list[int], ...]]:
        """(keys, sums), one list per column, rows in the engine's order. For the release stage alone."""
        return self.__keys, self.__sums


class Engine(Protocol):
    """Runs SQL that the planner printed on the private data."""

    def exact(self, sql: str, keys: int, sums: int, bound: Sequence[PublicTable] = (), cut: str = "") -> ExactTable:
        """Run one statement whose first `keys` columns are group keys and whose next `sums` columns are integers of scale 0 (as
        text, or of an integer type).

        bound   public tables that this statement alone sees, under their unqualified names; a declared table of the same
                name is hidden from it
        cut     the secret that the parameter `$cut` of the statement stands for; it is bound, and enters no text
        Raises  OperationalError 701 with constant text, a RaisedError where a value may be the reason, 702 when the data is not the
                version that was opened, 703, 710 and 711 when the statement is ended; InternalError 903 where something else crosses
                than keys and integers
        """
        ...

    def close(self) -> None: ...
