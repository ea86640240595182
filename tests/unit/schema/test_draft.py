"""The first schema of a source: names and types, nothing of the data, and honest about what it lacks."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domains import Categories, Interval, Unbounded
from dpsql.schema import Schema
from dpsql.schema.draft import draft
from dpsql.schema.drafted import DraftAnswers, DraftTable
from tests.unit.schema.schema_files import mistakes, read

PERSON = DraftTable(
    "person",
    "person.parquet",
    [("person_id", "BIGINT"), ("income", "DOUBLE"), ("female", "BOOLEAN"), ("name", "VARCHAR")],
)
VISIT = DraftTable(
    "visit", "visit.parquet", [("day", "DATE"), ("Person_ID", "BIGINT"), ("scan", "BLOB"), ("tags", "VARCHAR[]")]
)


def test_a_draft_of_related_tables_reads_as_a_schema(tmp_path: Path) -> None:
    schema = read(tmp_path, draft("clinic", ".", [PERSON, VISIT]))
    assert schema.privacy.unit == "person.person_id"
    visit = schema.table("visit")
    assert visit is not None
    assert [c.name for c in visit.columns] == ["day", "Person_ID"]
    assert schema.unit_column(visit) == "Person_ID"


def facts(schema: Schema) -> list[object]:
    columns = [c for t in schema.tables for c in t.columns]
    domains = [c.domain for c in columns if not c.sqltype.is_boolean]
    limits = [x for t in schema.tables for x in (t.max_rows_per_unit, t.population, t.max_groups_per_unit)]
    return [d for d in domains if not isinstance(d, Unbounded)] + [
        x for x in [*limits, schema.privacy.units] if x is not None
    ]


def test_a_draft_holds_no_bounds_counts_or_domains(tmp_path: Path) -> None:
    schema = read(tmp_path, draft("clinic", ".", [PERSON, VISIT]))
    assert facts(schema) == []
    assert schema.tables[0].columns[2].domain == Categories((False, True))


def test_comments_show_what_to_add() -> None:
    text = draft("clinic", ".", [PERSON, VISIT])
    assert 'income = { type = "DOUBLE" }  # bounds = [lower, upper]' in text
    assert 'name = { type = "VARCHAR" }  # domain = ["a", "b"]' in text
    assert 'unit = "person.person_id"  # CHECK' in text
    assert "# left out, dpsql does not compute with them: scan (BLOB), tags (VARCHAR[])" in text
    assert "# max_rows_per_unit = 10" in text


def test_what_comments_show_reads_as_a_schema(tmp_path: Path) -> None:
    person = DraftTable("person", "person.parquet", [*PERSON.columns, ("site", "BOOLEAN")])
    text = re.sub(r"^# (?=\[|\w+ = )", "", draft("clinic", ".", [person]), flags=re.MULTILINE)
    privacy = read(tmp_path, text).privacy
    assert (privacy.window, privacy.partition, privacy.shared_answers) == ("month", ("person", "site"), False)
    assert [r.analyst for r in read(tmp_path, text).reservations] == ["alice"]


def test_a_table_that_does_not_lead_to_the_unit_is_announced(tmp_path: Path) -> None:
    text = draft("clinic", ".", [PERSON, DraftTable("ward", "ward.csv", [("ward", "INTEGER")])])
    assert '# CHECK: write references = { column = "person.person_id" }, or public = true' in text
    assert mistakes(tmp_path, text) == [
        "schema.toml: table ward: is private and no reference leads to the privacy unit; "
        'write references = { column = "person.person_id" }, or public = true if it is about nobody'
    ]


def test_another_type_is_no_reference(tmp_path: Path) -> None:
    text = draft("clinic", ".", [PERSON, DraftTable("visit", "visit.csv", [("person_id", "VARCHAR")])])
    assert "references = { person_id" not in text
    assert len(mistakes(tmp_path, text)) == 1


def test_without_an_identifier_nothing_is_guessed(tmp_path: Path) -> None:
    text = draft("clinic", ".", [DraftTable("person", "p.csv", [("name", "VARCHAR"), ("photo_id", "UUID")])])
    assert 'unit = "TABLE.COLUMN"  # CHECK' in text
    assert all(line.startswith("schema.toml: [privacy]: unit is") for line in mistakes(tmp_path, text))


def test_the_identifier_is_the_plainest_one(tmp_path: Path) -> None:
    columns = [("paid", "DOUBLE"), ("visitID", "BIGINT"), ("id", "BIGINT")]
    assert read(tmp_path, draft("clinic", ".", [DraftTable("t", "t.csv", columns)])).privacy.unit == "t.id"
    assert read(tmp_path, draft("clinic", ".", [DraftTable("t", "t.csv", columns[:1])])).privacy.unit == "t.paid"


def test_keys_and_references_are_guessed_by_name(tmp_path: Path) -> None:
    tables = [
        DraftTable("customers", "customers.csv", [("id", "BIGINT"), ("age", "INTEGER")]),
        DraftTable("orders", "orders.csv", [("order_id", "BIGINT"), ("customer_id", "BIGINT"), ("amount", "DOUBLE")]),
        DraftTable("items", "items.csv", [("order_id", "INTEGER"), ("id", "BIGINT"), ("share", "DOUBLE")]),
        DraftTable("notes", "notes.csv", [("customer_id", "VARCHAR"), ("id", "BIGINT")]),
    ]
    text = draft("shop", ".", tables)
    assert 'references = { customer_id = "customers.id" }  # CHECK: guessed from the name' in text
    assert 'references = { order_id = "orders.order_id" }  # CHECK: guessed from the name' in text
    assert 'key = ["order_id"]  # CHECK: guessed from the name; unique?' in text
    assert 'age = { type = "INTEGER" }  # bounds = [0, 120], going by the name?' in text
    assert 'share = { type = "DOUBLE" }  # bounds = [0, 1], going by the name?' in text
    schema = read(tmp_path, draft("shop", ".", tables[:3]))
    assert schema.privacy.unit == "customers.id"
    items = schema.table("items")
    assert items is not None and [r.table for r in schema.path_to_unit(items)] == ["orders", "customers"]
    # integers refer to integers of another width, and are declared as the key is
    assert text.count('order_id = { type = "BIGINT" }') == 2
    # another type is no reference
    assert '# CHECK: write references = { column = "customers.id" }' in text


def test_answers_are_written_and_nothing_is_left_to_check_of_them(tmp_path: Path) -> None:
    tables = [
        DraftTable("customers", "customers.csv", [("id", "BIGINT"), ("spent", "DOUBLE")]),
        DraftTable("orders", "orders.csv", [("customer_id", "BIGINT"), ("amount", "DOUBLE")]),
        DraftTable("rates", "rates.csv", [("country", "VARCHAR"), ("rate", "DOUBLE")]),
    ]
    answers = DraftAnswers(
        ("customers", "id"), 200_000, frozenset({"rates"}), {"orders": 20}, {("orders", "amount"): "bounds = [0, 500]"}
    )
    text = draft("shop", ".", tables, answers)
    schema = read(tmp_path, text)
    assert 'unit = "customers.id"\n' in text
    assert (schema.privacy.units, schema.privacy.budget.delta) == (200_000, Fraction(1, 10**7))
    orders, rates = schema.table("orders"), schema.table("rates")
    assert orders is not None and orders.max_rows_per_unit == 20
    amount = orders.column("amount")
    assert amount is not None and amount.domain == Interval(Fraction(0), Fraction(500))
    assert rates is not None and rates.public


def test_twins_are_left_out(tmp_path: Path) -> None:
    text = draft("clinic", ".", [PERSON, DraftTable("PERSON", "person.csv", []), DraftTable("a\nb", "x.csv", [])])
    assert (
        '# CHECK: left out, since SQL could not tell them from others or could not say them: PERSON, "a\\U0000000ab"'
        in text
    )
    assert len(read(tmp_path, text).tables) == 1


def test_the_name_may_be_anything(tmp_path: Path) -> None:
    assert read(tmp_path, draft("../a/b:c", ".", [PERSON])).name == "_a_b_c"
    assert read(tmp_path, draft("...", ".", [PERSON])).name == "dataset"


columns = st.lists(
    st.tuples(st.text(max_size=5), st.sampled_from(["BIGINT", "DOUBLE", "BLOB", "VARCHAR"]) | st.text()), max_size=4
)
tables = st.lists(st.builds(DraftTable, st.text(max_size=5), st.just("x.csv"), columns), max_size=3)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text(max_size=8), tables)
def test_a_draft_is_always_toml(name: str, found: list[DraftTable]) -> None:
    assert tomllib.loads(draft(name, ".", found))["privacy"]["epsilon"] == 1.0
