"""foretelling: what a refresh would make stored dashboards pay, before it approves anything."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, replace

from dpsql.accounting.ledger import Ledger
from dpsql.core.escaping import harmless
from dpsql.dataset.closing import by_period, closed_in
from dpsql.dataset.opening import open_dataset
from dpsql.schema.by_period import key
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Schema
from dpsql.session.outdated import Outdated, outdated, text_of_outdated
from dpsql.session.refreshing import BUYER, Purchase, planned, text_of
from dpsql.session.session import Session

_NEXT = "next"
"""Stands for a version that is not approved yet."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A refresh that is not made yet. str() is "" where nothing changed.

    changed    names of the tables that would be approved anew
    purchases  what `[refresh]` lists, at the prices of the next version
    """

    schema: Schema
    changed: tuple[str, ...]
    outdated: tuple[Outdated, ...] = ()
    purchases: tuple[Purchase, ...] = ()

    def __str__(self) -> str:
        if not self.changed:
            return ""
        name, changed = printable(self.schema.name), ", ".join(map(printable, self.changed))
        lines = [f"{name}: not approved yet; changed: {changed}", text_of_outdated(self.outdated)]
        lines += [text_of(self.schema, self.purchases)] if any(one.is_paid for one in self.purchases) else []
        return harmless("\n".join(filter(None, lines)), kept="\n")

    @property
    def json(self) -> str:
        lists = {
            "outdated": [one.fields for one in self.outdated],
            "statements": [one.fields for one in self.purchases],
        }
        return json.dumps({"dataset": self.schema.name, "changed": self.changed, **lists}, indent=2)


def forecast(schema: Schema, ledger: Ledger) -> Forecast:
    """Tell what a refresh would make whom pay; approves, runs and charges nothing. The ledger is closed.

    Errors  as open_dataset; 708 where a public table changed too
    """
    opened = open_dataset(schema, ledger, approve=False)
    changed = {**opened.moved, **opened.older}
    after = {**opened.tables, **dict.fromkeys(changed, _NEXT)}
    # of those that changed, the next version keeps what is closed
    closed = {
        key(t): closed_in(schema, ledger, opened.version).get(key(t), {})
        for t in by_period(schema)
        if t.name in changed
    }
    then = replace(opened, tables=after, moved={}, older={}, periods={**opened.periods, **closed})
    with closing(Session(then, ledger, BUYER)) as session:
        found = outdated(session, ledger, opened.versions, then.versions)
        bought = planned(session, schema.refresh, schema.refresh.epsilon) if changed and schema.refresh else ()
    return Forecast(schema, tuple(changed), found, bought)
