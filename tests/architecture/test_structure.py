"""Things that the code may not do, read from its text: layers, who opens exact sums, no printing, logging or seeding."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.parsed import nodes_of

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "dpsql").rglob("*.py"))


def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return nodes_of(path.read_text())


@cache
def _calls(path: Path) -> frozenset[str]:
    return frozenset(ast.unparse(node.func) for node in _nodes(path) if isinstance(node, ast.Call))


def _imports(path: Path) -> set[str]:
    found = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_only_the_release_stage_opens_exact_sums() -> None:
    readers = [_name(path) for path in MODULES if ".open_exact" in path.read_text() and path.name != "base.py"]
    assert readers == ["dpsql/release/noisy.py"]


def test_only_the_command_line_prints() -> None:
    printing = [_name(path) for path in MODULES if "print" in _calls(path)]
    assert all(name.startswith("dpsql/clients/") for name in printing), printing


def test_nothing_logs() -> None:
    assert [_name(path) for path in MODULES if {"logging", "warnings"} & _imports(path)] == []


def test_randomness_comes_from_the_operating_system() -> None:
    """No generator of numpy or of the standard library, and no seed, anywhere in the package."""
    for path in MODULES:
        assert not {"random", "numpy.random"} & _imports(path), path
        assert not re.search(r"default_rng|np\.random|numpy\.random", path.read_text()), path
        names = {n.arg for n in _nodes(path) if isinstance(n, ast.arg | ast.keyword)}
        assert not {"seed", "random_state"} & names, path


def test_only_the_noise_source_draws() -> None:
    drawing = [_name(path) for path in MODULES if "os.urandom" in _calls(path) or "opendp" in " ".join(_imports(path))]
    assert all(name.startswith("dpsql/mechanisms/") for name in drawing), drawing


def test_no_float_decides_privacy() -> None:
    """Sensitivities, losses, plans and the accountant compute with int and Fraction."""
    exact = ["core/loss.py", "aggregates/base.py", "planner/measure.py", "planner/limit.py", "accounting/budget.py"]
    exact += [
        "planner/shares.py",
        "planner/buying.py",
        "planner/pricing.py",
        "planner/request.py",
        "planner/statistics.py",
    ]
    for name in exact:
        calls = _calls(ROOT / "dpsql" / name)
        assert "float" not in calls, name


def test_no_unfinished_code() -> None:
    for path in MODULES:
        assert not re.search(r"\b(TODO|FIXME|XXX)\b|NotImplementedError", path.read_text()), path


def test_the_top_level_is_fixed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    if not any(listed):
        pytest.skip("not a checkout")
    top = {name.split("/")[0] for name in listed if name}
    allowed = {"pyproject.toml", "README.md", "dpsql", "tests", "grammar_notes", "examples"}
    assert {name for name in top if not name.startswith(".")} <= allowed


@pytest.mark.parametrize("module", ["opendp", "pandas", "pyarrow", "duckdb", "sqlglot", "numpy"])
def test_importing_the_package_is_light(module: str) -> None:
    code = f"import sys, dpsql; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_are_complete() -> None:
    import dpsql

    for name in dpsql.__all__:
        assert hasattr(dpsql, name)
    errors = {"Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError", "IntegrityError"}
    assert errors | {"InternalError", "ProgrammingError", "NotSupportedError", "connect", "Schema"} <= set(
        dpsql.__all__
    )


WRITERS = {
    "dpsql/sql/duckdb.py": "the printer",
    "dpsql/planner/resolve/statement.py": "what the sandbox runs",
    "dpsql/planner/resolve/key_lists.py": "what the sandbox runs",
    "dpsql/aggregates/bounds.py": "told to people",
    "dpsql/guard/bought.py": "statements that the owner's verb asks",
    "dpsql/guard/columns.py": "what is asked of sample units",
    "dpsql/guard/evaluating.py": "what is asked of sample units",
    "dpsql/guard/units.py": "what is asked of sample units",
    "dpsql/planner/explain/released.py": "told to people",
    "dpsql/planner/resolve/grouping_sets.py": "told to people",
}
"""The modules that put SQL together as text, and for what."""
TREES = ("expressions", "relations", "aggregates", "planner", "plan", "guard", "sql")
_WRITTEN = re.compile(
    r"(SELECT|FROM|WHERE|UNION|GROUP BY|ORDER BY|PARTITION BY|CASE WHEN|THEN|CAST\(|EXISTS \() ?\(?\{"
)
"""A word of SQL before a place for something else."""


def _put_together(path: Path) -> list[str]:
    """The texts with places for others in them that are no message."""
    nodes = nodes_of(path.read_text())
    told = [call for call in nodes if isinstance(call, ast.Call | ast.keyword) and "hint" in ast.unparse(call)]
    messages = {id(part) for call in told for part in ast.walk(call)}
    return [ast.unparse(n) for n in nodes if isinstance(n, ast.JoinedStr) and id(n) not in messages]


def test_sql_is_put_together_in_few_places() -> None:
    """Elsewhere it is a tree: no room from `expressions` to `planner` writes what the engine runs."""
    paths = [path for room in TREES for path in sorted((ROOT / "dpsql" / room).rglob("*.py"))]
    writing = {_name(path) for path in paths if any(map(_WRITTEN.search, _put_together(path)))}
    assert writing == set(WRITERS)


def test_trees_have_no_text() -> None:
    """Everything computed and read is a tree: no scalar, relation or node has its text at hand, and none is read back."""
    from dpsql.expressions.scalar import Scalar
    from dpsql.relations.relations import From, Named, Relation
    from dpsql.sql import nodes, queries

    kinds = [
        kind
        for kind in (vars(nodes) | vars(queries)).values()
        if isinstance(kind, type) and issubclass(kind, nodes.Node)
    ]
    for kind in (Scalar, From, Named, Relation, *kinds):
        assert not {"sql", "text"} & set(dir(kind)), kind
