"""The datasets that pages ask: the bundled ones, and a small clinic with dates, decimals, NULLs and three private tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dpsql.accounting.ledger import Ledger
from dpsql.core.loss import EpsilonDelta
from dpsql.dataset.opening import open_dataset
from dpsql.plan.compiled import Compiled
from dpsql.planner.parse import parse
from dpsql.schema.model import Analyst, Guard, Schema
from dpsql.schema.toml import read_schema
from dpsql.session.answer import Parameters
from dpsql.session.session import Session
from tests.notes.pages import ROOT
from tests.support.copies import unused
from tests.support.guard import forget
from tests.support.noise import ZeroNoise
from tests.support.planning import compiled_by

PLENTY = EpsilonDelta(Fraction(10**6), Fraction(1, 2))
FILES = {
    "randhie": ROOT / "examples/randhie/schema.toml",
    "grammar": ROOT / "examples/randhie/schema.toml",
    "nhefs": ROOT / "examples/nhefs/schema.toml",
    "clinic": ROOT / "tests/notes/clinic/schema.toml",
    "rows": ROOT / "tests/notes/clinic/rows.toml",
    "club": ROOT / "tests/notes/club/schema.toml",
    "market": ROOT / "tests/notes/market/schema.toml",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A dataset that answers without noise, and has a budget for all pages together."""

    schema: Schema
    session: Session

    def compile(self, sql: str, parameters: Parameters) -> Compiled:
        return compiled_by(self.session, parse(sql, parameters))


def opened(name: str) -> Opened:
    """A dataset whose guard remembers nothing of other fences."""
    found = _opened(name)
    forget(found.session)
    return found


@cache
def _opened(name: str) -> Opened:
    declared = read_schema(FILES[name])
    plenty = replace(declared, privacy=replace(declared.privacy, budget=PLENTY))
    # pages stand alone: of what an earlier one asked nobody is asked back
    plenty = replace(plenty, privacy=replace(plenty.privacy, buy_again=True))
    if name == "grammar":
        plenty = replace(plenty, guard=Guard("off"))
    # What a cut keeps depends on the ledger's secret: a fixed one, so that the pages hold one answer.
    with patch("dpsql.accounting.layout.secrets.token_bytes", bytes):
        ledger = Ledger.open(":memory:", name)
    dataset = open_dataset(plenty, ledger, approve=True)
    return Opened(dataset.schema, Session(dataset, ledger, Analyst("reader"), ZeroNoise()))


def copy_to(folder: Path) -> None:
    """Copy what a reader at the top of the repository has: the examples, without anybody's ledger, and the clinic."""
    unused(ROOT / "examples", folder / "examples")
    unused(ROOT / "tests/notes/clinic", folder / "clinic")
