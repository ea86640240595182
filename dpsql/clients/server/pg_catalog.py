"""Tables of PostgreSQL's catalog, filled from the declarations alone: what clients ask to list tables and columns.

Why     a client that lists tables asks these and no others; nothing in them comes from the data
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from dpsql.clients.server.habits import VERSION, VERSION_NUMBER
from dpsql.clients.server.pgtypes import BY_NAME, TEXT, field
from dpsql.engines.duckdb.locked import connect, lock
from dpsql.engines.writing import text
from dpsql.schema.model import Schema
from dpsql.schema.qualifiers import MAIN, place, sql_schemas

PUBLIC, CATALOG_OID, PUBLIC_OID, FIRST_OID, OWNER, ARRAY_RECEIVE = "public", 11, 2200, 16384, 10, 750
MEMORY = 200_000_000
"""[bytes] that the tables, and what is asked of them, may hold."""
Rows = list[tuple[object, ...]]
COLUMNS: dict[str, str] = {
    "pg_namespace": "oid BIGINT, nspname TEXT, nspowner BIGINT, nspacl TEXT[]",
    "pg_class": "oid BIGINT, relname TEXT, relnamespace BIGINT, reltype BIGINT, reloftype BIGINT, relowner BIGINT, "
    "relam BIGINT, reltablespace BIGINT, reltuples DOUBLE, relpages INTEGER, relkind TEXT, relpersistence TEXT, "
    "relhasindex BOOLEAN, relchecks INTEGER, relhasrules BOOLEAN, relhastriggers BOOLEAN, relrowsecurity BOOLEAN, "
    "relforcerowsecurity BOOLEAN, relispartition BOOLEAN, relreplident TEXT, reltoastrelid BIGINT, relhassubclass BOOLEAN, "
    "relnatts INTEGER, reloptions TEXT[], relacl TEXT[], relpartbound TEXT",
    "pg_attribute": "attrelid BIGINT, attname TEXT, atttypid BIGINT, attlen INTEGER, attnum INTEGER, atttypmod INTEGER, "
    "attnotnull BOOLEAN, atthasdef BOOLEAN, attidentity TEXT, attgenerated TEXT, attisdropped BOOLEAN, attcollation BIGINT, "
    "attndims INTEGER, attstorage TEXT, attcompression TEXT, attstattarget INTEGER, attacl TEXT[], attoptions TEXT[], "
    "attfdwoptions TEXT[]",
    "pg_type": "oid BIGINT, typname TEXT, typnamespace BIGINT, typowner BIGINT, typlen INTEGER, typtype TEXT, "
    "typcategory TEXT, typrelid BIGINT, typelem BIGINT, typarray BIGINT, typbasetype BIGINT, typtypmod INTEGER, "
    "typnotnull BOOLEAN, typcollation BIGINT, typdelim TEXT, typinput TEXT, typdefault TEXT, typndims INTEGER, "
    "typisdefined BOOLEAN, typreceive BIGINT",
    "pg_database": "oid BIGINT, datname TEXT, datdba BIGINT, encoding INTEGER, datcollate TEXT, datctype TEXT, "
    "daticulocale TEXT, datlocprovider TEXT, datacl TEXT[], datistemplate BOOLEAN, datallowconn BOOLEAN, "
    "datconnlimit INTEGER, dattablespace BIGINT",
    "pg_roles": "oid BIGINT, rolname TEXT, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole BOOLEAN, rolcreatedb BOOLEAN, "
    "rolcanlogin BOOLEAN, rolconnlimit INTEGER, rolvaliduntil TIMESTAMP, rolreplication BOOLEAN, rolbypassrls BOOLEAN",
    "pg_am": "oid BIGINT, amname TEXT, amtype TEXT",
    "pg_tablespace": "oid BIGINT, spcname TEXT, spcowner BIGINT",
    "pg_tables": "schemaname TEXT, tablename TEXT, tableowner TEXT, tablespace TEXT, hasindexes BOOLEAN, hasrules BOOLEAN, "
    "hastriggers BOOLEAN, rowsecurity BOOLEAN",
    "pg_proc": "oid BIGINT, proname TEXT, pronamespace BIGINT, prokind TEXT, prorettype BIGINT, proretset BOOLEAN, "
    "proargtypes BIGINT[]",
    "pg_settings": "name TEXT, setting TEXT",
    "information_schema_tables": "table_catalog TEXT, table_schema TEXT, table_name TEXT, table_type TEXT",
    "information_schema_columns": "table_catalog TEXT, table_schema TEXT, table_name TEXT, column_name TEXT, "
    "ordinal_position INTEGER, is_nullable TEXT, data_type TEXT, udt_schema TEXT, udt_name TEXT",
}
"""Columns of the tables that are filled."""
EMPTY = frozenset((
    "pg_attrdef", "pg_auth_members", "pg_collation", "pg_constraint", "pg_depend", "pg_description",
    "pg_shdescription", "pg_enum", "pg_range", "pg_index", "pg_inherits", "pg_policy", "pg_statistic_ext",
    "pg_publication", "pg_publication_rel", "pg_publication_namespace", "pg_partitioned_table", "pg_extension",
    "pg_foreign_table", "pg_foreign_server", "pg_trigger", "pg_rewrite", "pg_sequence", "pg_views", "pg_matviews",
    "pg_opclass", "pg_language",
))  # fmt: skip
"""Tables that nothing fills: they have the columns that are asked of them, and no rows."""
_ALIKE = {
    "NULL::TEXT": ("pg_get_expr", "pg_get_constraintdef", "pg_get_indexdef", "pg_get_viewdef", "pg_get_partkeydef",
                   "pg_get_function_result", "pg_get_function_arguments", "pg_get_statisticsobjdef_columns", "pg_size_pretty",
                   "pg_get_serial_sequence", "obj_description", "col_description", "shobj_description"),
    "true": ("pg_type_is_visible", "pg_function_is_visible", "has_table_privilege", "has_schema_privilege", "has_database_privilege"),
    "false": ("pg_is_in_recovery", "pg_relation_is_publishable"),
    "0": ("pg_relation_size", "pg_total_relation_size", "pg_table_size"),
    "'owner'": ("pg_get_userbyid",),
    "'UTF8'": ("pg_encoding_to_char",),
    "1": ("pg_backend_pid",),
    "NULL": ("pg_advisory_unlock_all",),
    "getvariable('dataset')": ("current_database", "current_catalog"),
    "getvariable('analyst')": ("current_user", "session_user"),
    "'public'": ("current_schema",),
    f"'PostgreSQL {VERSION} (dpsql)'": ("version",),
}  # fmt: skip
"""Functions of PostgreSQL's that give the same whatever they are asked about."""
MACROS = {
    **{name: ("x := NULL, y := NULL, z := NULL", body) for body, names in _ALIKE.items() for name in names},
    "pg_table_is_visible": (
        "x",
        f"EXISTS (SELECT 1 FROM pg_class v WHERE v.oid = x AND v.relnamespace = {PUBLIC_OID})",
    ),
    "current_setting": ("x, y := false", "(SELECT any_value(s.setting) FROM pg_settings s WHERE s.name = x)"),
    "to_regtype": ("x", "(SELECT any_value(n.oid) FROM type_names n WHERE x IN (n.typname, n.shown))"),
    "current_schemas": ("x", "['pg_catalog', 'public']"),
    "quote_ident": ("x", "x"),
    "parse_ident": ("x", "string_split(replace(x, '\"', ''), '.')"),
    "format": ("x, y", "regexp_replace(x, '%[sI]', y)"),
    "to_regclass": ("x", "regclass_of(x)"),
    "array_to_string": ("x, y", "list_aggregate(x, 'string_agg', y)"),
    "format_type": (
        "x, y",
        "(SELECT CASE WHEN n.typname = 'numeric' AND y > 4 THEN 'numeric(' || ((y - 4) >> 16) || ',' || ((y - 4) & 65535) || ')'"
        " ELSE n.shown END FROM type_names n WHERE n.oid = x)",
    ),
    "regclass_of": (
        "x",
        "(SELECT any_value(k.oid) FROM pg_class k WHERE k.relname = regexp_replace(replace(x, '\"', ''), '^.*[.]', '')"
        " OR CAST(k.oid AS TEXT) = x)",
    ),
    "regclass_name": ("x", "(SELECT any_value(k.relname) FROM pg_class k WHERE k.oid = x)"),
}
"""Functions of PostgreSQL's that such questions call: their parameters and what they give."""
_SHOWN = {"bool": "boolean", "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
          "varchar": "character varying", "time": "time without time zone", "timestamp": "timestamp without time zone",
          "timestamptz": "timestamp with time zone"}  # fmt: skip
_CATEGORY = {"bool": "B", "date": "D", "time": "D", "timestamp": "D", "timestamptz": "D", "interval": "T", "text": "S", "varchar": "S",
             "bytea": "U"}  # fmt: skip


def catalog(schema: Schema, analyst: str) -> duckdb.DuckDBPyConnection:
    """A connection that reaches nothing and holds the tables.

    schema  with the columns of its public tables
    """
    connection = connect(None, threads=1, memory=MEMORY)
    try:
        for name, columns in COLUMNS.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.execute("CREATE TABLE type_names (oid BIGINT, typname TEXT, shown TEXT)")
        for name, rows in _filled(schema):
            if rows:
                connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        connection.execute(f"SET VARIABLE dataset = {text(schema.name)}; SET VARIABLE analyst = {text(analyst)}")
        for name in ("regclass_of", "regclass_name", *(n for n in MACROS if not n.startswith("regclass"))):
            connection.execute(_macro(name, *MACROS[name]))
        lock(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _macro(name: str, parameters: str, body: str) -> str:
    """A function as DuckDB defines it: each number of arguments by itself."""
    given = [one.strip() for one in parameters.split(",")] if parameters else []
    needed = sum(1 for one in given if ":=" not in one)
    names = [one.partition(" ")[0] for one in given]
    forms = [f"({', '.join(names[:count])}) AS {body}" for count in range(needed, len(names) + 1)]
    return f"CREATE MACRO {name if name.startswith('regclass') else f'c_{name}'}{', '.join(forms)}"


def _filled(schema: Schema) -> Iterator[tuple[str, Rows]]:
    """Tables that are not empty."""
    own = [PUBLIC if one == MAIN else one for one in sql_schemas(schema)]
    spaces = {name: PUBLIC_OID + at for at, name in enumerate(own)}
    spaces |= {"pg_catalog": CATALOG_OID, "information_schema": CATALOG_OID + 1}
    yield "pg_namespace", [(oid, name, OWNER, None) for name, oid in spaces.items()]
    yield from _tables(schema, spaces)
    yield "pg_database", [(1, schema.name, OWNER, 6, "C", "C", None, "c", None, False, True, -1, 1663)]
    yield "pg_roles", [(OWNER, "owner", False, True, False, False, False, -1, None, False, False)]
    settings = {"server_version": VERSION, "server_version_num": VERSION_NUMBER, "search_path": PUBLIC, "max_index_keys": "32",
                "default_table_access_method": "heap"}  # fmt: skip
    yield "pg_settings", list(settings.items())
    # whoever begins with this table finds no function; a type is joined to the one that reads lists
    yield "pg_proc", [(ARRAY_RECEIVE, "array_recv", CATALOG_OID, "f", 0, False, None)]
    yield "pg_am", [(2, "heap", "t")]
    yield "pg_tablespace", [(1663, "pg_default", OWNER)]
    yield "pg_type", list(_types())
    every = [(one.oid, one.name, _SHOWN.get(one.name, one.name)) for one in BY_NAME.values()]
    lists = [(one.array, f"_{one.name}", f"{_SHOWN.get(one.name, one.name)}[]") for one in BY_NAME.values()]
    yield "type_names", [*every, *lists]


def _tables(schema: Schema, spaces: dict[str, int]) -> Iterator[tuple[str, Rows]]:
    """The declared tables and their columns."""
    classes: Rows = []
    attributes: Rows = []
    tables: Rows = []
    listed: Rows = []
    columns: Rows = []
    flags, rest = (False,) * 5, (None,) * 3
    for oid, table in enumerate(schema.tables, FIRST_OID):
        within, name = place(table.name)
        space = PUBLIC if within == MAIN else within
        first = (oid, name, spaces[space], 0, 0, OWNER, 2, 0, -1.0, 0, "r", "p", False, 0)
        classes.append((*first, *flags, "n", 0, False, len(table.columns), *rest))
        listed.append((schema.name, space, name, "BASE TABLE"))
        tables.append((space, name, "owner", None, False, False, False, False))
        for number, column in enumerate(table.columns, 1):
            shown = field(column.name, str(column.sqltype), False)
            of_type = (shown.oid, shown.size, number, shown.modifier, not column.nullable)
            attributes.append((oid, column.name, *of_type, False, "", "", False, 0, 0, "p", "", -1, *rest))
            known = next((one.name for one in BY_NAME.values() if one.oid == shown.oid), "")
            about = ("YES" if column.nullable else "NO", _SHOWN.get(known, known or "ARRAY"), "pg_catalog", known)
            columns.append((schema.name, space, name, column.name, number, *about))
    yield "pg_class", classes
    yield "pg_attribute", attributes
    yield "pg_tables", tables
    yield "information_schema_tables", listed
    yield "information_schema_columns", columns


def _types() -> Iterator[tuple[object, ...]]:
    for one in BY_NAME.values():
        collation = 100 if one is TEXT else 0
        rest = (0, -1, False, collation, ",", f"{one.name}in", None, 0, True, 0)
        category = _CATEGORY.get(one.name, "N")
        yield (one.oid, one.name, CATALOG_OID, OWNER, one.size, "b", category, 0, 0, one.array, *rest)
        yield (one.array, f"_{one.name}", CATALOG_OID, OWNER, -1, "b", "A", 0, one.oid, 0, *rest[:-1], ARRAY_RECEIVE)
