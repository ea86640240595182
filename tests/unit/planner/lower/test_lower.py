"""Statements beside the SQL that reaches the engine and the shell over the released rows: tests/fixtures/dialects/duckdb.

White space does not count. `python -m tests.unit.planner.lower.test_lower` writes the files anew, to be read before they are kept.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from tests.support import clinic
from tests.support.planning import compile_statement

FOLDER = Path(__file__).parents[3] / "fixtures" / "dialects" / "duckdb"
FILES = sorted(FOLDER.glob("*.sql"))


def parts(path: Path) -> dict[str, str]:
    """The sections of a file: its head comment, statement, engine and shell."""
    pieces = re.split(r"^-- (statement|engine|shell)\b.*\n", path.read_text(), flags=re.MULTILINE)
    return {"head": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


def flat(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip().removesuffix(";").replace("( ", "(").replace(" )", ")")


def lowered(sql: str, schema: Schema) -> tuple[str, str]:
    compiled = compile_statement(parse(sql), Options(), schema)
    return "; ".join(part.sql for part in compiled.releases), compiled.plan.post_query.sql


def test_there_are_pairs() -> None:
    assert len(FILES) >= 15


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_pair(path: Path, tmp_path: Path) -> None:
    found = parts(path)
    schema = clinic.schema(tmp_path, unit="row" if "row level" in found["head"] else "patient")
    engine, shell = lowered(found["statement"], schema)
    assert flat(engine) == flat(found["engine"])
    assert flat(shell) == flat(found["shell"])


def _readable(sql: str) -> str:
    """Line breaks where a reader wants them."""
    sql = re.sub(r" (FROM \(|FROM \"|WHERE |GROUP BY |LEFT JOIN |JOIN |ORDER BY \")", r"\n\1", sql)
    lines, depth = [], 0
    for line in sql.replace("FROM (", "FROM (\n").split("\n"):
        lines.append("  " * depth + line.strip())
        depth = max(0, depth + line.count("(") - line.count(")"))
    return "\n".join(lines)


if __name__ == "__main__":
    import tempfile

    for file in FILES:
        sections = parts(file)
        declared = clinic.schema(Path(tempfile.mkdtemp()), unit="row" if "row level" in sections["head"] else "patient")
        made = lowered(sections["statement"], declared)
        file.write_text(
            f"{sections['head']}-- statement\n{sections['statement'].strip()}\n\n"
            f"-- engine\n{_readable(made[0])}\n\n-- shell\n{_readable(made[1])}\n"
        )
