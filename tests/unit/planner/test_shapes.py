"""A tree with other constants put in is the tree that is parsed of the other text, or none is put in."""

from __future__ import annotations

import random
import re

import pytest
from sqlglot import exp

from dpsql.planner import total
from dpsql.planner.total.shapes import Shapes
from dpsql.planner.walks import lifted

ALIKE = (
    ("SELECT a + {} FROM t1 WHERE d < '{}' AND b > CAST({} AS DOUBLE)", [("1", "2020-01-01", "1.0"), ("7", "1999-12-31", "0.25")]),
    ("SELECT CAST(a AS DECIMAL({}, {})) FROM t LIMIT {}", [("18", "3", "10"), ("9", "0", "1")]),
    ("SELECT -{} + \"a 1\" || '{}' || ' 5 ' FROM t", [("4", "2020-01-01"), ("5", "2021-01-01")]),
)  # fmt: skip
ODD = (
    ("SELECT INTERVAL '1' DAY + {} FROM t", [("1",), ("2",)]),
    ("SELECT a[{}], b -> {} FROM t", [("1", "0"), ("2", "5")]),
    ("SELECT DATE '{}' + INTERVAL {} DAY FROM t", [("2020-01-01", "3"), ("2021-01-01", "4")]),
    ("SELECT 1e{}, t.a{} FROM t", [("5", "5"), ("6", "6")]),
)
COMMENTED = (
    "SELECT 1 -- 2",
    "SELECT /* 3 */ 1",
    "SELECT $$1$$",
    "SELECT 'a\\' || '1'",
    "SELECT '\0' || 1",
    "SELECT $a$ 1 $a$",
)


def values(count: int, chance: random.Random) -> list[str]:
    return [str(chance.randrange(10**6)) for _ in range(count)]


@pytest.mark.parametrize(("text", "filled"), [*ALIKE, *ODD])
def test_a_tree_with_other_constants_is_that_of_its_text(text: str, filled: list[tuple[str, ...]]) -> None:
    parsed: list[str] = []
    shapes = Shapes(lambda text: (parsed.append(text), total._parsed(text))[1])
    for constants in [*filled, *filled, filled[0]]:
        whole = text.format(*constants)
        found = shapes.tree(whole)
        assert found == total._parsed(whole)
        assert found.sql("duckdb") == total._parsed(whole).sql("duckdb")
        shapes.unchanged()
    if (text, filled) in ALIKE:
        before = len(parsed)
        shapes.tree(text.format(*filled[1]))
        assert len(parsed) == before


def test_a_tree_that_was_changed_serves_no_other() -> None:
    shapes = Shapes(total._parsed)
    for number in range(6):
        text = f"SELECT a + {number} FROM t"
        tree = shapes.tree(text)
        assert tree == total._parsed(text)
        tree.find(exp.Add).replace(exp.Null())  # type: ignore[union-attr]


def test_a_planted_parser_that_reads_a_constant_has_no_shape() -> None:
    def parse(text: str) -> exp.Expression:
        tree = total._parsed(text)
        for literal in list(tree.find_all(exp.Literal)):
            if len(literal.name) > 3:
                literal.replace(exp.Literal.number(int(literal.name) - 1))
        return tree

    shapes = Shapes(parse)
    for number in (1, 2, 3, 5000, 4, 6000):
        text = f"SELECT a + {number} FROM t"
        assert shapes.tree(text) == parse(text)
        shapes.unchanged()


@pytest.mark.parametrize("text", COMMENTED)
def test_what_may_hide_a_constant_is_parsed_anew(text: str) -> None:
    assert lifted(text) is None


def test_texts_of_two_shapes_have_two() -> None:
    texts = ("SELECT a1 + 1", "SELECT a2 + 1", "SELECT '1' + 1", "SELECT '2' + 1", "SELECT a1 + 1.0", 'SELECT "1" + 1')
    assert len({lifted(text)[0] for text in texts}) == len(texts)  # type: ignore[index]
    assert re.fullmatch(r"SELECT a1 \+ \x00", lifted(texts[0])[0])  # type: ignore[index]
