"""outdated: the stored statements that another version of the data makes somebody pay again, and for how much.

All of it is read off the ledger and the declarations: which statements were charged, which tables they are about, and which of
these changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.versions import TableVersions
from dpsql.core.errors import Error
from dpsql.core.escaping import harmless
from dpsql.core.wording import counted
from dpsql.dataset.opening import table_versions
from dpsql.mechanisms.prices import nominal
from dpsql.session.planned import About
from dpsql.session.session import Session

MOST_READ = 500
"""Charged statements that are looked at, the latest first."""
MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Outdated:
    """A statement that was stored of the version before, and is not of the one after it.

    price   [nats] that it costs whoever asks it again: the most that it was charged before
    listed  whether the owner lists it for a refresh to buy
    """

    statement: str
    price: Fraction
    listed: bool

    @property
    def fields(self) -> dict[str, object]:
        return {"statement": self.statement, "epsilon": float(self.price), "listed": self.listed}


def outdated(session: Session, ledger: Ledger, before: TableVersions, after: TableVersions) -> tuple[Outdated, ...]:
    """Statements that were stored while tables had some versions, and are not while they have others, the latest first."""
    return tuple(_outdated(session, ledger, before, after)) if before != after else ()


def text_of_outdated(found: Collection[Outdated]) -> str:
    """Text for the owner; "" where there is none."""
    if not found:
        return ""
    count, unlisted = len(found), [one for one in found if not one.listed]
    lines = [
        f"stored no longer: {counted(count, 'statement')}, epsilon {_whole(found)} together when they are asked again"
    ]
    lines += [f"  epsilon {float(one.price):.6g}: {on_one_line(one.statement)}" for one in list(found)[:MOST_SHOWN]]
    lines += [f"  and {count - MOST_SHOWN:,} more"] if count > MOST_SHOWN else []
    if 0 < len(unlisted) < count:
        lines += [f"of these not listed: {len(unlisted):,}, epsilon {_whole(unlisted)}, which whoever asks pays"]
    return harmless("\n".join(lines), kept="\n")


def _whole(found: Collection[Outdated]) -> str:
    return f"{float(sum((one.price for one in found), Fraction(0))):.6g}"


def on_one_line(text: str) -> str:
    """So that no text of an analyst's looks like a line of the list."""
    return " ".join(text.split())


def _outdated(session: Session, ledger: Ledger, before: TableVersions, after: TableVersions) -> Iterator[Outdated]:
    """The same, one by one.

    Why  a statement was stored if what it is about had, when it was charged last, the versions that it had before
    """
    purchases = session.schema.refresh
    found = (_about(session, sql) for sql in (purchases.statements if purchases is not None else ()))
    listed = {about.written for about in found if about is not None}
    charges: dict[str, list[tuple[str, Fraction]]] = {}
    for entry in reversed(ledger.history()):
        if entry.statement in charges or len(charges) < MOST_READ:
            charges.setdefault(entry.statement, []).append((entry.version, nominal(entry.loss)))
    for statement, paid in charges.items():
        about, then = _about(session, statement), table_versions(ledger, paid[0][0], session.schema)
        changed = [read for read in about.reads if before.of(*read) != after.of(*read)] if about is not None else []
        if about is not None and changed and all(then.of(*read) == before.of(*read) for read in about.reads):
            yield Outdated(statement, max(price for _, price in paid), about.written in listed)


def _about(session: Session, sql: str) -> About | None:
    """None where the statement cannot be asked with this schema."""
    try:
        return session.about(sql)
    except Error:
        return None
