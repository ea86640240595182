"""A clinic whose visits have periods, its days, and how a day of it is written, approved and asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.accounting import layout
from dpsql.accounting.ledger import Ledger
from dpsql.dataset import owner
from dpsql.mechanisms.source import NoiseSource
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.unit.engines.clinic_files import HEAD, declare

LIMIT = 2
"""[rows] of a person in a month."""
Visit = tuple[int, str, int]
"""Person, day, cost."""

TEXT = (
    HEAD.format(source=".").replace("epsilon = 4.0", "epsilon = 400.0")
    + f"""
[guard]
mode = "off"
[analysts.ann]
[tables.person]
source = "person.csv"
key = ["person_id"]
[tables.person.columns]
person_id = {{ type = "BIGINT" }}
ward = {{ type = "INTEGER", domain = [1, 2] }}

[tables.visit]
source = "visit.csv"
references = {{ person_id = "person.person_id" }}
max_rows_per_unit = {LIMIT}
period = "seen"
every = "month"
[tables.visit.columns]
person_id = {{ type = "BIGINT" }}
seen = {{ type = "DATE", bounds = [2024-01-01, 'today'] }}
cost = {{ type = "INTEGER", bounds = [0, 50] }}
"""
)


class Clock:
    """The time of the ledger."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.day = "2024-02-10"
        patched.setattr(layout, "now", lambda: f"{self.day}T09:30:00.000+00:00")


def put(folder: Path, visits: Iterable[Visit], people: Iterable[tuple[int, int]] = ((1, 1), (2, 2), (3, 1))) -> None:
    (folder / "person.csv").write_text("person_id,ward\n" + "".join(f"{i},{ward}\n" for i, ward in people))
    rows = "".join(f"{person},{seen},{cost}\n" for person, seen, cost in visits)
    (folder / "visit.csv").write_text(f"person_id,seen,cost\n{rows}")


def begun(folder: Path, visits: Iterable[Visit], text: str = TEXT) -> None:
    """The clinic, checked."""
    folder.mkdir(exist_ok=True)
    declare(folder, text)
    put(folder, visits)
    approved(folder, owner.check)


def approved(folder: Path, verb: Callable[..., object], *more: object) -> object:
    schema = read_schema(folder / "schema.toml")
    with closing(Ledger.open(folder / "ledger", ledger_identity(schema))) as ledger:
        return verb(schema, ledger, *more)


def refreshed(folder: Path, revise: Sequence[str] = ()) -> owner.RefreshReport:
    found = approved(folder, owner.refresh, revise)
    assert isinstance(found, owner.RefreshReport)
    return found


def opened(folder: Path, noise: NoiseSource | None = None) -> Session:
    return open_session(folder / "schema.toml", "ann", folder / "ledger", noise=noise)
