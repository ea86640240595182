"""Spending as it stands in the ledger, as tables for the server's page: everything for the owner, and for an analyst their own."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.accounting.cubes import CUBES
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.named import Names
from dpsql.accounting.reporting import report
from dpsql.accounting.spending import charge_row, spender_row, total_row
from dpsql.clients.dbapi.packed import Json, pack
from dpsql.clients.server.frames import Message
from dpsql.core.escaping import harmless
from dpsql.schema import spent
from dpsql.schema.model import Schema
from dpsql.session.cubes import numbers_of
from dpsql.session.session import Session

MOST_CHARGES = 20_000
"""The newest charges that the page draws."""
MOST_LISTED, LONGEST_STATEMENT = 25, 300
_TITLES = {
    "budget": {"holder": "", "epsilon": "total epsilon", "spent_epsilon": "spent", "remaining_epsilon": "left"},
    "analysts": {"analyst": "analyst", "epsilon": "cap", "spent_epsilon": "spent", "remaining_epsilon": "left", "charges": "charges"},
    "ledger": {"id": "charge", "time": "time", "analyst": "analyst", "epsilon": "epsilon", "statement": "statement"},
}  # fmt: skip
"""The columns that are shown of what was spent, and their titles."""
Rows = Sequence[Sequence[object]]


def of_owner(schema: Schema, ledger: Ledger, session: Session) -> Message:
    """Budget, analysts, charges, failures, versions and cubes of one dataset."""
    found = report(schema, ledger)
    versions = session.execute("SHOW VERSIONS").rows
    failures = [(one.charge, one.time, one.analyst, one.kind) for one in found.failures]
    return _told(
        schema,
        [total_row(one, schema.privacy) for one in found.totals],
        [spender_row(one) for one in found.spenders],
        [charge_row(one) for one in found.charges],
        [
            _table("versions of the data", ("table", "version", "as of", "period"), versions),
            _table("cubes", ("cube", "keys", "numbers", "epsilon", "made"), _cubes(schema, ledger)),
            _table("failures after the charge, not looked at yet", ("charge", "time", "analyst", "kind"), failures),
        ],
    )


def of_analyst(schema: Schema, analyst: str, session: Session) -> Message:
    """The same as the analyst's own SQL shows it: their charges, and the totals that apply to them."""
    budget = session.execute("SELECT * FROM dpsql.budget").rows
    spenders = session.execute("SELECT * FROM dpsql.analysts").rows
    ledger = session.execute("SELECT * FROM dpsql.ledger ORDER BY id").rows
    own = [row for row in spenders if row[0] == analyst], [row for row in ledger if row[2] == analyst]
    return _told(schema, budget, *own, [])


def _told(schema: Schema, budget: Rows, spenders: Rows, ledger: Rows, more: list[Json]) -> Message:
    charges = _shown("ledger", ledger[-MOST_CHARGES:])
    return {
        "dataset": schema.name,
        "promise": schema.privacy.accounting,
        "window": schema.privacy.window,
        "charges": [[str(time), str(who), pack(epsilon)] for _, time, who, epsilon, _ in charges],
        "tables": [
            _table("budget", list(_TITLES["budget"].values()), _shown("budget", budget)),
            _table("by analyst", list(_TITLES["analysts"].values()), _shown("analysts", spenders)),
            _table("charges, newest first", list(_TITLES["ledger"].values()), charges[: -MOST_LISTED - 1 : -1]),
            *more,
        ],
    }


def _shown(name: str, rows: Rows) -> Rows:
    places = [at for at, (column, _) in enumerate(spent.TABLES[name]) if column in _TITLES[name]]
    return [[row[at] for at in places] for row in rows]


def _table(title: str, columns: Sequence[str], rows: Rows) -> Json:
    return {
        "title": title,
        "columns": list(columns),
        "rows": [[_cell(name, value) for name, value in zip(columns, row, strict=True)] for row in rows],
    }


def _cell(column: str, value: object) -> Json:
    if column in ("time", "as of", "made"):
        return str(value)[:16].replace("T", " ")
    if column == "statement":
        text = harmless(" ".join(str(value).split()))
        return text if len(text) <= LONGEST_STATEMENT else text[: LONGEST_STATEMENT - 3] + "..."
    return pack(value)


def _cubes(schema: Schema, ledger: Ledger) -> Rows:
    """Everybody's cubes: where answers are not shared each analyst has their own, and sees no other."""
    whose = [""] if schema.privacy.shared_answers else [one.name for one in schema.analysts or ()]
    found = sorted((cube for name in whose for cube in Names(ledger, CUBES, name).all()), key=lambda cube: cube.name)
    return [(c.name, ", ".join(c.told), ", ".join(numbers_of(c)), float(c.price[0]), c.time) for c in found]
