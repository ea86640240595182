"""Rule 49: the secret that orders what a limit cuts is bound, and stands in no text that an engine gets or logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.clients.dbapi.connection import Connection
from dpsql.core.errors import Error
from dpsql.engines.duckdb.locked import ask
from dpsql.session.opening import open_session
from tests.attacks.observing import heavy
from tests.support import clinic

CUT = [
    "SELECT COUNT(*), SUM(cost) FROM visit",
    "/* dpsql: max_groups=1, max_rows=2 */ SELECT year, COUNT(*) FROM visit GROUP BY year",
    "SELECT tag, COUNT(*), AVG(days) FROM visit GROUP BY tag",
    "SELECT COUNT(DISTINCT tag) FROM visit",
    "SELECT year, MEDIAN(days) FROM visit GROUP BY year",
    "SELECT year, dp_sum(cost, bounds := 'auto') FROM visit GROUP BY year",
    "SELECT site, SUM(days) FROM patient JOIN visit USING (patient_id) GROUP BY site",
    "SELECT VAR_SAMP(days) FROM visit",
    # the parameter's name in a caller's own text and names
    'SELECT COUNT(*) FROM visit AS "$cut" WHERE "$cut".tag <> \'$cut\'',
]


class Spy:
    """A DuckDB connection that notes every text and value it is given."""

    def __init__(self, inner: duckdb.DuckDBPyConnection, seen: list[str], bound: list[object]) -> None:
        self._inner, self._seen, self._bound = inner, seen, bound

    def cursor(self) -> Spy:
        return Spy(self._inner.cursor(), self._seen, self._bound)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def noted(*given: object, **named: object) -> object:
            for value in (*given, *named.values()):
                if isinstance(value, duckdb.Statement):
                    self._seen.append(value.query)
                elif isinstance(value, dict) and name == "execute":
                    self._bound.append(value)
                else:
                    self._seen.append(repr(value))
            result = found(*given, **named)
            return self if result is self._inner else result

        return noted


@contextmanager
def spied(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[object]]]:
    seen: list[str] = []
    bound: list[object] = []
    original = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a, **n: Spy(original(*a, **n), seen, bound))
    yield seen, bound


def test_rule_49_no_text_that_reaches_the_engine_holds_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.write(tmp_path, heavy(40))
    with spied(monkeypatch) as (seen, bound):
        connection = Connection(open_session(clinic.schema(tmp_path), None, str(tmp_path / "ledger")))
        for sql in CUT:
            connection.execute(sql).fetchall()
            connection.explain(sql)
        secret = connection._session._world.ledger.secret
        connection.close()
    assert sum("$cut" in text for text in seen) >= len(CUT) and {"cut": secret.hex()} in bound
    for text in seen:
        assert secret.hex() not in text.lower() and repr(secret)[2:-1] not in text


def test_rule_49_duckdb_logs_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own log of statements, switched on before the settings are locked."""
    clinic.write(tmp_path, heavy(40))
    original = duckdb.connect
    opened: list[duckdb.DuckDBPyConnection] = []

    def logging(*given: Any, **named: Any) -> duckdb.DuckDBPyConnection:
        connection = original(*given, **named)
        connection.execute("CALL enable_logging(level = 'trace')")
        opened.append(connection.cursor())
        return connection

    monkeypatch.setattr(duckdb, "connect", logging)
    connection = Connection(open_session(clinic.schema(tmp_path), None, str(tmp_path / "ledger")))
    for sql in CUT:
        connection.execute(sql).fetchall()
    secret = connection._session._world.ledger.secret.hex()
    logged = []
    for cursor in opened:
        for listed in ("duckdb_logs", "duckdb_prepared_statements()"):
            # a sandbox that was replaced is closed
            with suppress(duckdb.ConnectionException, duckdb.BinderException):
                logged += cursor.execute(f"SELECT CAST(listed AS VARCHAR) FROM {listed} AS listed").fetchall()
    assert any("$cut" in row for (row,) in logged), "statements are logged"
    assert not [row for (row,) in logged if secret in row.lower()]
    connection.close()


def test_rule_49_no_other_parameter_is_bound() -> None:
    connection = duckdb.connect()
    assert ask(connection, "SELECT $cut || '$cut', '$other'", "5e").fetchall() == [("5e$cut", "$other")]
    assert ask(connection, "SELECT '$cut'", "5e").fetchall() == [("$cut",)]
    for sql in ("SELECT $other", "SELECT $cut, $other", "SELECT ?", "SELECT $1"):
        with pytest.raises(Error) as raised:
            ask(connection, sql, "5e")
        assert raised.value.code == "DPSQL-901"
    connection.close()
