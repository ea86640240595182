"""CSV, TSV and JSON lines, plain and gzipped: the same rows are read from each, and no row raises, whatever it holds."""

from __future__ import annotations

import gzip
import json
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
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".CSV", ".TSV.GZ", ".json", ".jsonl.gz", ".NDJSON")
BROKEN_OBJECTS = (
    b"""
null
17
["6", "a", 1]
{"id": {"a": 1}, "note": [1, 2], "x": {}}
{"id": 7, "note": "plain", "x": 1e999}
{"id": 8, "id": 9, "note": "\\ud800", "x": "NaN"}
{"id": 10, "note": "open
{"id": 11} {"id": 12}
\x1f{"id": 13}\x1f
\xff\xfe
"""
    + b"[" * 100_000
    + b"\n"
    + b'{"id": 14, "note": "'
    + b"z" * 3_000_000
    + b'"}\n'
    + b'{"a":' * 20_000
    + b"\n"
)


def test_drafts_know_them_by_their_names() -> None:
    assert set(UNTYPED) == set(delimited.SUFFIXES)


def is_of_objects(path: Path) -> bool:
    return "json" in path.name.lower()


def as_objects() -> str:
    """The rows with a key that is not declared first, a number where one is, and no key for what is not there."""
    made = [{"extra": 1, **dict(zip(ROWS[0], row, strict=True))} for row in ROWS[1:]]
    for row in made:
        row.update({"x": float(str(row["x"]))} if row["x"] else {"x": None})
        row["id"] = int(str(row["id"]))
    return "\n".join(map(json.dumps, made)) + "\n"


def written(path: Path, extra: bytes = b"") -> None:
    if is_of_objects(path):
        content = as_objects().encode() + extra
        path.write_bytes(gzip.compress(content) if path.name.lower().endswith("gz") else content)
        return
    mark = "\t" if "tsv" in path.name.lower() else ","
    lines = [mark.join('"' + cell.replace('"', '""') + '"' if cell else "" for cell in row) for row in ROWS]
    text = ("\n".join(lines) + "\n").encode() + extra
    path.write_bytes(gzip.compress(text) if path.name.lower().endswith("gz") else text)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.few(5)
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
    path = tmp_path / f"person{suffix}"
    written(path, BROKEN_OBJECTS if is_of_objects(path) else BROKEN)
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source=f"person{suffix}"))
    with dpsql.connect(tmp_path / "schema.toml", ledger=":memory:") as connection:
        (n,) = connection.execute("/* dpsql: epsilon=100 */ SELECT COUNT(*) FROM person").fetchone() or ()
    assert n >= 5


@pytest.mark.parametrize("first", [b"", b"[\n", b'{"other": 1}\n', b"\n", b"\xff\n"])
def test_what_the_first_row_of_objects_holds_opens_no_table_and_closes_none(first: bytes, tmp_path: Path) -> None:
    """Columns are those declared: one person's row does not decide whether others are answered."""
    (tmp_path / "person.jsonl").write_bytes(first + as_objects().encode())
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source="person.jsonl"))
    with dpsql.connect(tmp_path / "schema.toml", ledger=":memory:") as connection:
        (n,) = connection.execute("/* dpsql: epsilon=100 */ SELECT COUNT(*) FROM person").fetchone() or ()
    assert n == 5


def test_names_of_any_characters_and_values_of_any_kind(tmp_path: Path) -> None:
    row = {'a "b"': 1, "c/d~e": "x", "ü.[0]": True, "$": [1, 2], "it's": {"k": None}}
    (tmp_path / "shown.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
    written(tmp_path / "person.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source="person.csv") + PUBLIC.format(suffix=".json"))
    with dpsql.connect(tmp_path / "schema.toml", ledger=":memory:") as connection:
        assert connection.execute("SELECT * FROM shown").fetchall() == [(1, "x", True, "[1,2]", '{"k":null}')]


@pytest.mark.parametrize("content", ["[\n", "17\n", "", "{}\n", '{"a": 1, "A": 2}\n'])
def test_a_public_table_whose_first_line_is_no_object_is_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "shown.json").write_text(content)
    written(tmp_path / "person.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source="person.csv") + PUBLIC.format(suffix=".json"))
    with pytest.raises(dpsql.OperationalError, match=r"DPSQL-707.*write one object a line"):
        dpsql.connect(tmp_path / "schema.toml", ledger=":memory:")


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.gz", ".json.gz"])
def test_what_is_not_gzip_is_one_line(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"person{suffix}").write_bytes(b"id,note,x\n1,a,2\n")
    (tmp_path / "schema.toml").write_text(SCHEMA.format(source=f"person{suffix}"))
    with pytest.raises(dpsql.OperationalError, match="DPSQL-707"):
        dpsql.connect(tmp_path / "schema.toml", ledger=":memory:")
