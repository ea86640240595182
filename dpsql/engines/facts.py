"""Exact facts about the data, for its owner's eyes: what the declared limits would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.core.domains import Categories, Interval
from dpsql.core.sqltypes import SqlType
from dpsql.engines.base import Dialect, Engine
from dpsql.engines.writing import grouped, literal, name, text, too_long, undetermined, unfit
from dpsql.schema.model import ROW, Column, Dependence, Reference, Schema, Table, bounds_fact, rows_fact, unit_fact

MOST_NAMED = 4
_LIKE_A_NUMBER = "'-?(0|[1-9][0-9]*)([.][0-9]+)?'"


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column of a private table [rows].

    nulls    NULL, or a stored value that does not fit the declared type
    nans     NaN, of FLOAT and DOUBLE
    outside  values that bounds would clamp, or that a domain does not list; None where neither is declared
    infinite infinite numbers, dates and timestamps
    unfit    values that do not fit the type, and among the NULLs
    too_long texts and lists that are longer than the column's length, and among the NULLs
    off      the most frequent values that a list does not hold, and how often each is there [rows]
    numeric  texts that are written like numbers, of a column that is neither listed nor names anybody
    """

    column: Column
    nulls: int
    nans: int
    outside: int | None
    infinite: int
    too_long: int = 0
    unfit: int = 0
    off: tuple[tuple[str, int], ...] = ()
    numeric: int = 0

    @property
    def inside(self) -> bool:
        """True if every value is finite and inside its declaration, and NULL only where it is declared."""
        return not (self.nans or self.infinite or self.outside) and (self.column.nullable or not self.nulls)


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """Spread of the rows of a private table over the units.

    units     units that have rows here
    most      rows of the unit that has most
    ownerless rows that reach no unit, and are left out of every answer
    over      units above max_rows_per_unit; of a table with periods, as `most` and `cut`, of each in each period
    cut       rows above it
    """

    units: int
    most: int
    mean: Fraction
    ownerless: int
    over: int
    cut: int


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A private table.

    unique    whether its key allows one row per unit
    dangling  for each reference, the rows whose value its target does not hold [rows]
    divided   for each dependence, the values of its columns whose rows differ in what it determines [values]
    """

    table: Table
    rows: int
    unique: bool
    unit: UnitFacts | None
    columns: tuple[ColumnFacts, ...]
    dangling: tuple[tuple[Reference, int], ...]
    divided: tuple[tuple[Dependence, int], ...] = ()


def table_facts(engine: Engine, schema: Schema, table: Table) -> TableFacts:
    """Everything that the owner's check shows of a private table. `schema` has its public facts filled in."""
    relation, cut = engine.dialect.relation(table.name), [c.name for c in table.columns if c.is_cut]
    numbers, by_unit = _texts_of_numbers(table), () if schema.privacy.unit == ROW else (_unit(engine, schema, table),)
    like = (where(f"{name(column)} SIMILAR TO {_LIKE_A_NUMBER}") for column in numbers)
    (rows, *counts), alien, long, *more = _together(
        engine,
        [
            (["count(*)", *_counts(engine.dialect, table), *like], relation),
            ([name(column.name) for column in table.columns], engine.dialect.relation(unfit(table))),
            ([where(name(c)) for c in cut], engine.dialect.relation(too_long(table))),
            *by_unit,
            *(_dangling(engine, table, reference) for reference in table.references),
            *((["count(*)"], f"({undetermined(relation, d)}) AS counted") for d in table.determines),
        ],
    )
    unit = _spread(*more.pop(0)) if by_unit else None
    found = [count for (count,) in more]
    dangling = tuple(zip(table.references, found, strict=False))
    divided = tuple(zip(table.determines, found[len(table.references) :], strict=True))
    numeric = counts[4 * len(table.columns) :]
    named = [dict(zip(names, found, strict=True)) for names, found in ((cut, long), (numbers, numeric))]
    columns = _columns(engine, table, counts, alien, named)
    return TableFacts(table, rows, schema.one_row_per_unit(table), unit, columns, dangling, divided)


Question = tuple[Sequence[str], str]
"""SQL of whole numbers of one row, and what stands in FROM."""


def _together(engine: Engine, questions: Sequence[Question]) -> list[list[int]]:
    """The answers of several questions, asked as one: a server has a floor for each statement."""
    parts, names = [], []
    for i, (items, source) in enumerate(questions):
        own = [f"c{i}_{j}" for j in range(len(items))]
        names += own
        if items:
            listed = ", ".join(f"{item} AS {alias}" for item, alias in zip(items, own, strict=True))
            parts.append(f"(SELECT {listed} FROM {source}) AS f{i}")
    found = iter(integers(engine, " CROSS JOIN ".join(parts), names))
    return [[next(found) for _ in items] for items, _ in questions]


def added_facts(engine: Engine, schema: Schema, table: Table, shown: Table) -> TableFacts:
    """Facts of the rows of some files of a table, which another table shows; but the most rows of a unit that has rows there are all
    that it has in the table."""
    facts, dialect = table_facts(engine, schema, shown), engine.dialect
    if facts.unit is None:
        return replace(facts, table=table)
    (part, own), every = with_unit(dialect, schema, shown), replace(table, name=grouped(table))
    rows, unit = with_unit(dialect, schema, every)
    keys = ", ".join([unit, *_period(table)])
    of_units = f"SELECT count(*) AS n FROM {rows} WHERE {unit} IN (SELECT {own} FROM {part}) GROUP BY {keys}"
    (most,) = integers(engine, f"({of_units}) AS counted", ["coalesce(max(n), 0)"])
    return replace(facts, table=table, unit=replace(facts.unit, most=most))


def still_verified(schema: Schema, facts: TableFacts, before: frozenset[str]) -> frozenset[str]:
    """The names of what held of a table, and holds with the rows of added files.

    facts   as `added_facts` gives them
    before  what was verified without them; no way from the table to its units may have changed since

    Why     bounds hold of all rows exactly if they do of the older and of the added ones, and so does that each has a unit; and a unit
            with no added row has as many as before
    """
    leads = next(iter(schema.path_to_unit(facts.table)), None)
    dangles = any(count for reference, count in facts.dangling if reference == leads)
    return before & frozenset(_holding(facts, dangles))


def verified(schema: Schema, tables: tuple[TableFacts, ...]) -> frozenset[str]:
    """The names of what these facts show to hold, as schema/model.py gives them.

    tables  the facts of every private table
    """
    return frozenset(fact for facts in tables for fact in _holding(facts, _dangles(schema, tables, facts.table)))


def _holding(facts: TableFacts, dangles: bool) -> Iterator[str]:
    """Facts that hold; `dangles`: a reference on the way to the unit leads nowhere. Bounds that end today are always enforced."""
    table = facts.table
    if facts.unit is not None and table.max_rows_per_unit is not None and facts.unit.most <= table.max_rows_per_unit:
        yield rows_fact(table.name)
    if facts.unit is not None and facts.unit.ownerless == 0 and not dangles:
        yield unit_fact(table.name)
    yield from (bounds_fact(table.name, c.column.name) for c in facts.columns if c.inside and not c.column.until_today)


def _dangles(schema: Schema, tables: tuple[TableFacts, ...], table: Table) -> bool:
    """True if a reference on the way from a table to the unit's own table has a value that its target does not hold."""
    counts = {(t.table.name, reference): count for t in tables for reference, count in t.dangling}
    here = table.name
    for reference in schema.path_to_unit(table):
        if counts[here, reference]:
            return True
        here = reference.table
    return False


def _counts(dialect: Dialect, table: Table) -> Iterator[str]:
    """SQL of four numbers of rows of each column: NULL, NaN, outside, infinite."""
    for column in table.columns:
        quoted = name(column.name)
        nan = dialect.is_nan(quoted) if column.sqltype.is_float else "false"
        for condition in (f"{quoted} IS NULL", nan, outside(dialect, column), _infinite(dialect, column)):
            yield where(condition)


def _columns(
    engine: Engine, table: Table, found: Sequence[int], alien: Sequence[int], named: Sequence[Mapping[str, int]]
) -> tuple[ColumnFacts, ...]:
    """Facts of the columns, of numbers as ColumnFacts names them [rows]; found: those of `_counts`, column by column, and others."""
    long, numeric = named
    return tuple(
        ColumnFacts(
            column,
            nulls,
            nans,
            beyond if _is_limited(column) else None,
            infinite,
            long.get(column.name, 0),
            n,
            off_list(engine, table, column) if beyond and isinstance(column.domain, Categories) else (),
            numeric.get(column.name, 0),
        )
        for column, nulls, nans, beyond, infinite, n in zip(
            table.columns, found[::4], found[1::4], found[2::4], found[3::4], alien, strict=False
        )
    )


def _texts_of_numbers(table: Table) -> list[str]:
    """Columns of text that could be ones of numbers.

    Why     a code is no number: what begins with 0 is none, nor is what the table is keyed or referred by
    """
    named = {*table.key, *(column for reference in table.references for column in reference.columns)}
    return [
        c.name
        for c in table.columns
        if c.sqltype.is_text and c.role in ("dimension", "measure") and not _is_limited(c) and c.name not in named
    ]


def _is_limited(column: Column) -> bool:
    return isinstance(column.domain, Interval | Categories) and not column.sqltype.is_boolean


def outside(dialect: Dialect, column: Column) -> str:
    """SQL: the value is neither NULL nor NaN, and its declaration does not hold it."""
    value = comparable(dialect, name(column.name), column.sqltype)
    match column.domain:
        case Interval(lower=lower, upper=upper):
            return f"{value} < {literal(lower)} OR {value} > {literal(upper)}"
        case Categories(values=values) if not column.sqltype.is_boolean:
            return f"{value} NOT IN ({', '.join(literal(v) for v in values)})"
        case _:
            return "false"


def off_list(engine: Engine, table: Table, column: Column) -> tuple[tuple[str, int], ...]:
    """The most frequent values that a column's list does not hold, and how often each is there [rows]."""
    rows = engine.owner_rows(
        f"SELECT CAST({name(column.name)} AS VARCHAR), count(*) FROM {engine.dialect.relation(table.name)} "
        f"WHERE {outside(engine.dialect, column)} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST_NAMED}"
    )
    return tuple((str(value), int(str(count))) for value, count in rows)


def _infinite(dialect: Dialect, column: Column) -> str:
    """SQL: the value is infinite."""
    if column.sqltype.is_float or column.sqltype.is_temporal:
        return dialect.is_infinite(name(column.name), column.sqltype)
    return "false"


def comparable(dialect: Dialect, column: str, sqltype: SqlType) -> str:
    """The value in its domain's unit; unlike `measured` it keeps an infinite DOUBLE, which a clamp changes."""
    if sqltype.is_float:
        return f"CASE WHEN NOT {dialect.is_nan(column)} THEN {column} END"
    return dialect.measured(column, sqltype) if sqltype.is_counted else column


def _unit(engine: Engine, schema: Schema, table: Table) -> Question:
    """Numbers of units, of rows of the largest, of rows with and without one; of units and rows beyond the limit."""
    rows, unit = with_unit(engine.dialect, schema, table)
    most = table.max_rows_per_unit
    over = "0" if most is None else f"count(*) FILTER (WHERE u IS NOT NULL AND n > {most})"
    cut = "0" if most is None else f"coalesce(sum(n - {most}) FILTER (WHERE u IS NOT NULL AND n > {most}), 0)"
    keys, of = ", ".join([unit, *_period(table)]), "DISTINCT u" if table.period is not None else "u"
    largest, owned = (f"coalesce({what}(n) FILTER (WHERE u IS NOT NULL), 0)" for what in ("max", "sum"))
    items = [f"count({of})", largest, owned, "coalesce(sum(n) FILTER (WHERE u IS NULL), 0)", over, cut]
    return items, f"(SELECT {unit} AS u, count(*) AS n FROM {rows} GROUP BY {keys}) AS counted"


def _spread(units: int, largest: int, owned: int, ownerless: int, above: int, excess: int) -> UnitFacts:
    return UnitFacts(units, largest, Fraction(owned, max(units, 1)), ownerless, above, excess)


def _period(table: Table) -> list[str]:
    """SQL of the period of a row of `with_unit`; nothing where the table has none."""
    if table.period is None:
        return []
    return [f"date_trunc({text(table.period.every)}, t0.{name(table.period.column)})"]


def with_unit(dialect: Dialect, schema: Schema, table: Table) -> tuple[str, str]:
    """SQL of a table's rows joined up to the unit, and of the unit's value; rows without one keep NULL."""
    path = schema.path_to_unit(table)
    joined, here = f"{dialect.relation(table.name)} AS t0", "t0"
    for i, reference in enumerate(path[:-1], start=1):
        joined += f" LEFT JOIN {dialect.relation(reference.table)} AS t{i}"
        joined += f" ON {_equal(reference, here, f't{i}')}"
        here = f"t{i}"
    column = path[-1].columns[0] if path else schema.privacy.unit_column or ""
    return joined, f"{here}.{name(column)}"


def _dangling(engine: Engine, table: Table, reference: Reference) -> Question:
    there = " AND ".join(f"t.{name(column)} IS NOT NULL" for column in reference.columns)
    target = engine.dialect.relation(reference.table)
    missing = f"NOT EXISTS (SELECT 1 FROM {target} AS r WHERE {_equal(reference, 't', 'r')})"
    return ["count(*)"], f"{engine.dialect.relation(table.name)} AS t WHERE {there} AND {missing}"


def _equal(reference: Reference, here: str, there: str) -> str:
    return " AND ".join(f"{here}.{name(column)} = {there}.{name(target)}" for column, target in reference.pairs)


def where(condition: str) -> str:
    """SQL of the number of rows of which a condition is true."""
    return f"count(*) FILTER (WHERE {condition})"


def integers(engine: Engine, relation: str, items: Sequence[str]) -> list[int]:
    """Whole numbers of one row that is selected from a relation; of no items none."""
    rows = engine.owner_rows(f"SELECT {', '.join(items)} FROM {relation}") if items else [()]
    return [int(str(cell)) for (*row,) in rows for cell in row]
