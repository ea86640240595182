"""Spark as a kind of engine, for those who open a source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dpsql.core.errors import error
from dpsql.engines.base import Engine, Find, UnitPlace
from dpsql.engines.signature import ALL_FILES, FileParts
from dpsql.engines.spark.drafting import drafted
from dpsql.engines.spark.engine import SparkEngine
from dpsql.engines.spark.server import ConnectServer, address
from dpsql.schema.drafted import DraftTable
from dpsql.schema.model import Schema
from dpsql.schema.paths import require_agreeing


@dataclass(frozen=True, slots=True)
class SparkKind:
    """Tables that a Spark cluster reads: `sc://host:15002`."""

    @property
    def version(self) -> str:
        return "spark 1"

    def begin(
        self,
        schema: Schema,
        find: Find,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Engine:
        require_agreeing(schema)
        return SparkEngine(schema, find)

    def places(self, schema: Schema) -> tuple[UnitPlace, ...]:
        base = address(schema.source).place
        return tuple(UnitPlace(f"{base}/{table.source}") for table in schema.tables_of_units)

    def describe(self, source: str, *, sniff: bool = False) -> tuple[str, str, list[DraftTable]]:
        at = address(source)
        opened = ConnectServer(source)
        try:
            tables = drafted(opened, at)
        finally:
            opened.close()
        return at.folder.rpartition("/")[2] or "cluster", at.place, tables

    def require_copies(self, schema: Schema) -> None:
        if any(table.period is not None for table in schema.tables):
            raise error(801, "on Spark no table has periods", hint="declare its tables without `period`")
        if not address(schema.source).prepared:
            raise error(
                801,
                "[dataset] source: names no database of the cluster for the prepared snapshot",
                hint="make one that is as private as the data, and write its name behind the address: ;prepared=NAME",
            )


KIND = SparkKind()
