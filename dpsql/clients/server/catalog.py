"""Questions about PostgreSQL's catalog, answered over tables that the declarations fill; none of it touches the data or costs anything.

Only what is listed here is passed on: names of catalog tables, a few functions, and the shapes of questions. Anything else is refused,
or is no question about the catalog and goes its way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import duckdb
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dpsql.clients.server.pg_catalog import COLUMNS, EMPTY, MACROS, catalog
from dpsql.core import cancellation
from dpsql.core.cancellation import Cancellation
from dpsql.core.errors import Error, error
from dpsql.engines.duckdb.locked import one_select, run
from dpsql.schema.model import Schema

LONGEST, SECONDS, MOST_ROWS, MOST_PARAMETERS = 20_000, 5.0, 100_000, 1000
_PARAMETER = re.compile(r"\$(\d{1,4})\b")
_ABOUT = re.compile(
    r"\bpg_\w+|\b(?:current_schema|current_database|current_user|session_user|current_catalog|version|current_setting)\b"
    r"|\binformation_schema\b.*\b(?:quote_ident|parse_ident|format)\s*\(|\b(?:quote_ident|parse_ident|format)\s*\(.*\binformation_schema\b",
    re.IGNORECASE | re.DOTALL,
)
_FUNCTIONS = frozenset((
    "Case", "If", "Coalesce", "Count", "Cast", "Max", "Min", "Array", "ArrayAgg", "Upper", "Lower", "Substring", "Length",
    "Nullif", "Concat", "Replace", "Exists", "RegexpLike", "RegexpILike", "RowNumber", "Any", "All", "And", "Or", "Sum",
    "LogicalAnd", "LogicalOr", "StartsWith", "GroupConcat", "CurrentSchema", "CurrentUser", "SessionUser", "CurrentCatalog",
    "CurrentDatabase", "CurrentVersion", "Version", "ArrayToString", "ArrayContains", "Trim", "ArraySize",
))  # fmt: skip
"""Functions that the sandbox has too, by the names of the parser's nodes; which of them there are hangs on its version."""
_OWN = {
    "CurrentSchema": "current_schema", "CurrentUser": "current_user", "SessionUser": "session_user",
    "CurrentDatabase": "current_database",
    "CurrentCatalog": "current_catalog", "CurrentVersion": "version", "Version": "version", "ArrayToString": "array_to_string",
}  # fmt: skip
_WORDS = ("regclass", "regtype", "regproc", "regnamespace", "name", "oid", "text", "char", "xid")
Columns = list[tuple[str, str]]


class CatalogTables:
    """The catalog of one dataset, as one analyst sees it."""

    def __init__(self, schema: Schema, analyst: str) -> None:
        self._connection = catalog(schema, analyst)

    def close(self) -> None:
        self._connection.close()

    def answer(self, sql: str, parameters: Sequence[object]) -> tuple[Columns, list[tuple[object, ...]]] | None:
        """The columns and rows of a question about the catalog; None for any other statement. Raises 102, 105, 106."""
        written = translated(sql, parameters)
        if written is None:
            return None
        try:
            with cancellation.under(Cancellation(SECONDS)):
                return run(self._connection, lambda: self._read(written))
        except Error:
            raise
        except duckdb.Error:
            pass
        raise error(
            106,
            "this question about the catalog cannot be answered",
            hint="ask SHOW TABLES, or DESCRIBE and a table's name",
        )

    def shape(self, sql: str) -> tuple[int, Columns] | None:
        """Number of parameters of a question about the catalog, and its columns; None for any other statement."""
        numbers = [int(one) for one in _PARAMETER.findall(sql)] if _ABOUT.search(sql) is not None else []
        count = min(max(numbers, default=0), MOST_PARAMETERS)
        found = self.answer(sql, [None] * count)
        return (count, found[0]) if found is not None else None

    def _read(self, sql: str) -> tuple[Columns, list[tuple[object, ...]]]:
        most = f"SELECT * FROM ({sql}\n) LIMIT {MOST_ROWS}"
        found = self._connection.execute(one_select(self._connection, most))
        columns = [(str(name), str(kind)) for name, kind, *_ in found.description or ()]
        return columns, found.fetchall()


def translated(sql: str, parameters: Sequence[object]) -> str | None:
    """A question about the catalog as the sandbox runs it; None for any other statement. Raises 102 for what is not passed on."""
    if len(sql) > LONGEST or _ABOUT.search(sql) is None:
        return None
    try:
        tree = parse_one(_unqualified(sql), dialect="postgres")
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(tree, exp.Select | exp.Union) or not _is_about_catalog(tree):
        return None
    _empty(tree)
    # from the innermost on: what is replaced holds what was replaced
    for node in reversed(list(tree.walk())):
        meant = _rewritten(node, list(parameters))
        if node is tree:
            tree = meant
        elif meant is not node:
            node.replace(meant)
    _check(tree)
    for one in tree.selects:
        if isinstance(one, exp.Anonymous) and one.name.startswith("c_"):
            one.replace(exp.alias_(one.copy(), one.name.removeprefix("c_")))
    return tree.sql(dialect="duckdb")


def _unqualified(sql: str) -> str:
    """Without what names the catalog's schema where no table is: operators, collations and types."""
    sql = re.sub(r"OPERATOR\s*\(\s*pg_catalog\.([~!=<>*]+)\s*\)", r" \1 ", sql, flags=re.IGNORECASE)
    return re.sub(r"COLLATE\s+(?:pg_catalog\.)?\"?(?:default|C)\"?", "", sql, flags=re.IGNORECASE)


def _is_about_catalog(tree: exp.Expression) -> bool:
    """True if all tables are the catalog's; of a question without tables, if it calls one of its functions."""
    queries = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables = [node for node in tree.find_all(exp.Table) if node.name and node.name not in queries]
    if tables:
        return all(_place(node) in COLUMNS or _place(node) in EMPTY for node in tables)
    called = {node.name.lower() for node in tree.find_all(exp.Anonymous)}
    named = {node.name.lower() for node in tree.find_all(exp.Column)}
    return bool(
        called & set(MACROS)
        or any(type(node).__name__ in _OWN for node in tree.find_all(exp.Func))
        or named & {"current_user", "session_user", "current_catalog"}
    )


def _empty(tree: exp.Expression) -> None:
    """Put a query without rows in the place of each table that nothing fills, with the columns that are asked of it."""
    known = set(re.findall(r"(\w+) [A-Z]", ", ".join(COLUMNS.values())))
    asked = list(tree.find_all(exp.Column))
    for table in [node for node in tree.find_all(exp.Table) if _place(node) in EMPTY]:
        alias = table.alias_or_name.lower()
        own = {c.name.lower() for c in asked if c.table.lower() == alias or not (c.table or c.name.lower() in known)}
        found = exp.select(*(exp.alias_(exp.null(), name) for name in sorted(own) or ["nothing"])).where(exp.false())
        found.meta["nothing"] = True
        table.replace(found.subquery(table.alias_or_name))


def _rewritten(node: Any, parameters: list[object]) -> Any:
    match node:
        case exp.Dot() if isinstance(node.expression, exp.Func) and node.this.name.lower() == "pg_catalog":
            return _called(node.expression)
        case exp.Table():
            if isinstance(node.this, exp.Identifier) and node.db:
                node.set("this", exp.to_identifier(_place(node)))
                node.set("db", None)
        case exp.Array() if _is_of_options(node):
            return exp.cast(exp.null(), "TEXT[]")
        case exp.Select() if _lists_schemas(node):
            return exp.select(*["1 AS r"][: len(node.selects) - 1], "'public' AS nspname")
        case exp.Select() if _is_empty(node):
            return _nothing(node)
        case exp.Column() if node.args.get("db") is not None:
            node.set("db", None)
        case exp.Placeholder() | exp.Parameter():
            number = node.name or str(node.this)
            if number.isdecimal() and 0 < int(number) <= len(parameters):
                value = parameters[int(number) - 1]
                return (
                    exp.convert(value)
                    if value is None or isinstance(value, str | int | float)
                    else exp.Literal.string(str(value))
                )
            raise error(108, "a parameter has no value", hint="give one value for each placeholder")
        case exp.Column() if not node.table and node.name.lower() in (
            "current_user",
            "session_user",
            "current_catalog",
        ):
            return exp.Anonymous(this=f"c_{node.name.lower()}")
        case exp.Div() if isinstance(node.this, exp.Cast) and node.this.is_type("int") and node.expression.is_int:
            return exp.IntDiv(this=node.this, expression=node.expression)
        case exp.Cast():
            return _cast(node)
        case exp.Func():
            return _called(node)
    return node


def _place(table: exp.Table) -> str:
    """Name of a table among the catalog's; "" where it is in no schema of these."""
    name, within = table.name.lower(), table.db.lower()
    if within == "information_schema":
        return f"information_schema_{name}"
    return name if within in ("", "pg_catalog") else ""


def _is_empty(node: exp.Select) -> bool:
    """True if a question has no rows, since nothing fills one of the tables that it joins."""
    source = node.args.get("from_") or node.args.get("from")
    joins = node.args.get("joins") or []
    if not isinstance(source, exp.From) or any(join.side in ("RIGHT", "FULL") for join in joins):
        return False
    within = (part for one in node.selects for part in one.find_all(exp.AggFunc, exp.Star))
    plain = not any(part.parent_select is node for part in within)
    return plain and any(map(_has_nothing, [source.this, *(join.this for join in joins if not join.side)]))


def _is_of_options(node: exp.Array) -> bool:
    """True for `array(SELECT ... FROM unnest(t.reloptions))`: no table here has options."""
    found = list(node.find_all(exp.Table))
    set_of = found[0].this if len(found) == 1 else None
    return isinstance(set_of, exp.Explode) and isinstance(set_of.this, exp.Column) and set_of.this.name == "reloptions"


def _lists_schemas(node: exp.Select) -> bool:
    """True for the schemas that are looked through, by their number, as pgjdbc and Grafana ask for them; there is one."""
    source = node.args.get("from_") or node.args.get("from")
    rows = source.this.this if isinstance(source, exp.From) and isinstance(source.this, exp.Table) else None
    return isinstance(rows, exp.ExplodingGenerateSeries) and any(
        word in rows.sql("postgres").lower() for word in ("current_schemas", "search_path")
    )


def _has_nothing(source: exp.Expression) -> bool:
    if isinstance(source, exp.Table):
        # its one row is for who joins types to what reads them
        return source.name.lower() == "pg_proc"
    return isinstance(source, exp.Subquery) and source.this.meta.get("nothing") is True


def _nothing(node: exp.Select) -> exp.Select:
    """The same columns, without rows: what would be computed of them may be what no sandbox has."""
    columns = [exp.alias_(exp.null(), one.alias_or_name) if one.alias_or_name else exp.null() for one in node.selects]
    found = exp.select(*columns).where(exp.false())
    found.meta["nothing"] = True
    return found


def _called(node: Any) -> Any:
    if isinstance(node, exp.Anonymous) and str(node.this).lower() != "format" and str(node.this).lower() in MACROS:
        return exp.Anonymous(this=f"c_{str(node.this).lower()}", expressions=node.expressions)
    if type(node).__name__ == "Format" or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "format"):
        # one place of the text after the other
        text, *given = [node.this, *node.expressions] if isinstance(node.this, exp.Expression) else node.expressions
        return reduce(lambda made, one: exp.Anonymous(this="c_format", expressions=[made, one]), given, text)
    if type(node).__name__ in _OWN:
        given = [node.this, node.expression] if isinstance(node, exp.ArrayToString) else []
        return exp.Anonymous(this=f"c_{_OWN[type(node).__name__]}", expressions=given)
    return node


def _cast(node: exp.Cast) -> Any:
    """Casts to types of the catalog's own."""
    name = node.to.sql("postgres").lower().rpartition(".")[2].strip('"')
    if name == "regclass":
        return exp.Anonymous(this="regclass_of", expressions=[exp.cast(node.this, "TEXT")])
    inner = node.this
    if name in ("text", "name", "varchar") and isinstance(inner, exp.Anonymous) and inner.name == "regclass_of":
        return exp.Anonymous(this="regclass_name", expressions=[inner])
    if name in _WORDS:
        return exp.cast(inner, "BIGINT" if name == "oid" else "TEXT")
    return node


def _check(tree: exp.Expression) -> None:
    """Raise 102 for a function, or a source of FROM, that is not listed."""
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            listed = str(node.this).removeprefix("c_") in MACROS
        elif isinstance(node, exp.Table):
            listed = isinstance(node.this, exp.Identifier)
        elif isinstance(node, exp.Func):
            listed = type(node).__name__ in _FUNCTIONS
        else:
            listed = not isinstance(
                node, exp.Command | exp.Into | exp.Lateral | exp.Unnest | exp.Parameter | exp.Placeholder
            )
        if not listed:
            raise error(
                102,
                "a question about the catalog holds what is not answered",
                hint="ask SHOW TABLES or DESCRIBE and a name",
            )
