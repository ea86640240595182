"""An engine that nobody has, added as a newcomer would: one folder, found by the entry point of its package.

Its sources are `loud:PATH`. It keeps its data with another engine, has no guards, and lacks a function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.engines.base import Engine, Find, UnitPlace
from dpsql.engines.duckdb.dialect import DuckDBDialect
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.kind import KIND
from dpsql.engines.signature import ALL_FILES, FileParts
from dpsql.plan.checked import Checked
from dpsql.schema.drafted import DraftTable
from dpsql.schema.model import Schema

SCHEME = "loud:"


@dataclass(frozen=True, slots=True)
class LoudDialect(DuckDBDialect):
    """DuckDB's, in which every statement says whose it is."""

    engine: str = "Loud"
    guards: bool = False
    verbatim: bool = False

    def write(self, statement: Checked) -> str:
        if statement.tree.find(exp.Try):
            raise error(104, "Loud has no guard for an operator that may fail", hint="narrow the bounds")
        if any(part.name.lower() == "upper" for part in statement.tree.find_all(exp.Anonymous)):
            raise error(104, "Loud has no UPPER", hint="group by the column itself")
        return f"/* loud */ {statement.text}"


@dataclass(frozen=True, slots=True)
class LoudKind:
    """See base.EngineKind."""

    @property
    def version(self) -> str:
        return f"loud {KIND.version}"

    def begin(
        self,
        schema: Schema,
        find: Find,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Engine:
        engine = DuckDBEngine.begin(_quiet(schema), find=find, outputs=outputs, only=only)
        engine.dialect = LoudDialect()
        return engine

    def places(self, schema: Schema) -> tuple[UnitPlace, ...]:
        return tuple(UnitPlace(f"{SCHEME}{place.text}") for place in KIND.places(_quiet(schema)))

    def describe(self, source: str, *, sniff: bool = False) -> tuple[str, str, list[DraftTable]]:
        name, path, tables = KIND.describe(source.removeprefix(SCHEME))
        return name, f"{SCHEME}{path}", tables

    def require_copies(self, schema: Schema) -> None:
        raise error(801, "Loud makes no prepared snapshot", hint="run the check without preparing")


def _quiet(schema: Schema) -> Schema:
    return replace(schema, source=schema.source.removeprefix(SCHEME))


LOUD = LoudKind()
