"""A public table without a unique key joins by a column of declared multiplicity, which multiplies what a person can change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema, to_toml
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.planning import compile_statement

SCHEMA = """
[dataset]
name = "shops"
source = "."
[privacy]
unit = "person.person_id"
epsilon = 100
delta = 1e-6
caps = { epsilon = 100, delta = 1e-7 }
[tables.person]
source = "person.parquet"
key = ["person_id"]
[tables.person.columns]
person_id = { type = "BIGINT" }
region = { type = "INTEGER", domain = [1, 2, 3] }
[tables.shop]
public = true
source = "shop.parquet"
multiplicity = { region = MOST }
"""
JOIN = "SELECT COUNT(*) FROM person JOIN shop ON person.region = shop.region"


def declared(folder: Path, most: int) -> Schema:
    duckdb.connect().execute(
        f"COPY (SELECT i AS person_id, i % 3 + 1 AS region FROM range(9) t(i)) TO '{folder}/person.parquet'"
    )
    shops = "(VALUES (1, 'a'), (1, 'b'), (2, 'c'), (NULL, 'd')) t(region, name)"
    duckdb.connect().execute(f"COPY (SELECT * FROM {shops}) TO '{folder}/shop.parquet'")
    (folder / "schema.toml").write_text(SCHEMA.replace("MOST", str(most)))
    return read_schema(folder / "schema.toml")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    opened = open_session(declared(tmp_path_factory.mktemp("shops"), 2), None, ":memory:")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (JOIN, 2),
        (JOIN.replace("JOIN", "LEFT JOIN"), 2),
        ("SELECT COUNT(*) FROM shop, person WHERE shop.region = person.region", 2),
    ],
)
def test_rule_5_a_public_side_of_multiplicity_m_makes_m_rows_of_one(session: Session, sql: str, rows: int) -> None:
    release = compile_statement(parse(sql), Options(), session.schema, session._world.catalog).releases[0].release
    assert release.limited.enforced and release.limited.limits.rows == rows
    assert release.measures[0].sensitivity.l1 == rows


def test_rule_8_a_multiplied_row_has_no_constant_public_columns(session: Session) -> None:
    sql = "SELECT name, COUNT(*) FROM person JOIN shop ON person.region = shop.region GROUP BY name"
    release = compile_statement(parse(sql), Options(), session.schema, session._world.catalog).releases[0].release
    assert release.limited.limits.groups == 2


def test_a_join_on_another_column_is_refused(session: Session) -> None:
    with pytest.raises(Error, match="unique key"):
        session.execute("SELECT COUNT(*) FROM person JOIN shop ON CAST(person.region AS VARCHAR) = shop.name")


def test_rule_9_the_declared_multiplicity_is_checked_at_each_opening(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"DPSQL-804.*more than 1 rows"):
        open_session(declared(tmp_path, 1), None, ":memory:")


def test_it_reads_back(tmp_path: Path) -> None:
    schema = declared(tmp_path, 2)
    (tmp_path / "again.toml").write_text(to_toml(schema))
    assert read_schema(tmp_path / "again.toml").table("shop") == schema.table("shop")


def test_a_private_table_has_none(tmp_path: Path) -> None:
    declared(tmp_path, 2)
    text = (
        (tmp_path / "schema.toml")
        .read_text()
        .replace('key = ["person_id"]', 'key = ["person_id"]\nmultiplicity = { region = 2 }')
    )
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(Error, match="multiplicity is for public tables"):
        read_schema(tmp_path / "schema.toml")
