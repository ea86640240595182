"""Rule 45 (b): an engine that raises all the same switches the dataset to guards for good; nothing of that run is released."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.planner import total as texts
from tests.attacks.observing import ordinary
from tests.support import clinic

PLANTED = 'CAST("patient"."age" * 9223372036854775807 AS BIGINT)'
SQL = "SELECT COUNT(*) FROM patient WHERE age > 30"


class Planted:
    """A printer and a checker that both believe in an operator that fails: what is left when both proofs are wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[str] = []
        self.guarded_when_run: list[bool] = []
        self.ledger: Ledger | None = None
        real, written = DuckDBEngine.exact, texts.written

        def believed(text: str, tables: object, write: object, *, everywhere: bool = False, **_: object) -> str:
            planted = text.replace('"patient"."age" > 30', f"{PLANTED} > 5")
            return written(planted, tables, write, everywhere=True) if everywhere else planted  # type: ignore[arg-type]

        def exact(engine: DuckDBEngine, sql: str, *rest: object) -> object:
            self.ran.append(sql)
            self.guarded_when_run.append(self.ledger is not None and self.ledger.guarded)
            return real(engine, sql, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(texts, "written", believed)
        monkeypatch.setattr(DuckDBEngine, "exact", exact)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    return Planted(monkeypatch)


def _opened(tmp_path: Path) -> dpsql.Connection:
    clinic.write(tmp_path, ordinary())
    return dpsql.connect(clinic.schema(tmp_path), ledger=tmp_path / "ledger.db")


def test_the_switch_is_recorded_before_the_statement_runs_again(tmp_path: Path, planted: Planted) -> None:
    connection = _opened(tmp_path)
    planted.ledger = connection._session._world.ledger
    before = planted.ledger.spent()
    (row,) = connection.cursor().execute(SQL).fetchall()
    assert len(row) == 1
    assert ["TRY(" in text for text in planted.ran] == [False, True]
    assert planted.guarded_when_run == [False, True]
    # what the failed run would have shown is not stored, and the statement was paid for once
    assert len(planted.ledger.history()) == 1
    assert planted.ledger.spent() != before
    connection.close()


def test_every_later_statement_is_guarded_on_every_connection(tmp_path: Path, planted: Planted) -> None:
    connection = _opened(tmp_path)
    other = dpsql.connect(clinic.schema(tmp_path), ledger=tmp_path / "ledger.db")
    connection.cursor().execute(SQL)
    planted.ran.clear()
    for each in (connection, other):
        each.cursor().execute(f"{SQL} AND age * 2 > {7 if each is other else 8}")
    assert len(planted.ran) == 2
    assert all(text.count("TRY(") >= 2 for text in planted.ran)
    other.close()
    connection.close()
    again = dpsql.connect(clinic.schema(tmp_path), ledger=tmp_path / "ledger.db")
    planted.ran.clear()
    again.cursor().execute("SELECT COUNT(*) FROM patient WHERE age + 1 > 30")
    assert all("TRY(" in text for text in planted.ran)
    again.close()


def test_a_guarded_run_that_fails_too_is_the_end_of_it(
    tmp_path: Path, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., str] = texts.written
    monkeypatch.setattr(texts, "written", lambda *asked, **_: real(*asked, everywhere=False))
    connection = _opened(tmp_path)
    with pytest.raises(Error, match="DPSQL-701") as caught:
        connection.cursor().execute(SQL)
    assert "9223372036854775807" not in str(caught.value)
    assert len(planted.ran) == 2
    connection.close()


def test_what_the_machine_lacks_switches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    def fails(*_: object) -> str:
        raise duckdb.IOException("disk")

    monkeypatch.setattr("dpsql.engines.duckdb.engine.ask", fails)
    connection = _opened(tmp_path)
    with pytest.raises(Error, match="DPSQL-701"):
        connection.cursor().execute(SQL)
    assert not connection._session._world.ledger.guarded
    connection.close()
