"""Packed history decides as its origin does, and both as the rule says; what was edited is read anew, never skipped."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset.opening import open_dataset
from dpsql.guard import memory
from dpsql.guard.cells import HASH_BITS, Fine, Keys, cells
from dpsql.guard.history import BlockQuestion, History, PastAnswers
from dpsql.guard.leaving_out import Policy
from dpsql.guard.thresholds import are_apart
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.history import guard_report
from dpsql.session.opening import ledger_identity, open_session
from tests.support.copies import copied
from tests.support.noise import ZeroNoise

POLICY = Policy(20, 3.0)
READABLE = 10.0
FINE: tuple[Fine, ...] = ((("", ()),), (("", ()), ("t.x", ("0.5",))), (("", ()), ("t.x", ("0.5001",))))
SPREADS = (0.5, 6.0, 9.0, 12.0)
Asked = list[BlockQuestion]
Cell = tuple[str, bytes]


# --- random histories against the rule ----------------------------------------------------------------------------


def block(chance: random.Random) -> BlockQuestion:
    """A block of a few ranges of units, some without a few of them."""
    found: list[tuple[str, Keys]] = []
    for _ in range(chance.choice([1, 1, 2, 5])):
        low, many = chance.choice([0, 0, 100, 300]), chance.choice([3, 8, 60, 200])
        units = np.arange(low, low + many, dtype=np.uint32)
        left = np.delete(units, [chance.randrange(many)] if chance.random() < 0.3 else [])
        keys = (left << np.uint32(HASH_BITS)) | np.uint32(chance.choice([1, 1, 2]))
        found.append((chance.choice(["adds", "adds", "max of x"]), keys))
    made = cells(found, [chance.choice(FINE) for _ in found])
    return BlockQuestion(made, chance.choice(SPREADS), 100, chance.choice([1, len(found)]))


def statement(chance: random.Random) -> Asked:
    return [block(chance) for _ in range(chance.choice([1, 1, 2]))]


def released(every: Sequence[Asked]) -> Iterator[tuple[Cell, Keys, float, Fine]]:
    """Each answer that is compared: its cell, the precision, and what tells it apart."""
    for one in (one for asked in every for one in asked):
        for place, kind in enumerate(one.cells.kinds):
            keys = one.cells.load(place)
            if one.groups == 1 or len(keys) >= POLICY.k / POLICY.scale:
                yield (kind, keys.tobytes()), keys, 1 / one.spread**2, one.cells.fine[place]


def variances(every: Sequence[Asked]) -> dict[Cell, float]:
    precisions: dict[Cell, float] = {}
    for cell, _, precision, _ in released(every):
        precisions[cell] = precisions.get(cell, 0.0) + precision
    return {cell: 1 / precision for cell, precision in precisions.items()}


def by_the_rule(history: Sequence[Asked], now: Asked) -> bool:
    """Tell whether a statement is refused, without any short cut."""
    keys = {cell: found for cell, found, _, _ in released([*history, now])}
    own = {cell: variance for cell, variance in variances([*history, now]).items() if cell in variances([now])}
    for cell, variance in own.items():
        for other, theirs in (*variances(history).items(), *own.items()):
            units = len(np.unique(np.setxor1d(keys[cell], keys[other]) >> np.uint32(HASH_BITS)))
            is_pair = other[0] == cell[0] and 0 < units < max(len(keys[cell]), len(keys[other]))
            if is_pair and POLICY.is_few(units) and variance + theirs < READABLE**2:
                return True
        if 2 * variance < READABLE**2 and not POLICY.is_few(len(keys[cell])):
            ones, others = ({fine for c, _, _, fine in released(e) if c == cell} for e in ([now], [*history, now]))
            if any(are_apart(one, other, len(keys[cell])) for one in ones for other in others):
                return True
    return False


def remembered(history: Sequence[Asked]) -> History:
    def load(charge: int, place: int) -> Keys:
        return [one.cells.load(i) for one in history[charge - 1] for i in range(len(one.cells))][place]

    return History(POLICY, READABLE, load)


def told(found: History, history: Sequence[Asked]) -> History:
    for charge, asked in enumerate(history, 1):
        found.remember(asked, charge)
    return found


@pytest.mark.parametrize("seed", range(200))
@pytest.mark.few(50)
def test_random_histories_are_decided_by_the_rule_and_alike_when_packed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("dpsql.guard.sketches._MANY", chance.choice([1, 64]))
    history = [statement(chance) for _ in range(chance.randrange(12))]
    whole, packed = told(remembered(history), history), remembered(history)
    begun = 0
    while begun < len(whole):
        # the parts of a history, each packed by itself
        part = remembered(history)
        part.add(whole.since(begun))
        end = chance.randint(begun + 1, len(whole))
        shorter = remembered(history)
        for charge, asked in enumerate(history, 1):
            if len(shorter) < end:
                shorter.remember(asked, charge)
        packed.add(PastAnswers.unpacked(shorter.since(begun).packed()))
        begun = len(shorter)
    for _ in range(6):
        now = statement(chance)
        found = whole.conflict(now)
        assert found == packed.conflict(now)
        assert (found is not None) == by_the_rule(history, now)
    assert whole.since(0).packed() == packed.since(0).packed()


def test_random_histories_are_refused_and_let_through() -> None:
    found = [by_the_rule([statement(c) for _ in range(5)], statement(c)) for c in map(random.Random, range(60))]
    assert 10 < sum(found) < 50


@pytest.mark.parametrize("cut", [1, 8, 200])
def test_bytes_that_are_missing_are_told(cut: int) -> None:
    history = [statement(random.Random(3)) for _ in range(4)]
    body = told(remembered(history), history).since(0).packed()
    for other in (body[:-cut], body + b"\0" * cut, body[cut:], body[:cut]):
        with pytest.raises((ValueError, TypeError, LookupError)):
            PastAnswers.unpacked(other)


# --- in the ledger ------------------------------------------------------------------------------------------------

PAIR = ["SELECT COUNT(*) FROM person WHERE income < 15000", "SELECT COUNT(*) FROM person WHERE income < 15010"]
OTHERS = [f"SELECT COUNT(*) FROM person WHERE site = {site}" for site in range(1, 5)]


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schema:
    monkeypatch.setattr("dpsql.guard.guarding.LATE", 1)
    return read_schema(copied(tmp_path))


def ask(schema: Schema, sql: str, analyst: str | None = "ann") -> str:
    """The outcome of a statement that is the first of a process."""
    with closing(open_session(schema, analyst, schema.folder / "ledger", ZeroNoise())) as session:
        try:
            session.execute(f"/* dpsql: epsilon=0.5 */ {sql}")
        except Error as problem:
            return problem.code
        return "answered"


def packs(schema: Schema) -> list[tuple[str, int, int, bytes]]:
    with closing(sqlite3.connect(schema.folder / "ledger")) as connection:
        return connection.execute("SELECT whose, since, last, body FROM packed ORDER BY last").fetchall()


def edit(schema: Schema, sql: str) -> None:
    with closing(sqlite3.connect(schema.folder / "ledger")) as connection, connection:
        assert connection.execute(sql).rowcount > 0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose ledger holds four statements, packed in parts; one of the pair stands in the first."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dpsql.guard.guarding.LATE", 1)
        schema = read_schema(copied(folder))
        assert [ask(schema, sql) for sql in (PAIR[0], *OTHERS)] == ["answered"] * 5
        assert ask(schema, "SELECT COUNT(*) FROM person WHERE site = 6") == "answered"
        assert packs(schema)[0][1] == 0 and packs(schema)[-1][2] == 5
    yield schema.folder


@pytest.fixture
def history(schema: Schema, kept: Path) -> Schema:
    """The same for a test of its own: the ledger is that of the copied data."""
    shutil.copytree(kept, schema.folder, dirs_exist_ok=True)
    return schema


def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The charges whose records are read from now on."""
    charges: list[int] = []
    plain = memory.Memory.past
    monkeypatch.setattr(memory.Memory, "past", lambda self, row: (charges.append(row.charge), plain(self, row))[1])
    return charges


def test_what_is_packed_is_not_read_again_and_decides(history: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    charges = read(monkeypatch)
    assert ask(history, PAIR[1]) == "DPSQL-602"
    assert charges == [6]
    with closing(Ledger.open(history.folder / "ledger", ledger_identity(history))) as ledger:
        assert ledger.verify() == 6


@pytest.mark.parametrize(
    "fault",
    [
        "UPDATE packed SET body = substr(body, 1, length(body) - 8)",
        "UPDATE packed SET body = zeroblob(length(body))",
        "UPDATE packed SET body = x''",
        "UPDATE packed SET body = 'text'",
        "UPDATE packed SET digest = x'00'",
        "UPDATE packed SET since = 0 WHERE since > 0",
        "UPDATE packed SET since = since + 1 WHERE since = 0",
        "UPDATE packed SET last = last + 1 WHERE last = 5",
        "UPDATE packed SET form = 'another'",
        "DELETE FROM packed WHERE since = 0",
        "DELETE FROM packed",
    ],
)
@pytest.mark.few(3)
def test_what_is_not_as_it_was_packed_is_read_anew(history: Schema, fault: str) -> None:
    edit(history, fault)
    assert ask(history, PAIR[1]) == "DPSQL-602"
    assert ask(history, "SELECT COUNT(*) FROM person WHERE income < 20000") == "answered"
    assert ask(history, PAIR[1]) == "DPSQL-602", "what was packed since decides too"


def test_what_is_packed_of_another_history_is_not_taken_for_it(history: Schema) -> None:
    """Whole, and of this ledger: but of the charges after another one."""
    body = packs(history)[-1][3]
    edit(history, "DELETE FROM packed WHERE since = 0")
    with closing(sqlite3.connect(history.folder / "ledger")) as connection, connection:
        connection.execute("UPDATE packed SET since = 0, body = ?", (body,))
    assert ask(history, PAIR[1]) == "DPSQL-602"


def test_other_sample_units_are_asked_anew(history: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    path = history.folder / "schema.toml"
    path.write_text(path.read_text().replace("units   = 6000", "units   = 5900"))
    changed, charges = read_schema(path), read(monkeypatch)
    assert ask(changed, PAIR[1]) == "DPSQL-602"
    assert charges == [1, 2, 3, 4, 5, 6] and [since for _, since, *_ in packs(history)] == [0]


def test_another_number_of_people_that_are_few_is_another_packing(
    history: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    charges = read(monkeypatch)
    assert ask(replace(history, guard=replace(history.guard, k=21)), PAIR[1]) == "DPSQL-602"
    assert charges == [1, 2, 3, 4, 5, 6]


def test_what_is_forgotten_is_in_no_packing(history: Schema) -> None:
    with closing(Ledger.open(history.folder / "ledger", ledger_identity(history))) as ledger:
        guard_report(history, ledger, "1")
    assert ask(history, PAIR[1]) == "answered"


def test_the_history_of_another_analyst_is_none_of_it(schema: Schema) -> None:
    path = schema.folder / "schema.toml"
    path.write_text(path.read_text() + "\n[analysts.ann]\n\n[analysts.bob]\n")
    both = read_schema(path)
    with closing(Ledger.open(schema.folder / "ledger", ledger_identity(both))) as ledger:
        open_dataset(both, ledger, approve=True).engine.close()
    of_bob = [sql.replace("site", "plan") for sql in OTHERS[:3]]
    assert [ask(both, sql, "ann") for sql in (PAIR[0], *OTHERS[:2])] == ["answered"] * 3
    assert [ask(both, sql, "bob") for sql in of_bob] == ["answered"] * 3
    assert {whose for whose, *_ in packs(both)} == {"ann", "bob"}
    assert (ask(both, PAIR[1], "ann"), ask(both, PAIR[1], "bob")) == ("DPSQL-602", "answered")


def test_two_processes_that_pack_in_turn_lose_nothing(schema: Schema) -> None:
    path = schema.folder / "ledger"
    with (
        closing(open_session(schema, "ann", path, ZeroNoise())) as one,
        closing(open_session(schema, "ann", path, ZeroNoise())) as other,
    ):
        for sql, session in zip((PAIR[0], *OTHERS), (one, other, one, one, other), strict=True):
            session.execute(f"/* dpsql: epsilon=0.5 */ {sql}")
        ends = [(since, last) for _, since, last, _ in packs(schema)]
        assert ends[0][0] == 0 and all(a[1] == b[0] for a, b in pairwise(ends))
    assert ask(schema, PAIR[1]) == "DPSQL-602"
