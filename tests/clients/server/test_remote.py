"""A connection to a server beside one in the process that has the files: the same, and PEP 249's own suite says so too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.address import read_address
from dpsql.clients.dbapi.declared_json import pack_schema, read_schema, shown_to
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.schema import toml
from dpsql.session.opening import default_ledger, ledger_identity
from tests.clients.server.test_ends import CHARGED, PUBLIC
from tests.clients.test_pep249 import SCHEMA, TestCompliance
from tests.support.by_period import TEXT as BY_PERIOD
from tests.support.served import ROOT, Served, served, until

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

STATEMENTS = (
    "SELECT site, COUNT(*) AS n, AVG(income) AS income FROM person GROUP BY site ORDER BY site",
    "SELECT female, AVG(education_years) FROM person GROUP BY female",
    "SELECT COUNT(*) FROM person WHERE education_years > 100",
    "SELECT MEDIAN(income), 1.5::DECIMAL(4,2) AS d, DATE '2024-02-29' AS day, NULL AS nothing FROM person",
    "SELECT site, SUM(COUNT(*)) OVER (ORDER BY site) FROM person GROUP BY site",
    "SELECT COUNT(*) FROM plan",
    "SHOW TABLES",
    "DESCRIBE person",
    "EXPLAIN SELECT COUNT(*) FROM person",
)
REFUSED = (
    "SELECT SUM(family_size) FROM person_year",
    "SELECT COUNT(*)\nFROM persons",
    "SELEC 1",
    "SELECT * FROM person",
    "/* dpsql: epsilon=9 */ SELECT COUNT(*) FROM person",
    "SELECT COUNT(*) FROM person WHERE person_id = 7",
)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_answers_are_the_same(sql: str, remote: dpsql.Connection, inside: dpsql.Connection) -> None:
    """Bought over HTTP, and given again in the process: rows, types, intervals, errors, notes, plan; and back."""
    bought, again = remote.execute(sql), inside.execute(sql)
    assert bought.description == again.description
    assert (bought.accuracy, bought.errors, bought.notes) == (again.accuracy, again.errors, again.notes)
    assert bought.plan == again.plan
    assert bought.with_ends().fetchall() == again.with_ends().fetchall()
    rows = bought.fetchall()
    assert repr(rows) == repr(again.fetchall())
    free, same = remote.execute(sql).privacy, inside.execute(sql).privacy
    assert free == same
    assert free.epsilon == 0
    assert bought.certificates == again.certificates
    assert remote.describe(sql) == inside.describe(sql)


@pytest.mark.parametrize("sql", REFUSED)
def test_refusals_are_the_same(sql: str, remote: dpsql.Connection, inside: dpsql.Connection) -> None:
    told = []
    for connection in (remote, inside):
        with pytest.raises(Error) as raised:
            connection.execute(sql)
        told.append((type(raised.value), str(raised.value), raised.value.code, raised.value.span, raised.value.hint))
    assert told[0] == told[1]


def test_the_price_is_the_same_to_the_fraction(remote: dpsql.Connection, inside: dpsql.Connection) -> None:
    sql = "/* dpsql: epsilon=0.15, mechanism=gaussian */ SELECT COUNT(*) FROM person WHERE NOT female"
    assert remote.price(sql) == inside.price(sql)
    charged = remote.execute(sql).privacy
    assert (charged.epsilon, charged.rho) == (inside.price(sql.replace("NOT ", "")).epsilon, charged.rho)
    assert charged.releases == 1


def test_the_declared_schema_is_the_same(remote: dpsql.Connection, inside: dpsql.Connection) -> None:
    """Names, types, bounds, lists; of analysts the own one, and no file."""
    assert remote.schema.name == inside.schema.name
    assert [t.columns for t in remote.schema.tables] == [t.columns for t in inside.schema.tables]
    assert [a.name for a in remote.schema.analysts or ()] == ["alice"]
    assert (remote.schema.source, remote.schema.ledger, remote.schema.folder) == (".", None, Path("."))
    assert read_schema(pack_schema(remote.schema)) == remote.schema


def test_a_schema_with_periods_is_told(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(BY_PERIOD)
    shown = shown_to(toml.read_schema(tmp_path / "schema.toml"), "ann")
    assert any(table.period is not None for table in shown.tables)
    assert read_schema(pack_schema(shown)) == shown


def test_parameters_and_settings(remote: dpsql.Connection, server: Served) -> None:
    """Settings are the connection's: another one of the same analyst has none of them."""
    remote.execute("SET dp_epsilon = 0.25")
    sql = "SELECT COUNT(*) FROM person WHERE income > ? AND site <> ?"
    assert remote.execute(sql, [1234.5, 3]).privacy.epsilon == Fraction(1, 4)
    with dpsql.connect(server.url, token=server.token()) as other:
        assert other.price("SELECT COUNT(*) FROM person WHERE income > 999").epsilon == Fraction(1, 10)
    remote.execute("RESET dp_epsilon")
    assert remote.price("SELECT COUNT(*) FROM person WHERE income > 998").epsilon == Fraction(1, 10)


def test_an_interrupt_ends_a_statement(remote: dpsql.Connection, server: Served) -> None:
    """From another thread; what it says of the charge is what the ledger says."""
    before, told = len(server.charges()), list[Error]()

    def ask() -> None:
        try:
            remote.execute(CHARGED.format(61))
        except Error as problem:
            told.append(problem)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.3)
    while thread.is_alive():
        remote.interrupt()
        thread.join(0.2)
    assert [problem.code for problem in told] == ["DPSQL-703"]
    assert ("nothing was charged" in str(told[0])) == (len(server.charges()) == before)
    assert remote.execute("SELECT COUNT(*) FROM plan").fetchall() == [(18,)]


def test_ctrl_c_ends_a_statement(remote: dpsql.Connection) -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(Error, match="703"):
            remote.execute(PUBLIC)
    except KeyboardInterrupt:
        pytest.fail("it came through")
    assert remote.execute("SELECT COUNT(*) FROM plan").fetchall() == [(18,)]


def test_a_connection_that_breaks_is_charged_once(remote: dpsql.Connection, server: Served) -> None:
    """The answer is lost on its way; asked again with the same key it is there, and paid once."""
    link = remote._session._link  # type: ignore[union-attr]
    original, broken = link._exchange, []

    def breaking(*words: object) -> object:
        found = original(*words)
        if not broken:
            broken.append(found)
            raise ConnectionResetError
        return found

    link._exchange = breaking
    before = len(server.charges())
    cursor = remote.execute("/* dpsql: fresh */ SELECT COUNT(*) FROM person")
    assert [list(row) for row in cursor.fetchall()] == broken[0]["rows"]
    assert len(server.charges()) == before + 1


@pytest.mark.slow
def test_a_worker_that_ends_between_charge_and_answer(tmp_path: Path, folder: Path) -> None:
    """The charge stands, and the same key is not charged again."""
    with served(folder, "--http", "127.0.0.1:0", "--workers", "1") as server:
        token = server.token()
        with dpsql.connect(server.url, token=token) as one:
            link, told = one._session._link, list[Error]()  # type: ignore[union-attr]
            body = {"sql": CHARGED.format(71), "parameters": [], "settings": []}

            def ask() -> None:
                try:
                    link.ask("POST", "execute", body, "the key")
                except Error as problem:
                    told.append(problem)

            thread = threading.Thread(target=ask)
            thread.start()
            until(lambda: len(server.charges()) == 1)
            for pid in server.workers():
                os.kill(pid, signal.SIGKILL)
            thread.join()
            charged = len(server.charges())
            assert charged == 1
            assert [problem.code for problem in told] == ["DPSQL-701"]
            # what was released before the kill is stored, and what is computed of it takes as long as before
            with pytest.raises(Error, match=r"DPSQL-701: the request with this key was charged before|DPSQL-703"):
                link.ask("POST", "execute", {**body, "seconds": 1}, "the key")
            assert len(server.charges()) == charged


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://db.example.org/randhie", "a token is not sent in plain text"),
        ("https://db.example.org", "it names no dataset"),
        ("https://db.example.org/randhie?x=1", "it has more than a host and a dataset"),
        ("https://db.example.org:x/randhie", "it cannot be read"),
    ],
)
def test_addresses_that_cannot_be_used(url: str, said: str) -> None:
    with pytest.raises(Error, match=f"DPSQL-802.*{said}"):
        dpsql.connect(url, token="t")


def test_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPSQL_TOKEN", raising=False)
    with pytest.raises(Error, match="DPSQL-802: a server is asked with a token"):
        dpsql.connect("https://db.example.org/randhie")
    monkeypatch.setenv("DPSQL_TOKEN", "secret")
    address = read_address("https://db.example.org/above/randhie", None)
    assert (address.token, address.path, address.port) == ("secret", "/above/v1/randhie", 8439)
    assert "secret" not in repr(address)


def test_nobody_there() -> None:
    with pytest.raises(Error, match=r"DPSQL-715: the server at 127\.0\.0\.1:1 does not answer"):
        dpsql.connect("http://127.0.0.1:1/randhie", token="t")


def test_another_analyst_than_the_tokens(server: Served) -> None:
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    with pytest.raises(Error, match="DPSQL-803: the token is alice's, not bob's"):
        dpsql.connect(server.url, analyst="bob", token=server.token())
    with pytest.raises(Error, match="DPSQL-803: the token is not known here"):
        dpsql.connect(server.url, token="dpsql_nobody")
    with pytest.raises(Error, match="DPSQL-802: the ledger is the server's"):
        dpsql.connect(server.url, ledger=":memory:", token="t")


# --- other clients of ours --------------------------------------------------------------------------------------------------


def shell(server: Served, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DPSQL_TOKEN": server.token()}
    command = [sys.executable, "-m", "dpsql", server.url, *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)


def test_the_command_line(remote: dpsql.Connection, server: Served) -> None:
    sql = "SELECT female, COUNT(*) AS n FROM person GROUP BY female ORDER BY female"
    done = shell(server, "-c", sql)
    assert done.stdout == "female,n\n" + "".join(f"{str(f).lower()},{n}\n" for f, n in remote.execute(sql).fetchall())
    refused = shell(server, "-c", "SELECT SUM(family_size) FROM person_year")
    assert (refused.returncode, refused.stderr.split(":")[0]) == (1, "DPSQL-201")
    assert "^^^^" in refused.stderr


def test_the_session(remote: dpsql.Connection, server: Served) -> None:
    from argparse import Namespace
    from io import StringIO

    from dpsql.clients import repl

    out = StringIO()
    typed = StringIO("\\d plan\nSELECT COUNT(*) AS plans FROM plan;\n\\explain SELECT AVG(income) FROM person;\n\\q\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", typed)
        patch.setattr(sys, "stdout", out)
        assert repl.run(remote, Namespace()) == 0
    for wanted in ("asked by alice", "coinsurance_pct", "18", "price: epsilon 0.1"):
        assert wanted in out.getvalue()


def test_sqlalchemy(remote: dpsql.Connection, server: Served) -> None:
    alchemy = pytest.importorskip("sqlalchemy")
    place = server.url.removeprefix("http://")
    engine = alchemy.create_engine(f"dpsql://alice:{server.token()}@{place}?tls=off")
    sql = "SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site"
    with engine.connect() as connection:
        result = connection.execute(alchemy.text(sql))
        rows = result.fetchall()
        assert [tuple(row) for row in rows] == remote.execute(sql).fetchall()
        assert result.context.privacy.remaining == remote.execute(sql).privacy.remaining
    found = alchemy.inspect(engine)
    assert set(found.get_table_names()) >= {"person", "plan", "person_year"}
    assert [column["name"] for column in found.get_columns("plan")][:2] == ["plan", "coinsurance_pct"]
    engine.dispose()


class TestRemoteCompliance(TestCompliance):
    """The suite over HTTP: on the tables that a test wrote; tests that wrote the same share a server."""

    _running: ClassVar[ExitStack]
    _servers: ClassVar[dict[tuple[str, str], Served]]

    @classmethod
    def setUpClass(cls) -> None:
        cls._running, cls._servers = ExitStack(), {}

    @classmethod
    def tearDownClass(cls) -> None:
        cls._running.close()

    def _connect(self) -> dpsql.Connection:
        wrote = tuple((self.folder / name).read_text() for name in ("booze.csv", "barflys.csv"))
        if wrote not in self._servers:
            folder = Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="dpsql-pep249-")))
            shutil.copytree(self.folder, folder, dirs_exist_ok=True)
            path = folder / "schema.toml"
            path.write_text(SCHEMA + "\n[analysts.ann]\nepsilon = 1.0\n")
            schema = toml.read_schema(path)
            ledger = Ledger.open(default_ledger(schema), ledger_identity(schema))
            owner.check(schema, ledger)
            ledger.close()
            options = ("--http", "127.0.0.1:0", "--workers", "1")
            self._servers[wrote] = self._running.enter_context(served(path, *options))
        server = self._servers[wrote]
        return dpsql.connect(server.url, token=server.token("ann"))


del TestCompliance
