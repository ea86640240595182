"""The chain of charges and the head beside the ledger: what was written is what is there, or it is said."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.accounting import Ledger, chain, layout
from dpsql.accounting.ledger import TAIL
from dpsql.core.errors import Error, IntegrityError
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.plan.charges import Budget, ChargeRequest

Asks = Callable[..., ChargeRequest]
BUDGET = Budget(EpsilonDelta(Fraction(1000), Fraction(0)))
LOOSE = Budget(EpsilonDelta(Fraction(1000), Fraction(1, 2)), "auto")
MANY = TAIL + 40
FIELDS = (
    "time",
    "analyst",
    "role",
    "version",
    "statement",
    "fingerprints",
    "mechanisms",
    "portions",
    "certificates",
    "asked",
    "events",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, asks: Asks) -> tuple[bytes, bytes]:
    """A ledger of MANY charges, and its head."""
    path = tmp_path_factory.mktemp("chain") / "example.ledger"
    ledger = Ledger.open(path, "example")
    for number in range(MANY):
        ledger.charge(asks("0.1", statement=f"SELECT {number}", role="staff"), BUDGET)
    ledger.close()
    return path.read_bytes(), chain.head_file(path).read_bytes()


@pytest.fixture
def many(written: tuple[bytes, bytes], path: Path) -> Path:
    """Its copy."""
    path.write_bytes(written[0])
    chain.head_file(path).write_bytes(written[1])
    return path


def edit(path: Path, *texts: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("; ".join(texts))
    connection.commit()
    connection.close()


def said(work: Callable[[], object]) -> str:
    with pytest.raises(IntegrityError) as caught:
        work()
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def edited(path: Path, charge: int) -> str:
    return f"DPSQL-705: the ledger {path} was edited, at or before charge {charge}; restore its newest backup"


def older(path: Path, charge: int) -> str:
    return (
        f"DPSQL-705: the ledger {path} is older than it was: charge {charge} is known and not in it; "
        "put the newest copy back where it was"
    )


def test_a_whole_ledger_is_verified(many: Path) -> None:
    ledger = Ledger.open(many, "example")
    assert ledger.verify() == MANY == len(ledger.history())
    ledger.close()


def test_a_new_ledger_is_verified(ledger: Ledger) -> None:
    assert ledger.verify() == 0


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("charge", [5, MANY - 5])
def test_a_charge_that_was_changed(many: Path, field: str, charge: int) -> None:
    """The newest are checked at opening, all of them by verify()."""
    edit(many, f"UPDATE charge SET {field} = {field} || ' ' WHERE id = {charge}")
    if charge > MANY - TAIL or field in ("analyst", "role"):  # the totals of these are added up at opening
        assert said(lambda: Ledger.open(many, "example")) == edited(many, charge if charge > MANY - TAIL else MANY)
        return
    ledger = Ledger.open(many, "example")
    assert said(ledger.verify) == edited(many, charge)
    ledger.close()


@pytest.mark.parametrize("form", [0, 1, 2, 3, 5, "'x'"])
@pytest.mark.parametrize("charge", [5, MANY - 5])
def test_a_charge_that_is_said_to_be_of_another_layout(many: Path, form: object, charge: int) -> None:
    edit(many, f"UPDATE charge SET form = {form} WHERE id = {charge}")
    if charge > MANY - TAIL:
        assert said(lambda: Ledger.open(many, "example")) == edited(many, charge)
        return
    ledger = Ledger.open(many, "example")
    assert said(ledger.verify) == edited(many, charge)
    ledger.close()


@pytest.mark.parametrize("charge", [5, MANY - 5])
def test_a_charge_made_cheaper(many: Path, charge: int) -> None:
    edit(many, f"""UPDATE charge SET portions = replace(portions, '"1/10"', '"1/90"') WHERE id = {charge}""")
    if charge > MANY - TAIL:
        assert said(lambda: Ledger.open(many, "example")) == edited(many, charge)
        return
    ledger = Ledger.open(many, "example")
    assert said(ledger.verify) == edited(many, charge)
    ledger.close()


@pytest.mark.parametrize("value", ["x'00'", "NULL", "7", "'text'"])
@pytest.mark.parametrize("charge", [5, MANY - 5, MANY])
def test_a_link_that_was_changed(many: Path, charge: int, value: str) -> None:
    if value == "NULL":
        edit(many, "CREATE TABLE other AS SELECT * FROM charge", "DELETE FROM charge", "DROP TABLE charge")
        edit(many, "ALTER TABLE other RENAME TO charge")
    edit(many, f"UPDATE charge SET link = {value} WHERE id = {charge}")

    def work() -> None:
        ledger = Ledger.open(many, "example")
        try:
            assert charge < MANY - TAIL
            ledger.verify()
        finally:
            ledger.close()

    assert said(work).startswith(f"DPSQL-705: the ledger {many} ")


FIELDS_KEPT = ", ".join((*FIELDS, "form"))
MIDDLE = {
    "removed": ("DELETE FROM charge WHERE id = 5",),
    "removed, and the rest moved": (
        "DELETE FROM charge WHERE id = 5",
        "UPDATE charge SET id = -id WHERE id > 5",
        "UPDATE charge SET id = -id - 1 WHERE id < 0",
    ),
    "put in": (f"INSERT INTO charge SELECT 0, {FIELDS_KEPT}, link FROM charge WHERE id = 5",),
    "in another order": (
        "UPDATE charge SET id = -5 WHERE id = 5",
        "UPDATE charge SET id = 5 WHERE id = 6",
        "UPDATE charge SET id = 6 WHERE id = -5",
    ),
    "another one's": (
        "UPDATE charge SET (statement, link) = (SELECT statement, link FROM charge WHERE id = 7) WHERE id = 5",
    ),
}


@pytest.mark.parametrize("how", MIDDLE)
def test_charges_in_the_middle(many: Path, how: str) -> None:
    edit(many, *MIDDLE[how])
    if how.startswith("removed") or how == "put in":  # there are more or fewer than were counted
        assert said(lambda: Ledger.open(many, "example")).startswith(f"DPSQL-705: the ledger {many} ")
        return
    ledger = Ledger.open(many, "example")
    assert "was edited, at or before charge" in said(ledger.verify)
    ledger.close()


@pytest.mark.parametrize("how", [*MIDDLE, "the last removed"])
def test_charges_at_the_end(many: Path, how: str) -> None:
    """As in the middle, but at opening."""
    moved = {5: MANY - 5, 6: MANY - 4, 7: MANY - 3}
    texts = (f"DELETE FROM charge WHERE id = {MANY}",) if how == "the last removed" else MIDDLE[how]
    if how == "put in":
        texts = (texts[0].replace("SELECT 0", f"SELECT {MANY + 1}"),)
    edit(many, *(re.sub(r"\b[567]\b", lambda found: str(moved[int(found[0])]), text) for text in texts))
    assert said(lambda: Ledger.open(many, "example")).startswith(f"DPSQL-705: the ledger {many} ")


TOTALS = [
    "DELETE FROM total WHERE scope = 'analyst'",
    "DELETE FROM total WHERE scope = 'role'",
    "INSERT INTO total SELECT 'entry', '[\"c\", \"v\"]', charges, spent, seal FROM total WHERE scope = 'role'",
    """UPDATE total SET spent = replace(spent, '"1/10"', '"1/90"')""",
    "UPDATE total SET seal = x'00' WHERE scope = 'role'",
    "UPDATE total SET charges = charges - 1 WHERE scope = 'analyst'",
    "UPDATE total SET scope = 'entry' WHERE scope = 'role'",
]


@pytest.mark.parametrize("text", TOTALS)
def test_totals_that_were_edited(ledger: Ledger, asks: Asks, path: Path, text: str) -> None:
    """The whole of them is verified against the charges."""
    ledger.charge(asks("0.1", role="staff"), BUDGET)
    edit(path, text)
    assert said(ledger.verify).startswith(f"DPSQL-705: the ledger {path} ")
    assert said(lambda: Ledger.open(path, "example")).startswith(f"DPSQL-705: the ledger {path} ")


def dearer_than_kept(path: Path, ledger: Ledger, scope: str) -> None:
    """A total as one charge left it, with a seal that is right: as whoever reads the secret would write it."""
    rows = ledger.store.read(lambda c: c.execute("SELECT name, spent FROM total WHERE scope = ?", (scope,)).fetchall())
    for name, text in rows:
        less = text.replace('"1/5"', '"1/10"')
        seal = chain.sealed(ledger.secret, scope, name, less).hex()
        edit(path, f"UPDATE total SET spent = '{less}', seal = x'{seal}' WHERE scope = '{scope}' AND name = '{name}'")


@pytest.mark.parametrize("scope", ["dataset", "analyst", "role"])
def test_a_total_that_is_less_than_its_charges(ledger: Ledger, asks: Asks, path: Path, scope: str) -> None:
    for _ in range(2):
        ledger.charge(asks("0.1", role="staff"), BUDGET)
    dearer_than_kept(path, ledger, scope)
    assert said(lambda: Ledger.open(path, "example")) == edited(path, 2)


def test_totals_agree_whatever_was_charged(ledger: Ledger, loses: Asks, path: Path) -> None:
    """Odd prices that are rounded up, no epsilon, several entries, a clock that goes back."""
    odd = Fraction(1, 3**200)
    losses = [PrivacyLoss(odd * i, odd / i, odd, odd * 7 / i, odd / (i + 1)) for i in range(1, 20)]
    losses += [PrivacyLoss(None, odd, None, odd, odd), PrivacyLoss(Fraction(1, 7), odd, odd, odd, odd)]
    times = ("2026-03-31", "2026-04-01", "2026-02-28", "2026-04-02", "2025-12-31")
    for number, loss in enumerate(losses):
        entries = [None, ('["p", "1"]',), ('["p", "1"]', '["p", "2"]')][number % 3]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(layout, "now", lambda at=times[number % 5]: f"{at}T12:00:00.000+00:00")
            ledger.charge(loses(loss, f"a{number % 4}", role="r", entries=entries), LOOSE)
    again = Ledger.open(path, "example")
    assert again.verify() == len(losses)
    again.close()


def test_a_total_of_before_is_noticed(ledger: Ledger, asks: Asks, path: Path) -> None:
    """Its seal is right: it was written so, one charge ago."""
    ledger.charge(asks("0.1"), BUDGET)
    edit(path, "CREATE TABLE kept AS SELECT * FROM total")
    ledger.charge(asks("0.1"), BUDGET)
    edit(
        path,
        "DELETE FROM total WHERE scope = 'analyst'",
        "INSERT INTO total SELECT * FROM kept WHERE scope = 'analyst'",
    )
    assert said(ledger.verify) == edited(path, 2)
    edit(
        path,
        "DELETE FROM total WHERE scope = 'dataset'",
        "INSERT INTO total SELECT * FROM kept WHERE scope = 'dataset'",
    )
    line = f"DPSQL-705: the ledger {path} is damaged; restore its newest backup"
    assert said(lambda: ledger.charge(asks("0.1"), BUDGET)) == line
    assert said(lambda: Ledger.open(path, "example")) == line


# --- the head -------------------------------------------------------------------------------------------------------------


def test_the_head_is_the_last_charge(ledger: Ledger, asks: Asks, path: Path) -> None:
    assert chain.read_head(chain.head_file(path)) == chain.NO_HEAD
    for number in range(1, 4):
        ledger.charge(asks("0.1"), BUDGET)
        head = chain.read_head(chain.head_file(path))
        assert head is not None and head.charge == number
        place = {"charge": number, "link": head.link}
        assert ledger.certificates(number) == [{"release": "fingerprint", "ledger": place}]


def test_a_head_that_is_newer_than_the_ledger(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    ledger.close()
    before = path.read_bytes()
    again = Ledger.open(path, "example")
    for _ in range(3):
        again.charge(asks("0.1"), BUDGET)
    again.close()
    path.write_bytes(before)
    assert said(lambda: Ledger.open(path, "example")) == older(path, 4)


def test_a_head_of_another_line_of_charges(ledger: Ledger, asks: Asks, path: Path) -> None:
    """Two copies went on apart: each is known to be another one by the head of the other."""
    ledger.charge(asks("0.1"), BUDGET)
    ledger.close()
    before = path.read_bytes()
    other = Ledger.open(path, "example")
    other.charge(asks("0.2"), BUDGET)
    other.close()
    head = chain.head_file(path).read_bytes()
    path.write_bytes(before)
    chain.head_file(path).unlink()
    again = Ledger.open(path, "example")
    again.charge(asks("0.3"), BUDGET)
    again.close()
    chain.head_file(path).write_bytes(head)
    assert said(lambda: Ledger.open(path, "example")) == older(path, 2)


def test_a_head_that_is_older_than_the_ledger_is_as_true(ledger: Ledger, asks: Asks, path: Path) -> None:
    """A process was killed between its charge and the head, or two wrote their heads in turn."""
    ledger.charge(asks("0.1"), BUDGET)
    head = chain.head_file(path).read_bytes()
    ledger.charge(asks("0.1"), BUDGET)
    ledger.close()
    for older_head in (head, None):
        chain.head_file(path).unlink()
        if older_head is not None:
            chain.head_file(path).write_bytes(older_head)
        again = Ledger.open(path, "example")
        assert again.verify() == 2
        again.close()


def test_a_head_that_cannot_be_written_stops_no_charge(
    ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(chain.os, "write", full)
        receipt = ledger.charge(asks("0.1"), BUDGET)
    assert receipt is not None and receipt.id == 1
    assert not [file.name for file in path.parent.iterdir() if "head" in file.name]
    ledger.charge(asks("0.1"), BUDGET)
    assert chain.read_head(chain.head_file(path)).charge == 2  # type: ignore[union-attr]


BAD = {
    "nothing": b"",
    "a word": b"head\n",
    "no link": b"1\n",
    "a short link": b"1 00\n",
    "no number": b"x " + b"0" * 64,
    "a negative number": b"-1 " + b"0" * 64,
    "a huge number": b"9" * 19 + b" " + b"0" * 64,
    "no text": b"\xff\xfe",
    "no digits": b"1 " + b"z" * 64,
    "more than a link": b"1 " + b"0" * 66,
    "a long file": b"0" * 10**6,
}


@pytest.mark.parametrize("how", BAD)
def test_a_head_that_is_none(ledger: Ledger, asks: Asks, path: Path, how: str) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    file = chain.head_file(path)
    file.write_bytes(BAD[how])
    line = (
        f"DPSQL-705: {file} does not say how far the ledger went; "
        "restore it; if the ledger beside it is the newest there is, remove it"
    )
    assert said(lambda: ledger.charge(asks("0.1"), BUDGET)) == line
    ledger.close()
    assert said(lambda: Ledger.open(path, "example")) == line
    path.unlink()  # nor is it taken for a sign that there never was a ledger
    assert " was removed; put the file back where it was" in said(lambda: Ledger.open(path, "example"))


@pytest.mark.parametrize("how", BAD)
def test_what_is_told_of_such_a_head_works(ledger: Ledger, asks: Asks, path: Path, how: str) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    ledger.close()
    chain.head_file(path).write_bytes(BAD[how])
    chain.head_file(path).unlink()
    again = Ledger.open(path, "example")
    assert again.charge(asks("0.1"), BUDGET) is not None and again.verify() == 2
    again.close()
    assert chain.read_head(chain.head_file(path)).charge == 2  # type: ignore[union-attr]


def test_the_head_is_durable_before_it_has_its_name(
    ledger: Ledger, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(chain.os, name)

        def noted(*given: object, name: str = name, real: Callable[..., object] = real) -> object:
            done.append(name)
            return real(*given)

        monkeypatch.setattr(chain.os, name, noted)
    ledger.charge(asks("0.1"), BUDGET)
    assert done == ["fsync", "replace"]


def test_the_next_head_is_written_in_its_place(
    ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting for the disk again: the file stays the same, and as long."""
    ledger.charge(asks("0.1"), BUDGET)
    before = chain.head_file(path).stat()
    with monkeypatch.context() as patched:
        for name in ("fsync", "replace"):
            patched.delattr(os, name)
        ledger.charge(asks("0.1"), BUDGET)
    after = chain.head_file(path).stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
    assert chain.read_head(chain.head_file(path)).charge == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["of another length", "read just now", "a link to another file"])
def test_a_head_that_is_not_written_over_is_replaced(ledger: Ledger, asks: Asks, path: Path, how: str) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    file = chain.head_file(path)
    other = path.with_name("other")
    if how == "of another length":
        # as earlier versions wrote it: a crash in the middle could leave the old length with the new line
        file.write_bytes(file.read_bytes().strip() + b"\n")
    if how == "a link to another file":
        file.rename(other)
        file.symlink_to(other)
    before = file.read_bytes()
    with open(file, "rb") as reader:
        if how == "read just now":
            fcntl.flock(reader, fcntl.LOCK_SH)
        ledger.charge(asks("0.1"), BUDGET)
        assert reader.read() == before
    assert chain.read_head(file).charge == 2 and not file.is_symlink()  # type: ignore[union-attr]
    assert not other.exists() or other.read_bytes() == before


def test_no_reader_sees_half_of_a_head(ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "WAIT_SECONDS", 60)
    ledger.charge(asks("0.1"), BUDGET)
    file = chain.head_file(path)
    whole, found = file.read_bytes(), list[object]()
    reader = threading.Thread(target=lambda: found.append(chain.read_head(file)))
    with open(file, "r+b", buffering=0) as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        writer.write(b"2 ")
        reader.start()
        reader.join(0.1)
        assert not found
        writer.seek(0)
        writer.write(whole)
    reader.join()
    assert found == [chain.read_head(file)] and chain.read_head(file).charge == 1  # type: ignore[union-attr]


def test_who_holds_the_lock_and_is_stopped_holds_up_nobody(
    ledger: Ledger, asks: Asks, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who reads the head, nor who charges, nor who opens the ledger."""
    monkeypatch.setattr(chain, "WAIT_SECONDS", 0.01)
    ledger.charge(asks("0.1"), BUDGET)
    file = chain.head_file(path)
    with open(file, "rb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        found = list[object]()

        def work() -> None:
            found.append(chain.read_head(file))
            ledger.charge(asks("0.1"), BUDGET)
            Ledger.open(path, "example").close()
            found.append(chain.read_head(file))

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        worker.join(60)
    assert [head.charge for head in found] == [1, 2]  # type: ignore[attr-defined]


def test_drafts_of_a_killed_process_go_when_they_are_old(path: Path) -> None:
    names = (
        ".ledger-0123456789abcdef",
        ".ledger-0123456789abcdef-wal",
        ".head-0123456789abcdef",
        ".ledger-mine",
        ".head-",
    )
    for name in names:
        (path.parent / name).write_bytes(b"")
    Ledger.open(path, "example").close()
    assert {file.name for file in path.parent.iterdir()} == {*names, path.name}
    for name in names:
        os.utime(path.parent / name, (0, 0))
    Ledger.open(path, "example").close()
    assert {file.name for file in path.parent.iterdir()} == {".ledger-mine", ".head-", path.name}


def test_a_folder_in_place_of_the_head(ledger: Ledger, asks: Asks, path: Path) -> None:
    """One clear line, as for whatever else cannot be read."""
    ledger.charge(asks("0.1"), BUDGET)
    chain.head_file(path).unlink()
    chain.head_file(path).mkdir()
    with pytest.raises(Error, match=r"DPSQL-70[45]: ") as caught:
        ledger.charge(asks("0.1"), BUDGET)
    assert caught.value.__context__ is None
    ledger.close()
    with pytest.raises(Error, match=r"DPSQL-70[45]: ") as caught:
        Ledger.open(path, "example")
    assert caught.value.__context__ is None


@given(st.integers(1, 10**17), st.binary(min_size=32, max_size=32))
def test_a_head_round_trips(tmp_path_factory: pytest.TempPathFactory, charge: int, link: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "some.head"
    chain.write_head(file, chain.Head(charge, link.hex()))
    assert chain.read_head(file) == chain.Head(charge, link.hex())


ROWS = st.lists(
    st.integers(0, 10**6) | st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.none(), max_size=4
)


@given(ROWS, ROWS, st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_links_differ_where_rows_keys_or_links_before_do(
    row: list[object], other: list[object], secret: bytes, before: bytes
) -> None:
    tied = chain.link(secret, before, row)
    assert tied == chain.link(secret, before, row) and len(tied) == chain.LINK_BYTES
    assert (tied == chain.link(secret, before, other)) == (repr(row) == repr(other))
    assert (tied == chain.link(before, before, row)) == (secret == before)
    assert (tied == chain.link(secret, secret, row)) == (secret == before)
    assert chain.sealed(secret, "ab", "c") != chain.sealed(secret, "a", "bc")
