"""Offers: what could be read off what is stored is not bought before somebody says so, and a question charges nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.answers.look_up import Stored
from dpsql.core.errors import Error, ProgrammingError
from dpsql.dataset.owner import check
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data
from tests.unit.session.test_cubes import DATA, PATIENTS, TEXT

DECLARED = TEXT.replace("least = 1e-18", "least = 1e-18\nunits = 900")
BY_SITE = "SELECT site, COUNT(*) AS n FROM patient GROUP BY site"
BY_ALL = "SELECT site, female, city, COUNT(*) FROM patient GROUP BY site, female, city"
ASKED = "/* dpsql: epsilon=5 */"


def opened(text: str = DECLARED) -> Session:
    return clinic_data(text, DATA).session(ZeroNoise())


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(opened()) as found:
        found.execute(PATIENTS)
        yield found


def state(session: Session) -> list[object]:
    """Everything that a charge changes: the ledger's sums and rows, and the guard's history."""
    tables = ("SHOW BUDGET", "SELECT * FROM dpsql.ledger", "SELECT * FROM dpsql.guard")
    return [session.execute(sql).rows for sql in tables]


def asked_back(session: Session, sql: str) -> Error:
    """The question, for which nothing was charged."""
    before = state(session)
    with pytest.raises(ProgrammingError, match=r"\ADPSQL-505") as raised:
        session.execute(sql)
    assert state(session) == before
    assert raised.value.hint is not None and "buy=on" in raised.value.hint and "buy=off" in raised.value.hint
    return raised.value


def read(session: Session, sql: str) -> Answer:
    """An answer that was read off, for which nothing was charged."""
    before = state(session)
    found = session.execute(sql)
    assert found.cached and not found.releases and state(session) == before
    return found


@pytest.mark.parametrize(
    "sql",
    [
        f"{ASKED} {BY_SITE}",
        "/* dpsql: error=3 */ SELECT COUNT(*) FROM patient",
        "/* dpsql: epsilon=1 */ SELECT site, AVG(weight), SUM(income), COUNT(*) FROM patient WHERE NOT female GROUP BY site",
        f"{ASKED} SELECT city, COUNT(*) FROM patient WHERE site = 2 GROUP BY ROLLUP (city)",
    ],
)
def test_both_answers_to_the_question_work(session: Session, sql: str) -> None:
    assert "the cube patients answers it free, at a 95 % error of +-" in asked_back(session, sql).message
    off = read(session, f"/* dpsql: buy=off */ {sql}")
    assert any("read off the cube patients" in note for note in off.notes)
    bought = session.execute(f"/* dpsql: buy=on */ {sql}")
    assert bought.releases and bought.receipt.loss.rho
    assert any(note.startswith("bought although the cube patients answers it free") for note in bought.notes)
    read(session, sql)


def test_a_session_and_an_owner_say_it_once(session: Session) -> None:
    sql = f"{ASKED} {BY_SITE}"
    session.execute("SET dp_buy = off")
    read(session, sql)
    session.execute("SET dp_buy = on")
    assert session.execute(sql).releases
    with closing(opened(DECLARED.replace("units = 900", "units = 900\nbuy_again = true"))) as other:
        other.execute(PATIENTS)
        found = other.execute(sql)
        assert found.releases and any("bought although" in note for note in found.notes)


def test_nothing_is_bought_where_nothing_is_to_be(session: Session) -> None:
    before = state(session)
    for sql in (
        "SELECT MEDIAN(income) FROM patient",
        "SELECT city, COUNT(*) FROM patient WHERE age > 30 GROUP BY city",
    ):
        with pytest.raises(ProgrammingError, match="nothing that is stored answers this; leave buy=off out: it costs"):
            session.execute(f"/* dpsql: buy=off */ {sql}")
    assert state(session) == before


def test_nothing_is_bought_anew_or_by_name_either(session: Session) -> None:
    with pytest.raises(ProgrammingError, match="what is asked anew is bought; leave buy=off out: it costs"):
        session.execute(f"/* dpsql: fresh, buy=off */ {BY_SITE}")
    session.execute("SET dp_buy = off")
    before = state(session)
    other = PATIENTS.replace("CUBE patients", "CUBE others").replace("AVG(weight)", "AVG(age)")
    for sql in (f"/* dpsql: fresh */ {BY_SITE}", other):
        with pytest.raises(ProgrammingError, match="nothing is to be bought"):
            session.execute(sql)
    assert state(session) == before
    session.execute(PATIENTS)
    assert state(session) == before


@pytest.mark.parametrize("bought", [PATIENTS, f"/* dpsql: epsilon=1 */ {BY_ALL}"], ids=["a cube", "an answer"])
def test_rule_52_what_another_bought_is_no_question(bought: str, tmp_path: Path) -> None:
    """Whoever bought it is asked, and the other one is told."""
    asked = "/* dpsql: epsilon=1 */ SELECT COUNT(*) FROM patient"
    schema = tmp_path / "schema.toml"
    schema.write_text(DECLARED + "\n[analysts.ann]\n[analysts.bob]\n")
    clinic.write(tmp_path, DATA)
    declared = read_schema(schema)
    with closing(Ledger.open(tmp_path / "ledger", ledger_identity(declared))) as ledger:
        check(declared, ledger)
    with closing(open_session(schema, "ann", tmp_path / "ledger", ZeroNoise())) as ann:
        ann.execute(bought)
        asked_back(ann, asked)
        with closing(open_session(schema, "bob", tmp_path / "ledger", ZeroNoise())) as bob:
            found = bob.execute(asked)
            assert found.releases and any(note.startswith("bought although") for note in found.notes)


def test_what_is_asked_anew_is_no_question(session: Session) -> None:
    for option in ("epsilon=4, cube=off", "epsilon=5, fresh"):
        assert session.execute(f"/* dpsql: {option} */ {BY_SITE}").releases


def test_no_question_where_only_a_part_could_be_read_off(session: Session) -> None:
    sql = f"{ASKED} SELECT a.n, b.m FROM ({BY_SITE}) AS a, (SELECT MEDIAN(age) AS m FROM patient) AS b"
    assert session.execute(sql).releases == 2


@pytest.mark.parametrize(
    ("text", "option", "is_asked"),
    [
        # 26 of 300 people a site, and 26 times what epsilon 2 buys
        (DECLARED, "epsilon=2", True),
        (TEXT, "epsilon=2", False),
        (DECLARED, "error=2", False),
        (DECLARED, "error=3", True),
        (TEXT, "error=3", True),
        (DECLARED.replace("units = 900", "units = 600"), "epsilon=2", False),
    ],
)
def test_a_question_is_asked_where_a_digit_stands(text: str, option: str, *, is_asked: bool) -> None:
    with closing(opened(text)) as found:
        found.execute(PATIENTS)
        sql = f"/* dpsql: {option} */ {BY_SITE}"
        if is_asked:
            asked_back(found, sql)
        else:
            bought = found.execute(sql)
            assert bought.releases and not any("although" in note for note in bought.notes)


def test_finer_answers_that_are_stored_are_offered_too() -> None:
    """36 groups add up to one with 6 times the error of each: more than is given without a word."""
    total = "SELECT COUNT(*) FROM patient"
    with closing(opened()) as found:
        found.execute(f"/* dpsql: epsilon=1 */ {BY_ALL}")
        assert "what is stored answers it free" in asked_back(found, f"/* dpsql: epsilon=1 */ {total}").message
        off = read(found, f"/* dpsql: epsilon=1, buy=off */ {total}")
        assert off.rows == [(900,)] and any("made of stored answers by more keys" in note for note in off.notes)
        error = off.errors()[0]
        assert error is not None and error > 1
        assert found.execute(f"/* dpsql: epsilon=1, buy=on */ {total}").releases


def test_the_same_at_a_higher_price_is_meant_where_the_price_is_written() -> None:
    with closing(opened()) as found:
        found.execute(f"/* dpsql: epsilon=0.05 */ {BY_SITE}")
        assert found.execute(f"/* dpsql: epsilon=0.2 */ {BY_SITE}").releases
        found.execute("/* dpsql: epsilon=0.05 */ SELECT city, COUNT(*) FROM patient GROUP BY city")
        asked_back(found, "SELECT city, COUNT(*) FROM patient GROUP BY city")


def test_what_is_sharpened_is_charged_for_the_difference_without_a_question() -> None:
    with closing(opened()) as found:
        gaussian = "SELECT city, COUNT(*) FROM patient GROUP BY city"
        first = found.execute(f"/* dpsql: epsilon=0.05, mechanism=gaussian */ {gaussian}")
        again = found.execute(f"/* dpsql: mechanism=gaussian */ {gaussian}")
        alone = found.execute(f"/* dpsql: mechanism=gaussian, fresh */ {gaussian}")
        assert first.releases and again.releases and again.receipt.loss.rho < alone.receipt.loss.rho


def test_what_another_stores_while_it_is_looked_for_is_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two openings of a dashboard ask the same at once: the slower one has the answer of the faster."""
    sql = "SELECT site, AVG(weight) FROM patient GROUP BY site"
    schema, ledger = tmp_path / "schema.toml", tmp_path / "ledger"
    schema.write_text(DECLARED)
    clinic.write(tmp_path, DATA)
    declared = read_schema(schema)
    with closing(Ledger.open(ledger, ledger_identity(declared))) as kept:
        check(declared, kept)
    original = Stored._offer
    with closing(open_session(schema, None, ledger)) as faster, closing(open_session(schema, None, ledger)) as slower:

        def late(self: Stored, *given: Any, **more: Any) -> object:
            monkeypatch.setattr(Stored, "_offer", original)
            bought.append(faster.execute(sql))
            return original(self, *given, **more)

        bought: list[Answer] = []
        monkeypatch.setattr(Stored, "_offer", late)
        assert slower.execute(sql).rows == bought[0].rows
        assert bought[0].releases
