"""Rule 69: what the guard is to forget, and what it evaluates anew, changes nothing but its decisions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import remembered
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.history import guard_report
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.support.copies import copied
from tests.support.noise import ZeroNoise

PAIR = ["SELECT COUNT(*) FROM person WHERE income < 15000", "SELECT COUNT(*) FROM person WHERE income < 15010"]
DEAR = "/* dpsql: epsilon=0.5 */ "


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return read_schema(copied(tmp_path))


def opened(schema: Schema) -> Session:
    return open_session(schema, "ann", schema.folder / "ledger", ZeroNoise())


def ledger(schema: Schema) -> Ledger:
    return Ledger.open(schema.folder / "ledger", ledger_identity(schema))


def ask(session: Session, sql: str) -> str:
    try:
        session.execute(DEAR + sql)
    except Error as problem:
        return problem.code
    return "answered"


def declared_anew(schema: Schema, declared: str, instead: str) -> Schema:
    path = schema.folder / "schema.toml"
    path.write_text(path.read_text().replace(declared, instead))
    return read_schema(path)


def kept(schema: Schema) -> dict[str, list[tuple[object, ...]]]:
    """All that the ledger holds but what the guard alone reads."""
    with closing(sqlite3.connect(schema.folder / "ledger")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = set(tables) - {"forgotten", "evaluated", "size", "packed"}
        assert len(own) == len(tables) - 3
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in sorted(own)}


def test_rule_69_forgetting_changes_the_guard_alone(schema: Schema) -> None:
    with closing(opened(schema)) as session:
        assert [ask(session, sql) for sql in PAIR] == ["answered", "DPSQL-602"]
        before = kept(schema)
        report = str(guard_report(schema, ledger(schema), "1"))
        assert report.startswith("forgotten: 1 charged statement") and "remembers 0" in report
        assert kept(schema) == before
        with closing(ledger(schema)) as known:
            assert known.verify() == 1 and not known.asked()
        assert ask(session, PAIR[1]) == "answered", "an open session notices"
        assert session.execute(DEAR + PAIR[0]).cached, "what was asked is stored all the same"


@pytest.mark.parametrize("text", ["2", "0", "x", "1-", "1-9999999999999", "", "1,,1", "-1"])
@pytest.mark.few(4)
def test_rule_69_what_is_not_remembered_is_not_forgotten(schema: Schema, text: str) -> None:
    with closing(opened(schema)) as session:
        ask(session, PAIR[0])
        with pytest.raises(Error, match="DPSQL-802"):
            guard_report(schema, ledger(schema), text)
        assert ask(session, PAIR[1]) == "DPSQL-602"


def test_rule_69_the_owner_sees_everybody(schema: Schema) -> None:
    for who in ("ann", "bob"):
        with closing(open_session(schema, who, schema.folder / "ledger", ZeroNoise())) as session:
            session.execute(f"SELECT COUNT(*) FROM person WHERE site = {1 + (who == 'bob')}")
    report = str(guard_report(schema, ledger(schema)))
    assert "1  ann  SELECT COUNT(*) FROM person WHERE site = 1\n      1,000 people: site = 1" in report
    assert "2  bob" in report
    assert "remembers 2" in str(guard_report(schema, ledger(schema)))
    assert "remembers 0" in str(guard_report(schema, ledger(schema), "1-2"))


def test_rule_69_other_declarations_are_decided_by_the_same_statements(schema: Schema) -> None:
    """Earlier statements are evaluated on the new sample units, from their texts, once."""
    with closing(opened(schema)) as session:
        assert ask(session, PAIR[0]) == "answered"
    changed = declared_anew(schema, "units   = 6000", "units   = 5900")
    with closing(opened(changed)) as session:
        assert ask(session, PAIR[1]) == "DPSQL-602"
    with closing(ledger(changed)) as known:
        text = known.asked()[0].asked
        assert remembered.asked_of(known, 1)[1] == text and known.verify() == 1
        assert text != known.store.read(lambda c: c.execute("SELECT asked FROM charge").fetchone()[0])
    with closing(opened(changed)) as session:
        session._world.guard._memory._anew = lambda statement: pytest.fail("it was evaluated")
        assert ask(session, PAIR[1]) == "DPSQL-602"


def test_rule_69_what_cannot_be_read_any_more_is_listed(schema: Schema) -> None:
    with closing(opened(schema)) as session:
        assert ask(session, PAIR[0]) == "answered"
    changed = declared_anew(schema, "income              =", "# income =")
    with closing(open_session(changed, None, schema.folder / "ledger", ZeroNoise())) as session:
        assert ask(session, "SELECT COUNT(*) FROM person") == "answered"
    report = str(guard_report(changed, ledger(changed)))
    assert "SELECT COUNT(*) FROM person WHERE income < 15000\n      cannot be read with this schema" in report


def test_rule_69_a_history_of_an_earlier_layout_decides(tmp_path: Path, schema: Schema) -> None:
    """COUNT(*) and income > 5000 were asked by its analysts; regions are no cells."""
    kept_ledgers = Path(__file__).parents[1] / "fixtures" / "ledgers"
    for name in ("layout_4.sqlite", "layout_4.sqlite.head"):
        (schema.folder / name.replace("layout_4.sqlite", "ledger")).write_bytes((kept_ledgers / name).read_bytes())
    # whatever the noise of what was asked
    exact = replace(schema, guard=replace(schema.guard, readable=Fraction(1_000)))
    with closing(open_session(exact, "bob", schema.folder / "ledger", ZeroNoise())) as session:
        assert ask(session, "SELECT COUNT(*) FROM person WHERE income > 5010") == "DPSQL-602"
        assert ask(session, "SELECT COUNT(*) FROM person WHERE income > 9000") == "answered"


def test_rule_69_no_text_looks_like_an_entry(schema: Schema) -> None:
    with closing(opened(schema)) as session:
        session.execute(
            "SELECT COUNT(*) FROM person\n      WHERE site = 1\n  7  bob  AND plan = 1".replace("7  bob", "")
        )
    report = str(guard_report(schema, ledger(schema)))
    assert len(report.splitlines()) == 5 and "1  ann  SELECT COUNT(*) FROM person WHERE site = 1 AND plan = 1" in report
