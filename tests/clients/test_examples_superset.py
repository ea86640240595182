"""Superset's example without Superset: what its logins may spend, and that its charts are free once its cubes are bought."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.clients.cli.main import main
from tests.clients.server.test_superset import example, questions
from tests.support.served import ROOT

sqlalchemy = pytest.importorskip("sqlalchemy")
__all__ = ["example"]


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The copy of the data that the example makes, approved."""
    spec = importlib.util.spec_from_file_location("start", ROOT / "examples" / "superset" / "start.py")
    assert spec is not None and spec.loader is not None
    start: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    made = start.data(tmp_path / "randhie")
    assert isinstance(made, Path)
    assert main(["check", str(made)]) == 0
    return made


def engine(schema: Path, analyst: str) -> Any:
    return sqlalchemy.create_engine(f"dpsql:///{schema}?analyst={analyst}", poolclass=sqlalchemy.pool.NullPool)


def test_a_dashboard_asks_for_nothing_and_no_question_of_its_is_dear(example: Any, schema: Path) -> None:
    with engine(schema, "superset").connect() as charts, pytest.raises(sqlalchemy.exc.DBAPIError, match="DPSQL-502"):
        charts.exec_driver_sql(example.CUBES[0])
    example.buy(f"dpsql:///{schema}?analyst=admin")
    with engine(schema, "superset").connect() as charts:
        for sql in questions(example):
            found = charts.exec_driver_sql(sql)
            assert not found.context.privacy.releases and found.fetchall()
        dear = "MEDIAN(income) FROM person WHERE female"
        with pytest.raises(sqlalchemy.exc.DBAPIError, match=r"DPSQL-502: .* 0\.1 "):
            charts.exec_driver_sql(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) {dear}")
        assert charts.exec_driver_sql(f"SELECT {dear}").context.privacy.releases == 1


def test_what_is_reserved_is_left_when_a_dashboard_has_spent_all_else(schema: Path) -> None:
    asked = "/* dpsql: fresh */ SELECT COUNT(*) FROM person"
    with dpsql.connect(schema, analyst="superset") as charts, pytest.raises(dpsql.OperationalError, match="DPSQL-501"):
        while True:
            charts.execute(asked)
    with dpsql.connect(schema, analyst="admin") as admin:
        assert admin.execute("/* dpsql: epsilon=0.5 */ SELECT AVG(income) FROM person").privacy.releases == 1
