"""The command line as a newcomer meets it: the main job, and every kind of bad input as one clear line with nothing lost."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest

from dpsql.clients.cli.main import HELPING, OPTIONS, SERVING, VERBS, main
from dpsql.clients.terminal.show import MODES
from tests.support.copies import unused

ROOT = Path(__file__).parents[2]
RANDHIE = ROOT / "examples/randhie"
MAIN_JOB = "SELECT site, COUNT(*) AS people, AVG(income) AS mean_income FROM person GROUP BY site ORDER BY site"


TABLE = ("--mode", "table")


def dpsql(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in this process, since one of its own takes a second to start."""
    out, errors, given = (io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8") for text in ("", "", stdin))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        contextlib.chdir(ROOT),
        patch("sys.stdin", given),
    ):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    for stream in (out, errors):
        stream.flush()
    said = [stream.buffer.getvalue().decode() for stream in (out, errors)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(list(arguments), code, *said)


def dpsql_alone(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same from a process of its own."""
    command = [sys.executable, "-m", "dpsql", *arguments]
    own = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120, env=own)


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    unused(RANDHIE, tmp_path / "randhie")
    return tmp_path / "randhie/schema.toml"


def refused(result: subprocess.CompletedProcess[str], code: str, exit_code: int) -> str:
    """The first line of an error; nothing else was said, and no traceback."""
    assert result.returncode == exit_code, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    first = result.stderr.splitlines()[0]
    assert first.startswith(f"DPSQL-{code}: "), first
    return first


def spent(schema: Path) -> str:
    """The amount that `dpsql budget` says is spent; asked here, since a process of its own takes a second to start."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main(["budget", str(schema)]) == 0
    return next(line for line in shown.getvalue().splitlines() if "spent" in line)


def test_the_main_job(schema: Path) -> None:
    result = dpsql_alone(str(schema), *TABLE, "-c", MAIN_JOB)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["site", "people", "mean_income"]
    assert [line.split()[0] for line in lines[2:8]] == ["1", "2", "3", "4", "5", "6"]
    assert lines[8] == "note: rows with other values of site than those declared are left out"
    assert re.match(r"95 % error: people \+-(49|50), mean_income \+-", lines[9])
    assert lines[10] == "6 rows; price: epsilon 0.1; remaining: epsilon 3.9, delta 5e-07"
    again = dpsql(str(schema), *TABLE, "-c", MAIN_JOB)
    assert again.stdout.splitlines()[:8] == lines[:8]
    assert again.stdout.splitlines()[10] == "6 rows; stored answer, free; remaining: epsilon 3.9, delta 5e-07"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--acuracy", "x.toml"], "there is no option --acuracy; did you mean --accuracy?"),
        (["--bogus", "x.toml"], "there is no option --bogus; dpsql --help lists them"),
        (["chek", "x.toml"], "did you mean dpsql check?"),
        (["x.toml", "chek"], "did you mean dpsql check x.toml?"),
        (["x.toml", "SELECT 1"], "SELECT 1 has no option before it; write a statement behind -c"),
    ],
)
def test_a_slip_on_the_command_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err


def test_errors_as_columns_of_files(schema: Path) -> None:
    sql = "SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site"
    for mode in ("csv", "tsv", "json", "jsonl"):
        text = dpsql(str(schema), "--mode", mode, "--accuracy", "-c", sql).stdout
        for name in ("site", "n", "n_low", "n_high"):
            assert name in text.splitlines()[0 if mode != "json" else 1]
        assert "site_low" not in text and "note" not in text
        plain = dpsql(str(schema), "--mode", mode, "-c", sql).stdout
        assert "n_low" not in plain and len(plain.splitlines()) == len(text.splitlines())


def test_a_file_that_is_not_there(schema: Path, tmp_path: Path) -> None:
    assert "nosuch.sql cannot be read: No such file" in dpsql(str(schema), "-f", str(tmp_path / "nosuch.sql")).stderr
    (tmp_path / "bytes.sql").write_bytes(b"\xff\xfe")
    assert "bytes.sql is no text in UTF-8" in dpsql(str(schema), "-f", str(tmp_path / "bytes.sql")).stderr


def test_a_ledger_that_is_gone_is_told(schema: Path) -> None:
    assert dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person").returncode == 0
    for file in schema.parent.glob("*.ledger*"):
        file.unlink()
    gone = dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person")
    assert gone.returncode == 4 and "is there no more: this one is new; put it back" in gone.stderr


def test_a_file_and_standard_input(schema: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("\ufeffSELECT COUNT(*) AS n\nFROM person; -- a comment\n", encoding="utf-8")
    assert "remaining" in dpsql(str(schema), *TABLE, "-f", str(tmp_path / "q.sql")).stdout
    assert "stored answer" in dpsql(str(schema), *TABLE, stdin="SELECT COUNT(*) AS n FROM person").stdout
    assert refused(dpsql(str(schema), "-f", str(tmp_path / "none.sql")), "802", 2)
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    assert refused(dpsql(str(schema), "-f", str(tmp_path / "latin.sql")), "802", 2)
    with (tmp_path / "latin.sql").open("rb") as file:
        command = [sys.executable, "-m", "dpsql", str(schema)]
        result = subprocess.run(command, stdin=file, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert "standard input cannot be read" in refused(result, "802", 2)


def test_several_statements_and_a_setting(schema: Path) -> None:
    result = dpsql(
        str(schema), *TABLE, "-c", "SET dp_epsilon = 0.2; SELECT 1 AS one", "-c", "SELECT COUNT(*) FROM person"
    )
    assert "price: epsilon 0.2" in result.stdout and "1 row; free" in result.stdout


ODD_FILE = """\
/* ; */ SELECT 'a;b' AS "x;""y" -- ; '
;
SELECT 'it''s;' AS quoted, '--' AS "/*", '*/' AS "--";
SELECT COUNT(*) FROM
  persn;
SELECT 3 AS never
"""


def test_a_file_of_several_statements(schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All before the wrong one are answered; the place is one of the file."""
    file = tmp_path / "odd.sql"
    file.write_text(ODD_FILE)
    assert main([str(schema), "-c", "SELECT 0 AS zero", "-f", str(file)]) == 1
    out, errors = capsys.readouterr()
    assert out == 'zero\n0\n\n"x;""y"\na;b\n\nquoted,/*,--\nit\'s;,--,*/\n'
    first, place, line, carets = errors.splitlines()
    assert first.startswith("DPSQL-105: ") and place == f"  {file}, line 5, column 3"
    assert line == "      persn;" and carets == "      ^^^^^"
    assert main([str(schema), "--mode", "jsonl", "-f", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        '{"x;\\"y": "a;b"}',
        '{"quoted": "it\'s;", "/*": "--", "--": "*/"}',
    ]


@pytest.mark.slow
def test_a_program_is_given_rows_alone(schema: Path) -> None:
    """As UTF-8 whatever the terminal's own; what a person would want to know is said where one can see it."""
    sql = "SELECT female, COUNT(*) AS n, 'é' AS \"ë\" FROM person GROUP BY female ORDER BY female"
    result = dpsql_alone(str(schema), "-c", "SET dp_epsilon = 0.2", "-c", sql, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert result.returncode == 0 and result.stderr == ""
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == ["female", "n", "ë"] and [row[0] for row in rows[1:]] == ["false", "true"] and len(rows) == 3
    result = dpsql(str(schema), "--status", "--mode", "json", "-c", sql, "-c", "SELECT 1 AS a")
    assert json.loads(result.stdout[: result.stdout.index("]") + 1])[0]["ë"] == "é"
    bars, free = result.stderr.splitlines()
    assert bars == "95 % error: n +-15; 2 rows; stored answer, free; remaining: epsilon 3.8, delta 5e-07"
    assert free.startswith("1 row; free; ")
    shown = dpsql(str(schema), *TABLE, "--no-status", "--accuracy", "-c", sql).stdout
    assert len(shown.splitlines()) == 4 and shown.count(" +-15") == 2


def test_a_plan_is_lines_unless_a_mode_is_named(schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explained = [str(schema), "-c", "/* why */ EXPLAIN SELECT COUNT(*) FROM person"]
    assert main([*explained, *TABLE]) == 0
    assert capsys.readouterr().out.startswith("release_0: the number of rows\n")
    assert main(explained) == 0
    assert capsys.readouterr().out.startswith("release_0: the number of rows\n")
    assert main([*explained, "--mode", "csv"]) == 0
    assert capsys.readouterr().out.startswith("plan\nrelease_0: the number of rows\n")


@pytest.mark.slow
def test_exhausted_budget(schema: Path) -> None:
    asked = [f"/* dpsql: epsilon=0.5 */ SELECT COUNT(*) FROM person WHERE income > {1000 * i}" for i in range(8)]
    for first, second in zip(asked[::2], asked[1::2], strict=True):
        assert main([str(schema), "-c", first, "-c", second]) == 0
    line = refused(dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person WHERE female"), "501", 3)
    assert "0 is left" in line


def test_owner_verbs(schema: Path) -> None:
    drafted = dpsql("init", str(schema.parent))
    assert (
        drafted.returncode == 0 and "[tables.person]" in drafted.stdout and "bounds = [0, 30000]" not in drafted.stdout
    )
    checked = dpsql("check", str(schema))
    assert checked.returncode == 0 and "5,912 rows" in checked.stdout
    assert "remaining  epsilon 4" in dpsql("budget", str(schema)).stdout


def test_the_owner_tunes(schema: Path, tmp_path: Path) -> None:
    statements = tmp_path / "statements.sql"
    statements.write_text("SELECT COUNT(*) AS people FROM person; SELECT AVG(income) AS mean FROM person")
    tuned = dpsql("tune", str(schema), "-f", str(statements), "--plot", str(tmp_path / "errors.svg"))
    assert tuned.returncode == 0 and "epsilon 0.1 (default)" in tuned.stdout and "what limits cut" in tuned.stdout
    assert (tmp_path / "errors.svg").read_text().count("95 % error") >= 1
    assert "epsilon 0" in spent(schema)
    assert "there is no statement to tune for" in refused(dpsql("tune", str(schema)), "802", 2)
    asked = ["tune", str(schema), "-c", "SELECT COUNT(*) FROM person"]
    nowhere = dpsql(*asked, "--plot", str(tmp_path / "no" / "errors.png"))
    assert "the picture cannot be written" in refused(nowhere, "802", 2)
    unknown = dpsql(*asked, "--plot", str(tmp_path / "errors.what"))
    assert "name a .png" in refused(unknown, "802", 2)


def test_cubes_of_a_workload_are_proposed_and_bought_on_yes(schema: Path, tmp_path: Path) -> None:
    file = tmp_path / "statements.sql"
    file.write_text(
        "SELECT site, COUNT(*) FROM person GROUP BY site; SELECT AVG(income) FROM person WHERE female;\nSELECT 1"
    )
    asked = ["workload", str(schema), "-f", str(file), "--epsilon", "0.8"]
    proposed = dpsql(*asked)
    assert proposed.returncode == 0 and proposed.stdout.endswith("--yes buys them\nnothing was bought\n")
    assert "person_cube: 7 cells" in proposed.stdout and "OPTIONS (epsilon = 0.8, ways = 1)" in proposed.stdout
    assert "epsilon 0" in spent(schema)
    assert dpsql(*asked, "--yes").stdout.endswith("person_cube: bought, charge 1\n")
    read = dpsql(str(schema), "-c", "SELECT site, COUNT(*) FROM person GROUP BY site")
    assert "read off the cube person_cube, free" in read.stderr
    assert "there is no statement to find cubes for" in refused(dpsql("workload", str(schema)), "802", 2)


def test_what_is_stored_is_bought_again_only_on_yes(schema: Path) -> None:
    price = "/* dpsql: epsilon=0.5 */"
    dpsql(str(schema), "-c", f"{price} SELECT plan, site, female, COUNT(*) FROM person GROUP BY ALL")
    asked = [str(schema), "--mode", "csv", "--status", "-c", f"{price} SELECT COUNT(*) AS people FROM person"]
    assert "what is stored answers it free" in refused(dpsql(*asked), "505", 1)
    assert "epsilon 0.5" in spent(schema)
    bought = dpsql(*asked, "--yes")
    assert bought.returncode == 0 and "bought although what is stored answers it free" in bought.stderr
    assert "price: epsilon 0.5; remaining: epsilon 3," in bought.stderr


def test_the_owner_gives_analysts_something_to_practice_on(schema: Path, tmp_path: Path) -> None:
    folder = tmp_path / "practice"
    written = dpsql("practice", str(schema), str(folder))
    assert written.returncode == 0 and f"dpsql {folder / 'schema.toml'}" in written.stdout
    asked = dpsql(str(folder / "schema.toml"), "-c", "SELECT COUNT(*) AS people FROM person JOIN plan USING (plan)")
    assert asked.returncode == 0 and "people" in asked.stdout
    assert "epsilon 0" in spent(schema)
    assert "is there already" in refused(dpsql("practice", str(schema), str(folder)), "802", 2)
    between = dpsql("practice", str(schema), "--ledger", str(schema.with_name("randhie.ledger")), str(folder))
    assert "is there already" in refused(between, "802", 2), "the folder may stand behind an option"


def test_the_owner_prepares_and_the_answers_stay(schema: Path) -> None:
    prepared = dpsql("check", str(schema), "--prepare")
    assert prepared.returncode == 0 and ".ledger.prepared/" in prepared.stdout
    answered = dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person")
    assert answered.returncode == 0 and answered.stderr == ""
    nowhere = dpsql("check", str(schema), "--prepare", "--ledger", ":memory:")
    assert "a ledger in memory has no place" in refused(nowhere, "802", 2)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("SELECT COUNT(*) FROM persn", "105", "did you mean person?"),
        ("SELECT COUNT(incme) FROM person", "105", "did you mean income?"),
        ("SELECT COUNT(*) FORM person", "101", "near person"),
        ("SELECT COUNT(*) FROM person WHERE " + "(" * 5000 + "female" + ")" * 5000, "107", "nested"),
        ("SELECT COUNT(*) FROM person WHERE person_id = 125024", "601", "R1"),
        ("", "101", "write SELECT"),
        ("SELECT 'open", "101", "close it"),
        ("SELECT * FROM person", "301", "aggregate"),
        ("/* dpsql: epsilon=oops */ SELECT COUNT(*) FROM person", "104", "epsilon"),
        ("/* dpsql: epsilom=0.2 */ SELECT COUNT(*) FROM person", "104", "did you mean epsilon?"),
    ],
)
def test_bad_statements(schema: Path, sql: str, code: str, says: str) -> None:
    assert says in refused(dpsql(str(schema), "-c", sql), code, 1)
    assert "epsilon 0" in spent(schema)


@pytest.mark.slow
def test_a_statement_of_ten_megabytes(schema: Path, tmp_path: Path) -> None:
    (tmp_path / "big.sql").write_text("SELECT COUNT(*) FROM person WHERE site IN (" + "1," * 5_000_000 + "1)")
    started = time.monotonic()
    assert "characters" in refused(dpsql(str(schema), "-f", str(tmp_path / "big.sql")), "107", 1)
    assert time.monotonic() - started < 60


def test_a_schema_with_ten_mistakes(tmp_path: Path) -> None:
    text = (RANDHIE / "schema.toml").read_text()
    for old, new in (
        ("epsilon = 4.0", "epsilon = -4.0"),
        ('mode = "block"', 'mode = "strict"'),
        ("k    = 20", "k = 0"),
        ("bounds = [0, 30000]", "bounds = [30000, 0]"),
        ("domain = [1, 2, 3, 4, 5, 6]", "domain = []"),
        ("max_rows_per_unit = 5", "max_rows_per_unit = 0"),
        ("bounds = [0, 80]", "bound = [0, 80]"),
        ('type = "BOOLEAN"', 'type = "BOOLAEN"'),
        ("bounds = [0, 10]", 'bounds = ["a", 10]'),
        ('key    = ["plan"]', 'key = ["plam", 3]'),
    ):
        text = text.replace(old, new)
    path = tmp_path / "schema.toml"
    path.write_text(text)
    result = dpsql(str(path), "-c", "SELECT 1")
    assert "mistakes" in refused(result, "801", 2)
    assert len(result.stderr.splitlines()) >= 9
    assert all("schema.toml" in line for line in result.stderr.splitlines())


def test_missing_files(schema: Path) -> None:
    assert "none.toml" in refused(dpsql("none.toml", "-c", "SELECT 1"), "801", 2)
    (schema.parent / "person.parquet").unlink()
    assert "person.parquet" in refused(dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person"), "707", 4)


def test_data_that_is_not_what_was_declared(schema: Path) -> None:
    target = schema.parent / "person.parquet"
    duckdb.connect().execute(
        f"COPY (SELECT * FROM '{RANDHIE}/person.parquet' UNION ALL SELECT * FROM '{RANDHIE}/person.parquet') TO '{target}'"
    )
    line = refused(dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person"), "804", 2)
    assert "person" in line and "key" in line


def test_a_ledger_of_another_dataset(schema: Path, tmp_path: Path) -> None:
    ledger = str(tmp_path / "other.ledger")
    assert dpsql("budget", "examples/nhefs/schema.toml", "--ledger", ledger).returncode == 0
    assert "nhefs" in refused(dpsql(str(schema), "--ledger", ledger, "-c", "SELECT COUNT(*) FROM person"), "705", 4)


def test_a_truncated_ledger(schema: Path) -> None:
    assert dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person").returncode == 0
    ledger = schema.parent / "randhie.ledger"
    ledger.write_bytes(ledger.read_bytes()[:5000])
    refused(dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person"), "705", 4)


@pytest.mark.slow
def test_a_locked_ledger(schema: Path) -> None:
    assert dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person").returncode == 0
    holder = sqlite3.connect(schema.parent / "randhie.ledger", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        line = refused(dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person WHERE female"), "704", 4)
    finally:
        holder.close()
    assert "lock" in line or "busy" in line


def test_a_folder_that_cannot_hold_a_ledger(schema: Path) -> None:
    refused(dpsql(str(schema), "--ledger", "/proc/nowhere.ledger", "-c", "SELECT 1"), "704", 4)
    refused(dpsql(str(schema), "--ledger", str(schema.parent), "-c", "SELECT 1"), "704", 4)


@pytest.mark.slow
def test_a_full_disk(schema: Path) -> None:
    """A file may not grow past what the ledger has already: the charge cannot be written, so nothing is released."""
    assert dpsql(str(schema), "-c", "SELECT COUNT(*) FROM person").returncode == 0
    command = [sys.executable, "-m", "dpsql", str(schema), "-c", "SELECT COUNT(*) FROM person WHERE female"]
    limited = (
        f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); sys.argv = {command[2:]!r}; "
    )
    limited += (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); runpy.run_module('dpsql', run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )
    refused(result, "704", 4)
    assert "epsilon 0.1" in spent(schema)


@pytest.mark.slow
def test_ctrl_c_during_the_query(schema: Path) -> None:
    """The query stops, one line says that the charge stands, and it does."""
    target = schema.parent / "person_year.parquet"
    big = f"SELECT t.* FROM '{RANDHIE}/person_year.parquet' t, range(400)"
    duckdb.connect().execute(f"COPY ({big}) TO '{target}' (ROW_GROUP_SIZE 1000000)")
    text = (
        schema.read_text().replace('key        = ["person_id", "year"]', "").replace('key = ["person_id", "year"]', "")
    )
    schema.write_text(text)
    assert dpsql("check", str(schema)).returncode == 0
    spread = "STDDEV(medical_usd), STDDEV(drug_usd), CORR(medical_usd, drug_usd)"
    sql = f"SELECT family_size, COUNT(*), {spread} FROM person_year GROUP BY family_size"
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsql", str(schema), "-c", sql],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for _ in range(10_000):
        if "epsilon 0.1" in spent(schema) or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert out == "" and "the charge stands" in errors and "Traceback" not in errors
    assert "epsilon 0.1" in spent(schema)


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(schema: Path) -> None:
    """However much is still to be written; what would come after is not asked any more."""
    small = "-c 'SELECT year, COUNT(*) FROM person_year GROUP BY year'"
    large = "-c 'SELECT a.plan FROM plan a, plan b, plan c, plan d' -c 'SELECT COUNT(*) FROM person'"
    command = (
        f"{sys.executable} -m dpsql {schema} {small} | head -1; {sys.executable} -m dpsql {schema} {large} | head -1; "
    )
    command += "echo ${PIPESTATUS[0]}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert result.stderr == "" and result.stdout.splitlines() == ["year,count_star()", "plan", "0"]
    assert "epsilon 0.1" in spent(schema)


@pytest.mark.slow
def test_an_output_that_cannot_be_written(schema: Path) -> None:
    command = f"{sys.executable} -m dpsql {schema} -c 'SELECT 1' > /dev/full"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert result.returncode == 4
    assert result.stderr == "the result cannot be written: No space left on device; what was charged stays charged\n"
    closed = f"{sys.executable} -m dpsql {schema} -c 'SELECT 1' >&-"
    result = subprocess.run(["bash", "-c", closed], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


BIG = """
[dataset]
name = "big"
source = "."
[privacy]
unit = "person.id"
epsilon = 1.0
delta = 1e-6
query = { epsilon = 0.1 }
[tables.person]
source = "person.csv"
key = ["id"]
[tables.person.columns]
id = { type = "BIGINT", role = "identifier" }
[tables.big]
public = true
source = "big.parquet"
"""


@pytest.mark.slow
def test_a_million_rows_are_written_in_no_more_memory_than_they_take(tmp_path: Path) -> None:
    """The engine holds the rows of an answer; as text, only a few of them are held."""
    (tmp_path / "schema.toml").write_text(BIG)
    (tmp_path / "person.csv").write_text("id\n1\n")
    rows = (
        "SELECT range AS id, 'name ' || range AS label, CASE WHEN range % 7 THEN range / 3 END AS x FROM range(1000000)"
    )
    duckdb.connect().execute(f"COPY ({rows}) TO '{tmp_path}/big.parquet'")
    code = """
import resource, dpsql
from dpsql.clients.terminal.show import show
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
with dpsql.connect("schema.toml") as connection:
    cursor = connection.execute("SELECT id, label, x FROM big")
    alone = peak()
    with open("out.csv", "w") as out:
        print(show(cursor, "csv", out), alone, peak())
"""
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=True)
    written, alone, peak = map(int, result.stdout.split())
    with (tmp_path / "out.csv").open() as file:
        assert sum(1 for _ in file) == written + 1 == 1_000_001
    assert peak < alone + 20, f"{peak} MB, of which the rows take {alone} MB"


def test_help_says_how(schema: Path) -> None:
    for verb in ((), *((verb,) for verb in VERBS)):
        started = time.monotonic()
        helped = dpsql(*verb, "--help")
        sys.stdout.write(f"dpsql {' '.join(verb)} --help: {time.monotonic() - started:.2f} s\n")
        assert helped.returncode == 0 and helped.stderr == ""
    text = dpsql("--help").stdout
    assert "SCHEMA" in text and "init" in text and "exit codes" in text and all(mode in text for mode in MODES)
    assert dpsql().returncode == 2
    assert dpsql(str(schema), "--mode", "xml", "-c", "SELECT 1").returncode == 2


def test_help_loads_neither_parser_nor_engine() -> None:
    code = "import sys; from dpsql.clients.cli.main import main; main(['--help'])"
    code = f"try:\n    {code}\nexcept SystemExit:\n    print(sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = result.stdout.splitlines()[-1]
    assert "dpsql.clients.cli.main" in loaded
    assert not [
        name for name in ("sqlglot", "duckdb", "numpy", "opendp", "rich", "prompt_toolkit") if f"'{name}'" in loaded
    ]


# --- a terminal ----------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, columns: int = 80, **environment: str) -> tuple[int, str]:
    """The exit code, and everything that a terminal of some width is given."""
    main_end, other = pty.openpty()
    size = {"COLUMNS": str(columns), "TERM": "xterm", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsql", *arguments],
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=ROOT,
        env={**{name: value for name, value in os.environ.items() if name != "NO_COLOR"}, **size},
        start_new_session=True,
    )
    os.close(other)
    seen = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(main_end, 65536):
            seen += chunk
    os.close(main_end)
    return process.wait(timeout=60), seen.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_a_terminal_shows_tables(schema: Path) -> None:
    sql = "SELECT 'long text of \x1b[31m many words' AS a, 'b' AS b, 12345678 AS n"
    code, text = on_a_terminal(str(schema), "-c", sql, columns=30, NO_COLOR="1")
    assert code == 0
    lines = text.splitlines()
    assert max(map(len, lines[:3])) == 30 and lines[0].split() == ["a", "b", "n"]
    assert lines[2].split() == ["long", "text", "of", "\\x1…", "b", "12345678"] and lines[3].startswith(
        "1 row; free; remaining: "
    )
    assert "\x1b" not in on_a_terminal(str(schema), "-c", sql, TERM="dumb")[1]
    assert on_a_terminal(str(schema), "-c", sql)[1].startswith("\x1b[1ma")
    code, text = on_a_terminal(str(schema), "--mode", "csv", "-c", sql)
    assert text.splitlines()[1] == "long text of \\x1b[31m many words,b,12345678" and "1 row; free" in text
    code, text = on_a_terminal(str(schema), "-c", "SELECT \x1b[31m FROM person")
    assert code == 1 and "\x1b" not in text


@pytest.mark.slow
def test_a_check_shows_how_far_it_is(schema: Path) -> None:
    code, text = on_a_terminal("check", str(schema), "--prepare")
    assert code == 0 and "ledger: 0 charges, whole" in text
    assert "writing person_year" in text and "[####" in text
    code, text = on_a_terminal("check", str(schema), "--prepare", TERM="dumb")
    assert text.startswith("ledger: 0 charges, whole")


# --- looking at the budget ----------------------------------------------------------------------------------------


def test_the_budget_in_sql(schema: Path) -> None:
    dpsql(str(schema), "-c", "SELECT COUNT(*) AS n FROM person")
    result = dpsql(str(schema), *TABLE, "-c", "SHOW BUDGET", "-c", "SELECT id, statement FROM dpsql.ledger")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["holder", "accounting", "window", "epsilon"]
    assert lines[2].split()[:2] == ["dataset", "auto"] and lines[3].startswith("1 row; free; remaining: epsilon 3.9")
    assert lines[6].split(maxsplit=1) == ["1", "SELECT COUNT(*) AS n FROM person"]
    assert refused(dpsql(str(schema), "-c", "SELECT * FROM dpsql.budgett"), "105", 1).endswith("dpsql.budget?")


def test_the_budget_as_json(schema: Path) -> None:
    dpsql(str(schema), "-c", "SELECT COUNT(*) AS n FROM person")
    result = dpsql("budget", str(schema), "--json", "--plot")
    found = json.loads(result.stdout)
    assert found["budget"][0]["exact"]["spent"]["epsilon"] == "1/10"
    assert found["ledger"][0]["statement"] == "SELECT COUNT(*) AS n FROM person"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_budget_over_time(schema: Path, encoding: str) -> None:
    assert "added up" not in dpsql("budget", str(schema), "--plot").stdout
    for site in (1, 2, 3):
        dpsql(str(schema), "-c", f"SELECT COUNT(*) FROM person WHERE site = {site}")
    assert "added up" not in dpsql("budget", str(schema)).stdout
    result = dpsql_alone("budget", str(schema), "--plot", COLUMNS="40", NO_COLOR="1", PYTHONIOENCODING=encoding)
    assert result.returncode == 0, result.stderr
    title, *lines = result.stdout.rstrip().split("\n\n")[-1].splitlines()
    assert title == "epsilon charged, added up"
    assert max(map(len, lines)) <= 40 and lines[0].startswith("0.3 ")
    assert "\x1b" not in result.stdout and result.stdout.isascii() == (encoding == "ascii")


def test_check_verifies_the_ledger(schema: Path) -> None:
    dpsql(str(schema), "-c", "SELECT COUNT(*) AS n FROM person")
    checked = dpsql("check", str(schema))
    assert checked.returncode == 0 and checked.stdout.startswith("ledger: 1 charge, whole\n")
    with contextlib.closing(sqlite3.connect(schema.parent / "randhie.ledger")) as edited:
        edited.execute("UPDATE charge SET statement = 'SELECT 1'")
        edited.commit()
    refused(dpsql("check", str(schema)), "705", 4)


# --- help and completion ----------------------------------------------------------------------------------------------------


def test_help_of_everything_and_of_one_verb() -> None:
    assert dpsql("help").stdout == dpsql("--help").stdout
    assert "exit codes" in dpsql("help").stdout
    for verb in (*VERBS, *SERVING):
        shown = dpsql("help", verb)
        assert shown.returncode == 0 and shown.stdout.startswith(f"usage: dpsql {verb}")
    assert "write one of init, check" in refused(dpsql("help", "chek"), "802", 2)
    assert re.fullmatch(r"dpsql \d+\.\d+\.\d+\n", dpsql("--version").stdout)


COMPLETED = [
    (["dpsql", "pra"], "practice"),
    (["dpsql", "tune", "--p"], "--plot"),
    (["dpsql", "x.toml", "--mode", "jsonl"], "jsonl"),
    (["dpsql", "x.toml", "--acc"], "--accuracy"),
    (["dpsql", "help", "ref"], "refresh"),
    (["dpsql", "completion", "f"], "fish"),
]


@pytest.mark.parametrize(("words", "completed"), COMPLETED)
def test_bash_completes(words: list[str], completed: str) -> None:
    asked = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _dpsql; echo ${{COMPREPLY[@]}}"
    text = dpsql("completion", "bash").stdout + asked
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.split() == [completed]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_names_every_verb_and_option(shell: str) -> None:
    text = dpsql("completion", shell).stdout
    for word in (
        *VERBS,
        *SERVING,
        *HELPING,
        *MODES,
        *(option.removeprefix("--") for option in OPTIONS),
        "prepare",
        "failures",
    ):
        assert word in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_another_shell_is_refused() -> None:
    assert "write dpsql completion bash | zsh | fish" in refused(dpsql("completion", "tcsh"), "802", 2)
