"""A statement that is read by the tree of one before it is read as if it were the first."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import datetime

import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner import walks
from dpsql.planner.parse import Parses, Query, parse
from tests.support.statements import read

NOW = datetime(2026, 1, 2, 3, 4, 5)
COMPARED = (
    "SELECT site, COUNT(*) FROM person WHERE income > {} AND age BETWEEN {} AND {} GROUP BY 1",
    "SELECT COUNT(*) FROM t WHERE d >= '20{}-01-31' AND NOT (a IN ({}, -{}))",
    "SELECT SUM(CASE WHEN x = CAST('20{}-01-01' AS DATE) THEN 1 END) FILTER (WHERE y <> {}) FROM t WHERE z < {} ORDER BY 1",
    "WITH q AS (SELECT a FROM t WHERE b = {}) SELECT COUNT(*) FROM q, (SELECT 1 FROM t WHERE c < {} AND d < {})",
)
ELSEWHERE = (
    "SELECT site, plan FROM person GROUP BY 1, 2 ORDER BY {}",
    "SELECT COUNT(*) FROM t WHERE a > 3 LIMIT {}",
    "SELECT substring(name, {}) AS n, COUNT(*) FROM t GROUP BY 1",
    "SELECT QUANTILE_CONT(x, 0.{}) FROM t",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon=0.{}) COUNT(*) FROM t WHERE a = 5",
    "SELECT COUNT(*) + {} FROM t WHERE d > DATE '2020-01-01' - INTERVAL {} DAY",
)
Outcome = tuple[object, ...]


def outcome(sql: str, parameters: Sequence[object] = (), kept: Parses | None = None) -> Outcome:
    """A text as it is read, with every place in it; or why it is refused, and where."""
    try:
        found = parse(sql, parameters, NOW, kept)
    except Error as refused:
        return type(refused), refused.code, str(refused), refused.span
    if not isinstance(found, Query):
        return (found,)
    nodes = [
        (type(node), node.args.get("this") if isinstance(node, exp.Literal) else "", node.meta)
        for node in found.tree.walk()
    ]
    return repr(found.tree), nodes, found.options, found.plain, found.timed, found.sql


def changed(sql: str, chance: random.Random) -> str:
    """The text with other digits in some of its numbers and dates."""

    def other(digits: re.Match[str]) -> str:
        lowest = 10 ** (len(digits[0]) - 1)
        return digits[0] if chance.random() < 0.3 else str(chance.randrange(lowest, 10 * lowest))

    return re.sub(r"(?<![\w.$])[1-9][0-9]*(?![\w])", other, sql)


def hits(kept: Parses, texts: Sequence[str], parameters: Sequence[object] = ()) -> int:
    """Number of texts that are read by the tree of one before; each has to be read as if it were the first."""
    found = 0
    for text in texts:
        found += kept.find(text) is not None
        assert outcome(text, parameters, kept) == outcome(text, parameters)
    return found


@pytest.mark.parametrize("name", ["accept.sql", "refuse.sql"])
def test_every_statement_with_other_constants_is_read_as_if_it_were_the_first(name: str) -> None:
    chance, kept, found = random.Random(name), Parses(), 0
    for statement in read(name):
        texts = [statement.sql, *(changed(statement.sql, chance) for _ in range(4)), statement.sql]
        found += hits(kept, texts, statement.parameters)
    assert found > 100


@pytest.mark.parametrize("text", COMPARED)
def test_two_texts_teach_what_may_be_another(text: str) -> None:
    texts = [text.format(a, b, c) for a, b, c in ((11, 12, 13), (14, 15, 16), (21, 22, 23), (98, 10, 77), (11, 11, 11))]
    assert hits(Parses(), texts) == 3


@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_constant_that_is_not_compared_has_to_be_the_same(text: str) -> None:
    texts = [text.format(number, number) for number in (1, 2, 1, 2, 9)]
    assert hits(Parses(), texts) == 0
    assert hits(Parses(), [texts[0], texts[0]]) == 1


def test_places_in_the_text_stay() -> None:
    kept = Parses()
    hits(kept, ["SELECT COUNT(*) FROM t WHERE a > 11 AND b < 5", "SELECT COUNT(*) FROM t WHERE a > 12 AND b < 5"])
    assert kept.find("SELECT COUNT(*) FROM t WHERE a > 13 AND b < 5") is not None
    assert kept.find("SELECT COUNT(*) FROM t WHERE a > 131 AND b < 5") is None


def test_of_two_constants_alike_neither_is_learnt() -> None:
    """Their values do not tell which of them stands where."""
    texts = [f"SELECT COUNT(*) FROM t WHERE a > {a} AND b < {b}" for a, b in ((1, 1), (2, 2), (2, 7), (3, 7), (4, 4))]
    hits(Parses(), texts)


@pytest.mark.parametrize("placeholder", ["?", "$1"])
def test_each_has_a_tree_and_parameters_of_its_own(placeholder: str) -> None:
    kept, text = Parses(), f"SELECT COUNT(*) FROM t WHERE a > {placeholder} AND b = 17"
    for value in (5, 6, 7):
        assert outcome(text, (value,), kept) == outcome(text, (value,))
    found = kept.find(text)
    assert found is not None
    found[0].find(exp.Where).pop()  # type: ignore[union-attr]
    assert outcome(text, (8,), kept) == outcome(text, (8,))
    assert outcome(text, (), kept)[1] == outcome(text, (8, 9), kept)[1] == "DPSQL-108"


def test_planted_constants_that_are_not_compared_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in ORDER BY that no column has would be taken."""
    monkeypatch.setattr(walks, "_is_compared", lambda node: True)
    with pytest.raises(AssertionError):
        hits(Parses(), [ELSEWHERE[0].format(number) for number in (1, 2, 9)])


def test_a_planted_parser_that_reads_a_constant_has_no_skeleton() -> None:
    """Nor one that puts a constant in two places, or takes one that is compared for another."""
    kept = walks.Skeletons[int]()
    for text, tree in (
        ("a = 1 AND b = 2", "a = 1 AND b = 1"),
        ("a = 3 AND b = 2", "a = 3 AND b = 3"),
        ("a = 4 AND b = 2", ""),
    ):
        assert kept.find(text) is None
        kept.keep(text, exp.maybe_parse(tree or text), 0)


def test_a_planted_stale_tree_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without copies the parameters of one statement would be those of the next."""
    monkeypatch.setattr(walks, "copied", lambda tree: tree)
    with pytest.raises(AssertionError):
        test_each_has_a_tree_and_parameters_of_its_own("?")


def test_only_so_many_trees_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "MOST", 2)
    kept = Parses()
    for table in ("a", "b", "c"):
        parse(f"SELECT COUNT(*) FROM {table}", kept=kept)
    assert [kept.find(f"SELECT COUNT(*) FROM {table}") is not None for table in ("a", "b", "c")] == [False, True, True]
    long = f"SELECT COUNT(*) FROM t WHERE a IN ({', '.join(['1'] * walks.LONGEST)})"
    parse(long, kept=kept)
    assert kept.find(long) is None
