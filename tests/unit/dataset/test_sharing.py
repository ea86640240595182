"""Opened data that the sessions of a process share, for as long as it is the same data, ledger and schema."""

from __future__ import annotations

import os
import random
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    clinic.write(tmp_path, clinic.database(random.Random(3), wild=False))
    path = tmp_path / "schema.toml"
    path.write_text(clinic.schema_text())
    return path


def engine(session: Session) -> object:
    return session._world.dataset.engine


def test_sessions_share_an_engine_until_the_last_is_closed(schema: Path) -> None:
    one, two = (open_session(schema, name, None) for name in ("a", "b"))
    assert engine(one) is engine(two) and one._world.sandbox is not two._world.sandbox
    one.close()
    assert two.execute("SELECT count(*) FROM patient").rows
    two.close()
    with closing(open_session(schema, "a", None)) as three:
        assert engine(three) is not engine(two)


def test_another_ledger_schema_or_version_is_opened_for_itself(schema: Path, tmp_path: Path) -> None:
    with closing(open_session(schema, None, None)) as one:
        with closing(open_session(schema, None, ":memory:")) as in_memory:
            assert engine(in_memory) is not engine(one)
        other = tmp_path / "other.toml"
        other.write_text(clinic.schema_text(guard="warn"))
        with closing(open_session(other, None, None)) as changed:
            assert engine(changed) is not engine(one)
        (tmp_path / "new").mkdir()
        clinic.write(tmp_path / "new", clinic.database(random.Random(4), wild=False)).replace(
            tmp_path / "clinic.duckdb"
        )
        with closing(open_session(schema, None, None)) as moved:
            assert engine(moved) is not engine(one) and moved._world.dataset.version != one._world.dataset.version
        with pytest.raises(Error, match="DPSQL-708"):
            one.execute("SELECT count(*) FROM patient")


def test_one_statement_is_ended_and_the_others_go_on(schema: Path) -> None:
    with closing(open_session(schema, "a", None)) as one, closing(open_session(schema, "b", None)) as two:
        found: list[str] = []

        def ask() -> None:
            for number in range(8):
                try:
                    two.execute(f"SELECT count(*) FROM patient WHERE age > {number}")
                    found.append("answered")
                except Error as problem:
                    found.append(problem.code)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            one.interrupt()
            thread.join(0.01)
        assert "DPSQL-703" not in found and "answered" in found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_opens_its_own(schema: Path) -> None:
    with closing(open_session(schema, None, None)) as one:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    one.execute("SELECT count(*) FROM patient")
                except Error as refused:
                    code = 2 if refused.code != "DPSQL-802" else 3
                with closing(open_session(schema, None, None)) as own:
                    code = 0 if code == 3 and engine(own) is not engine(one) else code
                    own.execute("SELECT count(*) FROM patient")
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert one.execute("SELECT count(*) FROM patient").rows
