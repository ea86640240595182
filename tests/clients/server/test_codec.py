"""Pieces of the protocol by themselves: frames, passwords, types, habits, and parameters by where they stand."""

from __future__ import annotations

import base64
import os
import stat
import struct
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.clients.dbapi.packed import (
    pack,
    pack_error,
    pack_parameters,
    read_error,
    read_parameters,
    reader,
)
from dpsql.clients.dbapi.types import read_type
from dpsql.clients.server import users
from dpsql.clients.server.codec import Broken, Fields
from dpsql.clients.server.habits import ClientState, habit, milliseconds, plain
from dpsql.clients.server.login import LONGEST_PAUSE, Pauses
from dpsql.clients.server.options import Address, ServeOptions
from dpsql.clients.server.pgtypes import BY_NAME, field
from dpsql.clients.server.scram import Exchange, NotAuthenticated, Verifier, prepared
from dpsql.clients.server.values import read_parameter, writer
from dpsql.core.errors import Error, error
from dpsql.core.spans import Span
from dpsql.planner.placeholders import inferred, samples
from dpsql.schema.toml import read_schema
from tests.support.raw_client import ClientProof
from tests.support.served import ROOT

SCHEMA = read_schema(ROOT / "examples" / "randhie" / "schema.toml")
VALUES = {
    "bool": st.booleans(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "text": st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**15), max_value=10**15),
}
SQL_NAMES = {"bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float8": "DOUBLE", "text": "VARCHAR",
             "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "numeric": "DECIMAL(38,4)"}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("binary", [False, True])
def test_what_is_written_is_read_again(name: str, binary: bool) -> None:
    write = writer(read_type(SQL_NAMES[name]), binary)

    @given(VALUES[name])
    def each(value: object) -> None:
        assert read_parameter(write(value), BY_NAME[name], binary, 1) == value

    each()


@given(st.binary(max_size=40), st.sampled_from(sorted(BY_NAME)), st.booleans())
def test_parameters_that_are_none(value: bytes, name: str, binary: bool) -> None:
    """Whatever comes: a value, or one refusal."""
    try:
        read_parameter(value, BY_NAME[name], binary, 1)
    except Error as problem:
        assert problem.code == "DPSQL-108"


@pytest.mark.parametrize(
    ("groups", "is_read"), [(10, True), (200, True), (201, False), (30_000, False), (65_000, False)]
)
def test_a_number_of_very_many_digits_is_refused_before_it_is_computed(groups: int, is_read: bool) -> None:
    """One that a type of ours could have is read to its last digit."""
    weight = min(groups - 1, 32_767)
    value = struct.pack("!HhHh", groups, weight, 0, 0) + struct.pack(f"!{groups}H", 1, *([7] * (groups - 1)))
    if is_read:
        assert read_parameter(value, BY_NAME["numeric"], True, 1) == Decimal("1" + "0007" * (groups - 1))
    else:
        with pytest.raises(Error) as raised:
            read_parameter(value, BY_NAME["numeric"], True, 1)
        assert raised.value.code == "DPSQL-108"


@pytest.mark.parametrize(
    ("sqltype", "value", "text"),
    [
        ("BIGINT[]", [1, None, -3], "{1,NULL,-3}"),
        ("VARCHAR[]", ["a b", 'say "x"', "", "null", "ok"], r'{"a b","say \"x\"","","null",ok}'),
        ("INTERVAL", timedelta(days=3, seconds=3661, microseconds=5), "3 days 01:01:01.000005"),
        ("DOUBLE", float("-inf"), "-Infinity"),
        ("DATE", "infinity", "infinity"),
        ("BLOB", b"\x01\xff", r"\x01ff"),
    ],
)
def test_text_of_other_values(sqltype: str, value: object, text: str) -> None:
    assert writer(read_type(sqltype), False)(value) == text.encode()


def test_bytes_of_lists() -> None:
    found = writer(read_type("INTEGER[]"), True)([7, None])
    assert found == struct.pack("!iiIii", 1, 1, 23, 2, 1) + struct.pack("!ii", 4, 7) + struct.pack("!i", -1)
    assert field("x", "INTEGER[]", True).oid == 1007


def test_bytes_that_do_not_hold_a_value() -> None:
    with pytest.raises(Error) as caught:
        writer(read_type("SMALLINT"), True)(2**20)
    assert caught.value.code == "DPSQL-802"


@given(st.binary(max_size=60))
def test_fields_of_any_message(body: bytes) -> None:
    fields = Fields(body)
    try:
        fields.text(), fields.int16(), fields.value(), fields.int32()
        fields.end()
    except Broken as problem:
        assert problem.state in ("08P01", "22021")


# --- JSON between processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sqltype", "value"),
    [
        ("DOUBLE", 0.1), ("DOUBLE", float("inf")), ("DECIMAL(18,3)", Decimal("1.500")), ("DATE", date(2020, 2, 29)),
        ("TIMESTAMP", datetime(2020, 2, 29, 1, 2, 3, 4)), ("TIME", time(1, 2, 3)), ("HUGEINT", 2**100), ("VARCHAR", "é"),
        ("INTERVAL", timedelta(days=-1, microseconds=1)), ("BLOB", b"\x00"), ("DATE[]", [date(2020, 1, 1), None]), ("DATE", None),
        ("DATE", "infinity"),
    ],
)  # fmt: skip
def test_values_travel_as_they_are(sqltype: str, value: object) -> None:
    assert reader(read_type(sqltype))(pack(value)) == value


def test_parameters_and_errors_travel_as_they_are() -> None:
    given = [1, 0.1, "a", None, True, Decimal("1.50"), date(2020, 1, 1), datetime(2020, 1, 1), time(1), float("inf")]
    assert read_parameters(pack_parameters(given)) == given
    problem = error(201, "no bounds", hint="write some", span=Span(3, 5))
    again = read_error(pack_error(problem))
    assert (again.code, again.message, again.hint, again.span, type(again)) == (
        problem.code, problem.message, problem.hint, problem.span, type(problem))  # fmt: skip
    assert read_error({}).code == "DPSQL-901"
    for nothing in ({"x": {}}, [{"float": "x"}], [[1]]):
        with pytest.raises(Error):
            read_parameters(nothing)  # type: ignore[arg-type]


# --- passwords ------------------------------------------------------------------------------------------------------------


def test_the_exchange_of_the_standard() -> None:
    """RFC 7677, section 3: its salt, count and password give its keys."""
    verifier = Verifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    assert str(verifier) == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
        "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )
    assert Verifier.read(str(verifier)) == verifier


@pytest.mark.parametrize(("password", "right"), [("pencil", True), ("pencils", False), ("", False)])
def test_logins(password: str, right: bool) -> None:
    exchange, proof = Exchange(Verifier.of("pencil", iterations=4096)), ClientProof(password)
    final = proof.final(exchange.first(proof.first()))
    if right:
        assert exchange.final(final).startswith("v=")
    else:
        with pytest.raises(NotAuthenticated):
            exchange.final(final)


def test_nobody_has_a_verifier_that_stays_the_same() -> None:
    one, other = Verifier.of_nobody("eve", b"k"), Verifier.of_nobody("mallory", b"k")
    assert one == Verifier.of_nobody("eve", b"k")
    assert one.salt != other.salt
    assert one.iterations == Verifier.of("a password").iterations


@pytest.mark.parametrize(
    "first", ["", "n,,", "p=tls-server-end-point,,n=,r=abcdefghijk", "n,,n=,r=short", "y,,m=x,n=,r=abcdefghijklmn"]
)
def test_first_messages_that_are_none(first: str) -> None:
    with pytest.raises(NotAuthenticated):
        Exchange(Verifier.of_nobody("eve", b"k")).first(first)


def test_a_replayed_or_changed_final_message() -> None:
    verifier, proof = Verifier.of("pencil", iterations=4096), ClientProof("pencil")
    final = proof.final(Exchange(verifier).first(proof.first()))
    again = Exchange(verifier)
    again.first(proof.first())
    for said in (final, final.replace("c=biws", "c=eSws"), final[:-8] + "AAAAAAA=", "c=biws,r=x,p=!"):
        with pytest.raises(NotAuthenticated):
            again.final(said)


def test_passwords_by_their_meaning() -> None:
    """RFC 4013, section 3."""
    assert [prepared(text) for text in ("I\u00adX", "user", "\u00aa", "\u2168")] == ["IX", "user", "a", "IX"]
    assert prepared("\u0007") == "\u0007"


def test_pauses_grow_and_end() -> None:
    pauses = Pauses()
    waited = [pauses.after_failure("eve") for _ in range(8)]
    assert waited == sorted(waited)
    assert waited[-1] == LONGEST_PAUSE
    pauses.forget("eve")
    assert pauses.after_failure("eve") == waited[0]


def test_the_file_of_users(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "randhie" / "schema.toml").read_text() + "[analysts.alice]\nepsilon = 1.0\n"
    (tmp_path / "schema.toml").write_text(text)
    schema, path = read_schema(tmp_path / "schema.toml"), tmp_path / "x.users"
    users.add(path, schema, "alice", "long enough")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "long enough" not in path.read_text()
    for name, password in (("eve", "long enough"), ("alice", "short")):
        with pytest.raises(Error):
            users.add(path, schema, name, password)
    os.chmod(path, 0o644)
    with pytest.raises(Error, match="can be read by others"):
        users.read_users(path)
    os.chmod(path, 0o600)
    users.remove(path, "alice")
    assert users.read_users(path) == {}
    with pytest.raises(Error):
        users.require_served(SCHEMA)


# --- habits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "tag"),
    [
        ("BEGIN", "BEGIN"), ("begin transaction isolation level serializable, read only", "BEGIN"), ("START TRANSACTION", "BEGIN"),
        ("COMMIT;", "COMMIT"), ("/* x */ ROLLBACK", "ROLLBACK"), ("ROLLBACK TO SAVEPOINT a", "ROLLBACK"), ("SAVEPOINT a", "SAVEPOINT"),
        ("SET extra_float_digits = 3", "SET"), ("SET TIME ZONE 'UTC'", "SET"), ("SET NAMES 'utf8'", "SET"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET"), ("RESET ALL", "RESET"), ("DISCARD ALL", "DISCARD ALL"),
        ("DEALLOCATE ALL", "DEALLOCATE"), ("UNLISTEN *", "UNLISTEN"), ("SHOW TRANSACTION ISOLATION LEVEL", "SHOW"),
        ("SET client_encoding TO 'LATIN1'", None), ("SET default_transaction_read_only = off", None), ("SET ROLE eve", None),
        ("SET dp_epsilon = 0.2", None), ("SHOW BUDGET", None), ("SELECT 1", None), ("COMMIT AND CHAIN", None), ("LISTEN x", None),
        ("SET session_authorization = 'eve'", None), ("BEGIN; SELECT 1", None),
    ],
)  # fmt: skip
def test_habits(sql: str, tag: str | None) -> None:
    found = habit(sql, ClientState("alice", "randhie"))
    assert (found.tag if found is not None else None) == tag


class Copied(str):
    """A text that counts the characters which are copied out of it."""

    copied = 0

    def __getitem__(self, place: object) -> Copied:
        found = Copied(super().__getitem__(place))  # type: ignore[index]
        Copied.copied += len(found)
        return found


@pytest.mark.parametrize("comment", ["/**/", "-- x\n", " /* a */ -- b\n"])
def test_comments_before_a_statement_are_passed_over_without_copies(comment: str) -> None:
    """A million of them would else hold up all clients of the front."""
    Copied.copied = 0
    assert plain(Copied(comment * 2000 + "SELECT 1 ;")) == "SELECT 1"
    assert Copied.copied <= 2 * len("SELECT 1 ;")


def test_settings_that_matter() -> None:
    client = ClientState("alice", "randhie")
    habit("SET statement_timeout = '2s'", client)
    habit("SET client_min_messages TO warning", client)
    assert (client.timeout, client.quiet, milliseconds("1min")) == (2.0, True, 60_000.0)
    habit("DISCARD ALL", client)
    assert (client.timeout, client.quiet) == (None, False)


# --- addresses ------------------------------------------------------------------------------------------------------------


def test_addresses() -> None:
    assert Address.read("0.0.0.0:1") == Address("0.0.0.0", 1)
    assert [Address.read(text).is_loopback for text in ("localhost:1", "[::1]:1", "127.9.9.9:1", "[::]:1", "example.org:1")] == [
        True, True, True, False, False]  # fmt: skip
    for text in ("127.0.0.1", "x:99999", ":1", "a:b:1"):
        with pytest.raises(Error):
            Address.read(text)
    with pytest.raises(Error, match=r"write --http 127\.0\.0\.1:8439"):
        Address.read("x", "--http", 8439)
    with pytest.raises(Error, match="without TLS"):
        ServeOptions((), Address("0.0.0.0", 1)).check()


# --- parameters by where they stand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT COUNT(*) FROM person WHERE income > $1 AND site IN ($2,$3)", ["DOUBLE", "INTEGER", "INTEGER"]),
        ("SELECT COUNT(*) FROM person p WHERE p.income BETWEEN ? AND ? LIMIT ?", ["DOUBLE", "DOUBLE", "BIGINT"]),
        ("SELECT COUNT(*) FROM person WHERE female = $1", ["BOOLEAN"]),
        ("SELECT SUM(md_visits * $1) FROM person_year", ["BIGINT"]),
        ("SELECT $1::DATE, CAST($2 AS VARCHAR), $3", ["DATE", "VARCHAR", None]),
        ("SELECT COUNT(*) FROM plan WHERE CAST(plan AS VARCHAR) LIKE $1", ["VARCHAR"]),
        ("SELECT dp_sum(family_size, lower := $1, upper := $2) FROM person_year", ["DOUBLE", "DOUBLE"]),
        ("SELECT COUNT(*) FROM person WHERE site = $2 AND income < $1", ["DOUBLE", "INTEGER"]),
        ("SET dp_epsilon = 0.1", []),
    ],
)
def test_types_of_parameters(sql: str, types: list[str | None]) -> None:
    found = inferred(sql, SCHEMA)
    assert [None if one.type is None else str(one.type) for one in found] == types
    assert len(samples(found)) == len(samples(found, last=True)) == len(types)


@pytest.mark.parametrize("sql", ["SELECT $2", "SELECT :name", "SELECT $0", "SELECT $99999"])
def test_parameters_without_a_type(sql: str) -> None:
    with pytest.raises(Error) as caught:
        inferred(sql, SCHEMA)
    assert caught.value.code == "DPSQL-108"
