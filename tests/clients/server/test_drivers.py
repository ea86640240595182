"""Drivers of PostgreSQL get what a connection in the process gets: rows, types, codes, hints, positions and prices."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

import dpsql
from tests.support.served import PASSWORD, Served

GROUPED = "SELECT site, COUNT(*) AS n, AVG(income) AS mean FROM person WHERE income > {} GROUP BY site ORDER BY site"
REFUSED = "SELECT SUM(family_size) FROM person_year"
TYPED = """SELECT CAST('2020-02-29' AS DATE) AS d, CAST('2020-02-29 12:34:56.5' AS TIMESTAMP) AS t, CAST('01:02:03' AS TIME) AS c,
    CAST(-12345.678 AS DECIMAL(12, 3)) AS x, CAST(0.1 AS DOUBLE) AS f, TRUE AS b, NULL AS nothing, 'é'' "' AS s,
    CAST(170141183460469231731687303715884105727 AS HUGEINT) AS h, CAST(7 AS SMALLINT) AS k FROM plan LIMIT 1"""
JARS = ("/usr/share/java/postgresql.jar",)


def same_rows(inside: dpsql.Connection, sql: str, given: list[object], found: list[tuple[object, ...]]) -> None:
    """The process reads the answers that were stored when the driver bought them."""
    cursor = inside.execute(sql, given)
    assert cursor.privacy.releases == 0
    assert [tuple(row) for row in found] == cursor.fetchall()


def refusal(inside: dpsql.Connection) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as caught:
        inside.execute(REFUSED)
    return caught.value


def test_psycopg(server: Served, inside: dpsql.Connection) -> None:
    psycopg = pytest.importorskip("psycopg")
    told: list[tuple[str, str]] = []
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.add_notice_handler(lambda note: told.append((note.message_primary, note.message_detail)))
        before = inside.price(GROUPED.format("?"), [1000.0])
        found = connection.execute(GROUPED.format("%s"), [1000.0])
        assert [(c.name, c.type_display) for c in found.description] == [
            ("site", "int4"),
            ("n", "int8"),
            ("mean", "float8"),
        ]
        same_rows(inside, GROUPED.format("?"), [1000.0], found.fetchall())
        price = json.loads(told[-1][1])
        assert (price["epsilon"], price["releases"]) == (float(before.epsilon), before.releases)
        assert price["remaining_epsilon"] == float(inside.execute(GROUPED.format("?"), [1000.0]).privacy.remaining)
        assert set(price["error"]) == {"n", "mean"}
        same_rows(
            inside,
            GROUPED.format("?"),
            [1000.0],
            connection.cursor(binary=True).execute(GROUPED.format("%b"), [1000.0]).fetchall(),
        )
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(REFUSED)
        known, diagnostic = refusal(inside), caught.value.diag
        assert known.span is not None
        assert (diagnostic.sqlstate, diagnostic.message_primary, diagnostic.message_hint) == (
            "DP201",
            known.message,
            known.hint,
        )
        assert diagnostic.statement_position == str(known.span.start + 1)


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_each_type(server: Served, inside: dpsql.Connection, binary: bool) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(server.address(), autocommit=True) as connection:
        found = connection.cursor(binary=binary).execute(TYPED).fetchone()
    known = inside.execute(TYPED).fetchone()
    assert known is not None
    assert list(found) == [Decimal(one) if at == 8 else one for at, one in enumerate(known)]


def test_psycopg_fetches_in_parts(server: Served) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(server.address()) as connection:
        found = connection.execute("SELECT plan FROM plan ORDER BY plan").fetchall()
        assert list(connection.cursor().stream("SELECT plan FROM plan ORDER BY plan")) == found
        connection.rollback()


def test_asyncpg(server: Served, inside: dpsql.Connection) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def ask() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], Exception]:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user="alice", database="randhie", password=PASSWORD, ssl=False
        )
        try:
            found = await connection.fetch(GROUPED.format("$1"), 2000.0)
            async with connection.transaction():
                part = [
                    tuple(row) async for row in connection.cursor("SELECT plan FROM plan ORDER BY plan", prefetch=4)
                ]
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.fetch(REFUSED)
            return [tuple(row) for row in found], part, caught.value
        finally:
            await connection.close()

    found, part, problem = asyncio.run(ask())
    same_rows(inside, GROUPED.format("?"), [2000.0], found)
    same_rows(inside, "SELECT plan FROM plan ORDER BY plan", [], part)
    known = refusal(inside)
    assert known.span is not None
    told = (problem.sqlstate, problem.message, problem.hint, problem.position)  # type: ignore[attr-defined]
    assert told == ("DP201", known.message, known.hint, str(known.span.start + 1))


def test_pg8000(server: Served, inside: dpsql.Connection) -> None:
    dbapi = pytest.importorskip("pg8000.dbapi")
    connection = dbapi.connect("alice", host="127.0.0.1", port=server.port, database="randhie", password=PASSWORD)
    try:
        cursor = connection.cursor()
        cursor.execute(GROUPED.format("%s"), [3000.0])
        assert [column[1] for column in cursor.description] == [23, 20, 701]
        same_rows(inside, GROUPED.format("?"), [3000.0], [tuple(row) for row in cursor.fetchall()])
        with pytest.raises(dbapi.DatabaseError) as caught:
            cursor.execute(REFUSED)
    finally:
        connection.close()
    known, told = refusal(inside), caught.value.args[0]
    assert known.span is not None
    assert (told["C"], told["M"], told["H"], told["P"]) == (
        "DP201",
        known.message,
        known.hint,
        str(known.span.start + 1),
    )


def test_psql(server: Served, inside: dpsql.Connection) -> None:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    sql, environment = GROUPED.format("4000"), {**os.environ, "PGPASSWORD": PASSWORD}
    command = ["psql", "-X", "-A", "-t", "-F", "|", server.address(), "-c", sql, "-c", REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    rows = [tuple(json.loads(part) for part in line.split("|")) for line in done.stdout.splitlines()]
    same_rows(inside, sql, [], rows)
    known = refusal(inside)
    assert f"ERROR:  {known.message}\nLINE 1: {REFUSED}\n               ^\nHINT:  {known.hint}" in done.stderr
    assert "NOTICE:  price: epsilon 0.1" in done.stderr


def test_pgjdbc(server: Served, inside: dpsql.Connection) -> None:
    jar = next(filter(os.path.exists, JARS), None)
    if shutil.which("java") is None or jar is None:
        pytest.skip("no Java, or no libpostgresql-jdbc-java")
    address = f"jdbc:postgresql://127.0.0.1:{server.port}/randhie"
    command = ["java", "-cp", jar, str(Path(__file__).with_name("Probe.java")), address, "alice", PASSWORD]
    sql = "SELECT site, COUNT(*) AS n FROM person WHERE income > ? AND site IN (?,?) GROUP BY site ORDER BY site"
    done = subprocess.run([*command, sql, "d500,i1,i2", REFUSED, ""], capture_output=True, text=True, check=False)
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java compiles nothing")
    lines = done.stdout.splitlines()
    assert lines[0] == "columns site:int4,n:int8", done.stderr
    rows = [tuple(map(int, line.removeprefix("row ").split("|"))) for line in lines if line.startswith("row ")]
    same_rows(inside, sql, [500.0, 1, 2], rows)  # type: ignore[arg-type]
    known = refusal(inside)
    assert f"error DP201|{known.message}|{known.hint}|8" == lines[-1]
    assert any(line.startswith("told price: epsilon 0.1") for line in lines)
