"""Words: one class name has one meaning, docstrings say what a thing is or does, and the terms of the glossary are those of the code.

`python -m tests.architecture.test_words` prints the counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.parsed import nodes_of

ROOT = Path(__file__).parents[2]
QUESTIONS = ("What", "Whether", "How", "Which", "Where", "When", "Why", "Who", "Whose")
TWICE: dict[str, str] = {
    "Aggregate": "a node of a tree, whose name is part of fingerprints; and an aggregate over people",
    "Column": "a node of a tree, whose name is part of fingerprints; and a declared column",
    "Table": "a node of a tree, whose name is part of fingerprints; and a declared table",
}
"""Class names that stand for two things, and why they may."""
OLD: dict[str, str] = {
    r"\b[Ss]hell\b": "post-processing query",
    r"\b[Bb]ound[ _]tables?\b": "input table",
    r"\b[Tt]all(?:y|ies|ied)\b": "histogram",
    r"\btop(?:ping)?[-_ ]up\b|TopUp": "refinement",
    r"\b(?:Few|Small)\b": "minimum cell size",
    r"\b[Gg]oals?\b": "accuracy target",
    r"\bLimited\b": "bounded block",
    r"\bEnds\(": "confidence bounds",
}
"""Words of the house that went, as expressions, and the field's term that came."""
STILL = {"session/opening.py": r"\b[Ss]hell\b", "clients/cli/helping.py": r"\b[Ss]hell\b"}
"""Modules that mean something else by such a word: the shell of an operating system."""


def modules(root: Path, folder: str = "dpsql") -> Iterator[tuple[str, str]]:
    """The modules of a folder by their names below it, and their texts."""
    for path in sorted((root / folder).rglob("*.py")):
        yield str(path.relative_to(root / folder)), path.read_text()


def _nodes(root: Path, folder: str = "dpsql") -> Iterator[tuple[str, ast.AST]]:
    for name, text in modules(root, folder):
        for node in nodes_of(text):
            yield name, node


def questions(root: Path, folder: str = "dpsql") -> list[str]:
    """Docstrings that begin with a question word, each as the module and its first line."""
    told = [(name, text) for name, node in _nodes(root, folder) for text in _docstrings(node)]
    return [f"{name}: {text.splitlines()[0]}" for name, text in told if text.split()[0].strip(",:;") in QUESTIONS]


def _docstrings(node: ast.AST) -> Iterator[str]:
    """The docstring of a module, class or function, and those below the constants and fields in it."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    yield ast.get_docstring(node) or "-"
    for named, told in pairwise(node.body):
        if isinstance(named, ast.Assign | ast.AnnAssign):
            match told:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield text.strip() or "-"


def twice(root: Path) -> dict[str, list[str]]:
    """Class names that stand in several modules, and these."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, node in _nodes(root):
        if isinstance(node, ast.ClassDef):
            found[node.name].append(name)
    return {name: places for name, places in found.items() if len(places) > 1}


def old_words(root: Path) -> list[str]:
    """Uses of words that went, each as the module and the line."""
    return [
        f"{name}: {line.strip()}"
        for name, text in modules(root)
        for line in text.splitlines()
        if any(re.search(word, line) and STILL.get(name) != word for word in OLD)
    ]


def glossary() -> list[str]:
    """The terms of the glossary of grammar_notes, one by one."""
    text = (ROOT / "grammar_notes" / "glossary.md").read_text()
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return [term.strip() for cell in cells[2:] for term in cell.split(",")]


def rooms(root: Path) -> Mapping[str, int]:
    """Lines of each room."""
    lines: Counter[str] = Counter()
    for name, text in modules(root):
        lines[name.split("/")[0]] += len(text.splitlines())
    return lines


@pytest.mark.parametrize("folder", ["dpsql", "tests", "examples"])
def test_no_docstring_asks_a_question(folder: str) -> None:
    assert questions(ROOT, folder) == []


def test_a_class_name_has_one_meaning() -> None:
    assert set(twice(ROOT)) == set(TWICE)


def test_words_that_went_stay_away() -> None:
    assert old_words(ROOT) == []


@pytest.mark.parametrize("term", glossary())
def test_the_code_uses_the_terms_of_the_glossary(term: str) -> None:
    """In a name, as its words run together or with lines between them, or in a sentence, which may be broken over lines."""
    gap = r"(?:\s|#|_|-)*"
    word = re.compile(r"(?<![a-z])" + gap.join(map(re.escape, re.split(r"[ -]", term))), re.IGNORECASE)
    assert any(word.search(text) for _, text in modules(ROOT)), f"{term} is a word of the glossary alone"


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "dpsql").mkdir()
    (tmp_path / "dpsql" / "constants.py").write_text('MOST = 1\n"""How many there are."""\nLEAST = 0\n"""Fewest."""\n')
    for name in ("one", "two"):
        (tmp_path / "dpsql" / f"{name}.py").write_text('class Tally:\n    """Whether it is one."""\n')
    assert questions(tmp_path)[0] == "constants.py: How many there are."
    assert questions(tmp_path)[1:] == ["one.py: Whether it is one.", "two.py: Whether it is one."]
    assert twice(tmp_path) == {"Tally": ["one.py", "two.py"]}
    assert len(old_words(tmp_path)) == 2


def main() -> None:
    """Write the counts."""
    found = [f"questions {len(questions(ROOT))}, names twice {len(twice(ROOT))}, old words {len(old_words(ROOT))}"]
    text = "\n".join(text for _, text in modules(ROOT))
    found += [f"{len(re.findall(new, text, re.IGNORECASE)):6,} {new}" for new in glossary()]
    found += [f"{lines:6,} lines of {room}" for room, lines in sorted(rooms(ROOT).items())]
    sys.stdout.write("\n".join(found) + "\n")


if __name__ == "__main__":
    main()
