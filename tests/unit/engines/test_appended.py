"""Files that rows are added to at their end: the rows of the whole are those of its first bytes and those told apart behind them.

Made-up files of all forms are read by DuckDB, whole and in two parts. Planted faults show that the comparison sees a row that is in
neither part, or in another one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.core.errors import Error
from dpsql.engines.duckdb import appended, delimited
from dpsql.engines.duckdb.appended import added_rows, copied_start
from dpsql.engines.duckdb.locked import connect
from dpsql.engines.signature import FileStart, Signature

SUFFIXES = (".csv", ".csv", ".tsv", ".jsonl")
LIKELY = (b"1", b"2", b"3", b"x", b'"q"', b'"a""b"', b'"a\nb"', b"\xff", b" ", b"#", b'{"a":1}\n', b'{"a":"\\n"}\n')
SELDOM = (b'"', b"\0", b"\r", b"\xef\xbb\xbf", b'""', b"a,b\n")


def rows(connection: duckdb.DuckDBPyConnection, path: Path, columns: list[str]) -> Counter[tuple[object, ...]]:
    return Counter(connection.execute(f"SELECT * FROM {delimited.reader([path], columns)}").fetchall())


def written(chance: random.Random, delimiter: bytes, ends: bytes, most: int) -> bytes:
    """Some bytes of a file, most of them as they should be."""
    parts = (chance.choice((delimiter, delimiter, ends, ends, *LIKELY)) for _ in range(chance.randint(0, most)))
    return b"".join(chance.choice(SELDOM) if chance.random() < 0.02 else part for part in parts)


def told(folder: Path, seeds: range) -> tuple[int, int]:
    """Files whose added rows were told apart, and those of which they were not; each of the first read as one and as two."""
    connection, found = connect(None), Counter[bool]()
    for seed in seeds:
        chance = random.Random(seed)
        suffix, columns = chance.choice(SUFFIXES), list("abc")[: chance.randint(1, 3)]
        form = delimited.form_of(Path(f"rows{suffix}"))
        assert form is not None
        delimiter, ends = (b"," if form.objects else form.delimiter.encode()), chance.choice((b"\n", b"\n", b"\r\n"))
        header = b"" if form.objects else delimiter.join(map(str.encode, columns)) + ends
        begin = header + written(chance, delimiter, ends, 10) + chance.choice((ends, b""))
        rest = chance.choice((ends, b"", b"")) + written(chance, delimiter, chance.choice((ends, b"\n")), 8)
        whole, first = folder / f"whole{suffix}", folder / f"first{suffix}"
        whole.write_bytes(begin + rest)
        first.write_bytes(begin)
        added = added_rows(whole, len(begin), folder)
        found[added is not None] += 1
        if added is not None:
            parts = rows(connection, first, columns) + rows(connection, added, columns)
            assert rows(connection, whole, columns) == parts, (begin, rest)
    return found[True], found[False]


def test_the_rows_of_a_file_are_those_of_its_parts(tmp_path: Path) -> None:
    apart, whole = told(tmp_path, range(600))
    assert apart > 150 and whole > 150


def _anywhere(*_: object) -> bool:
    return True


def _unquoted(text: appended.Bytes, form: delimited.TextForm, inside: bool) -> object:
    return np.flatnonzero(text[1:-2] == ord("\n")), False


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a row may end anywhere": lambda m: m.setattr(appended, "is_plain", _anywhere),
    "a line break inside quotes ends a row": lambda m: m.setattr(appended, "_plain", _unquoted),
    "the rest has no header": lambda m: m.setattr(appended, "_header", lambda file, form: b""),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    PLANTED[fault](monkeypatch)
    with pytest.raises(AssertionError):
        told(tmp_path, range(600))


@pytest.mark.parametrize(
    "name, begin, rest, is_told",
    [
        ("a.csv", b"a,b\n1,2\n", b"3,4\n", True),
        ("a.csv", b"a,b\n", b"3,4\n", True),
        ("a.csv", b"a,b\n1,2\n", b"3,4", True),
        ("a.csv", b"a,b\n1,2", b"3,4\n", False),
        ("a.csv", b"a,b\n1,2", b"\n3,4\n", True),
        ("a.csv", b"a,b\r\n1,2", b"\r\n3,4\r\n", True),
        ("a.csv", b'a,b\n1,"x\n', b'y"\n3,4\n', False),
        ("a.csv", b'a,b\n1,"x\ny"\n', b"3,4\n", True),
        ("a.csv", b'"a\nb",c\n1,2\n', b"3,4\n", True),
        ("a.csv", b'a,b\n1,5" pipe\n', b"3,4\n", False),
        ("a.csv", b"a,b\n1,2\n", b'3,"4\n', True),
        ("a.csv", b"a,b\n1,2\n", b'3,4"\n', False),
        ("a.csv", b"a,b\r1,2\r", b"3,4\r", False),
        ("a.tsv", b"a\tb\n1\t2\n", b"3\t4\n", True),
        ("a.jsonl", b'{"a": 1}\n', b'{"a": 2}\n', True),
        ("a.jsonl", b'{"a": 1}', b'\n{"a": 2}', True),
        ("a.jsonl", b'{"a": 1}', b'{"a": 2}', False),
        ("a.csv.gz", b"\n", b"\n", False),
        ("a.parquet", b"\n", b"\n", False),
    ],
)
def test_where_a_row_ends(tmp_path: Path, name: str, begin: bytes, rest: bytes, is_told: bool) -> None:
    (tmp_path / name).write_bytes(begin + rest)
    assert (added_rows(tmp_path / name, len(begin), tmp_path) is not None) == is_told


@pytest.mark.parametrize("length, is_told", [(2**18, True), (2**20, False), (2**21, False)])
def test_rows_end_in_every_block(tmp_path: Path, length: int, is_told: bool) -> None:
    """Of a file of many blocks no row is longer than DuckDB's reader takes, wherever quotes and line breaks fall."""
    path, line = tmp_path / "a.csv", b'"x\r\n""y",2\r\n'
    begin = b"a,b\r\n" + line * (2**22 // len(line))
    path.write_bytes(begin + line)
    assert added_rows(path, len(begin), tmp_path) is not None and added_rows(path, len(begin) - 9, tmp_path) is None
    path.write_bytes(begin + b'"' + b"\n" * length + b'",2\n' + line)
    assert (added_rows(path, len(begin), tmp_path) is not None) == is_told


def test_the_first_bytes_are_those_that_were_approved(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.csv", tmp_path / "kept"
    folder.mkdir()
    path.write_bytes(b"a\n1\n2\n")
    _, start = Signature.take([path]).read({str(path): 4})[str(path)]
    assert start is not None and copied_start(path, start, folder).read_bytes() == b"a\n1\n"
    for other in (b"a\n3\n2\n", b"a\n1", b""):
        path.write_bytes(other)
        with pytest.raises(Error) as raised:
            copied_start(path, start, folder)
        assert raised.value.code == "DPSQL-708"
    path.unlink()
    with pytest.raises(Error) as raised:
        copied_start(path, FileStart(1, b""), folder)
    assert raised.value.code == "DPSQL-707"


@pytest.mark.parametrize("length, is_told", [(1, True), (5, True), (6, False), (7, False), (0, False)])
def test_a_file_has_a_start_where_it_has_more(tmp_path: Path, length: int, is_told: bool) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    whole, start = Signature.take([tmp_path / "a"]).read({str(tmp_path / "a"): length})[str(tmp_path / "a")]
    assert whole.length == 6 and (start is not None) == is_told
    if start is not None:
        (tmp_path / "b").write_bytes(b"abcdef"[:length])
        alone, _ = Signature.take([tmp_path / "b"]).read({})[str(tmp_path / "b")]
        assert alone == start
