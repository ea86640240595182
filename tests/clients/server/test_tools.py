"""Tools that cannot be run here: what they ask of the catalog is answered, free, and from the declarations alone."""

from __future__ import annotations

import re

import pytest

from tests.support.raw_client import RawClient, errors, rows
from tests.support.served import ROOT, Served, dump

TEXT = (ROOT / "tests" / "fixtures" / "catalog" / "tools.sql").read_text(encoding="utf-8")
ASKED = dict(re.findall(r"^-- (\w+: .*)\n((?:(?!--).+\n)+)", TEXT, re.MULTILINE))
TOOLS = ("Npgsql", "DBeaver", "Metabase", "Grafana")
TABLES = ["person", "person_year", "plan"]


def said(client: RawClient, name: str) -> list[list[str | None]]:
    found = client.query(ASKED[name].strip())
    assert errors(found) == [], name
    return [list(row) for row in rows(found)]


@pytest.mark.parametrize("tool", TOOLS)
def test_what_it_asks_is_answered_free(tool: str, server: Served, client: RawClient) -> None:
    client.query("SHOW BUDGET")
    before = dump(server.ledger)
    asked = [name for name in ASKED if name.startswith(f"{tool}:")]
    assert len(asked) >= 4
    for name in asked:
        said(client, name)
    assert dump(server.ledger) == before


def test_all_tools_are_here() -> None:
    assert {name.partition(":")[0] for name in ASKED} == set(TOOLS)
    assert len(ASKED) == TEXT.count("\n\n") and len(ASKED) > 35


def test_tables_and_columns_are_the_declared_ones(client: RawClient) -> None:
    assert [row[2] for row in said(client, 'Npgsql: GetSchema("Tables")')] == TABLES
    assert [row[2] for row in said(client, "DBeaver: tables of a schema")] == TABLES
    assert [row[1] for row in said(client, "Metabase: tables, with what may be done with them")] == TABLES
    assert [row[0] for row in said(client, "Grafana: tables of the query builder")] == TABLES
    columns = said(client, "Grafana: columns of the query builder")
    assert columns[:2] == [["person_id", "bigint"], ["site", "integer"]]
    assert len(columns) == len(said(client, "DBeaver: columns of tables"))
    assert ["person_id", "int8"] in said(client, "Metabase: columns of all tables")
    assert len(said(client, "Metabase: columns of all tables, as the catalog has them")) == len(
        said(client, "Metabase: columns of all tables")
    )
    assert said(client, "Grafana: the version") == [["1500"]]


def test_npgsql_reads_lists_as_lists(client: RawClient) -> None:
    """By the function that reads them; each has its element."""
    types = said(client, "Npgsql: base types, ranges, domains and arrays, when it connects")
    names = {row[1]: row for row in types}
    assert (names["20"][2:4], names["1016"][2:4], names["1016"][5]) == (["int8", "b"], ["_int8", "a"], "20")


def test_what_is_not_of_the_catalog_is_not_taken_for_it(client: RawClient) -> None:
    """A question beside the people's tables, and files by their names, are refused as ever."""
    for sql in (
        "SELECT quote_ident(table_name) FROM information_schema.tables, person",
        "SELECT quote_ident(table_name) FROM information_schema.schemata_of_others",
        "SELECT parse_ident(content) FROM read_text('/etc/passwd'), information_schema.tables",
        "SELECT FORMAT('%s', plan) FROM person",
    ):
        assert [one["C"] for one in errors(client.query(sql))], sql
