"""Limits on modules and functions: one that grows past its limit holds a second idea, which has a file or a name of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.parsed import nodes_of

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 400
"""[lines] of a file."""
LONGEST_HELPER = 300
"""[lines] of a file that tests share."""
LONGEST_FUNCTION = 40
"""[lines] of a def, its docstring included."""
EXCEPTIONS: dict[str, str] = {}
"""Exceptions, each a module, or a module and its function, with its reason."""


def _long_helpers(root: Path) -> Iterator[str]:
    """The files of tests/support that are too long, by their names."""
    for path in sorted((root / "tests" / "support").rglob("*.py")):
        if len(path.read_text().splitlines()) > LONGEST_HELPER:
            yield str(path.relative_to(root))


def _long(root: Path) -> Iterator[str]:
    """The modules below a folder that are too long, and the functions, by their names."""
    for path in sorted((root / "dpsql").rglob("*.py")):
        name, text = str(path.relative_to(root)), path.read_text()
        if len(text.splitlines()) > LONGEST_MODULE:
            yield name
        for node in nodes_of(text):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno >= LONGEST_FUNCTION:
                    yield f"{name}:{node.name}"


def test_modules_and_functions_are_short() -> None:
    """A new one is split in two by what it says; an exception that is no longer one is taken off the table."""
    assert set(_long(ROOT)) == set(EXCEPTIONS)


def test_helpers_of_tests_are_short() -> None:
    assert list(_long_helpers(ROOT)) == []


def test_exceptions_say_why() -> None:
    assert all(EXCEPTIONS.values())


def test_a_long_one_is_found(tmp_path: Path) -> None:
    (tmp_path / "dpsql").mkdir()
    body = "    pass\n"
    for name, lines in (("short", LONGEST_FUNCTION - 1), ("long", LONGEST_FUNCTION)):
        (tmp_path / "dpsql" / f"{name}.py").write_text(f"def {name}() -> None:\n{body * lines}")
    (tmp_path / "dpsql" / "module.py").write_text("x = 1\n" * (LONGEST_MODULE + 1))
    assert list(_long(tmp_path)) == ["dpsql/long.py:long", "dpsql/module.py"]
    (tmp_path / "tests" / "support").mkdir(parents=True)
    (tmp_path / "tests" / "support" / "helper.py").write_text("x = 1\n" * (LONGEST_HELPER + 1))
    assert list(_long_helpers(tmp_path)) == ["tests/support/helper.py"]
