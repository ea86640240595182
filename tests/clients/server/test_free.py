"""Everything that charges nothing leaves the ledger as it is: Parse, Describe, refusals, failed logins, catalogs."""

from __future__ import annotations

import pytest

from tests.support.raw_client import FLUSH, SYNC, RawClient, bind, describe, errors, execute, parse
from tests.support.served import Served, dump

SQL = "SELECT site, COUNT(*) AS n FROM person WHERE income > $1 GROUP BY site"
NEW = "SELECT COUNT(*) AS n FROM person WHERE income > 12345 AND site = 3"


def kinds(found: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(kind for kind, _ in found)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ((parse(NEW), SYNC), b"1Z"),
        ((parse(NEW), describe(b"S"), SYNC), b"1tTZ"),
        ((parse(SQL), describe(b"S"), FLUSH, SYNC), b"1tTZ"),
        ((parse(SQL), bind(b"100"), describe(b"P"), SYNC), b"12TZ"),
        ((parse(SQL), bind(b"100"), describe(b"P"), FLUSH, SYNC), b"12TZ"),
        ((parse(SQL), bind(b"no number"), execute(), SYNC), b"1EZ"),
        ((parse("SELECT $1 AS x"), bind(b"\0" * 8, formats=(1,)), execute(), SYNC), b"1EZ"),
        ((parse("SELECT COUNT(*) FROM nothing"), describe(b"S"), SYNC), b"1EZ"),
        ((parse("BEGIN"), bind(), execute(), parse("COMMIT"), bind(), execute(), SYNC), b"12C12CZ"),
        ((parse(""), bind(), describe(b"P"), execute(), SYNC), b"12nIZ"),
    ],
)
def test_parts_that_do_not_execute(server: Served, client: RawClient, said: tuple[bytes, ...], answered: bytes) -> None:
    client.query("SHOW BUDGET")
    before = dump(server.ledger)
    client.send(*said)
    assert kinds(client.until_ready()) == answered
    assert dump(server.ledger) == before


def test_execute_charges(server: Served, client: RawClient) -> None:
    """The test above would see a charge."""
    before = dump(server.ledger)
    client.send(parse(NEW), bind(), execute(), SYNC)
    assert b"D" in kinds(client.until_ready())
    assert len(dump(server.ledger, "charge")) == len([row for row in before if row[0] == "charge"]) + 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(family_size) FROM person_year",
        "SELECT * FROM person",
        "SHOW BUDGET",
        "SHOW server_version",
        "SET application_name = 'x'",
        "SELECT COUNT(*) FROM plan",
        "SELECT COUNT(*) FROM person WHERE FALSE",
        "EXPLAIN SELECT COUNT(*) FROM person WHERE income > 77",
        "SELECT COUNT(*) FROM person WHERE site = 2 LIMIT 0",
        "SELECT 1; SELECT 2",
    ],
)
def test_free_statements(server: Served, client: RawClient, sql: str) -> None:
    client.query("SHOW BUDGET")
    before = dump(server.ledger)
    client.query(sql)
    assert dump(server.ledger) == before


@pytest.mark.parametrize(
    ("user", "password", "database"),
    [("alice", "wrong", "randhie"), ("nobody", "wrong", "randhie"), ("alice", "wrong", "nothing")],
)
def test_failed_logins(server: Served, user: str, password: str, database: str) -> None:
    """Nobody is told whether the name, the password or the dataset was wrong."""
    before = dump(server.ledger)
    with RawClient(server.port) as one:
        found = errors(one.login(user, password, database))
    assert [(told["S"], told["C"], told["M"]) for told in found] == [
        ("FATAL", "28P01", f'password authentication failed for user "{user}"')
    ]
    assert dump(server.ledger) == before


def test_each_analyst_has_their_own_budget(server: Served) -> None:
    """The login settles who asks: nothing that is said afterwards changes it."""
    with RawClient(server.port) as one:
        one.login("bob")
        for sql in ("SET ROLE alice", "SET SESSION AUTHORIZATION alice", "SET session_authorization = 'alice'"):
            assert errors(one.query(sql))[0]["C"] == "DP103"
        one.query("SELECT COUNT(*) AS bobs FROM person WHERE site = 5 AND income > 4321")
    assert "bob" in server.charges()[-1]


def test_settings_are_of_the_connection(server: Served) -> None:
    """The same worker answers others, with their own."""
    sql = "SELECT COUNT(*) FROM person WHERE income > {} AND site = 1"
    with RawClient(server.port) as one, RawClient(server.port) as other:
        one.login()
        other.login()
        one.query("SET dp_epsilon = 0.25")
        for at in range(3):
            told = [body for kind, body in one.query(sql.format(1000 + 4000 * at)) if kind == b"N"]
            assert b'"epsilon": 0.25' in told[-1]
            told = [body for kind, body in other.query(sql.format(3000 + 4000 * at)) if kind == b"N"]
            assert b'"epsilon": 0.1' in told[-1]
        one.query("RESET dp_epsilon")
        assert b'"epsilon": 0.1' in [body for kind, body in one.query(sql.format(14000)) if kind == b"N"][-1]
