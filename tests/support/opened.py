"""Sessions over data that is opened once: what is asked and what is charged is all their own.

To open data costs far more than to ask: files are written, databases made, keys verified. Tests of what is asked share that; tests of
opening, of ledgers in files and of data that changes open for themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast
from unittest.mock import patch

from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.connection import Connection
from dpsql.dataset.opening import Dataset, open_dataset, sandbox_memory
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.guard.drawing import people
from dpsql.guard.sizes import Bought
from dpsql.guard.units import SampleUnits
from dpsql.mechanisms.source import NoiseSource
from dpsql.planner.measure import schema_identity
from dpsql.postprocess.sandbox import Sandbox
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import find_analyst, ledger_identity
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise

MOST = 24
"""As many clinics stay open, each with the few megabytes of its databases."""


class _Lent:
    """An engine that whoever closes it does not close."""

    def __init__(self, engine: DuckDBEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def close(self) -> None:
        """Others go on with it."""


class _LentSandbox(Sandbox):
    """A sandbox of which its session is not the last: what that one loaded is forgotten, what is declared stays."""

    def __init__(self, dataset: Dataset, free: list[_LentSandbox]) -> None:
        super().__init__(sandbox_memory(dataset.schema), dataset.schema.limits.rows)
        super().share(dataset.engine, dataset.schema)
        self._free = free

    def share(self, engine: DuckDBEngine, schema: Schema) -> None:
        """It does."""

    def close(self) -> None:
        self.forget()
        self._free.append(self)

    def end(self) -> None:
        super().close()


class _LentSample(SampleUnits):
    """Sample units, which are the same for every session, that whoever closes them does not close; what passed by them is forgotten."""

    def close(self) -> None:
        """Others go on with them, and with faults that this one did not have."""
        self.passed.clear()

    def end(self) -> None:
        super().close()


class Data:
    """Data that was opened and approved as a program opens it, for any number of sessions, one after another or at once."""

    def __init__(self, schema: Path | Schema, bought: Bought | None = None) -> None:
        """bought: the released histograms that the guard counts on."""
        declared = schema if isinstance(schema, Schema) else read_schema(schema)
        with closing(Ledger.open(":memory:", ledger_identity(declared))) as ledger:
            opened = open_dataset(declared, ledger, approve=True)
        self._engine = opened.engine
        self._opened = replace(opened, engine=cast(DuckDBEngine, _Lent(opened.engine)))
        self._free: list[_LentSandbox] = []
        schema, engine = opened.schema, opened.engine
        public = [table.name for table in schema.tables if table.public] if not engine.shared_views else []
        self._sample = _LentSample(
            schema,
            schema_identity(schema),
            people(schema),
            engine.shared_views,
            engine.shared_files,
            lambda: map(engine.public_table, public),
            bought,
        )

    def session(self, noise: NoiseSource | None = None, analyst: str | None = None) -> Session:
        """A session with a new ledger in memory, and with the noise of any other unless it is told otherwise."""
        schema = self._opened.schema
        ledger = Ledger.open(":memory:", ledger_identity(schema))
        sandbox = self._free.pop() if self._free else _LentSandbox(self._opened, self._free)
        with (
            patch("dpsql.session.world.Sandbox", lambda *_: sandbox),
            patch("dpsql.session.world.sample_units", lambda *_: self._sample),
        ):
            return Session(self._opened, ledger, find_analyst(schema, analyst), noise)

    @property
    def schema(self) -> Schema:
        """The schema with the columns of its public tables."""
        return self._opened.schema

    def connection(self) -> Connection:
        return Connection(self.session())

    @contextmanager
    def without_noise(self) -> Iterator[Session]:
        """A session without noise, closed at the end."""
        with closing(self.session(ZeroNoise())) as session:
            yield session

    def close(self) -> None:
        """Call when no session is left."""
        for sandbox in self._free:
            sandbox.end()
        self._sample.end()
        self._engine.close()


@cache
def data_of(schema: Path) -> Data:
    """The data of a schema that nothing changes, opened once in a process."""
    return Data(schema)


_CLINICS: dict[str, tuple[Data, tempfile.TemporaryDirectory[str]]] = {}


def clinic_data(text: str, data: clinic.Database, more: str = "") -> Data:
    """The clinic with this schema and exactly this database, and what `more` adds to it in SQL; opened anew only where it is none of
    the last that were."""
    key = f"{text}\n{data!r}\n{more}"
    found = _CLINICS.pop(key, None) or _open(text, data, more)
    _CLINICS[key] = found
    while len(_CLINICS) > MOST:
        old, folder = _CLINICS.pop(next(iter(_CLINICS)))
        old.close()
        folder.cleanup()
    return found[0]


def _open(text: str, data: clinic.Database, more: str) -> tuple[Data, tempfile.TemporaryDirectory[str]]:
    folder = tempfile.TemporaryDirectory(prefix="dpsql-clinic-")
    path = clinic.write(Path(folder.name), data)
    if more:
        clinic.write_file(path, lambda connection: connection.execute(more))
    declared = Path(folder.name) / "schema.toml"
    declared.write_text(text)
    return Data(declared), folder
