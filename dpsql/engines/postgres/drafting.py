"""Names, types and declared keys of a database for a first schema; nothing of its rows."""

from __future__ import annotations

from dpsql.engines.postgres.server import Transaction
from dpsql.engines.postgres.shown import computable, dotted, listed
from dpsql.schema.drafted import DraftTable, ForeignKey

Place = tuple[str, str]
_NAMES = """ARRAY(SELECT a.attname::text FROM unnest({}) WITH ORDINALITY AS part(number, place)
JOIN pg_attribute AS a ON a.attrelid = {} AND a.attnum = part.number ORDER BY part.place)"""
_KEYS = f"""SELECT n.nspname::text, c.relname::text, k.contype::text, {_NAMES.format("k.conkey", "k.conrelid")},
far_n.nspname::text, far_c.relname::text, {_NAMES.format("k.confkey", "k.confrelid")}
FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_class AS far_c ON far_c.oid = k.confrelid LEFT JOIN pg_namespace AS far_n ON far_n.oid = far_c.relnamespace
WHERE k.contype IN ('p', 'f') ORDER BY 1, 2, k.conname"""
_NEVER_NULL = """SELECT n.nspname::text, c.relname::text, a.attname::text
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND a.attnotnull AND NOT a.attisdropped"""


def drafted(reading: Transaction) -> list[DraftTable]:
    """Every table of the database."""
    keys: dict[Place, tuple[str, ...]] = {}
    foreign: dict[Place, tuple[ForeignKey, ...]] = {}
    for schema, table, kind, columns, far_schema, far_table, targets in reading.rows(_KEYS):
        place = str(schema), str(table)
        if kind == "p":
            keys[place] = _words(columns)
        else:
            far = dotted((str(far_schema), str(far_table)))
            foreign[place] = (*foreign.get(place, ()), ForeignKey(_words(columns), far, _words(targets)))
    never: dict[Place, set[str]] = {}
    for schema, table, column in reading.rows(_NEVER_NULL):
        never.setdefault((str(schema), str(table)), set()).add(str(column))
    found = []
    for one in listed(reading):
        place, columns = (one.schema, one.table), [(c, str(computable(t) or t)) for c, t in one.columns]
        required = frozenset(never.get(place, ()))
        found.append(
            DraftTable(dotted(place), dotted(place), columns, keys.get(place, ()), foreign.get(place, ()), required)
        )
    return found


def _words(found: object) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list) else ()
