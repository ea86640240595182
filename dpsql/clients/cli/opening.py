"""The connection that a command line asks for."""

from __future__ import annotations

import argparse
import gc
from typing import TYPE_CHECKING

import dpsql

if TYPE_CHECKING:
    from dpsql.clients.dbapi.connection import Connection


def opened(options: argparse.Namespace) -> Connection:
    """A new connection to the schema, analyst and ledger of a command line. Raises as dpsql.connect.

    Why  what modules make while they load stays for as long as the process: to look through it for garbage, then and later, takes a
         tenth of a start
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return dpsql.connect(options.schema, analyst=options.analyst, ledger=options.ledger)
    finally:
        if collects:
            if not gc.get_freeze_count():
                gc.freeze()
            gc.enable()
