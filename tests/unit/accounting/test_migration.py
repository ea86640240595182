"""Ledgers of earlier layouts, made by the programs of their time: opening brings them to this one, and nothing spent is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from dpsql.accounting import Ledger, chain, layout, migration, rows, store
from dpsql.accounting.answers import Answers
from dpsql.accounting.vectors import Vectors
from dpsql.accounting.versions import Versions
from dpsql.core.errors import BudgetError, Error
from dpsql.core.loss import LOSS, EpsilonDelta
from dpsql.mechanisms import renyi
from dpsql.plan.charges import Budget, ChargeRequest

Asks = Callable[..., ChargeRequest]
KEPT = Path(__file__).parents[2] / "fixtures" / "ledgers"
IDENTITY = "randhie (person.person_id)"
BUDGET = Budget(EpsilonDelta(Fraction(100), Fraction(1, 1000)), "auto")
LAYOUTS = sorted(migration.KNOWN)
STATEMENTS = ["COUNT(*)", "AVG(income)", "SUM(income)", "plan", "female", "income > 5000"]


def copy(version: int, path: Path) -> Path:
    shutil.copyfile(KEPT / f"layout_{version}.sqlite", path)
    head = KEPT / f"layout_{version}.sqlite.head"
    if head.exists():
        shutil.copyfile(head, chain.head_file(path))
    return path


@pytest.fixture(params=LAYOUTS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def old(version: int, path: Path) -> Path:
    return copy(version, path)


def cells(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def edit(path: Path, text: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)
        connection.commit()


def shape(path: Path) -> list[tuple[object, ...]]:
    return cells(
        path, "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    )


def test_every_layout_but_this_one_is_kept() -> None:
    assert LAYOUTS == [1, 2, 3, 4, 5] and layout.LAYOUT == 6 and rows.FORM == 4
    for each in LAYOUTS:
        assert cells(KEPT / f"layout_{each}.sqlite", "SELECT layout FROM meta") == [(each,)]


def test_what_was_spent_stays(version: int, old: Path) -> None:
    """To the digit, where it was kept in all measures; the epsilons and deltas where it was not."""
    before = cells(old, "SELECT scope, name, charges, spent FROM total ORDER BY scope, name") if version > 1 else []
    ledger = Ledger.open(old, IDENTITY)
    assert ledger.verify() == 6 == len(ledger.history())
    found = [each.statement for each in ledger.history()]
    assert all(part in statement for part, statement in zip(STATEMENTS, found, strict=True))
    assert [each.analyst for each in ledger.history()] == ["alice"] * 5 + ["bob"]
    if version == 1:
        assert ledger.spent("alice").epsilon == Fraction(17, 20) and ledger.spent("alice").delta == Fraction(1, 10**9)
        assert ledger.spent().epsilon == Fraction(19, 20) and ledger.spent("bob").epsilon == Fraction(1, 10)
        assert ledger.spent().rho > 0 and ledger.spent().mu_squared > 0
    else:
        after = cells(old, "SELECT scope, name, charges, spent FROM total ORDER BY scope, name")
        assert [row[:3] for row in after] == [row[:3] for row in before]
        for (*_, kept), (*_, found) in zip(before, after, strict=True):
            charges, names, *amounts = json.loads(str(found))
            assert [charges, *amounts] == json.loads(str(kept)) and tuple(names) == LOSS
    ledger.close()


@pytest.mark.parametrize("version", [2, 3, 4, 5], indirect=True)
@pytest.mark.parametrize("change", ["spent = replace(spent, '1/10', '0')", "seal = zeroblob(16)", "spent = '[]'"])
def test_an_edited_total_gets_no_new_seal(version: int, old: Path, change: str) -> None:
    edit(old, f"UPDATE total SET {change} WHERE name = 'bob'")
    before = shape(old)
    with pytest.raises(Error, match=r"DPSQL-705: .* is damaged; restore its newest backup"):
        Ledger.open(old, IDENTITY)
    assert shape(old) == before and cells(old, "SELECT layout FROM meta") == [(version,)]


@pytest.mark.parametrize("accounting", ["sequential", "advanced", "zcdp", "gdp", "auto"])
def test_it_goes_on_by_any_accounting_of_before_and_then_by_that(old: Path, asks: Asks, accounting: str) -> None:
    ledger, whole = Ledger.open(old, IDENTITY), BUDGET.total
    left = ledger.remaining(Budget(whole, accounting), "alice").epsilon
    if accounting in ("sequential", "advanced") and ledger.spent().epsilon is None:
        assert left == 0
        return ledger.close()
    assert ledger.accounting is None and left > 0
    ledger.charge(asks("0.1"), Budget(whole, accounting))
    assert ledger.accounting == accounting and ledger.verify() == 7
    other = "zcdp" if accounting == "gdp" else "gdp"
    with pytest.raises(
        BudgetError, match=rf"DPSQL-504: .* keeps its promise by {accounting} accounting, and the schema"
    ):
        ledger.charge(asks("0.1"), Budget(whole, other))
    ledger.close()


def test_rdp_over_charges_of_before_is_a_report(version: int, old: Path, asks: Asks) -> None:
    """Each row counts as the event that it keeps, or that its words say, or its loss."""
    ledger, budget = Ledger.open(old, IDENTITY), Budget(BUDGET.total, "rdp")
    with pytest.raises(
        BudgetError, match=r"DPSQL-504: .* has charges from before rdp accounting.*accounting = \"auto\""
    ):
        ledger.charge(asks("0.1"), budget)
    with pytest.raises(BudgetError, match="DPSQL-504"):
        ledger.remaining(budget, "alice")
    spent, name, report = ledger.reckon(
        budget, lambda books: (books.spent("analyst", "bob").ever, books.promise.more[0], books.is_report)
    )
    order, tenth = Fraction(name.split()[1]), Fraction(1, 10)
    # what there was of one count of people, and, where the words are those of its time, of its noise
    expected = renyi.of_discrete_laplace(order, Fraction(1), Fraction(10)) if version != 1 else None
    assert report and spent.loss == ledger.spent("bob")
    assert spent[name] == (expected or spent[name]) <= renyi.of_pure(order, tenth)
    assert ledger.verify() == 6 and ledger.accounting is None
    ledger.close()


def test_it_is_laid_out_as_a_new_one(old: Path, tmp_path: Path) -> None:
    Ledger.open(old, IDENTITY).close()
    Ledger.open(tmp_path / "new.ledger", IDENTITY).close()
    assert shape(old) == shape(tmp_path / "new.ledger")
    assert cells(old, "PRAGMA foreign_key_check") == [] and cells(old, "PRAGMA integrity_check") == [("ok",)]
    assert cells(old, "SELECT layout FROM meta") == [(6,)]


def test_the_secret_the_versions_and_the_answers_stay(version: int, old: Path) -> None:
    secret = cells(old, "SELECT secret FROM meta")
    tables = ["version", "signature", "answer", *(["vector"] if version > 1 else [])]
    before = [cells(old, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]
    ledger = Ledger.open(old, IDENTITY)
    assert [(ledger.secret,)] == secret
    assert [cells(old, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables] == before
    for (name,) in cells(old, "SELECT fingerprint FROM answer"):
        assert Answers(ledger).get(str(name)) is not None
        assert bool(Vectors(ledger).of(str(name))) == (version > 1)
    assert Versions(ledger).latest() is not None
    ledger.close()


def test_links_stay(version: int, old: Path) -> None:
    """They stand in certificates and in the head."""
    before = [] if version == 1 else cells(old, "SELECT id, link FROM charge ORDER BY id")
    ledger = Ledger.open(old, IDENTITY)
    after = cells(old, "SELECT id, link FROM charge ORDER BY id")
    assert after == before or version == 1
    for number, link in after:
        ledger.require(chain.Head(int(str(number)), bytes(link).hex()))  # type: ignore[arg-type]
    assert {form for (form,) in cells(old, "SELECT form FROM charge")} == {version if version in (2, 3) else 4}
    ledger.close()


def test_the_guard_remembers(version: int, old: Path) -> None:
    ledger = Ledger.open(old, IDENTITY)
    assert len(ledger.asked()) == (6 if version > 2 else 0)
    ledger.close()


def test_it_goes_on(old: Path, asks: Asks) -> None:
    ledger = Ledger.open(old, IDENTITY)
    receipt = ledger.charge(asks("0.1"), BUDGET)
    assert receipt is not None and receipt.id == 7
    assert ledger.verify() == 7
    ledger.close()
    again = Ledger.open(old, IDENTITY)
    assert again.verify() == 7 and chain.read_head(chain.head_file(old)).charge == 7  # type: ignore[union-attr]
    again.close()


def test_the_id_is_made_once(old: Path) -> None:
    first = Ledger.open(old, IDENTITY)
    name = first.id
    first.close()
    again = Ledger.open(old, IDENTITY)
    assert again.id == name and len(name) == 32
    again.close()


@pytest.mark.parametrize("charge", range(1, 7))
def test_an_edited_charge_is_noticed(version: int, old: Path, charge: int) -> None:
    """As it was before; layout 1 had no links, and nothing but its totals."""
    edit(old, f"UPDATE charge SET statement = 'SELECT 1' WHERE id = {charge}")
    if version > 1:
        with pytest.raises(Error, match=f"DPSQL-705: .* was edited, at or before charge {charge}"):
            Ledger.open(old, IDENTITY)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE charge SET epsilon = '0' WHERE id = 1",
        "UPDATE charge SET epsilon = 'x' WHERE id = 1",
        "DELETE FROM charge WHERE id = 1",
        "DELETE FROM total WHERE scope = 'analyst'; DELETE FROM charge",
        "UPDATE total SET delta = '1/10' WHERE scope = 'dataset'",
        "INSERT INTO total VALUES ('analyst', 'carol', 1, '1', '0')",
    ],
)
def test_charges_of_layout_1_that_do_not_make_up_what_was_spent(path: Path, text: str) -> None:
    edit(copy(1, path), text)
    before = shape(path)
    with pytest.raises(Error, match=r"DPSQL-705: .* is damaged; restore its newest backup") as caught:
        Ledger.open(path, IDENTITY)
    assert caught.value.__context__ is None
    assert shape(path) == before and cells(path, "SELECT layout FROM meta") == [(1,)]


@pytest.mark.parametrize("version", [1, 2, 3], indirect=True)
def test_answers_that_can_no_longer_be_read_are_asked_anew(old: Path) -> None:
    names = [str(name) for (name,) in cells(old, "SELECT fingerprint FROM answer ORDER BY 1")]
    edit(old, f"UPDATE answer SET payload = x'6a5b5d' WHERE fingerprint = '{names[0]}'")
    ledger = Ledger.open(old, IDENTITY)
    assert Answers(ledger).get(names[0]) is None and not Vectors(ledger).of(names[0])
    assert all(Answers(ledger).get(name) is not None for name in names[1:])
    assert ledger.verify() == 6
    ledger.close()


def test_another_dataset_is_left_alone(old: Path, version: int) -> None:
    before = old.read_bytes()
    with pytest.raises(Error, match=r"DPSQL-705: .* belongs to the dataset"):
        Ledger.open(old, "other (person.person_id)")
    assert cells(old, "SELECT layout FROM meta") == [(version,)] and old.read_bytes() == before


class Crash(BaseException):
    """A process that ends, as far as one can play it."""


class Dying(sqlite3.Connection):
    """A connection whose process ends at one of its statements."""

    left = 0

    def execute(self, sql: str, *rest: object) -> sqlite3.Cursor:
        Dying.left -= 1
        if Dying.left == 0:
            raise Crash
        return super().execute(sql, *rest)  # type: ignore[arg-type]


@pytest.mark.few(1)
def test_a_crash_at_any_statement_leaves_the_old_ledger(
    version: int, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next opening begins again."""
    was, statements = shape(old), 0
    with monkeypatch.context() as patched:
        dying = partial(sqlite3.connect, old, isolation_level=None, timeout=0, factory=Dying)
        patched.setattr(store, "_new_connection", lambda file: dying())
        while cells(old, "SELECT layout FROM meta") == [(version,)]:
            assert shape(old) == was
            statements += 1
            Dying.left = statements
            with suppress(Crash):
                Ledger.open(old, IDENTITY).close()
    assert statements > (40 if version < 4 else 5)
    ledger = Ledger.open(old, IDENTITY)
    assert ledger.verify() == 6
    ledger.close()


@pytest.mark.few(1)
def test_a_killed_process_leaves_a_whole_ledger(version: int, old: Path) -> None:
    body = f"""
import os, sqlite3
from dpsql.accounting import Ledger, layout, migration
migration._forget_unreadable = layout.add_guard_tables = migration._with_names = lambda connection: os._exit(9)
Ledger.open({str(old)!r}, {IDENTITY!r})
"""
    assert subprocess.run([sys.executable, "-c", body], timeout=60, check=False).returncode == 9
    ledger = Ledger.open(old, IDENTITY)
    assert ledger.verify() == 6
    ledger.close()


@pytest.mark.slow
def test_several_processes_open_it_at_once(old: Path) -> None:
    body = f"""
import sys
from dpsql.accounting import Ledger
sys.stdin.readline()
ledger = Ledger.open({str(old)!r}, {IDENTITY!r})
print(ledger.id, ledger.verify())
"""
    running = [
        subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = {process.communicate("go\n", timeout=60)[0] for process in running}
    assert len(said) == 1 and said.pop().endswith(" 6\n")


@pytest.mark.parametrize("version", [1, 2, 3], indirect=True)
def test_an_earlier_program_that_has_it_open_charges_nothing_more(version: int, old: Path) -> None:
    """It fails closed; what it has paid for can still be stored. (Later ones cannot read the totals.)"""
    fields = {
        1: "time, analyst, version, statement, fingerprints, mechanisms, epsilon, delta",
        2: f"{', '.join(rows.TIED[:10])}, link",
        3: f"{', '.join(rows.TIED[:11])}, link",
    }[version]
    with closing(sqlite3.connect(old, isolation_level=None)) as earlier:
        earlier.execute("SELECT * FROM meta").fetchall()
        Ledger.open(old, IDENTITY).close()
        with pytest.raises(sqlite3.Error):
            earlier.execute(
                f"INSERT INTO charge ({fields}) SELECT {fields.replace('id,', '7,', 1)} FROM charge LIMIT 1"
            )
        earlier.execute("INSERT INTO answer VALUES ('f', 6, x'00', x'00') ON CONFLICT (fingerprint) DO NOTHING")


def test_a_ledger_that_only_says_that_it_is_older(path: Path) -> None:
    Ledger.open(path, IDENTITY).close()
    for each in LAYOUTS:
        edit(path, f"UPDATE meta SET layout = {each}")
        with pytest.raises(Error, match=r"DPSQL-705: .* is damaged"):
            Ledger.open(path, IDENTITY)
