"""CSV and TSV files, and JSON with an object a line, also gzipped, each read in one fixed dialect: looking for a dialect or types would
make them depend on the rows.

Comma or tab, as the file's name says, double quotes (doubled inside), UTF-8, the first line names the columns, every
column text, an empty field NULL. Of an object a column is what it has by that name, as text; null, and what it has not, are NULL.
No row raises: one that has too few fields is filled up with NULL, one that cannot be read, or is no object, is left out.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dpsql.engines.writing import name, text

_DIALECT = """auto_detect = false, header = true, quote = '"', escape = '"', nullstr = '',
encoding = 'utf-8', ignore_errors = true, null_padding = true, strict_mode = false,
parallel = false"""
"""One thread: null_padding with a line break inside quotes raises in the parallel reader."""

_LINES = """auto_detect = false, header = false, quote = '', escape = '', nullstr = '', encoding = 'utf-8', ignore_errors = true,
null_padding = true, strict_mode = false, parallel = false"""
"""A line is one field: what stands between fields is a character that no JSON text holds."""
_LONGEST = 2**21
"""[characters] Of a line, as in DuckDB's reader."""

_INFERRED = (
    ("BIGINT", r"[+-]?(0|[1-9][0-9]{0,17})"),
    ("HUGEINT", r"[+-]?(0|[1-9][0-9]{0,37})"),
    ("DOUBLE", r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?"),
    ("DATE", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("TIMESTAMP", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"),
    ("TIME", r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"),
    ("BOOLEAN", r"(?i:true|false)"),
)
"""The ways of writing values of a type; a leading zero is that of a code, so such a column stays text."""


class HeaderError(ValueError):
    """The first line does not name the columns; the text says why, in words about the file's form."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of a file, by its name alone.

    delimiter    between two fields
    compression  none or gzip, as DuckDB names it
    objects      whether a line is a JSON object, which names its own columns
    """

    delimiter: str
    compression: str
    objects: bool = False

    @property
    def reads(self) -> str:
        """The parameters of DuckDB's reader."""
        return f"delim = {text(self.delimiter)}, compression = {text(self.compression)}"

    def open(self, path: Path) -> TextIO:
        # bytes that are no text may stand in the rows that the first block of the file brings along
        if self.compression == "gzip":
            return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
        return open(path, encoding="utf-8-sig", errors="surrogateescape", newline="")


_FORMS = {
    ".csv": TextForm(",", "none"),
    ".csv.gz": TextForm(",", "gzip"),
    ".tsv": TextForm("\t", "none"),
    ".tsv.gz": TextForm("\t", "gzip"),
}
_FORMS |= {f".{word}": TextForm("\x1f", "none", objects=True) for word in ("json", "jsonl", "ndjson")}
_FORMS |= {f".{word}.gz": TextForm("\x1f", "gzip", objects=True) for word in ("json", "jsonl", "ndjson")}
SUFFIXES = tuple(_FORMS)


def form_of(path: Path) -> TextForm | None:
    """The form of a file of delimited text; None for another kind of file."""
    lower = path.name.lower()
    return next((form for suffix, form in _FORMS.items() if lower.endswith(suffix)), None)


def columns_of(path: Path, declared: Sequence[str] = ()) -> list[str]:
    """The column names of a file; of objects those that are declared, for what the first of them has is no more than a row. Raises
    HeaderError, or OSError."""
    form = form_of(path) or _FORMS[".csv"]
    return _names_of_objects(path, form, declared) if form.objects else _header(path, form)


def _names_of_objects(path: Path, form: TextForm, declared: Sequence[str]) -> list[str]:
    try:
        with form.open(path) as file:
            line = file.readline(1 if declared else _LONGEST)
        found = declared or json.loads(line)
        names = list(found) if isinstance(found, dict) or declared else []
        "".join(names).encode()
    except (UnicodeEncodeError, ValueError, RecursionError, EOFError, zlib.error):
        names = []
    if not names or not all(n.strip() for n in names) or len({n.lower() for n in names}) < len(names):
        raise HeaderError("has no JSON object with names of columns in its first line; write one object a line")
    return names


def _header(path: Path, form: TextForm) -> list[str]:
    try:
        with form.open(path) as file:
            names = next(csv.reader(file, strict=True, delimiter=form.delimiter), [])
        "".join(names).encode()
    except (UnicodeEncodeError, csv.Error, EOFError, zlib.error):
        names = []
    if not names or not all(n.strip() for n in names):
        by = "tabs" if form.delimiter == "\t" else "commas"
        raise HeaderError(f"has no first line of column names, separated by {by}, in UTF-8")
    if len({n.lower() for n in names}) < len(names):
        raise HeaderError("names a column twice in its first line")
    return names


def reader(paths: Sequence[Path], columns: list[str]) -> str:
    """SQL that reads files of one form with these columns, all VARCHAR."""
    form = form_of(paths[0]) or _FORMS[".csv"]
    if form.objects:
        return _reader_of_objects(paths, form, columns)
    types = ", ".join(f"{text(c)}: 'VARCHAR'" for c in columns)
    files = ", ".join(text(str(path)) for path in paths)
    return f"read_csv([{files}], columns = {{{types}}}, hive_partitioning = false, {form.reads}, {_DIALECT})"


def _reader_of_objects(paths: Sequence[Path], form: TextForm, columns: list[str]) -> str:
    """The same of files of objects: a line that is none is no row."""
    files = ", ".join(text(str(path)) for path in paths)
    lines = f"read_csv([{files}], columns = {{'line': 'VARCHAR'}}, hive_partitioning = false, {form.reads}, {_LINES})"
    # a JSON pointer names a part whatever its characters are
    parts = [(column, text("/" + column.replace("~", "~0").replace("/", "~1"))) for column in columns]
    items = ", ".join(f"json_extract_string(row, {part}) AS {name(column)}" for column, part in parts)
    return f"(SELECT {items} FROM (SELECT TRY_CAST(line AS JSON) AS row FROM {lines}) WHERE json_type(row) = 'OBJECT')"


def inference(paths: Sequence[Path], columns: list[str]) -> str:
    """SQL for one row of type names, one a column: the first type in which all its values are written.

    Of a public file only, since the type then depends on every row.
    """
    choices = (_choice(name(column)) for column in columns)
    return f"SELECT {', '.join(choices)} FROM {reader(paths, columns)}"


def _choice(column: str) -> str:
    branches = "".join(
        f" WHEN count({column}) = count(CASE WHEN regexp_full_match({column}, {text(pattern)})"
        f" THEN TRY_CAST({column} AS {sqltype}) END) THEN {text(sqltype)}"
        for sqltype, pattern in _INFERRED
    )
    return f"CASE WHEN count({column}) = 0 THEN 'VARCHAR'{branches} ELSE 'VARCHAR' END"
