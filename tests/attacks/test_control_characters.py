"""C10: what others wrote is shown, never obeyed. Statements, names and values full of terminal commands, in every report there is.

Lines are not forged either: what is one line stays one, whatever stands in it.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.cli.main import main
from dpsql.clients.dbapi.connection import Connection
from dpsql.clients.repl.completion import complete
from dpsql.clients.terminal.show import MODES, ResultStyle, show
from dpsql.core.errors import Error
from dpsql.core.escaping import harmless, harmless_json
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity

COMMANDS = {
    "escape": "\x1b[2J\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;eA==\x07",
    "bell": "\x07",
    "c1": "\x9b2J\x9d0;x\x9c",
    "return": "spent 0\rx",
    "backspace": "100\x08\x08\x08 0",
    "bidi": "\u202egnp.exe\u2066\u2069\u200f",
    "lines": "\u2028\u2029\x85\x0b\x0c",
    "delete": "\x7f",
    "width": "\u200b\u2060\ufeff",
}
HOSTILE = "".join(COMMANDS.values())
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
FORGED = "x\n  remaining  epsilon 99, delta 1"


def toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


SCHEMA = f"""
[dataset]
name = "hostile"
source = "data.duckdb"
[privacy]
unit = "person.id"
epsilon = 100.0
delta = 1e-4
query = {{ epsilon = 1.0, delta = 1e-8 }}
caps = {{ epsilon = 50.0, delta = 1e-5 }}
[guard]
mode = "warn"
[tables.person]
key = ["id"]
[tables.person.columns]
id = {{ type = "BIGINT" }}
word = {{ type = "VARCHAR", domain = [{toml(HOSTILE)}, {toml(FORGED)}, "plain"] }}
[tables.place]
public = true
key = ["place"]
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    connection = duckdb.connect(str(tmp_path / "data.duckdb"))
    connection.execute("CREATE TABLE person (id BIGINT, word VARCHAR)")
    connection.execute(
        "INSERT INTO person SELECT range, ['plain', ?, ?][1 + range % 3] FROM range(30)", [HOSTILE, FORGED]
    )
    connection.execute("CREATE TABLE place (place BIGINT, name VARCHAR)")
    connection.execute("INSERT INTO place VALUES (1, ?), (2, ?)", [HOSTILE, FORGED])
    connection.close()
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA)
    return path


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


ASKED = [
    f'SELECT COUNT(*) AS "{HOSTILE}" FROM person WHERE word <> {literal(HOSTILE)}',
    f"SELECT word, COUNT(*) FROM person /* {HOSTILE}{FORGED} */ GROUP BY word",
    f"SELECT COUNT(*) FROM person WHERE word = {literal(FORGED)}",
    f'SELECT name AS "{FORGED}" FROM place',
    "SHOW LEDGER",
    "SHOW BUDGET",
    f'EXPLAIN SELECT COUNT(*) AS "{HOSTILE}" FROM person WHERE word = {literal(FORGED)} OR word = {literal(HOSTILE)}',
]
REFUSED = [
    f"SELECT {HOSTILE} FROM person",
    f'SELECT "{HOSTILE}" FROM person',
    f'SELECT COUNT(*) FROM "{HOSTILE}"',
    f'SELECT COUNT(*)\n\t, "{FORGED}{HOSTILE}"(word) FROM person',
    f"/* dpsql: {HOSTILE} */ SELECT COUNT(*) FROM person",
    f"SELECT SUM(word || {literal(HOSTILE)}) FROM person",
]


@pytest.fixture
def asked(schema: Path) -> Iterator[Connection]:
    """After statements that the ledger remembers."""
    connection = dpsql.connect(schema, ledger=str(schema.parent / "ledger"))
    for sql in ASKED:
        connection.execute(sql).fetchall()
    yield connection
    connection.close()


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def clean(text: str) -> str:
    found = OBEYED.search(text)
    assert found is None, (found, text[max(0, found.start() - 60) : found.end() + 20])
    return text


# --- the one place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", COMMANDS.values(), ids=COMMANDS)
def test_c10_every_command_is_escaped(text: str) -> None:
    for given in (text, f"ü{text}\n\t日本"):
        clean(harmless(given, kept="\n\t"))
        assert "\n" not in harmless(given) and "\t" not in harmless(given)
    assert harmless("plain ü 日本 👩‍⚕️") == "plain ü 日本 👩‍⚕️"


def test_c10_json_stays_the_same_json() -> None:
    held = {HOSTILE: [HOSTILE, FORGED, "\x9b"]}
    text = harmless_json(json.dumps(held, ensure_ascii=False, indent=1), kept="\n")
    assert json.loads(clean(text)) == held


# --- the owner's reports ------------------------------------------------------------------------------------------


def test_c10_the_budget_report(asked: Connection, schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = len(clean(str(_report(schema))).splitlines())
    assert main(["budget", str(schema), "--ledger", str(schema.parent / "ledger"), "--plot"]) == 0
    printed = clean(capsys.readouterr().out)
    assert "\\x1b" in printed and "  remaining  epsilon 99" not in printed.splitlines()
    assert len(printed.splitlines()) >= lines
    assert main(["budget", str(schema), "--ledger", str(schema.parent / "ledger"), "--json"]) == 0
    held = json.loads(clean(capsys.readouterr().out))
    assert held["ledger"][0]["statement"] == ASKED[0]


def _report(schema: Path) -> object:
    declared = read_schema(schema)
    ledger = Ledger.open(schema.parent / "ledger", ledger_identity(declared))
    try:
        return owner.budget(declared, ledger)
    finally:
        ledger.close()


def test_c10_check_and_init(asked: Connection, schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(schema), "--ledger", str(schema.parent / "ledger")]) == 0
    clean(capsys.readouterr().out)
    connection = duckdb.connect(str(schema.parent / "names.duckdb"))
    for name in (HOSTILE, FORGED, "plain"):
        connection.execute(f'CREATE TABLE "{name}" ("{HOSTILE}" BIGINT, "{FORGED}" VARCHAR, plain BIGINT)')
    connection.close()
    assert main(["init", str(schema.parent / "names.duckdb")]) == 0
    drafted = clean(capsys.readouterr().out)
    assert list(tomllib.loads(drafted)["tables"]) == ["plain"]


@pytest.mark.parametrize("place", ["[dataset]\nname = {}", "[tables.{}]", "[analysts.{}]", "[tables.t.columns.{}]"])
@pytest.mark.parametrize("name", [*COMMANDS.values(), FORGED])
def test_c10_a_schema_has_no_such_names(tmp_path: Path, place: str, name: str) -> None:
    """And the message that says so is harmless itself, a line a mistake."""
    path = tmp_path / "schema.toml"
    path.write_text(place.format(toml(name)) + "\n")
    with pytest.raises(Error) as raised:
        read_schema(path)
    for line in clean(str(raised.value)).splitlines()[1:]:
        assert line.startswith(str(path)), line


# --- what analysts see --------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("terminal", [True, False])
def test_c10_results(asked: Connection, mode: str, terminal: bool) -> None:
    """A terminal obeys nothing in any mode. A file of csv, tsv or SQL holds the values as they are: it is read by programs."""
    for sql in ASKED:
        out = Terminal() if terminal else io.StringIO()
        show(asked.execute(sql), mode, out, ResultStyle(bars=True, width=80))
        if terminal or mode not in ("csv", "tsv", "insert"):
            clean(out.getvalue())
        if mode == "json":
            json.loads(out.getvalue())
    exact = io.StringIO()
    show(asked.execute("SELECT name FROM place ORDER BY place LIMIT 1"), "csv", exact)
    assert HOSTILE in exact.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [None, "table", "json", "csv"])
def test_c10_the_command_line(
    schema: Path, mode: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ["--mode", mode] if mode else []
    for sql in [*ASKED, *REFUSED]:
        out = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            main([str(schema), "--ledger", str(schema.parent / "ledger"), "-c", sql, *chosen])
        # the head of a table is bold
        clean(re.sub(r"\x1b\[(?:0|1|2|33)m", "", out.getvalue()))
        clean(capsys.readouterr().err)


def test_c10_errors_show_the_place_all_the_same(asked: Connection) -> None:
    for sql in REFUSED:
        with pytest.raises(Error) as raised:
            asked.execute(sql)
        clean(str(raised.value))
    with pytest.raises(Error) as raised:
        asked.execute("SELECT COUNT(*),\n\tSUM('\x1b[31m' || nowhere) FROM person")
    *_, text, carets = str(raised.value).splitlines()
    assert text == "    \tSUM('\\x1b[31m' || nowhere) FROM person"
    assert text.index("nowhere") == carets.index("^") and carets.startswith("    \t ")


def test_c10_plans_have_a_line_a_fact(asked: Connection) -> None:
    honest = asked.explain("SELECT COUNT(*) FROM person WHERE word = 'plain'").splitlines()
    for text in (HOSTILE, FORGED):
        plan = clean(asked.explain(f"SELECT COUNT(*) FROM person WHERE word = {literal(text)}"))
        assert len(plan.splitlines()) == len(honest)
        cursor = asked.execute(f"EXPLAIN SELECT COUNT(*) FROM person WHERE word = {literal(text)}")
        assert [line for (line,) in cursor.fetchall()] == plan.splitlines()
        cursor = asked.execute(f"SELECT COUNT(*) FROM person WHERE word = {literal(text)}")
        assert len(clean(str(cursor.plan)).splitlines()) == len(honest)
        assert all("\n" not in clean(note) for note in cursor.notes)
        json.loads(clean(json.dumps(cursor.certificates)))


def test_c10_notebooks(schema: Path) -> None:
    with dpsql.connect(str(schema), ledger=":memory:") as connection:
        for sql in ASKED:
            clean(connection.execute(sql)._repr_html_())


def test_c10_completion(schema: Path) -> None:
    """An offered value is shown escaped, and written as it is: it is the value."""
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from dpsql.clients.repl.editor import _Completions

    declared = read_schema(schema)
    text = "SELECT COUNT(*) FROM person WHERE word = "
    offered = list(_Completions(declared).get_completions(Document(text), CompleteEvent()))
    assert literal(HOSTILE) in [found.text for found in offered]
    for found in offered:
        clean("".join(part for _, part, *_ in found.display))
        clean(found.display_meta_text)
    assert list(complete(text, len(text), declared, lambda line, declared: iter(())))


def test_c10_the_prompt(schema: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    from dpsql.clients import repl

    entries = [f"{sql};" for sql in [*ASKED, *REFUSED]] + ["\\d", "\\d person", "\\domain person.word", f"\\{HOSTILE}"]
    entries += [f"\\d {HOSTILE}", f"\\mode {HOSTILE}", f"\\o {HOSTILE}/x", f"\\i {HOSTILE}", f"\\domain {HOSTILE}.x"]
    entries += [f"\\explain {ASKED[0]};", "\\budget"]
    # a line is entered at a time: what breaks a line elsewhere is not in it
    typed = "\n".join(entry.replace("\n", " ").replace("\r", " ") for entry in entries) + "\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    with dpsql.connect(schema, ledger=":memory:") as connection:
        repl.run(connection, argparse.Namespace())
    shown = capsys.readouterr()
    clean(shown.out)
    clean(shown.err)
    assert "\\x1b" in shown.out


def test_c10_harlequin(schema: Path) -> None:
    pytest.importorskip("harlequin")
    from harlequin.exception import HarlequinQueryError

    from dpsql.clients.harlequin.adapter import DpsqlAdapter
    from dpsql.clients.harlequin.screen import plain

    connection = DpsqlAdapter((str(schema),), ledger=":memory:").connect()
    for sql in ASKED:
        cursor = connection.execute(sql)
        assert cursor is not None
        for name, label in cursor.columns():
            clean(name + label)
        found = cursor.fetchall()
        clean("".join(map(str, found.to_pydict().items())) if found is None else repr(found.column_names))
        for column in found.to_pydict().values():
            for value in column:
                clean(str(value))
    for sql in REFUSED:
        with pytest.raises(HarlequinQueryError) as raised:
            connection.execute(sql)
        clean(str(raised.value.msg))
    clean(str([(item.label, item.type_label, item.children) for item in connection.get_catalog().items]))
    clean(plain(HOSTILE))
    connection.close()
