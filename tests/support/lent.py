"""The declared tables without rows, lent by one session to the next over the same declarations: a database costs more than a statement.

Nothing of a session stays in them: what was spent is loaded anew by whoever asks for it, and what a statement loads is dropped with it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable

from dpsql.postprocess.declared import DeclaredTables
from dpsql.schema.model import Schema

MOST = 12
"""Declarations of which tables wait, each a few megabytes."""
_WAITING: OrderedDict[Hashable, list[Lent]] = OrderedDict()


class Lent(DeclaredTables):
    """Tables that wait for the next session once theirs is closed."""

    def __init__(self, schema: Schema, memory: int | None, rows: int | None, declared: Hashable) -> None:
        super().__init__(schema, memory, rows)
        self._declared = declared
        self._is_lent = True

    def lend(self) -> None:
        """To a session that knows nothing of what the last asked."""
        self._is_lent = True
        self._described.clear()

    def close(self) -> None:
        # a fork of the process may not use them, and a database that was never made is none
        if self._is_lent and self._process == os.getpid():
            self._is_lent = False
            _WAITING.setdefault(self._declared, []).append(self)
            _WAITING.move_to_end(self._declared)
            while len(_WAITING) > MOST:
                for one in _WAITING.popitem(last=False)[1]:
                    one.end()

    def end(self) -> None:
        super().close()


def declared_tables(schema: Schema, memory: int | None = None, rows: int | None = None) -> Lent:
    """Tables that wait, or new ones; called in place of DeclaredTables."""
    tables = tuple((t.name, tuple((c.name, str(c.sqltype), c.nullable) for c in t.columns)) for t in schema.tables)
    declared = schema.name, tables, memory, rows
    waiting = _WAITING.get(declared, [])
    while waiting:
        found = waiting.pop()
        if found._process == os.getpid():
            found.lend()
            return found
    return Lent(schema, memory, rows, declared)
