"""HTTP's side of the wall: a front that is broken open reaches nothing, nothing of the data is told, and processes that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import duckdb
import pytest

import dpsql
from dpsql.clients.server.front import Front
from dpsql.clients.server.pool import Pool
from dpsql.core.errors import Error
from tests.clients.server.test_ends import CHARGED
from tests.clients.server.test_http import ask, say
from tests.clients.server.test_wall import BREAK_OUT
from tests.support import fuzzed_http
from tests.support.served import ROOT, Served, children, dump, served, until

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

FRONT = BREAK_OUT.replace(
    "assert confine(reach_of(told)) == ()",
    "import dpsql.clients.server.front\n"
    "    from dpsql.clients.server.confinement import Reach, python_files\n"
    "    assert confine(Reach(read=python_files())) == ()\n"
    "    import dpsql.clients.server.http",
)
"""The front's own confinement, and what it loads behind it."""


def attempts(path: Path, how: str) -> dict[str, dict[str, str]]:
    spill = path.parent.parent / "spill"
    spill.mkdir()
    (path.parent.parent / "other.txt").write_text("another dataset")
    told = {"schema": str(path), "port": 1, "elsewhere": str(path.parent.parent), "own": [str(spill)]}
    command = [sys.executable, "-c", FRONT, json.dumps(told), how]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("what", ["schema", "page", "execute"])
def test_nobody_keeps_more_workers_busy_than_they_may(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is that they ask: here one request at once."""
    from dpsql.clients.server import http
    from dpsql.clients.server.pool import Reply

    async def both() -> str:
        held = asyncio.Event()

        async def wait(*_: object) -> Reply:
            await held.wait()
            return Reply({})

        alice = http.Caller("randhie", "alice", cast(Pool, SimpleNamespace(ask=wait)))

        async def alone(*_: object) -> http.Caller:
            return alice

        async def all_of_them(*_: object) -> list[http.Caller]:
            return [alice]

        monkeypatch.setattr(http.Http, "analyst", alone)
        monkeypatch.setattr(http.Http, "_callers", all_of_them)
        monkeypatch.setattr(http.Http, "_answered", wait)
        front = SimpleNamespace(told={"most_of_user": 1}, activity=SimpleNamespace(newest=[]))
        one = http.Http(cast(Front, front))
        handler = one._asking("execute") if what == "execute" else getattr(one, what)
        first = asyncio.ensure_future(handler(None))
        await asyncio.sleep(0)
        with pytest.raises(Error) as raised:
            await handler(None)
        held.set()
        await first
        await handler(None)
        return raised.value.code

    assert asyncio.run(both()) == "DPSQL-802"


def test_a_front_that_breaks_out_reaches_nothing(folder: Path) -> None:
    """No data, no ledger, no folder of its own, no program, no connection."""
    probe = "from dpsql.clients.server.confinement import confine, Reach; import sys; sys.exit(bool(confine(Reach())))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if subprocess.run([sys.executable, "-c", probe], env=environment, check=False).returncode:
        pytest.skip("this kernel has no seccomp or no Landlock")
    assert "Reach(read=python_files())" in FRONT
    found = attempts(folder, "confined")
    assert {name for name, came in found["attempts"].items() if came == "done"} == set()
    wanted = found["wanted"]
    assert wanted.pop("start a thread") == "done"
    assert set(wanted.values()) <= {"PermissionError", "FileNotFoundError", "OSError"}


def test_a_served_front_holds_no_file_of_the_dataset(server: Served) -> None:
    """Nor of the ledger, users and tokens: by what the system says that it has open."""
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    front = next(pid for pid, line in children(server.process.pid) if "server.front" in line)
    opened = [os.readlink(one) for one in Path(f"/proc/{front}/fd").iterdir()]
    assert opened
    assert not [name for name in opened if str(server.schema.parent) in name]


def test_nothing_of_the_data_is_told(server: Served) -> None:
    """Neither exact nor released numbers stand in the log, the page, the metrics or an error."""
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    alice, own = server.token("alice"), server.token("")
    sql = "SELECT AVG(income) AS a, SUM(income) AS s FROM person WHERE site IN (1, 2, 3)"
    released = [repr(value) for value in ask(server, alice, sql)["rows"][0]]  # type: ignore[index]
    exact = [
        repr(value)
        for value in duckdb.sql(sql.replace("person", f"'{server.schema.parent / 'person.parquet'}'")).fetchall()[0]
    ]
    assert all(len(one) > 7 for one in (*released, *exact))
    told = [say(server, "GET", path, own)[1].decode() for path in ("/", "/metrics", "/health")]
    told.append(say(server, "GET", "/v1/randhie/schema", alice)[1].decode())
    told.append(json.dumps(ask(server, alice, sql.replace("AVG", "AVGG"))))
    told.append("\n".join(server.lines))
    assert any("AVG(income)" in one for one in told)
    for number in (*released, *exact):
        assert not [one for one in told if number in one]


# --- processes that are killed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.3, 1.0])
@pytest.mark.few(2)
def test_a_worker_that_is_killed_at_any_stage(delay: float, server: Served) -> None:
    """However far it was: the same key is charged once at most, and the server serves on."""
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    alice, before, told = server.token("alice"), len(server.charges()), list[bytes]()
    sql, key = (
        f"/* dpsql: fresh */ SELECT COUNT(*) FROM person WHERE income > {900 + int(delay * 100)}",
        f"killed {delay}",
    )
    words = ("POST", "/v1/randhie/execute", alice, {"sql": sql})
    thread = threading.Thread(target=lambda: told.append(say(server, *words, Idempotency_Key=key)[1]))
    thread.start()
    thread.join(delay)
    for pid in server.workers():
        os.kill(pid, signal.SIGKILL)
    thread.join()
    came = json.loads(told[0])
    assert "rows" in came or came["error"]["code"] in ("DPSQL-701", "DPSQL-707")
    again = json.loads(say(server, *words, Idempotency_Key=key)[1])
    # a worker that ended a moment ago may be asked once more; what was answered is stored, and comes from another one
    for _ in range(50 if "rows" in came else 0):
        if "rows" in again:
            break
        time.sleep(0.2)
        again = json.loads(say(server, *words, Idempotency_Key=key)[1])
    assert "rows" in again or again["error"]["code"] == "DPSQL-701"
    if "rows" in came:
        assert again["rows"] == came["rows"]
    assert before + ("rows" in again) <= len(server.charges()) <= before + 1


@pytest.mark.slow
def test_a_front_that_is_killed_between_charge_and_answer(folder: Path) -> None:
    """The charge is in the ledger; a new server does not charge the same key again."""
    told: list[object] = []
    with served(folder, "--http", "127.0.0.1:0") as server:
        token = server.token()
        words = ("POST", "/v1/randhie/execute", token, {"sql": CHARGED.format(81)})

        def one() -> None:
            try:
                told.append(say(server, *words, Idempotency_Key="key"))
            except OSError as problem:
                told.append(problem)

        thread = threading.Thread(target=one)
        thread.start()
        until(lambda: len(server.charges()) == 1)
        for pid, line in children(server.process.pid):
            if "server.front" in line:
                os.kill(pid, signal.SIGKILL)
        thread.join(60)
        assert server.process.wait(60) == 4
    assert len(told) == 1
    with served(folder, "--http", "127.0.0.1:0") as server:
        # what was released before the kill is stored, and what is computed of it takes as long as before
        words = (*words[:3], {"sql": CHARGED.format(81), "seconds": 1})
        again = json.loads(say(server, *words, Idempotency_Key="key")[1])
        assert again["error"]["code"] in ("DPSQL-701", "DPSQL-703")
        assert len(server.charges()) == 1
        with dpsql.connect(server.url, token=token) as connection:
            assert connection.execute("SELECT COUNT(*) FROM plan").fetchall() == [(18,)]
            with pytest.raises(Error, match="DPSQL-803"):
                dpsql.connect(server.url, token="dpsql_" + "x" * 43)


@pytest.mark.slow
def test_requests_that_are_made_up(server: Served) -> None:
    """No trace, no end, no growth, no charge."""
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    ask(server, server.token(), "SHOW BUDGET")
    before = dump(server.ledger)
    found = fuzzed_http.fuzz(server, 1_000, 7, server.token())
    assert found.problems == []
    assert found.messages >= 1_000
    assert dump(server.ledger) == before


# --- answers stay with what they answer -----------------------------------------------------------------------------------


def test_what_is_cancelled_before_it_begins_leaves_no_answer_behind(folder: Path) -> None:
    """While its worker starts: whoever asks next has the answer to what they asked."""
    with served(folder, "--http", "127.0.0.1:0", "--workers", "1") as server:
        alice, bob = server.token("alice"), server.token("bob")
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        sql = "SELECT COUNT(*) AS of_alice FROM person WHERE income > 5000"
        # too late for the time that it has; or its worker was still ending
        assert ask(server, alice, sql, seconds=0.001)["error"]["code"] in ("DPSQL-703", "DPSQL-701")  # type: ignore[index]
        for name in ("one", "two", "three"):
            said = (ask(server, bob, f"SELECT COUNT(*) AS {name} FROM plan") for _ in range(50))
            found = next(one for one in said if "rows" in one)
            assert (found["columns"], found["rows"]) == ([[name, "BIGINT"]], [[18]])
