"""One server of each kind for all tests of a process; they are skipped where the machine has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines import cluster, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if server.programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with server.started() as url:
        yield url


@pytest.fixture(scope="session")
def spark_installed() -> None:
    if cluster.home() is None:
        pytest.skip(
            "no Spark server is installed: pip install 'pyspark[connect]', apt-get install openjdk-17-jre-headless"
        )


@pytest.fixture(scope="session")
def spark(spark_installed: None) -> Iterator[str]:
    with cluster.started() as url:
        yield url
