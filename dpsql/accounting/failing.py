"""failing: failures after a charge that no declared limit explains are counted, and after some of them new statements end.

Why     whether the engine fails is an output without noise (rule 45). What is printed is proved total, so that a failure that is left
        is a fault, of the engine or of that proof: its first few bits may get out, no more before the owner has looked. An interrupt,
        a declared limit and data that changed meanwhile are no such failures
Shows   the owner the statement and the kind of failure, never a value
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dpsql.accounting.failures import MOST
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error, error
from dpsql.schema.model import Analyst, Schema

_KINDS = {"DPSQL-701": "engine", "DPSQL-903": "crossing", "DPSQL-901": "release", "DPSQL-902": "release"}


@contextmanager
def counted(ledger: Ledger, charge: int | None, analyst: Analyst) -> Iterator[None]:
    """Write into the ledger that what runs inside failed, where that counts."""
    try:
        yield
    except Error as raised:
        kind = _KINDS.get(raised.code)
        if kind is not None and charge is not None:
            with suppress(Error):  # the failure itself is what is told
                ledger.failed(charge, analyst.name, kind)
        raise


def require_few(ledger: Ledger, schema: Schema, analyst: Analyst) -> None:
    """Raise 709 where too many failures wait for the owner: of this analyst; of all where names are labels that anybody may choose."""
    if ledger.unseen_failures(analyst.name if schema.analysts is not None else None) >= MOST:
        whose = "statements of yours" if schema.analysts is not None else "statements"
        raise error(
            709,
            f"{MOST} {whose} failed after they were charged, and the owner has not looked at them; nothing was charged",
            hint="the owner runs `dpsql budget SCHEMA --failures`; stored answers are given as before",
        )
