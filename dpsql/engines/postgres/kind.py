"""PostgreSQL as a kind of engine, for those who open a source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dpsql.core.errors import error
from dpsql.engines.base import Engine, Find, UnitPlace
from dpsql.engines.postgres import drafting, server
from dpsql.engines.postgres.engine import PostgresEngine
from dpsql.engines.signature import ALL_FILES, FileParts
from dpsql.schema.drafted import DraftTable
from dpsql.schema.model import Schema
from dpsql.schema.paths import require_agreeing


@dataclass(frozen=True, slots=True)
class PostgresKind:
    """The tables of a database: `postgresql://user@host:5432/database`."""

    @property
    def version(self) -> str:
        return "postgresql 1"

    def begin(
        self,
        schema: Schema,
        find: Find,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Engine:
        require_agreeing(schema)
        return PostgresEngine(schema)

    def places(self, schema: Schema) -> tuple[UnitPlace, ...]:
        known = server.parts(schema.source)
        base = f"postgresql://{known.get('host', '')}:{known.get('port', '5432')}/{known.get('dbname', '')}"
        return tuple(UnitPlace(f"{base}/{table.source.lower()}") for table in schema.tables_of_units)

    def describe(self, source: str, *, sniff: bool = False) -> tuple[str, str, list[DraftTable]]:
        known = server.parts(source)
        opened = server.Server(source)
        try:
            with opened.transaction() as reading:
                tables = drafting.drafted(reading)
        finally:
            opened.close()
        return known.get("dbname", "database"), _without_password(known), tables

    def require_copies(self, schema: Schema) -> None:
        raise error(801, "of PostgreSQL there is no prepared snapshot", hint="run the check without preparing")


def _without_password(known: dict[str, str]) -> str:
    """The address without what a file may not show."""
    words = {key: value for key, value in known.items() if key not in ("password", "sslpassword")}
    return "postgresql://?" + "&".join(f"{key}={quote(value, safe='/')}" for key, value in sorted(words.items()))


KIND = PostgresKind()
