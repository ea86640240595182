"""Sessions as a person has them: keys go in, a screen comes out."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.clients.repl.terminal import CTRL_C, CTRL_D, CTRL_R, ENTER, ESCAPE, ROOT, TAB, UP, Terminal
from tests.support.copies import unused

pytest.importorskip("prompt_toolkit")

SLOW_SCHEMA = """
[dataset]
name = "slow"
source = "."
[privacy]
unit = "people.id"
epsilon = 1.0
delta = 1e-6
query = { epsilon = 0.1, delta = 1e-9 }
caps = { epsilon = 0.9, delta = 1e-8 }
[guard]
mode = "off"
[tables.people]
source = "people.parquet"
key = ["id"]
[tables.people.columns]
id = { type = "BIGINT", role = "identifier" }
site = { type = "BIGINT", domain = [0, 1, 2] }
note = { type = "VARCHAR", role = "measure" }
[tables.big]
public = true
source = "big.csv"
"""
NESTED = "upper(lower(" * 12 + "note" + "))" * 12
SLOW = f"SELECT COUNT(*) AS slow FROM people WHERE contains({NESTED}, 'Z');"
SLOW_AND_FREE = "SELECT COUNT(*) FROM big a, big b, big c, big d WHERE a.k + b.k > c.k + d.k;"


def copied(name: str, folder: Path) -> Path:
    source = ROOT / ("examples/randhie" if name == "randhie" else "tests/notes/clinic")
    unused(source, folder / name)
    return folder / name / "schema.toml"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    return copied("clinic", tmp_path)


@pytest.fixture
def randhie(tmp_path: Path) -> Path:
    return copied("randhie", tmp_path)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A session on data that takes a long time, in which nothing of other tests is disturbed."""
    folder = tmp_path_factory.mktemp("slow") / "slow"
    folder.mkdir()
    (folder / "schema.toml").write_text(SLOW_SCHEMA)
    with duckdb.connect() as made:
        rows = "SELECT i AS id, i % 3 AS site, i::VARCHAR || repeat('é', 200) AS note FROM range(100000) t(i)"
        made.execute(f"COPY ({rows}) TO '{folder}/people.parquet' (COMPRESSION zstd, ROW_GROUP_SIZE 8192)")
        made.execute(f"COPY (SELECT i AS k FROM range(3000) t(i)) TO '{folder}/big.csv'")
    with Terminal(folder / "schema.toml", folder.parent / "state") as terminal:
        yield terminal


def colours(written: bytes) -> list[bytes]:
    """The colours that were set."""
    codes = [code for found in re.findall(rb"\x1b\[([\d;]*)m", written) for code in found.split(b";")]
    return [code for code in codes if re.fullmatch(rb"3[0-8]|4[0-8]|9[0-7]|10[0-7]", code)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A session about the clinic that several tests go on with."""
    folder = tmp_path_factory.mktemp("session")
    with Terminal(copied("clinic", folder), folder / "state") as terminal:
        yield terminal


# --- the newcomer -----------------------------------------------------------------------------------------------------------


def test_a_newcomer_needs_no_other_page(randhie: Path, state: Path) -> None:
    """Banner, help, first answer and refusal say what the error bar means, what was paid, what is left, and what to write next."""
    with Terminal(randhie, state) as terminal:
        banner = terminal.text
        assert "randhie, asked by default" in banner
        assert "epsilon 4 of 4 is left; a statement costs 0.1" in banner
        assert "SELECT COUNT(*) FROM person;" in banner and "ends with ;" in banner
        assert all(word in banner for word in ("noise", "\\d", "\\explain", "\\?", "\\q"))

        first = terminal.ask("SELECT COUNT(*) AS people FROM person;")
        assert "95 % error: people +-" in first
        assert "price: epsilon 0.1; remaining: epsilon 3.9" in first
        meaning = " ".join(first.split())
        assert "in 95 of 100 cases the exact one is no further away" in meaning
        assert "The same statement again is the stored answer, free" in meaning

        again = terminal.ask("SELECT COUNT(*) AS people FROM person;")
        assert "stored answer, free; remaining: epsilon 3.9" in again
        assert "in 95 of 100" not in again

        refused = terminal.ask("SELECT * FROM person;")
        assert "DPSQL-301: the result would be rows of people; aggregate, such as SELECT COUNT(*)" in refused
        assert "line 1, column 8\n    SELECT * FROM person\n           ^" in refused
        assert "Nothing was charged; epsilon 3.9 is left." in refused

        help_page = " ".join(terminal.ask("\\?").split())
        assert colours(terminal.written)
        for said in (
            "price, epsilon",
            "95 of 100 cases",
            "A refusal costs nothing",
            "is free",
            "Next: \\d, then SELECT",
            "Ctrl-R",
            "Tab",
        ):
            assert said in help_page


# --- editing ------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lines_keys_completion_and_history(clinic: Path, state: Path) -> None:
    with Terminal(clinic, state) as terminal:
        # Enter begins a new line until a semicolon ends the statement.
        terminal.clear()
        terminal.send("SELECT site, COUNT(*) AS n" + ENTER)
        terminal.until(lambda: terminal.line.strip() == "...")
        terminal.send("FROM patient -- not yet;" + ENTER)
        terminal.until(lambda: terminal.line.strip() == "..." and terminal.screen.cursor.y == 2)
        terminal.send("GROUP BY site;" + ENTER)
        assert "3 rows in " in terminal.answered()

        # Esc Enter sends what has no semicolon.
        terminal.clear()
        terminal.send("SELECT 40 + 2 AS answer" + ESCAPE + ENTER)
        assert "42" in terminal.answered()

        # Ctrl-C clears the line, and the session goes on.
        terminal.clear()
        terminal.send("SELECT nonsense")
        terminal.until("SELECT nonsense")
        terminal.send(CTRL_C)
        assert "leaves" in terminal.answered()

        # Tab completes: a table, a column, a value in quotes, a function, an option, a command.
        for begun, completed in (
            ("SELECT COUNT(*) FROM pati", "SELECT COUNT(*) FROM patient"),
            ("SELECT COUNT(*) FROM visit WHERE ye", "SELECT COUNT(*) FROM visit WHERE year"),
            ("SELECT COUNT(*) FROM patient WHERE city = 'Bi", "SELECT COUNT(*) FROM patient WHERE city = 'Birk'"),
            ("SELECT MEDI", "SELECT MEDIAN("),
            ("SET dp_eps", "SET dp_epsilon"),
            ("\\budg", "\\budget"),
        ):
            terminal.clear()
            terminal.send(begun)
            terminal.until(lambda text=begun: terminal.screen.display[0].rstrip().endswith(text))
            terminal.send(TAB)
            terminal.until(lambda text=completed: terminal.screen.display[0].rstrip().endswith(text))
            terminal.send(CTRL_C)
            terminal.answered()

        # Several in one line, up to the first that is refused.
        several = terminal.ask("SELECT 1 AS one; SELECT bad FROM patient; SELECT 2 AS two;")
        assert "one" in several and "DPSQL-105" in several and "two\n---" not in several
        assert "größe" in terminal.ask("SELECT '日本 größe' AS \"naïve ☃\";")

        terminal.send(CTRL_D)
        assert terminal.ended() == 0

    # The next session remembers, and finds.
    kept = state / "dpsql/history"
    assert kept.stat().st_mode & 0o077 == 0
    with Terminal(clinic, state) as terminal:
        terminal.send(UP)
        terminal.until("naïve ☃")
        terminal.send(CTRL_C)
        terminal.answered()
        terminal.clear()
        terminal.send(CTRL_R + "40 +")
        terminal.until("SELECT 40 + 2 AS answer")
        terminal.send(ENTER)
        terminal.until(lambda: terminal.line.endswith("SELECT 40 + 2 AS answer"))
        terminal.send(ESCAPE + ENTER)
        assert "42" in terminal.answered()
        terminal.send("exit" + ENTER)
        assert terminal.ended() == 0


# --- commands -----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_command(session: Terminal, tmp_path: Path) -> None:
    terminal, ask = session, session.ask
    # before anything was answered
    assert "Nothing was answered yet" in ask("\\watch")
    assert "Write \\explain SELECT" in ask("\\explain")

    for listing in ("\\d", "\\dt", ".tables", ".schema"):
        shown = ask(listing)
        assert re.search(r"patient +one row a person +8 +patient_id", shown)
        assert re.search(r"visit +rows of people", shown) and re.search(r"drug +public, free", shown)
    for columns in ("\\d patient", ".schema patient", "\\d PATIENT;"):
        shown = ask(columns)
        assert re.search(r"city +VARCHAR +'Ash', 'Birk', 'Cole' +may be NULL", shown)
        assert re.search(r"born +DATE +1990-01-01 to 1999-12-31", shown)
        assert re.search(r"patient_id +BIGINT +key, identifier: never shown", shown)
    assert "at most 3 rows of one person are counted" in ask("\\d visit")
    assert "did you mean patient?" in ask("\\d patent")
    assert "3 declared values: 'Ash', 'Birk', 'Cole'" in ask("\\domain patient.city")
    assert "bounds: 40 to 120" in ask("\\domain patient.weight")
    assert "did you mean weight?" in ask("\\domain patient.wieght")
    assert "Write \\domain TABLE.COLUMN" in ask("\\domain patient")

    assert re.search(r"dataset +10 +0 +10", ask("\\budget"))
    assert "epsilon 1" in ask("\\explain SELECT COUNT(*) FROM patient")
    assert "DPSQL-301" in ask(".explain SELECT * FROM patient")

    assert "A statement costs epsilon 0.25 from now on" in ask("\\eps 0.25")
    assert "price: epsilon 0.25; remaining: epsilon 9.75" in ask("SELECT COUNT(*) AS n FROM patient;")
    assert "epsilon 0.25" in ask("\\explain")
    assert "A statement costs epsilon 1 from now on" in ask(".eps")
    assert "Write \\eps 0.2" in ask("\\eps lots")
    assert "above the owner's cap" in ask("\\eps 500")
    assert "set for this session" in ask("SET dp_epsilon = 0.25;")

    assert "stands beside each number" in ask("\\accuracy on")
    shown = ask("SELECT COUNT(*) AS n FROM patient;")
    beside = re.search(r"(~?)(-?\d+) (?:±|\+-)(\d+)", shown)
    # the noise is real: of 8 patients 14 may be released
    assert beside is not None and (beside[1] == "~") == (int(beside[3]) > abs(int(beside[2])))
    assert "under the result alone" in ask("\\accuracy off")
    assert "Write \\accuracy on" in ask("\\accuracy maybe")

    assert "one line a value" in ask("\\x")
    assert re.search(r"^a +\|? *1\n", ask("SELECT 1 AS a, 2 AS b;").split(";\n")[1] + "\n", re.MULTILINE)
    assert "one line a row" in ask("\\x off")
    assert "written as csv" in ask(".mode csv")
    assert "a,b\n1,2\n" in ask("SELECT 1 AS a, 2 AS b;")
    assert "written as csv; there are table, vertical" in ask("\\mode")
    assert "did you mean jsonl?" in ask("\\mode jsnl")

    assert f"Results go to {tmp_path}/out.csv" in ask(f"\\o {tmp_path}/out.csv")
    kept = ask("SELECT 7 AS seven;")
    assert "seven\n7" not in kept and "1 row in " in kept
    assert "Results go to the screen" in ask("\\o")
    assert (tmp_path / "out.csv").read_text().splitlines() == ["seven", "7"]
    assert "cannot be written" in ask("\\o /no/such/folder/file")
    ask("\\o /dev/full")
    assert "cannot be written: No space left" in ask("SELECT 7 AS seven;")
    assert "seven\n7" in ask("SELECT 7 AS seven;")
    assert "written as table" in ask("\\mode table")

    assert "Timing is off" in ask("\\timing")
    assert re.search(r"^1 row; free", ask("SELECT 1 AS a;"), re.MULTILINE)
    assert "Timing is on" in ask("\\timing on")

    (tmp_path / "q.sql").write_text(
        "-- two\nSELECT 11 AS\n  eleven;\n\\timing off\nSELECT nothing FROM patient;\nSELECT 12 AS twelve;\n"
    )
    read = ask(f"\\i {tmp_path}/q.sql")
    assert "eleven" in read and "Timing is off" in read and "DPSQL-105" in read
    assert "q.sql is read no further" in read and "twelve" not in read
    assert "/no/such/file cannot be read: No such file" in ask("\\i /no/such/file")

    ask("SELECT COUNT(*) AS n FROM patient;")
    terminal.clear()
    terminal.send("\\watch 0.2" + ENTER)
    terminal.until(lambda: terminal.text.count("stored answer, free; remaining: epsilon 9.75") >= 2)
    terminal.send(CTRL_C)
    watched = terminal.answered()
    assert "A repeat is the stored answer, free" in watched
    ask("/* dpsql: fresh */ SELECT COUNT(*) AS n FROM patient;")
    assert "Not repeated: this statement is asked anew, and a repeat would cost epsilon 0.25" in ask("\\watch 1")
    assert "Write \\watch 2, in seconds" in ask("\\watch often")

    for page in ("\\?", ".help", "help"):
        assert "Commands" in ask(page)
    assert "There is no command \\budgte; did you mean \\budget?" in ask("\\budgte")
    assert "There is no command \\zzzzzz; \\? lists them" in ask("\\zzzzzz")


@pytest.mark.slow
def test_a_price_that_is_a_large_part_of_what_is_left_is_asked_back(session: Terminal) -> None:
    session.clear()
    session.send("/* dpsql: epsilon=4 */ SELECT COUNT(*) AS n FROM patient;" + ENTER)
    session.until("This costs epsilon 4 of what is left, epsilon ")
    session.send("n" + ENTER)
    assert "Not asked; nothing was charged." in session.answered()
    session.clear()
    session.send("/* dpsql: epsilon=4 */ SELECT COUNT(*) AS n FROM patient;" + ENTER)
    session.until("[y/N]")
    session.send("y" + ENTER)
    assert "price: epsilon 4; remaining: epsilon " in session.answered()
    # the stored answer is free, so nobody asks
    assert "stored answer, free" in session.ask("/* dpsql: epsilon=4 */ SELECT COUNT(*) AS n FROM patient;")


# --- what takes long ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_cancels_a_statement_and_the_charge_stands(slow: Terminal) -> None:
    slow.clear()
    slow.send(SLOW + ENTER)
    running = slow.until("Ctrl-C cancels")
    assert re.search(r"\d\.\d s   Ctrl-C cancels", running) and "%" not in running.replace("95 %", "")
    slow.send(CTRL_C)
    cancelled = " ".join(slow.answered().split())
    assert "Cancelled after" in cancelled and "the charge stands" in cancelled and "epsilon 0.9 is left" in cancelled
    # the session goes on
    assert "remaining: epsilon 0.8" in slow.ask("SELECT COUNT(*) AS n FROM people;")


def test_ctrl_c_of_what_is_free_charges_nothing(slow: Terminal) -> None:
    slow.clear()
    slow.send(SLOW_AND_FREE + ENTER)
    slow.until("Ctrl-C cancels")
    slow.send(CTRL_C)
    assert "nothing was charged" in slow.answered()


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.001, 0.01, 0.05])
def test_two_quick_ctrl_c_never_leave(slow: Terminal, pause: float) -> None:
    for _ in range(3):
        slow.clear()
        slow.send(SLOW_AND_FREE + ENTER)
        slow.until("Ctrl-C cancels")
        for _ in range(3):
            slow.process.kill(signal.SIGINT)
            time.sleep(pause)
        assert "nothing was charged" in slow.answered()
    assert "42" in slow.ask("SELECT 40 + 2 AS answer;")


# --- statements again ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_again_edited_and_remembered(clinic: Path, state: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/COUNT(\\*) AS n/2 AS two/; s/FROM patient//" "$1"\n')
    editor.chmod(0o755)
    with Terminal(clinic, state, EDITOR=str(editor), VISUAL="") as terminal:
        ask = terminal.ask
        assert "Nothing was written yet" in ask("\\g")
        assert "price: epsilon 1" in ask("SELECT COUNT(*) AS n FROM patient;")
        assert "stored answer, free" in ask("\\g")
        shown = ask("\\e")
        assert "SELECT 2 AS two ;" in shown and "two\n---\n  2" in shown
        assert "1 row in " in ask(f"\\g {tmp_path}/two.txt") and "2" in (tmp_path / "two.txt").read_text()
        (tmp_path / "file.sql").write_text("SELECT 3 AS three")
        shown = ask(f"\\e {tmp_path}/file.sql")
        assert "Not asked: a statement ends with ;" in shown
        assert "does not exist" in ask("\\e /no/such/file") or "cannot be read" in terminal.text
        remembered = ask("\\s")
        assert "SELECT COUNT(*) AS n FROM patient;" in remembered and "\\e" in remembered
        assert f"Written to {tmp_path}/history.sql" in ask(f"\\s {tmp_path}/history.sql")
        assert "SELECT COUNT(*) AS n FROM patient;" in (tmp_path / "history.sql").read_text()
        assert "cannot be written" in ask("\\s /no/such/folder/file") and "cannot be written" in ask("\\g /no/such/f")
    with Terminal(clinic, state, EDITOR="/no/such/editor", VISUAL="") as terminal:
        assert "Not edited: No such file" in terminal.ask("\\e")


@pytest.mark.slow
def test_how_wide_how_many_and_the_limits_of_tables(session: Terminal) -> None:
    ask = session.ask
    assert "one line a value where that is wider" in ask("\\x auto")
    assert "one\n---\n  1" in ask("SELECT 1 AS one;")
    long = ", ".join(f"{i} AS column_with_a_long_name_{i}" for i in range(8))
    assert re.search(r"column_with_a_long_name_7 +7", ask(f"SELECT {long};"))
    assert "one line a row" in ask("\\x off")
    assert "at most 1 rows" in ask(".maxrows 1")
    assert "... 2 more rows" in ask("SELECT * FROM (VALUES (1), (2), (3)) AS v(x) ORDER BY x;")
    assert "Write \\maxrows 100" in ask("\\maxrows none") and "at most 10,000 rows" in ask("\\maxrows")
    shown = ask("\\dt+")
    assert re.search(r"visit +rows of people +at most 3 +patient_id to patient +visit.csv", shown)
    assert "city" in ask("\\d+ patient")


@pytest.mark.slow
def test_what_is_taller_than_the_screen_is_paged(clinic: Path, state: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f'#!/bin/sh\ncat > {tmp_path}/paged; echo "so many: $(wc -l < {tmp_path}/paged)"\n')
    pager.chmod(0o755)
    rows = "SELECT * FROM (VALUES " + ", ".join(f"({i})" for i in range(30)) + ") AS v(x) ORDER BY x;"
    with Terminal(clinic, state, lines=24, PAGER=str(pager)) as terminal:
        assert "so many: 32" in terminal.ask(rows)
        assert "x" in (tmp_path / "paged").read_text()
        assert "so many" not in terminal.ask("SELECT 1 AS one;")
        assert "Results are not paged" in terminal.ask("\\pager off")
        assert "so many" not in terminal.ask(rows)


# --- terminals of every kind ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_200_columns(slow: Terminal, tmp_path: Path) -> None:
    numbers = ", ".join(f"{i} AS column_{i}" for i in range(200))
    (tmp_path / "wide.sql").write_text(f"SELECT {numbers};")
    wide = slow.ask(f"\\i {tmp_path}/wide.sql")
    assert "1 row in " in wide and all(len(line) <= 120 for line in wide.splitlines())
    slow.ask("\\x on")
    assert re.search(r"column_199 .*199", slow.ask(f"\\i {tmp_path}/wide.sql"))
    slow.ask("\\mode csv")
    counts = ", ".join(f"COUNT(*) FILTER (WHERE site = {i % 3}) AS c{i}" for i in range(200))
    (tmp_path / "people.sql").write_text(f"SELECT {counts} FROM people;")
    assert "c199" in slow.ask(f"\\i {tmp_path}/people.sql")
    slow.ask("\\mode table")


@pytest.mark.slow
def test_a_terminal_of_20_columns_and_5_lines(clinic: Path, state: Path) -> None:
    with Terminal(clinic, state, columns=20, lines=5, prompt=">") as terminal:
        terminal.send("SELECT COUNT(*) AS n FROM patient;" + ENTER)
        terminal.until(lambda: b"price: epsilon 1" in terminal.written and terminal.is_ready())
        terminal.send("SELECT 40 + 2" + ENTER)
        terminal.until(lambda: terminal.line.strip() == ".")
        terminal.send("AS answer;" + ENTER)
        terminal.until(lambda: b"42" in terminal.written and terminal.is_ready())
        terminal.send("\\d patient" + ENTER)
        terminal.until(lambda: b"1990-01-01" in terminal.written and terminal.is_ready())
        terminal.send(CTRL_D)
        assert terminal.ended() == 0


@pytest.mark.slow
def test_a_dumb_terminal(clinic: Path, tmp_path: Path) -> None:
    """And a home that nothing can be written to."""
    (tmp_path / "file").write_text("")
    with Terminal(clinic, tmp_path / "file", TERM="dumb") as terminal:
        terminal.send("SELECT COUNT(*) AS n" + ENTER)
        terminal.until(lambda: terminal.line.strip() == "...")
        terminal.send("FROM patient;" + ENTER)
        assert "price: epsilon 1" in terminal.answered()
        terminal.interrupt("Ctrl-D leaves")
        terminal.until(terminal.is_ready)
        terminal.send("\\d" + ENTER)
        terminal.until("rows of people")
        assert b"\x1b" not in terminal.written
        terminal.send(".quit" + ENTER)
        assert terminal.ended() == 0


@pytest.mark.slow
def test_no_colour_and_a_home_that_cannot_be_written_to(clinic: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Terminal(clinic, tmp_path / "file", NO_COLOR="1") as terminal:
        assert "DPSQL-105" in terminal.ask("SELECT bad, 'text' FROM patient;")
        terminal.send(UP)
        terminal.until(lambda: terminal.line.endswith("SELECT bad, 'text' FROM patient;"))
        assert colours(terminal.written) == []
