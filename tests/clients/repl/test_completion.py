"""Completion knows where it is: tables, columns in scope, declared values, functions, options, commands. Nothing reads data."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.clients.declared import name_sql
from dpsql.clients.repl import words
from dpsql.clients.repl.commands import COMMANDS, candidates
from dpsql.clients.repl.completion import Candidate, complete
from dpsql.clients.repl.scanner import entries, is_command, is_complete, meaning, tokens
from dpsql.planner.options import FLAGS, NAMES
from dpsql.planner.parse import Query, Setting, parse
from dpsql.schema.toml import read_schema

ROOT = Path(__file__).parents[3]
CLINIC = read_schema(ROOT / "tests/notes/clinic/schema.toml")
TABLES = ["patient", "visit", "item", "drug"]


def found(text: str) -> list[Candidate]:
    """The candidates at the bar."""
    before, _, after = text.partition("|")
    return complete(before + after, len(before), CLINIC, candidates)


def offered(text: str) -> list[str]:
    return [candidate.text for candidate in found(text)]


def completed(text: str) -> str:
    """The text with its first candidate, and the bar behind that."""
    before, _, after = text.partition("|")
    first = found(text)[0]
    return f"{before[: len(before) - first.replaced]}{first.text}|{after}"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM |",
        "SELECT 1 FROM patient p JOIN |",
        "SELECT 1 FROM patient, |",
        "DESCRIBE |",
        "DESCRIBE public.|",
        f"SELECT COUNT(*) FROM {CLINIC.name}.|",
        f"SELECT COUNT(*) FROM patient JOIN {CLINIC.name}.main.|",
        "FROM |",
        "SELECT COUNT(*) FROM (SELECT patient_id FROM |",
        "SELECT 1 FROM patient WHERE EXISTS (SELECT 1 FROM |) AND female",
    ],
)
def test_tables_after_from_and_join(text: str) -> None:
    assert offered(text)[:4] == TABLES


def test_tables_by_what_is_written() -> None:
    assert offered("SELECT COUNT(*) FROM pa|") == ["patient"]
    assert completed("SELECT COUNT(*) FROM vi| WHERE year = 1") == "SELECT COUNT(*) FROM visit| WHERE year = 1"
    assert offered("SELECT * FROM dpsql.b|") == ["budget"]
    assert offered("WITH spent AS (SELECT 1) SELECT * FROM sp|") == ["spent"]
    assert "patient" not in offered("SELECT COUNT(*) FROM patient |")


def test_columns_of_the_tables_in_scope() -> None:
    assert offered("SELECT wei| FROM patient") == ["weight"]
    assert "cost" not in offered("SELECT | FROM patient")
    assert offered("SELECT COUNT(*) FROM visit WHERE |")[:6] == [
        "visit_id",
        "patient_id",
        "year",
        "seen",
        "cost",
        "tag",
    ]
    assert offered("SELECT COUNT(*) FROM patient JOIN visit USING (pati|") == ["patient_id", "patient"]
    assert {"weight", "cost"} <= set(offered("SELECT | FROM patient JOIN visit USING (patient_id)"))


def test_columns_of_an_alias() -> None:
    query = "SELECT {} FROM patient AS p JOIN visit v ON p.patient_id = v.patient_id"
    assert offered(query.format("p.|"))[:3] == ["patient_id", "site", "female"]
    assert offered(query.format("v.|")) == ["visit_id", "patient_id", "year", "seen", "cost", "tag"]
    assert offered(query.format("v.c|")) == ["cost"]
    assert offered(query.format("x.|")) == []
    assert offered("SELECT 1 FROM patient p WHERE p.c|") == ["city"]


def test_columns_before_there_is_a_from() -> None:
    assert offered("SELECT AVG(wei|") == ["weight"]


def test_columns_of_subqueries_and_with_queries() -> None:
    assert offered("SELECT | FROM (SELECT patient_id, SUM(cost) AS spent FROM visit GROUP BY 1) AS s")[:2] == [
        "patient_id",
        "spent",
    ]
    assert offered("SELECT s.| FROM (SELECT patient_id, SUM(cost) AS spent FROM visit) s") == ["patient_id", "spent"]
    with_query = "WITH t AS (SELECT city AS town, site FROM patient) SELECT {} FROM t"
    assert offered(with_query.format("to|"))[0] == "town"
    assert offered(with_query.format("t.|")) == ["town", "site"]
    assert offered(with_query.replace("FROM t", "FROM t WHERE town = '|").format("1")) == ["'Ash'", "'Birk'", "'Cole'"]
    assert offered("SELECT * FROM (SELECT * FROM drug JOIN item USING (drug)) x WHERE x.am|") == ["amount"]


def test_a_subquery_sees_its_own_tables_and_those_around_it() -> None:
    text = "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id AND |)"
    assert {"cost", "weight"} <= set(offered(text))
    assert "cost" not in offered("SELECT COUNT(*) FROM patient WHERE site IN (SELECT year FROM visit) AND |")
    assert "cost" not in offered("SELECT 1 FROM visit UNION SELECT | FROM patient")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) FROM patient WHERE city = '|", ["'Ash'", "'Birk'", "'Cole'"]),
        ("SELECT COUNT(*) FROM patient WHERE city = 'b|", ["'Birk'"]),
        ("SELECT COUNT(*) FROM patient WHERE p.city <> 'C|", []),
        ("SELECT COUNT(*) FROM patient p WHERE p.city <> 'C|", ["'Cole'"]),
        ("SELECT COUNT(*) FROM patient WHERE city IN ('|", ["'Ash'", "'Birk'", "'Cole'"]),
        ("SELECT COUNT(*) FROM patient WHERE city NOT IN ('Ash', 'Bi|", ["'Birk'"]),
        ("SELECT COUNT(*) FILTER (WHERE city = 'A|) FROM patient", ["'Ash'"]),
        ("SELECT COUNT(*) FROM patient WHERE note = '|", []),
        ("SELECT COUNT(*) FROM patient WHERE born = '|", []),
        ("SELECT '|", []),
    ],
)
def test_declared_values_inside_quotes(text: str, expected: list[str]) -> None:
    assert offered(text) == expected


def test_declared_values_without_quotes() -> None:
    assert offered("SELECT COUNT(*) FROM patient WHERE city = |")[:3] == ["'Ash'", "'Birk'", "'Cole'"]
    assert offered("SELECT COUNT(*) FROM visit WHERE year = |")[:4] == ["1", "2", "3", "4"]
    assert offered("SELECT COUNT(*) FROM visit WHERE year IN (1, |")[:4] == ["1", "2", "3", "4"]
    assert (
        completed("SELECT COUNT(*) FROM patient WHERE city = 'As|")
        == "SELECT COUNT(*) FROM patient WHERE city = 'Ash'|"
    )


def test_functions_that_are_allowed() -> None:
    assert offered("SELECT MED| FROM patient") == ["MEDIAN("]
    assert offered("SELECT dp_s| FROM patient") == ["dp_sum("]
    assert offered("SELECT COUNT(*) FROM patient WHERE MEDI|") == []
    assert offered("SELECT COUNT(*) FROM patient WHERE low|") == ["LOWER("]
    assert "STRING_AGG(" not in offered("SELECT STRI| FROM patient")


@pytest.mark.parametrize("name", words.FUNCTIONS)
def test_every_function_is_in_the_grammar(name: str) -> None:
    call = words.FUNCTIONS[name].split("), ")[0].split(", an ")[0].split(", of ")[0].split(", the ")[0]
    call = call if call.count("(") == call.count(")") else f"{call})"
    assert call.upper().startswith(name.upper())
    assert parse(f"SELECT {call} FROM t").__class__ is Query


def test_options() -> None:
    assert set(words.OPTIONS) == {*NAMES, *FLAGS}
    assert offered("SET |")[:2] == ["dp_epsilon", "dp_delta"]
    assert "dp_weights" not in offered("SET |") and "dp_fresh" not in offered("RESET |")
    assert offered("SET dp_ep|") == offered("SET eps|") == ["dp_epsilon"]
    assert offered("SET dp_mechanism = |") == ["laplace", "gaussian", "auto"]
    assert offered("/* dpsql: max_g|") == ["max_groups="]
    assert offered("SELECT /* dpsql: epsilon=0.1, mech|") == ["mechanism="]
    assert offered("/* dpsql: mechanism=g|") == ["gaussian"]
    assert offered("/* a word |") == offered("/* dpsql: fresh */|") == []
    for name in words.OPTIONS:
        if name not in words.OF_ONE_STATEMENT:
            value = {
                "mechanism": "auto",
                "delta": "1e-9",
                "confidence": "0.9",
                "groups": "all",
                "cube": "off",
                "buy": "on",
                "jointly": "on",
                "sampling": "on",
                "interval": "off",
            }.get(name, "1")
            assert parse(f"SET dp_{name} = {value}").__class__ is Setting


def test_keywords() -> None:
    assert offered("|")[:2] == ["SELECT", "WITH"]
    assert offered("sel|") == ["SELECT"]
    assert offered("SHOW |")[:3] == ["TABLES", "FUNCTIONS", "BUDGET"] and offered("SHOW syn|") == ["SYNTHETIC TABLES"]
    for name in offered("SHOW |"):
        assert parse(f"SHOW {name}") is not None
    assert "GROUP BY" in offered("SELECT site FROM patient gr|")
    assert offered("SELECT COUNT(*) AS |") == []
    assert offered("EXPLAIN |") == ["SELECT", "WITH", "FROM"]
    assert offered("SELECT 1; SEL|") == ["SELECT"]


def test_commands() -> None:
    assert offered("\\bu|") == ["\\budget"]
    assert offered(".ta|") == [".tables"]
    assert offered("\\d |") == offered(".schema |") == TABLES
    assert offered("\\domain patient.c|") == ["patient.city"]
    assert offered("\\mode j|") == ["json", "jsonl"]
    assert offered("\\accuracy |") == ["on", "off"]
    assert offered("\\explain SELECT COUNT(*) FROM pa|") == ["patient"]
    assert completed("\\explain SELECT COUNT(*) FROM pa|") == "\\explain SELECT COUNT(*) FROM patient|"
    assert offered("\\eps |") == offered("\\nothing |") == []
    names = [name for command in COMMANDS for name in command.names]
    assert len(names) == len(set(names))


def test_nothing_that_was_not_declared_is_offered() -> None:
    everything = {
        text
        for query in ("SELECT | FROM patient", "SELECT COUNT(*) FROM patient WHERE tag = '|")
        for text in offered(query)
    }
    assert everything.isdisjoint({"Anna", "flu", "7"})


def test_names_that_need_quotes() -> None:
    assert [name_sql(n) for n in ("site", "order", "two words", 'a"b')] == ["site", '"order"', '"two words"', '"a""b"']
    assert offered('SELECT "wei| FROM patient') == ['"weight"']
    assert offered('SELECT COUNT(*) FROM "pat|') == ['"patient"']


# --- words ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  \n", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT 'it''s;", False),
        ('SELECT ";', False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; /* ", False),
        ("SELECT $$;", False),
        ("\\d", True),
        (".tables", True),
        ("exit", True),
        ("help;", True),
        ("SELECT 1;\nSELECT", False),
    ],
)
def test_when_enter_sends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_the_pieces_are_the_text() -> None:
    text = "SELECT 'é', \"ü\", 1.5e3 /* c */ -- d\nFROM t WHERE a<>b AND c::INT = $$x$$;☃"
    assert "".join(token.text for token in tokens(text)) == text
    assert [t.value for t in meaning(tokens("'it''s' \"a\"\"b\" 'open"))] == ["it's", 'a"b', "open"]


def test_what_a_command_is() -> None:
    assert all(map(is_command, ["\\d", ".tables", " \\? ", "quit", "EXIT;", "help"]))
    assert not any(map(is_command, ["SELECT .5", ".5", "", "helper"]))


def test_entries_of_a_file() -> None:
    text = "-- first\nSELECT 1;\n\\eps 0.2\nSELECT\n 2;\n\n.tables\nSELECT 3"
    assert list(entries(text)) == ["-- first\nSELECT 1;", "\\eps 0.2", "SELECT\n 2;", ".tables", "SELECT 3"]
