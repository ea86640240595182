"""Declared structure of private tables that cannot be enforced, only verified: keys, and with them one unit a row."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from dpsql.engines.base import Engine
from dpsql.engines.registry import kind_for
from dpsql.engines.writing import grouped, name, raise_all, touched, undetermined
from dpsql.schema.dependences import structural
from dpsql.schema.mistakes import printable
from dpsql.schema.model import ROW, Column, Dependence, Schema, Table
from dpsql.schema.moving import moving, undated

FORMAT = "structure 1"
FACTS_FORMAT = "facts 1"
Added = Mapping[str, Table]
"""By private table that had, when it was verified in the same structure, all but some of the files that it has now: the table that
shows the rows of those."""
NONE_ADDED: Added = {}


def canonical(schema: Schema) -> str:
    """Text that is equal for two schemas exactly if they declare the same structure: approvals are for one structure.

    Bounds, domains and limits are no part of it: they are enforced whatever the data (rules 35, 36).
    """
    return repr((FORMAT, schema.privacy.unit, tuple(_structure(schema, t) for t in schema.tables)))


def canonical_table(schema: Schema, table: Table) -> str:
    """Text that is equal only where one table's structure is, as `canonical` is for all. References point to keys, so what is unique
    in a table is of its own structure."""
    return repr((FORMAT, schema.privacy.unit, _structure(schema, table)))


def _structure(schema: Schema, t: Table) -> tuple[object, ...]:
    return (
        (t.name, t.source, t.public, t.key, t.unit_path, t.multiplicity),
        tuple((r.name, r.table, ", ".join(r.targets)) for r in t.references),
        () if t.public else tuple((c.name, _as_read(c)) for c in t.columns),
        *structural(schema, t),
        *([t.period] if t.period is not None else []),
    )


def _as_read(column: Column) -> str:
    """Facts that decide which value of a column is read as NULL, and so as no key: its type, and the length of text and
    of lists."""
    if column.element is not None:
        return f"{column.sqltype} of {column.length} and {column.longest}"
    return f"{column.sqltype} of {column.longest}" if column.sqltype.is_text else str(column.sqltype)


def declared(schema: Schema) -> str:
    """Text that is equal for two schemas only if verified facts mean the same in both, read by the same engine.

    Unlike the approval, facts are about bounds, domains and limits too. What public tables list is part of the contents.
    """
    more = (*schema.unshown, *((moves,) if (moves := moving(schema)) else ()))
    whole = repr((FACTS_FORMAT, kind_for(schema).version, schema.privacy.unit, undated(schema).tables, *more))
    return hashlib.sha256(whole.encode("utf-8", "backslashreplace")).hexdigest()


def verify(engine: Engine, schema: Schema, known: Collection[str] = (), added: Added = NONE_ADDED) -> tuple[str, ...]:
    """Check every key on the data, NULL counted as a value; what was verified, one line each.

    `schema` has its public columns filled in. Raises 804 naming every table and key that fails, without values or
    counts; 707 where a file cannot be read to its end.

    known  private tables of which the same contents were verified before, in the same structure
    added  of these only groups with a row in an added file are looked at

    Why    each claim is about groups of rows that agree in some columns, and a group without an added row is what it was
    """
    left = [table for table in schema.tables if table.name not in known]
    for table in left:
        _read_through(engine, added.get(table.name, table))
    claims = list(_unique(schema))
    _verify_unique(engine, [(table, key) for table, key in claims if table in left], added)
    _verify_multiplicity(engine, schema)
    determined = [(t, d) for t in left for d in (t.determines if t.public else structural(schema, t))]
    _verify_determined(engine, determined, added)
    return tuple(f"{t.name} ({', '.join(key)}) unique" for t, key in claims)


def grouping(schema: Schema, table: Table) -> tuple[str, ...]:
    """The columns of a private table that what is verified of added rows groups all rows by: of its keys, of dependences, of its unit
    or the way to it, and of its period."""
    path = schema.path_to_unit(table)
    named = [column for t, key in _unique(schema) if t.name == table.name for column in key]
    named += [column for d in structural(schema, table) for column in (*d.columns, *d.determined)]
    if schema.privacy.unit != ROW:
        named += path[0].columns if path else [schema.privacy.unit_column or ""]
    named += [table.period.column] if table.period is not None else []
    return tuple(column.name for column in table.columns if column in map(table.column, named))


def verify_public(engine: Engine, schema: Schema) -> None:
    """Check the keys of public tables only: at every opening, whatever was approved (rule 9). Raises 804, 707."""
    _verify_unique(engine, [(t, key) for t, key in _unique(schema) if t.public])
    _verify_multiplicity(engine, schema)
    _verify_determined(engine, [(t, d) for t in schema.tables for d in t.determines if t.public])


def _verify_multiplicity(engine: Engine, schema: Schema) -> None:
    """Check that no value of a public column has more rows than declared, NULL counted as a value. Raises 804."""
    claims = [(t, column, rows) for t in schema.tables for column, rows in t.multiplicity]
    missing = [(t, column) for t, column, _ in claims if t.column(column) is None]
    raise_all(
        804,
        [f"table {printable(t.name)}: multiplicity names {printable(c)}, which it does not have" for t, c in missing],
    )
    raise_all(
        804,
        [
            f"table {printable(t.name)}: more than {rows:,} rows have one value of {printable(column)}; declare a larger multiplicity"
            for t, column, rows in claims
            if _repeats(engine, engine.dialect.relation(t.name), (column,), rows)
        ],
    )


def _verify_determined(engine: Engine, claims: list[tuple[Table, Dependence]], added: Added = NONE_ADDED) -> None:
    """Check dependences that whose row it is rests on, and those of public tables (rule 60). Raises 804.

    Why  the others say that a column is constant per unit, and are enforced whatever the data: their exceptions are a fact for the
         owner (facts.py)
    """
    missing = [(t, c) for t, d in claims for c in (*d.columns, *d.determined) if t.column(c) is None]
    raise_all(
        804,
        [f"table {printable(t.name)}: determines names {printable(c)}, which it does not have" for t, c in missing],
    )
    raise_all(
        804,
        [
            f"table {printable(t.name)}: rows with one ({', '.join(map(printable, d.columns))}) differ in "
            f"({', '.join(map(printable, d.determined))}), which determines says they do not; correct the rows, or remove it"
            for t, d in claims
            if engine.owner_rows(f"{undetermined(_groups(engine, t, d.columns, added), d)} LIMIT 1")
        ],
    )


def _verify_unique(engine: Engine, claims: list[tuple[Table, tuple[str, ...]]], added: Added = NONE_ADDED) -> None:
    failed = [(t, key) for t, key in claims if _repeats(engine, _groups(engine, t, key, added), key)]
    raise_all(804, [_failure(t, key) for t, key in failed])


def _unique(schema: Schema) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """Every set of columns that must be unique: declared keys, and what references point to."""
    targets = {(r.table, r.targets) for t in schema.tables for r in t.references}
    for table in schema.tables:
        keys = {table.key} if table.key else set()
        keys |= {t for name_, t in targets if name_ == table.name and sorted(t) != sorted(table.key)}
        yield from ((table, key) for key in sorted(keys))


def _groups(engine: Engine, table: Table, columns: Sequence[str], added: Added) -> str:
    """FROM item of the rows whose groups have to be looked at."""
    relation, shown = engine.dialect.relation, added.get(table.name)
    if shown is None:
        return relation(table.name)
    return touched(relation(grouped(table)), relation(shown.name), columns)


def _repeats(engine: Engine, relation: str, key: tuple[str, ...], most: int = 1) -> bool:
    columns = ", ".join(name(column) for column in key)
    sql = f"SELECT 1 FROM {relation} GROUP BY {columns} HAVING count(*) > {most} LIMIT 1"
    return bool(engine.owner_rows(sql))


def _read_through(engine: Engine, table: Table) -> None:
    """Read every value once: a damaged page must show here, not in an analyst's statement."""
    columns = [name(c.name) for c in table.columns]
    if columns:
        engine.owner_rows(f"SELECT {engine.dialect.hashed(columns)} FROM {engine.dialect.relation(table.name)}")


def _failure(table: Table, key: tuple[str, ...]) -> str:
    columns = ", ".join(printable(column) for column in key)
    return (
        f"table {printable(table.name)}: rows repeat in ({columns}), which is declared unique; "
        "remove the repeated rows, or declare a key that is unique"
    )
