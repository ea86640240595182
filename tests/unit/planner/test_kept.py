"""Pieces of planning that are kept between statements: what each depends on is looked at again, and a stale one is caught."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from sqlglot import exp

from dpsql.aggregates.term import Term
from dpsql.core.domains import Interval
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.planner.walks import every
from dpsql.relations import declared
from dpsql.relations.declared import Same, scan
from dpsql.schema.model import Schema, Table
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.sql.duckdb import printed
from tests.support.planning import compile_statement, compiled_by
from tests.support.statements import read

RANDHIE = Path(__file__).parents[3] / "examples/randhie/schema.toml"
SUM = "SELECT SUM(income) FROM person"
KINDS: tuple[tuple[type[exp.Expression], ...], ...] = (
    (exp.Expression,), (exp.Table, exp.CTE), (exp.Column,), (exp.Anonymous, exp.Identifier), (exp.AggFunc, exp.Window), (exp.Query,),
)  # fmt: skip


def test_nodes_are_found_as_the_parser_finds_them() -> None:
    """The same nodes in the same order, of every accepted statement."""
    trees = [q.tree for s in read("accept.sql") if isinstance(q := parse(s.sql, s.parameters), Query)]
    assert len(trees) > 50
    for tree in trees:
        for kinds in KINDS:
            assert [*map(id, every(tree, *kinds))] == [*map(id, tree.find_all(*kinds))], tree.sql("duckdb")


def with_income(upper: int) -> Schema:
    """The example with other declared bounds of income: all names are the same."""
    schema = read_schema(RANDHIE)
    person = schema.table("person")
    assert person is not None
    columns = (
        replace(c, domain=Interval(Fraction(0), Fraction(upper))) if c.name == "income" else c for c in person.columns
    )
    other = replace(person, columns=tuple(columns))
    return replace(schema, tables=tuple(other if t is person else t for t in schema.tables))


def sensitivities(schemas: list[Schema]) -> list[int]:
    """The amount by which one row of each moves a sum of incomes, planned in turn in one process."""
    query = parse(SUM)
    assert isinstance(query, Query)
    plans = [compile_statement(query, Options(), schema).plan for schema in schemas]
    return [int(plan.releases[0].measures[0].sensitivity.l1) for plan in plans]


def test_a_scan_is_kept_by_the_very_declarations() -> None:
    small, large = with_income(1_000), with_income(20_000)
    assert sensitivities([small, large, small]) == [1_000, 20_000, 1_000]


def test_a_scan_of_other_declarations_of_the_same_name_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: what was made is taken by the names alone."""
    monkeypatch.setattr(Same, "__hash__", lambda self: hash(self.one.name))
    monkeypatch.setattr(Same, "__eq__", lambda self, other: other.one.name == self.one.name)
    declared._scan.cache_clear()
    try:
        assert sensitivities([with_income(1_000), with_income(20_000)]) != [1_000, 20_000]
    finally:
        declared._scan.cache_clear()


def test_the_same_scan_is_made_once() -> None:
    schema = read_schema(RANDHIE)
    table = schema.table("person")
    assert isinstance(table, Table)
    assert scan(schema, table, "p") is scan(schema, table, "p")
    assert scan(schema, table, "p") is not scan(schema, table, "q")
    assert scan(replace(schema), table, "p") is not scan(schema, table, "p")


def test_a_clamp_is_kept_by_its_limits() -> None:
    """All that its text is made of tells two clamps apart."""
    scalars = {c.scalar.tree: c.scalar for c in scan(*_person(), "p").columns if c.name == "income"}
    ((tree, scalar),) = scalars.items()
    terms = [Term(scalar, a, b, q) for a, b, q in ((0, 5, Fraction(1)), (1, 5, Fraction(1)), (0, 5, Fraction(1, 3)))]
    texts = [printed(term.quanta(tree)) for term in (*terms, *terms)]
    assert len(set(texts)) == 3 and texts[:3] == texts[3:]


def _person() -> tuple[Schema, Table]:
    schema = read_schema(RANDHIE)
    table = schema.table("person")
    assert table is not None
    return schema, table


def test_stored_vectors_are_asked_for_by_each_release_anew() -> None:
    """The kept parts of the last release are not taken for another of the same rows, or for the same of other rows."""
    texts = (
        SUM,
        "SELECT SUM(income) FROM person WHERE income > 10",
        "SELECT COUNT(*) FROM person",
        "SELECT site, SUM(income) FROM person GROUP BY site",
    )
    with_one, found = open_session(RANDHIE, None, ":memory:"), []
    try:
        for text in (*texts, *texts):
            query = parse(text)
            assert isinstance(query, Query)
            (part,) = compiled_by(with_one, query).releases
            questions = with_one._world.stored.questions
            found.append((questions.asked(part), questions.asked(part)))
    finally:
        with_one.close()
    assert all(one == again and one is not None for one, again in found)
    assert len({str(one) for one, _ in found}) == len(texts)
    assert found[: len(texts)] == found[len(texts) :]
