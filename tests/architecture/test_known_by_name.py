"""Open ends are asked, not told apart: outside its own folder no test for the class of a function, aggregate, statistic, estimate,
noise, event, accountant or relation, no comparison with the name of a function, an aggregate or a mechanism, and no default that picks
an estimate.

Closed by design, so not looked for: the parser's nodes (what a statement may hold is the grammar, planner/grammar.py), the trees that
are printed (sql/), types and domains (core/), kinds of statements, group keys and releases (plan/), what is exact within one unit (the
Literal aggregates.record.Exact, with assert_never), and the connectives and comparisons of conditions, which no record adds to.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from dpsql.aggregates.registry import RECORDS
from dpsql.expressions.functions import BY_NAME
from dpsql.mechanisms.calibration import BY_NAME as MECHANISMS
from tests.support.parsed import nodes_of

ROOT = Path(__file__).parents[2]
OPEN = ("accountants", "accounting", "aggregates", "expressions", "mechanisms", "relations")
"""The folders of open ends; of core/, the events."""
CLOSED = frozenset(
    {"and", "or", "not", "in", "exists", "is null", "=", "<>", "<", "<=", ">", ">=", "is not distinct from"}
)
_HOLDS_A_NAME = re.compile(
    r"\b(function|mechanism|name|word|this|call|called|spelling)(\.(lower|upper)\(\))?\)?(\.(lower|upper)\(\))?$"
)
"""A comparison with a name."""
_PARTS = frozenset({"year", "quarter", "month", "week", "day", "hour", "minute", "second"})

CLASSES = {
    "planner/lower/__init__.py": "UnitSums | Matching: all ways in which units with several rows are put together",
}
NAMES = {
    "clients/repl/words.py": "examples of functions that the parser has a form of its own for",
    "engines/dialects/functions.py": "dialects' own words for the functions that it has: any other is refused by itself",
    "guard/leaving_out.py": "what a row adds under CASE is worked out again",
    "guard/parts.py": "of a quotient and of NULLIF two operands tell whether it may be NULL where neither of them is",
    "guard/thresholds.py": "undoes arithmetic with constants, to know the column that is compared",
    "guard/void.py": "decides by itself, over invented values, whether a condition is void",
    "planner/calls.py": "* REPLACE (...) is written like a call, and FETCH NEXT ROW like a count named row",
    "planner/explain/words.py": "what only makes a printed tree total is left out when it is told",
    "planner/lower/rows.py": "counts fit the driver's integers, and cross as they are",
    "planner/resolve/people.py": "DISTINCT as a clause",
    "planner/spellings.py": "the words of other engines, and the years of an AGE however they are asked for",
    "planner/total/aggregates.py": "the checker's own rules for the few aggregates that are printed (rule 45)",
    "planner/total/walk.py": "the checker believes no record: its second derivation knows the guards that are printed",
}
"""Places where an open end is still told apart, and why: at most these."""


@cache
def _names() -> frozenset[str]:
    """Of functions and aggregates, as SQL calls them and as their own folders do, and of mechanisms."""
    found = {name for record in RECORDS for name in (record.name, *record.spellings)} | set(BY_NAME) | set(MECHANISMS)
    for path in sorted((ROOT / "dpsql/expressions").rglob("*.py")):
        for node in nodes_of(path.read_text()):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Scalar", "replace"):
                named = [keyword.value for keyword in node.keywords if keyword.arg == "function"]
                first = [*named, *node.args][:1]
                found |= {
                    part.value for part in first if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    return frozenset(found) - CLOSED


def _texts(node: ast.AST) -> set[str]:
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return {value.lower() for value in constants if isinstance(value, str)}


def _compared(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """(what is compared, the text with which): ==, in, match and a look-up in a table that is written there."""
    for node in nodes:
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = [(a, b) for a in sides for b in sides if a is not b and not isinstance(b, ast.Attribute | ast.Call)]
        elif isinstance(node, ast.Match):
            pairs = [
                (node.subject, case.pattern) for case in node.cases if not isinstance(case.pattern, ast.MatchClass)
            ]
        elif isinstance(node, ast.MatchClass):
            pairs = [(ast.Name(key), part) for key, part in zip(node.kwd_attrs, node.kwd_patterns, strict=True)]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            pairs = [(node.slice, node.value)]
        for held, other in pairs:
            yield from ((ast.unparse(held), text) for text in _texts(other))


def _tables(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The tables whose keys are mostly names of functions and aggregates; the parts of a date are called like functions."""
    for node in nodes:
        if isinstance(node, ast.Dict):
            keys = [
                text for key in node.keys if key is not None and isinstance(key, ast.Constant) for text in _texts(key)
            ]
            known = [text for text in keys if text in _names() - _PARTS]
            if len(known) > 1 and 2 * len(known) > len(keys):
                yield f"a table of {known}"


def _by_name(path: Path) -> list[str]:
    nodes = nodes_of(path.read_text())
    found = [
        f"{held} and {text!r}" for held, text in _compared(nodes) if text in _names() and _HOLDS_A_NAME.search(held)
    ]
    return [*found, *_tables(nodes)]


def _room(module: str) -> str:
    parts = module.split(".")
    return "events" if module == "dpsql.core.events" else parts[1] if parts[0] == "dpsql" and len(parts) > 1 else ""


def _by_class(path: Path, own: str) -> list[str]:
    """The classes of other folders' open ends that a module tests for."""
    nodes = nodes_of(path.read_text())
    imported = {
        alias.asname or alias.name: _room(node.module or "")
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    tested: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            tested.append(node.args[1])
        elif isinstance(node, ast.MatchClass):
            tested.append(node.cls)
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            tested.append(node)
    names = [part.id for node in tested for part in ast.walk(node) if isinstance(part, ast.Name)]
    return [name for name in names if imported.get(name, own) != own and imported[name] in (*OPEN, "events")]


def _modules(root: Path) -> Iterator[tuple[str, str, Path]]:
    for path in sorted((root / "dpsql").rglob("*.py")):
        name = str(path.relative_to(root / "dpsql"))
        yield name, name.partition("/")[0], path


def test_no_class_is_tested_for() -> None:
    found = {name for name, own, path in _modules(ROOT) if _by_class(path, own)}
    assert found == set(CLASSES)


def test_no_name_is_compared() -> None:
    found = {
        name
        for name, own, path in _modules(ROOT)
        if own not in ("expressions", "aggregates", "mechanisms") and _by_name(path)
    }
    assert found == set(NAMES)


def test_exceptions_say_why() -> None:
    assert all((*CLASSES.values(), *NAMES.values()))


def _picks(path: Path) -> Iterator[str]:
    """The functions that read an estimate off a statistic and have one for any other statistic too."""
    for function in nodes_of(path.read_text()):
        if (
            not isinstance(function, ast.FunctionDef)
            or ast.unparse(function.returns or ast.Constant(None)) != "Estimate"
        ):
            continue
        told = [n for n in ast.walk(function) if isinstance(n, ast.Match | ast.If)]
        defaults = [
            case
            for node in told
            if isinstance(node, ast.Match)
            for case in node.cases
            if isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
        ]
        open_match = any(isinstance(node, ast.Match) for node in told) and not isinstance(function.body[-1], ast.Raise)
        if defaults or open_match or any(isinstance(node, ast.If) and node.orelse for node in told):
            yield function.name


def _estimates() -> set[str]:
    """The classes that are columns of cells, by their base."""
    return {
        node.name
        for path in sorted((ROOT / "dpsql/aggregates").glob("*.py"))
        for node in nodes_of(path.read_text())
        if isinstance(node, ast.ClassDef) and "EstimateDefaults" in map(ast.unparse, node.bases)
    }


def test_no_default_picks_an_estimate() -> None:
    """A statistic that an aggregate is not held by is a fault (901), and outside the folder nobody makes an estimate."""
    assert [name for _, _, path in _modules(ROOT) for name in _picks(path)] == []
    estimates = _estimates()
    made = [
        (name, node.func.id)
        for name, own, path in _modules(ROOT)
        if own != "aggregates"
        for node in nodes_of(path.read_text())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in estimates
    ]
    assert len(estimates) > 8 and made == []


PLANTED = {
    "from dpsql.aggregates.count import Rows\nx = isinstance(a, Rows | int)": "class",
    "from dpsql.mechanisms.laplace import DiscreteLaplace\nmatch a:\n    case DiscreteLaplace():\n        pass": "class",
    "from dpsql.core.events import Event\nx = type(a) is Event": "class",
    "x = scalar.function == 'nullif'": "name",
    "x = aggregate.record.name in ('sum', 'count')": "name",
    "x = 'avg' != str(node.this).lower()": "name",
    "match word:\n    case 'dp_sum' | 'other':\n        pass": "name",
    "match tree:\n    case Call(name='isnan'):\n        pass": "name",
    "x = {'median': 1}[call.name]": "name",
    "x = request.mechanism != 'laplace'": "name",
    "_WIDTHS = {'AVG': 1, 'SUM': 2}": "name",
    "def f(s) -> Estimate:\n    match s:\n        case A():\n            return 1\n    return 2": "default",
    "def f(s) -> Estimate:\n    match s:\n        case A():\n            return 1\n        case _:\n            return 2": "default",
    "def f(s) -> Estimate:\n    if s:\n        return 1\n    else:\n        return 2": "default",
}


def test_a_planted_one_is_found(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    for text, kind in PLANTED.items():
        path.write_text(text)
        found = {"class": _by_class(path, "planner"), "name": _by_name(path), "default": list(_picks(path))}
        assert [name for name, places in found.items() if places] == [kind], text
