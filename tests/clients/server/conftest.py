"""One server a test run, on a copy of the bundled data whose budget is large."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import dpsql
from tests.support.raw_client import RawClient
from tests.support.served import Served, dataset, served

HTTP = ("--http", "127.0.0.1:0") if all(map(find_spec, ("starlette", "uvicorn"))) else ()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(dataset(tmp_path_factory.mktemp("served")), *HTTP) as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[RawClient]:
    """Alice, who has logged in."""
    with RawClient(server.port) as one:
        one.login()
        yield one


@pytest.fixture
def remote(server: Served) -> Iterator[dpsql.Connection]:
    """Alice over HTTP."""
    if not server.http:
        pytest.skip("starlette and uvicorn are not installed")
    with dpsql.connect(server.url, token=server.token()) as connection:
        yield connection


@pytest.fixture
def inside(server: Served) -> Iterator[dpsql.Connection]:
    """Alice in a process that has the files: beside this, what the server says is compared."""
    with dpsql.connect(server.schema, analyst="alice") as connection:
        yield connection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of a test's own."""
    return dataset(tmp_path)
