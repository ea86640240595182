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


def engine_of(server: Served, analyst: str, token: str) -> Any:
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    place = server.url.removeprefix("http://")
    return sqlalchemy.create_engine(f"dpsql://{analyst}:{token}@{place}?tls=off", poolclass=sqlalchemy.pool.NullPool)


def questions(example: Any) -> list[str]:
    """The statement of each chart: a table, or a query over tables, in the spelling of Superset."""
    found = []
    for _, _, name, _, settings in example.CHARTS:
        source = "main.person" if name == "person" else f"({example.YEARS}) AS virtual_table"
        groups = [
            settings.get("x_axis"),
            *(settings.get(key) or () for key in ("groupby", "groupbyRows", "groupbyColumns")),
        ]
        keys = [key for group in groups if group for key in (group if isinstance(group, list | tuple) else [group])]
        named = [(k["sqlExpression"], k["label"]) if isinstance(k, dict) else (k, k) for k in keys]
        items = [f'{text} AS "{label}"' for text, label in named]
        items += [
            f'{_metric(example, name, one)} AS "{one}"' for one in settings.get("metrics") or [settings["metric"]]
        ]
        grouped = f" GROUP BY {', '.join(text for text, _ in named)}" if named else ""
        found.append(f"SELECT {', '.join(items)} FROM {source}{grouped} LIMIT 1000")
    return found


def _metric(example: Any, dataset: str, title: str) -> str:
    name, _, which = title.partition(", ")
    value = example.METRICS[dataset][name][0]
    low, high = f"dp_low({value})", f"dp_high({value})"
    return {"": value, "at least": low, "at most": high, "plus-minus": f"({high} - {low}) / 2"}[which]


def test_its_charts_are_answered_and_seen_again_for_nothing(example: Any, server: Served) -> None:
    engine, asked = engine_of(server, "alice", server.token("alice")), questions(example)
    assert len(asked) == 10
    seen = []
    for sql in asked:
        with engine.connect() as connection:
            assert connection.execute(sqlalchemy.text(sql.replace("LIMIT 1000", "LIMIT 0"))).fetchall() == []
            seen.append(connection.execute(sqlalchemy.text(sql)).fetchall())
    charged = len(server.charges())
    assert all(seen)
    for sql, before in zip(asked, seen, strict=True):
        with engine.connect() as connection:
            result = connection.execute(sqlalchemy.text(sql))
            assert sorted(map(repr, result.fetchall())) == sorted(map(repr, before))
            assert result.context.privacy.releases == 0
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
