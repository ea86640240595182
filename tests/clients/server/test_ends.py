"""Statements that end early, clients that go away, and processes that are killed: what was charged stands, and the server serves on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.clients.server import frames
from dpsql.clients.server.frames import Lost
from dpsql.clients.server.pool import Asked, Reply, WorkerLink
from tests.support.raw_client import RawClient, errors, message, rows
from tests.support.served import ROOT, WAIT_SECONDS, Served, dataset, served, until

PUBLIC = "SELECT COUNT(*) FROM " + ", ".join(f"plan AS p{i}" for i in range(9))
"""Free, and takes minutes."""
CHARGED = "SELECT COUNT(*) AS n, (SELECT COUNT(*) FROM {crossed}) AS m FROM person WHERE income > {{}}".format(
    crossed=", ".join(f"plan AS p{i}" for i in range(9))
)
"""Charged, and then takes minutes."""


def running(client: RawClient, sql: str) -> tuple[threading.Thread, list[list[tuple[bytes, bytes]]]]:
    """Ask in another thread."""
    found: list[list[tuple[bytes, bytes]]] = []
    asking = threading.Thread(target=lambda: found.append(client.query(sql)))
    asking.start()
    return asking, found


def charged(server: Served, income: int) -> bool:
    return any(f"> {income}" in str(row) for row in server.charges())


@pytest.mark.parametrize(
    ("sql", "told"),
    [(PUBLIC, "interrupted; nothing was charged"), (CHARGED.format(11), "interrupted; the charge stands")],
)
def test_cancel_by_key(server: Served, client: RawClient, sql: str, told: str) -> None:
    before = len(server.charges())
    asking, found = running(client, sql)
    if sql != PUBLIC:
        until(lambda: len(server.charges()) > before)
    time.sleep(0.2)
    client.cancel()
    asking.join(60)
    assert [(one["C"], one["M"]) for one in errors(found[0])] == [("DP703", told)]
    assert rows(client.query("SELECT COUNT(*) FROM plan")) == [["18"]]


def test_cancel_while_waiting_for_a_worker(server: Served, client: RawClient) -> None:
    with RawClient(server.port) as one, RawClient(server.port) as two:
        one.login("bob")
        two.login("carol")
        busy = [running(one, PUBLIC), running(two, PUBLIC)]
        time.sleep(0.3)
        asking, found = running(client, "SELECT COUNT(*) FROM person WHERE income > 21")
        time.sleep(0.3)
        before = len(server.charges())
        client.cancel()
        asking.join(30)
        assert [one["M"] for one in errors(found[0])] == ["interrupted; nothing was charged"]
        assert len(server.charges()) == before
        one.cancel()
        two.cancel()
        for asking, _ in busy:
            asking.join(60)


def test_cancel_with_a_wrong_key(server: Served, client: RawClient) -> None:
    asking, found = running(client, PUBLIC)
    time.sleep(0.3)
    right = client.key
    client.key = (right[0], right[1] ^ 1)
    client.cancel()
    time.sleep(0.3)
    assert asking.is_alive()
    client.key = right
    client.cancel()
    asking.join(60)
    assert errors(found[0])[0]["C"] == "DP703"


def test_cancel_of_nothing(server: Served, client: RawClient) -> None:
    client.cancel()
    assert rows(client.query("SELECT COUNT(*) FROM plan")) == [["18"]]


def test_statement_timeout(server: Served, client: RawClient) -> None:
    client.query("SET statement_timeout = '300ms'")
    assert errors(client.query(PUBLIC))[0]["M"] == "interrupted; nothing was charged"
    client.query("RESET statement_timeout")
    assert rows(client.query("SHOW statement_timeout")) == [["0"]]


def test_a_statement_that_is_cancelled_before_it_begins_leaves_no_answer_behind(
    server: Served, client: RawClient
) -> None:
    """Nothing of it ran, nothing was charged, and whoever is served by its worker next gets an answer of their own."""
    with RawClient(server.port) as other:
        other.login("bob")
        before = len(server.charges())
        client.query("SET statement_timeout = '1us'")
        for at in range(4):
            found = errors(client.query(f"SELECT COUNT(*) FROM person WHERE income > {900 + at}"))
            assert [one["M"] for one in found] == ["interrupted; nothing was charged"]
            assert rows(other.query("SELECT COUNT(*) FROM plan")) == [["18"]]
        assert len(server.charges()) == before


@pytest.mark.parametrize(("number", "is_given"), [(1, True), (0, False), (None, False)])
def test_an_answer_to_something_else_is_given_to_nobody(number: int | None, is_given: bool) -> None:
    """The worker is taken for lost, and ended with what it still holds."""

    async def ask() -> Reply:
        own, other = socket.socketpair()
        own.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=own)
        frames.send(other, {"columns": [], **({} if number is None else {"number": number})})
        try:
            return await WorkerLink(0, reader, writer).ask({"op": "price"}, Asked(), WAIT_SECONDS)
        finally:
            writer.close()
            other.close()

    if is_given:
        assert asyncio.run(ask()).head == {"columns": []}
    else:
        with pytest.raises(Lost):
            asyncio.run(ask())


def test_a_client_that_goes_away(server: Served) -> None:
    """Finish and store the answer that it asked for: asked again it is free."""
    sql = "SELECT COUNT(*) AS n, AVG(income) AS a FROM person WHERE income > 31"
    one = RawClient(server.port)
    one.login()
    one.send(message(b"Q", sql.encode() + b"\0"))
    one.socket.close()
    until(lambda: charged(server, 31))
    with RawClient(server.port) as other:
        other.login()
        found = other.query(sql)
        assert len(rows(found)) == 1
        assert any(b'"cached": true' in body for kind, body in found if kind == b"N")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return dataset(tmp_path)


def test_a_worker_that_is_killed(own: Path) -> None:
    """Its statement is told that the charge stands; the next has a new worker; the same is not begun a third time."""
    with served(own, "--workers", "1") as server, RawClient(server.port) as client:
        client.login()
        for attempt in range(2):
            before = len(server.charges())
            asking, found = running(client, "/* dpsql: fresh */ " + CHARGED.format(41))
            until(lambda before=before: len(server.charges()) > before)  # type: ignore[misc]
            os.kill(server.workers()[0], signal.SIGKILL)
            asking.join(60)
            told = errors(found[0])[0]
            assert (told["C"], told["M"]) == (
                "DP701", "the process that ran the statement was ended; what was charged stays charged"), attempt  # fmt: skip
            assert rows(client.query("SELECT COUNT(*) FROM plan")) == [["18"]]
            assert len(server.charges()) == before + 1
        before = len(server.charges())
        assert errors(client.query("/* dpsql: fresh */ " + CHARGED.format(41)))[0]["C"] == "DP709"
        assert len(server.charges()) == before


@pytest.mark.slow
def test_a_server_that_is_killed_between_charge_and_answer(own: Path) -> None:
    """The charge is in the ledger, and a new server opens it."""
    with served(own) as server:
        client = RawClient(server.port)
        client.login()
        asking, _ = running(client, CHARGED.format(51))
        until(lambda: charged(server, 51))
        workers = server.workers()
        server.process.kill()
        server.process.wait()
        asking.join(60)
        client.socket.close()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    with served(own, "--workers", "1") as again, RawClient(again.port) as client:
        client.login()
        assert charged(again, 51)
        assert len(rows(client.query("SELECT COUNT(*) AS n FROM person WHERE income > 51"))) == 1


def test_the_owners_limit_of_seconds(tmp_path: Path) -> None:
    with served(dataset(tmp_path, seconds=1), "--workers", "1") as server, RawClient(server.port) as client:
        client.login()
        told = errors(client.query(CHARGED.format(61)))[0]
        assert (told["C"], told["M"]) == (
            "DP710",
            "the statement ran for more than 1 s, the owner's limit; the charge stands",
        )


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on data of its own; the last test here that has it ends it."""
    with served(dataset(tmp_path_factory.mktemp("lasting"))) as server:
        yield server


def test_data_that_is_refreshed(lasting: Served) -> None:
    """Workers that opened what was approved before are replaced when a statement meets the change."""
    people = lasting.schema.with_name("person.parquet")
    with RawClient(lasting.port) as client:
        client.login()
        assert len(rows(client.query("SELECT COUNT(*) AS n FROM person WHERE income > 71"))) == 1
        other = people.with_name("new.parquet")
        shutil.copy(people, other)
        os.replace(other, people)
        found = client.query("SELECT COUNT(*) AS n FROM person WHERE income > 72")
        assert len(rows(found)) == 1, errors(found)


# --- the head beside the ledger -------------------------------------------------------------------------------------------


def test_the_newest_charge_is_remembered_while_it_is_served(lasting: Served) -> None:
    """By the supervisor: workers may write no file but the ledger's own."""
    before = len(lasting.charges())
    with RawClient(lasting.port) as one:
        one.login()
        one.query("SELECT COUNT(*) FROM person WHERE income > 700")
    head = lasting.ledger.with_name(lasting.ledger.name + ".head")
    until(lambda: head.exists() and head.read_text().split()[0] == str(len(lasting.charges())) == str(before + 1))
    # the file is another one now, which no worker may read
    with RawClient(lasting.port) as one:
        one.login("bob")
        assert errors(one.query("SELECT COUNT(*) FROM person WHERE income > 900")) == []


def test_it_ends_when_it_is_told_to(lasting: Served) -> None:
    workers = lasting.workers()
    assert lasting.stop() == 0
    assert workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.slow
def test_planted_a_worker_that_takes_charges_out_of_the_ledger(folder: Path) -> None:
    """It may write the file. The charges are missed, and nothing more is answered, by this server or the next."""
    with served(folder) as server:
        with RawClient(server.port) as one:
            one.login()
            one.query("SELECT COUNT(*) FROM person WHERE income > 700")
        head = server.ledger.with_name(server.ledger.name + ".head")
        until(head.exists)
        with closing(sqlite3.connect(server.ledger)) as broken, broken:
            for table in ("charge", "total"):
                broken.execute(f"DELETE FROM {table}")
        assert server.process.wait(WAIT_SECONDS) != 0
        assert [line for line in server.lines if "DPSQL-705" in line]
    command = [sys.executable, "-m", "dpsql", "serve", str(folder), "--listen", "127.0.0.1:0"]
    named = {**os.environ, "PYTHONPATH": str(ROOT)}
    again = subprocess.run(command, capture_output=True, text=True, env=named, timeout=WAIT_SECONDS, check=False)
    assert again.returncode != 0 and "DPSQL-705" in again.stderr
