"""Writing a schema: it reads back as the same schema, whatever was declared."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accountants.registry import accountings
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, Value, categories, interval
from dpsql.core.errors import SchemaError
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import BIGINT, SqlType, decimal
from dpsql.schema import (
    Analyst,
    Column,
    Guard,
    Privacy,
    Reference,
    Reservation,
    Role,
    Schema,
    Table,
    read_schema,
    to_toml,
)
from dpsql.schema.model import WINDOWS, mechanisms
from dpsql.schema.read import MOST_VALUES, how_many
from dpsql.schema.roles import default_role
from tests.unit.schema.schema_files import CLINIC, FULL, read

EXAMPLES = Path(__file__).parents[3] / "examples"


def again(schema: Schema) -> Schema:
    """The schema that the written text reads as."""
    with tempfile.TemporaryDirectory() as folder:
        return replace(read(Path(folder), to_toml(schema)), folder=schema.folder)


# --- schemas ------------------------------------------------------------------------------------------------------

letters = st.characters(exclude_categories=["C", "Z", "Lu", "Lt"], exclude_characters=".")
names = st.text(letters, min_size=1, max_size=8).map(lambda n: "c_" + n.lower()).filter(lambda n: n == n.lower())
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
decimals = st.decimals(-(10**9), 10**9, places=5, allow_nan=False).map(Fraction)
whole = st.integers(-(2**15), 2**15 - 1)
days = st.integers(-700_000, 2_900_000)
microseconds = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
TYPES = [
    SqlType(n) for n in ("SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "TIME")
]
VALUES = {
    "VARCHAR": texts,
    "DATE": days,
    "TIMESTAMP": microseconds,
    "TIME": st.integers(0, 86_400 * 10**6 - 1),
    "DECIMAL": st.integers(-9999, 9999).map(lambda n: Fraction(n, 100)),
}


def value_of(sqltype: SqlType) -> st.SearchStrategy[object]:
    return VALUES.get(sqltype.name, decimals if sqltype.is_float else whole)


@st.composite
def domains(draw: st.DrawFn, sqltype: SqlType) -> Domain:
    if sqltype.is_boolean:
        return Categories((False, True))
    values = value_of(sqltype)
    kinds = ["none"] + ["bounds"] * (not sqltype.is_text) + ["list"] * (not sqltype.is_float)
    match draw(st.sampled_from(kinds)):
        case "bounds":
            return interval(*sorted([draw(values), draw(values)]))
        case "list":
            return categories(draw(st.lists(values, min_size=1, max_size=5)))
    return UNBOUNDED


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    sqltype = draw(st.sampled_from([*TYPES, decimal(6, 2)]))
    column = Column(name, sqltype, draw(domains(sqltype)), draw(st.booleans()), "")
    grid = (
        st.integers(1, 10**6).map(Fraction)
        if sqltype.is_integer or sqltype.is_counted
        else decimals.map(lambda d: abs(d) + 1)
    )
    if not (sqltype.is_text or sqltype.is_boolean) and draw(st.booleans()):
        column = replace(column, step=draw(grid))
    if sqltype.is_number and draw(st.booleans()):
        column = replace(column, unit_bounds=interval(*sorted([draw(decimals), draw(decimals)])))
    if not sqltype.is_boolean and not sqltype.is_float and draw(st.integers(0, 4)) == 0:
        column = replace(column, domain=UNBOUNDED, domain_from=("ward", draw(names)))
    column = replace(column, usual=draw(usual(column)))
    return replace(column, role=draw(st.sampled_from(["", "quasi", "measure", "identifier"])))


@st.composite
def usual(draw: st.DrawFn, column: Column) -> tuple[tuple[Value | None, Fraction], ...]:
    """Some values that the column can have, and NULL where it can be, with shares that add up to less than one."""
    known: list[Value | None] = []
    if isinstance(column.domain, Categories):
        known += column.domain.values[:2]
    elif isinstance(column.domain, Interval) and column.domain.lower.denominator == 1:
        known.append(int(column.domain.lower))
    known += [None] if column.nullable else []
    chosen = [value for value in known if draw(st.booleans()) and value != "NULL"]
    return tuple((value, draw(st.sampled_from([Fraction(1, 4), Fraction(1, 100)]))) for value in chosen)


limits = st.none() | st.integers(1, 10**6)
key_column = Column("id", BIGINT, UNBOUNDED, False, "")


@st.composite
def private_tables(draw: st.DrawFn, name: str, column: Column) -> Table:
    found = tuple(draw(columns(n)) for n in draw(st.lists(names, max_size=4, unique=True)))
    return Table(
        name=name,
        source=draw(names),
        public=False,
        key=(column.name,),
        columns=draw(st.permutations([column, *found]).map(tuple)),
        max_rows_per_unit=draw(limits),
        max_groups_per_unit=draw(limits),
    )


@st.composite
def privacies(draw: st.DrawFn) -> Privacy:
    epsilons = sorted(draw(st.lists(st.integers(1, 10**9), min_size=3, max_size=3)))
    deltas = sorted(draw(st.lists(st.integers(1, 10**12 - 1), min_size=3, max_size=3)))
    query, caps, budget = (
        EpsilonDelta(Fraction(e, 10**6), Fraction(d, 10**12)) for e, d in zip(epsilons, deltas, strict=True)
    )
    small = query.epsilon / 10**5  # below every refresh of a reservation
    mechanism, household = draw(st.sampled_from(mechanisms())), draw(st.none() | st.integers(2, 100))
    return Privacy(
        "person.id",
        budget,
        draw(limits),
        query,
        caps,
        draw(st.integers(1, 10**7)),
        mechanism,
        household,
        accounting=draw(st.sampled_from(accountings())),
        window=draw(st.none() | st.sampled_from(WINDOWS)),
        shared_answers=draw(st.booleans()),
        least=draw(st.none() | st.just(small)) if query.epsilon * 100 <= caps.epsilon else small,
    )


caps = {"epsilon": st.none() | st.just(Fraction(1, 8)), "delta": st.none() | st.just(Fraction(1, 10**9))}


@st.composite
def with_people(draw: st.DrawFn, schema: Schema) -> Schema:
    """Roles, analysts and reservations that keep far less than the total."""
    roles = draw(st.lists(st.builds(Role, names, **caps), max_size=3, unique_by=lambda r: r.name).map(tuple))
    role = st.sampled_from([None, *(r.name for r in roles)])
    analyst = st.builds(Analyst, names, **caps, role=role)
    analysts = draw(st.none() | st.lists(analyst, max_size=3, unique_by=lambda a: a.name).map(tuple))
    holder = names if analysts is None else st.sampled_from([a.name for a in analysts])
    most = schema.privacy.caps
    reservation = st.builds(
        Reservation,
        names,
        holder,
        st.integers(1, 99),
        st.integers(1, 10).map(lambda n: most.epsilon * n / 10**4),
        st.integers(0, 10).map(lambda n: most.delta * n / 10**4),
    )
    kept = st.lists(reservation, max_size=3, unique_by=(lambda r: r.name, lambda r: r.analyst)).map(tuple)
    return replace(schema, roles=roles, analysts=analysts, reservations=() if analysts == () else draw(kept))


def partitions(schema: Schema) -> st.SearchStrategy[tuple[str, str] | None]:
    """The columns of the unit's own table that may be the partition."""
    person = next(t for t in schema.tables if t.name == "person")
    return st.sampled_from([None, *(("person", c.name) for c in person.columns if may_divide(c))])


def may_divide(column: Column) -> bool:
    values = how_many(column)
    return column.role != "identifier" and values is not None and values <= MOST_VALUES


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A person table, one of several visits by two ways with one chosen, and a public table."""
    person = replace(draw(private_tables("person", key_column)), population=draw(limits))
    visit = draw(private_tables("visit", replace(key_column, name="visit")))
    people = tuple(Reference((c,), "person", ("id",)) for c in ("buyer", "seller"))
    refers = tuple(replace(key_column, name=r.name) for r in people)
    visit = replace(
        visit,
        references=people,
        columns=visit.columns + refers,
        unit_path=(draw(st.sampled_from(["buyer", "seller"])),),
    )
    ward = Table(
        "ward",
        f"public {person.source} {visit.source}",
        True,
        tuple(draw(st.lists(names, max_size=2, unique=True))),
        (),
    )
    schema = Schema(
        name=draw(st.sampled_from(["clinic", "a b-c.d", "Klinik Süd"])),
        source=draw(st.sampled_from([".", "data", 'a "b" \\ c', "clinic.duckdb"])),
        ledger=draw(st.none() | st.just("some where/x.ledger")),
        privacy=draw(privacies()),
        guard=Guard(
            draw(st.sampled_from(["off", "warn", "block", "audit"])),
            draw(st.integers(1, 99)),
            draw(st.sampled_from([Fraction(10), Fraction(5, 2)])),
        ),
        tables=draw(st.permutations([person, visit, ward]).map(tuple)),
    )
    schema = draw(with_people(replace(schema, tables=tuple(with_roles(schema, t) for t in schema.tables))))
    return replace(schema, privacy=replace(schema.privacy, partition=draw(partitions(schema))))


def with_roles(schema: Schema, table: Table) -> Table:
    return replace(
        table, columns=tuple(replace(c, role=c.role or default_role(schema, table, c)) for c in table.columns)
    )


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(schemas())
def test_round_trip(schema: Schema) -> None:
    assert again(schema) == schema


@pytest.mark.parametrize("name", ["randhie", "nhefs"])
def test_round_trip_of_the_examples(name: str) -> None:
    schema = read_schema(EXAMPLES / name / "schema.toml")
    assert again(schema) == schema


@pytest.mark.parametrize("source", [CLINIC, FULL])
def test_the_text_is_a_fixed_point(tmp_path: Path, source: str) -> None:
    text = to_toml(read(tmp_path, source))
    assert to_toml(read(tmp_path, text)) == text


def test_what_opening_fills_in_is_not_written(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC)
    opened = schema.with_public_facts(
        {("person", "ward"): categories([1, 2])}, {"ward": (Column("ward", BIGINT, UNBOUNDED, False, "dimension"),)}
    )
    assert opened != schema
    assert to_toml(opened) == to_toml(schema)


def test_default_roles_are_not_written(tmp_path: Path) -> None:
    assert "role" not in to_toml(read(tmp_path, CLINIC))


@pytest.mark.parametrize(
    "word", ["accounting", "window", "partition", "shared_answers", "roles", "analysts", "reservations"]
)
def test_default_settings_are_not_written(tmp_path: Path, word: str) -> None:
    assert word not in to_toml(read(tmp_path, CLINIC))
    assert word in to_toml(read(tmp_path, FULL))


def test_a_reservation_without_delta_has_none_written(tmp_path: Path) -> None:
    text = to_toml(read(tmp_path, FULL.replace("epsilon = 0.1\ndelta = 1e-9", "epsilon = 0.1")))
    assert '[reservations.board]\nanalyst = "bi"\nrefreshes = 12\nepsilon = 0.1\n\n' in text


@pytest.mark.parametrize("bounds", [interval(0, Fraction(1, 3)), interval(-(10**9), 0), interval(0, 10**30)])
def test_what_no_file_can_say_is_refused(tmp_path: Path, bounds: Interval) -> None:
    schema = read(tmp_path, CLINIC)
    person, *others = schema.tables
    born = replace(person.columns[-1], domain=bounds)
    with pytest.raises(SchemaError, match="cannot say it"):
        to_toml(replace(schema, tables=(replace(person, columns=(*person.columns[:-1], born)), *others)))
