"""Results written row by row: csv, tsv, json, jsonl, insert, markdown and html. Nothing is kept but the rows of one batch as text."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

from dpsql.clients.output.cells import NUMBERS, exact_text, json_string, json_text
from dpsql.core.escaping import harmless

Row = Sequence[object]
Write = Callable[[str], object]
Batches = Iterable[Sequence[Row]]
Columns = Sequence[tuple[str, str]]
"""Names and types."""


_NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|REAL|DECIMAL.*)", re.IGNORECASE)
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
_TSV = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_MARKDOWN = re.compile(r"([\\|`*_\[\]~#])")


def csv(columns: Columns, batches: Batches, write: Write) -> None:
    """RFC 4180 with line feeds. NULL is an empty field, an empty text is `""`."""
    write(",".join(_csv_cell(name) for name, _ in columns) + "\n")
    _lines(batches, write, lambda row: ",".join([_csv_cell(value) for value in row]))


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    text = exact_text(value)
    if type(value) in NUMBERS:
        return text
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def tsv(columns: Columns, batches: Batches, write: Write) -> None:
    """One line a row whatever the values hold: tab, line feed, carriage return and backslash are escaped; NULL is `\\N`."""
    write("\t".join(_tsv_cell(name) for name, _ in columns) + "\n")
    _lines(batches, write, lambda row: "\t".join([_tsv_cell(value) for value in row]))


def _tsv_cell(value: object) -> str:
    return "\\N" if value is None else exact_text(value).translate(_TSV)


def json(columns: Columns, batches: Batches, write: Write) -> None:
    """One array of objects, an object a line."""
    keys, separator = _keys(columns), "[\n"
    for batch in batches:
        write(separator + ",\n".join([_object(keys, row) for row in batch]))
        separator = ",\n"
    write("[]\n" if separator == "[\n" else "\n]\n")


def jsonl(columns: Columns, batches: Batches, write: Write) -> None:
    """One object a row, each on a line."""
    keys = _keys(columns)
    _lines(batches, write, lambda row: _object(keys, row))


def _object(keys: Sequence[str], row: Row) -> str:
    return "{" + ", ".join([key + json_text(value) for key, value in zip(keys, row, strict=True)]) + "}"


def _keys(columns: Columns) -> list[str]:
    """The names as keys; one that stands there already gets a number, for most readers keep one value of a key."""
    names, unique = [name for name, _ in columns], list[str]()
    for name in names:
        key, count = name, 2
        while key in unique or (key != name and key in names):
            key, count = f"{name}_{count}", count + 1
        unique.append(key)
    return [f"{json_string(key)}: " for key in unique]


def insert(columns: Columns, batches: Batches, write: Write) -> None:
    """SQL that makes a table `result` of these columns, and puts the rows into it, a batch at a time."""
    named = ", ".join(_quoted(name, '"') + " " + sqltype for name, sqltype in columns)
    write(f"CREATE TABLE result ({named});\n")
    for batch in batches:
        if batch:
            write("INSERT INTO result VALUES\n" + ",\n".join([_values(row) for row in batch]) + ";\n")


def _values(row: Row) -> str:
    return "(" + ", ".join(map(_literal, row)) + ")"


def _literal(value: object) -> str:
    """A constant; what is neither a number nor a boolean is text, which takes the type of its column."""
    if value is None:
        return "NULL"
    text = exact_text(value)
    plain = type(value) is bool or (
        type(value) in NUMBERS and text.lower().strip("-") not in ("nan", "inf", "infinity")
    )
    return text if plain else _quoted(text, "'")


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, 2 * mark) + mark


def markdown(columns: Columns, batches: Batches, write: Write) -> None:
    """A table of GitHub's Markdown, numbers to the right. The cells are text already."""
    write(_markdown_line([name for name, _ in columns]) + "\n")
    write("| " + " | ".join("---:" if _NUMBER.fullmatch(kind) else "---" for _, kind in columns) + " |\n")
    _lines(batches, write, _markdown_line)


def _markdown_line(cells: Row) -> str:
    return "| " + " | ".join(_markdown_cell(str(cell)) for cell in cells) + " |"


def _markdown_cell(text: str) -> str:
    escaped = html.escape(_MARKDOWN.sub(r"\\\1", text), quote=False)
    return harmless(escaped.replace("\r\n", "\n").replace("\n", "<br>"))


def html_table(columns: Columns, batches: Batches, write: Write) -> None:
    """One table element, numbers to the right. The cells are text already."""
    styles = [' style="text-align: right"' if _NUMBER.fullmatch(kind) else "" for _, kind in columns]
    head = _html_line("th", styles, [name for name, _ in columns])
    write(f"<table>\n<thead>\n{head}\n</thead>\n<tbody>\n")
    _lines(batches, write, lambda row: _html_line("td", styles, row))
    write("</tbody>\n</table>\n")


def _html_line(tag: str, styles: Sequence[str], cells: Row) -> str:
    parts = [f"<{tag}{style}>{_html_cell(str(cell))}</{tag}>" for style, cell in zip(styles, cells, strict=True)]
    return f"<tr>{''.join(parts)}</tr>"


def _html_cell(text: str) -> str:
    return harmless(html.escape(text).replace("\r\n", "\n").replace("\n", "<br>"))


def _lines(batches: Batches, write: Write, line: Callable[[Row], str]) -> None:
    for batch in batches:
        write("\n".join([line(row) for row in batch]) + "\n")


WRITERS: dict[str, Callable[[Columns, Batches, Write], None]] = {
    "csv": csv, "tsv": tsv, "json": json, "jsonl": jsonl, "insert": insert, "markdown": markdown, "html": html_table,
}  # fmt: skip
