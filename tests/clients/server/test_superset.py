"""Superset's example on a server: the questions of its charts through SQLAlchemy over HTTP, with a connection a statement."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.support.served import ROOT, Served

sqlalchemy = pytest.importorskip("sqlalchemy")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's dashboard, without Superset itself."""
    for name, wanted in (("flask_migrate", "upgrade"), ("superset.app", "create_app")):
        stub = ModuleType(name)
        setattr(stub, wanted, None)
        monkeypatch.setitem(sys.modules, name, stub)
    spec = importlib.util.spec_from_file_location("dashboard", ROOT / "examples" / "superset" / "dashboard.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def address(server: Served, analyst: str, token: str) -> str:
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    return f"dpsql://{analyst}:{token}@{server.url.removeprefix('http://')}?tls=off"


def engine_of(server: Served, analyst: str, token: str) -> Any:
    return sqlalchemy.create_engine(address(server, analyst, token), poolclass=sqlalchemy.pool.NullPool)


def questions(example: Any) -> list[str]:
    """The statement of each chart: over the query of its dataset, in the spelling of Superset."""
    found = []
    for _, _, name, _, settings in example.CHARTS:
        known: dict[str, str] = {}
        for metric, (value, _, digits) in example.METRICS[name].items():
            known |= example.expressions(metric, value, digits)
        keys = [*([settings["x_axis"]] if "x_axis" in settings else [])]
        keys += [key for group in ("groupby", "groupbyRows", "groupbyColumns") for key in settings.get(group, ())]
        metrics = settings.get("metrics") or [settings["metric"]]
        items = [*(f'{key} AS "{key}"' for key in keys), *(f'{known[one]} AS "{one}"' for one in metrics)]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        found.append(f"SELECT {', '.join(items)} FROM ({example.DATASETS[name]}) AS virtual_table{grouped} LIMIT 1000")
    return found


def test_its_charts_cost_what_its_cubes_cost(example: Any, server: Served) -> None:
    """Bought a second time, and seen a second time, nothing is charged."""
    example.buy(address(server, "alice", server.token("alice")))
    charged = len(server.charges())
    assert charged >= len(example.CUBES)
    example.buy(address(server, "alice", server.token("alice")))
    engine, asked = engine_of(server, "alice", server.token("alice")), questions(example)
    assert len(asked) == 12
    for sql in asked:
        with engine.connect() as connection:
            assert connection.exec_driver_sql(sql.replace("LIMIT 1000", "LIMIT 0")).fetchall() == []
            first, again = connection.exec_driver_sql(sql), connection.exec_driver_sql(sql)
            assert sorted(map(repr, first.fetchall())) == sorted(map(repr, again.fetchall())) != []
            assert not first.context.privacy.releases and not again.context.privacy.releases
    assert len(server.charges()) == charged


def test_tables_come_from_the_declarations(server: Served) -> None:
    before = server.charges()
    found = sqlalchemy.inspect(engine_of(server, "alice", server.token("alice")))
    assert set(found.get_table_names(schema="main")) == {"person", "person_year", "plan"}
    assert "income" in [column["name"] for column in found.get_columns("person", schema="main")]
    assert server.charges() == before


def test_a_login_is_not_another_analyst(server: Served) -> None:
    """The token says who asks, whatever name stands before it."""
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="DPSQL-803"):
        engine_of(server, "bob", server.token("alice")).connect()
