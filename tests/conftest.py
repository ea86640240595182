"""Fixtures of every test: a state folder of its own, never the runner's own, bundled data that is bound to no ledger, and declared
tables that sessions hand on."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpsql.dataset import binding
from dpsql.engines.base import UnitPlace
from dpsql.schema.model import Schema
from dpsql.session import world
from tests.support.lent import declared_tables

EXAMPLES = Path(__file__).parents[1] / "examples"
STATE = "XDG_STATE_HOME"


def pytest_configure(config: pytest.Config) -> None:
    """For whatever is opened outside of a test."""
    os.environ[STATE] = tempfile.mkdtemp(prefix="dpsql-tests-state-")
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        # hundreds of programs are started: each would compile all that it imports
        os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="dpsql-tests-compiled-")
    binding._places = _bound_places
    world.DeclaredTables = declared_tables  # type: ignore[assignment, misc]


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that is collected is garbage, and to look for some takes a fifth of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with `few(count)` so many cases, evenly chosen among all, stay; the others are slow, and so are planted faults."""
    alike: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "planted" in item.name.partition("[")[0]:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("few") is not None:
            alike.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in alike.values():
        mark = cases[0].get_closest_marker("few")
        assert mark is not None
        kept = {place * len(cases) // mark.args[0] for place in range(mark.args[0])}
        for place, item in enumerate(cases):
            if place not in kept:
                item.add_marker(pytest.mark.slow)


def _bound_places(
    schema: Schema, places: Callable[[Schema], tuple[UnitPlace, ...]] = binding._places
) -> tuple[UnitPlace, ...]:
    """Tests open the bundled data in place, each with a ledger of its own, while others do; what is about binding has a copy."""
    return tuple(place for place in places(schema) if EXAMPLES not in Path(place.text).parents)


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state folder of one test."""
    folder = tmp_path_factory.getbasetemp() / "state" / os.urandom(8).hex()
    monkeypatch.setenv(STATE, str(folder))
    yield folder
