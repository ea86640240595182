"""CSV and TSV, plain and gzipped: the same rows are read from each, and no row raises, whatever it holds."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import dpsql
from dpsql.engines.duckdb import delimited
from dpsql.schema.drafted import UNTYPED

ROWS = [
    ["id", "note", "x"],
    ["1", "plain", "1.5"],
    ["2", "a,b", "2"],
    ["3", "a\tb", "3"],
    ["4", 'say "so"', ""],
    ["5", "two\nlines", "5"],
]
BROKEN = b'6,"open\t7\n8\t\xff\xfe\t9\n'
SCHEMA = """
[dataset]
name = "forms"
source = "."
[privacy]
unit = "person.id"
epsilon = 1000.0
delta = 1e-6
caps = {{ epsilon = 500, delta = 1e-8 }}
[guard]
mode = "off"
[tables.person]
source = "{source}"
key = ["id"]
[tables.person.columns]
id = {{ type = "INTEGER" }}
note = {{ type = "VARCHAR", domain = ["plain", "a,b", "a\\tb", "say \\"so\\"", "two\\nlines"] }}
x = {{ type = "DOUBLE", bounds = [0, 10], nullable = true }}
"""
PUBLIC = '\n[tables.shown]\npublic = true\nsource = "shown{suffix}"\n'
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".CSV", ".TSV.GZ")


def test_drafts_know_them_by_their_names() -> None:
    assert set(UNTYPED) == set(delimited.SUFFIXES)


def written(path: Path, extra: bytes = b"") -> None:
    mark = "\t" if "tsv" in path.name.lower() else ","
    lines = [mark.join('"' + cell.replace('"', '""') + '"' if cell else "" for cell in row) for row in ROWS]
    text = ("\n".join(lines) + "\n").encode() + extra
    path.write_bytes(gzip.compress(text) if path.name.lower().endswith("gz") else text)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_form_gives_the_same_rows(suffix: str, tmp_path: Path) -> None:
    written(tmp_path / f"person{suffix}")
    written(tmp_path / f"shown{suffix}")
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source=f"person{suffix}") + PUBLIC.format(suffix=suffix))
    with dpsql.connect(tmp_path / "schema.toml", ledger=":memory:") as connection:
        assert connection.execute("SELECT id, note, x FROM shown ORDER BY id").fetchall()[:4] == [
            (1, "plain", 1.5),
            (2, "a,b", 2.0),
            (3, "a\tb", 3.0),
            (4, 'say "so"', None),
        ]
        sql = "/* dpsql: epsilon=100 */ SELECT note, COUNT(*) AS n, SUM(x) AS s FROM person GROUP BY note ORDER BY note"
        found = connection.execute(sql).fetchall()
    # at such a price a count is exact but once in 10^12
    assert [(note, n) for note, n, _ in found] == sorted((row[1], 1) for row in ROWS[1:])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_row_raises(suffix: str, tmp_path: Path) -> None:
    written(tmp_path / f"person{suffix}", BROKEN)
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source=f"person{suffix}"))
    with dpsql.connect(tmp_path / "schema.toml", ledger=":memory:") as connection:
        (n,) = connection.execute("/* dpsql: epsilon=100 */ SELECT COUNT(*) FROM person").fetchone() or ()
    assert n >= 5


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.gz"])
def test_what_is_not_gzip_is_one_line(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"person{suffix}").write_bytes(b"id,note,x\n1,a,2\n")
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source=f"person{suffix}"))
    with pytest.raises(dpsql.OperationalError, match="DPSQL-707"):
        dpsql.connect(tmp_path / "schema.toml", ledger=":memory:")
