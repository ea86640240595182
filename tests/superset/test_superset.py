"""Apache Superset itself, started by the example's script from nothing and driven in headless Chromium.

Takes about four minutes, most of it installing; CI runs it. DPSQL_SUPERSET_FOLDER keeps the folder, and with it the environment, for
the next run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import dpsql

pytest.importorskip("selenium", reason="drives a browser")

from tests.superset.browser import CHROMIUM, DRIVER, Browser
from tests.support.copies import unused

pytestmark = [
    pytest.mark.superset,
    pytest.mark.skipif(
        not CHROMIUM or not DRIVER, reason="needs chromium and chromedriver, of Debian's chromium-driver"
    ),
]
ROOT = Path(__file__).parents[2]
CHARTS = 12
VIEWERS, FILTERS = 3, 50
GOOD = "SELECT site, COUNT(*) AS n FROM person WHERE income > 5000 GROUP BY site"


@dataclass(frozen=True, slots=True)
class Running:
    """The example, up and running in a folder of its own."""

    folder: Path
    address: str
    password: str

    @property
    def schema(self) -> Path:
        return self.folder / "randhie" / "schema.toml"

    def spent(self) -> float:
        with dpsql.connect(self.schema, analyst="admin") as connection:
            return float(connection.execute("SELECT spent_epsilon FROM dpsql.budget").fetchone()[0])

    def statements(self) -> list[dict[str, object]]:
        """Superset's statements, with their prices or refusals."""
        lines = (self.folder / "statements.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


class Clock:
    """The time that each step took."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.said: list[str] = []

    def lap(self, what: str) -> None:
        now = time.monotonic()
        self.said.append(f"{what} {now - self._last:.0f} s")
        self._last = now


@contextmanager
def started(folder: Path, clock: Clock) -> Iterator[Running]:
    """`python examples/superset/start.py`, stopped as Ctrl-C stops it."""
    for old in ("randhie", "clinic", "superset.db", "statements.jsonl"):
        shutil.rmtree(folder / old) if (folder / old).is_dir() else (folder / old).unlink(missing_ok=True)
    command = [
        sys.executable,
        str(ROOT / "examples/superset/start.py"),
        "--folder",
        str(folder),
        "--password",
        "a password",
    ]
    script = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ["environment"]
    assert script.stdout is not None
    try:
        for line in script.stdout:
            clock.lap(said[-1].strip())
            said.append(line)
            if found := re.match(r"(http://127\.0\.0\.1:\d+)/\S+  user: admin  password: (.*?)  \(Ctrl-C", line):
                yield Running(folder, found[1], found[2])
                break
        else:
            pytest.fail("".join(said))
    finally:
        script.send_signal(signal.SIGINT)
        assert script.wait(60) == 0


def refusal(schema: Path, sql: str) -> str:
    """The first line of what dpsql itself says of a statement."""
    with dpsql.connect(schema, analyst="superset") as connection, pytest.raises(dpsql.Error) as raised:
        connection.execute(sql)
    return str(raised.value).splitlines()[0]


def test_a_dashboard_that_refreshes_all_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = os.environ.get("DPSQL_SUPERSET_FOLDER")
    folder = Path(kept or tmp_path / "superset")
    clock = Clock()
    # not in tmp_path, which is swept: they are looked at after the run
    pictures = Path(tempfile.mkdtemp(prefix="dpsql-superset-"))
    with started(folder, clock) as superset:
        window = Browser(superset.address, tmp_path / "profile", pictures)
        try:
            window.log_in("admin", superset.password)
            clock.lap("logged in")
            the_dashboard(superset, window)
            clock.lap("dashboard")
            sql_lab(superset, window)
            clock.lap("SQL Lab and Samples")
            a_time_line(superset, window)
            another_budget(superset, window)
            the_engine_fails(superset, window)
            clock.lap("errors")
        finally:
            window.picture("the end")
            window.quit()
            clock.lap("the rest")
            with capsys.disabled():
                sys.stdout.write(f"\nscreenshots: {pictures}; {', '.join(clock.said)}\n")
        assert kinds(superset.statements()) == {"free", "charged once", "stored", "refused with a fix"}
    if not kept:
        shutil.rmtree(folder)


def the_dashboard(superset: Running, window: Browser) -> None:
    """Opened, filtered, unfiltered and opened again, as three viewers do: all of it is the price of the cubes, bought at the start."""
    bought = superset.spent()
    assert bought
    with settled(superset, window, "dashboard", CHARTS + 2):
        window.open("/superset/dashboard/randhie/")
    with settled(superset, window, "filtered", CHARTS - 2):
        window.choose_filter("1")
    with settled(superset, window, "unfiltered", CHARTS - 2):
        window.clear_filters()
    for _ in range(VIEWERS - 1):
        with settled(superset, window, "opened again", CHARTS + 2):
            window.open("/superset/dashboard/randhie/")
    everything_chosen(window)
    assert superset.spent() == bought
    # the cubes are the charge
    assert kinds(superset.statements()) == {"free", "stored", "charged once"}
    what_no_cube_answers(window)
    assert superset.spent() == bought


def everything_chosen(window: Browser) -> None:
    """Fifty choices of the filters and clicks, in the tile and the table of one mean: the same number in both."""
    datasets = {one["table_name"]: one["id"] for one in window.api("GET", "/api/v1/dataset/")["result"]}
    source = {"id": datasets["years"], "type": "table"}
    choices = [(site, female) for site in range(1, 7) for female in (True, False)][: FILTERS // 5]
    for site, female in choices:
        filters = [{"col": "site", "op": "IN", "val": [site]}, {"col": "female", "op": "IN", "val": [female]}]
        queries = [{"columns": ["year"], "metrics": ["visits", "visits ± 95 %"], "filters": filters}]
        for year in range(1, 6):
            click = {"col": "year", "op": "IN", "val": [year]}
            queries.append({"columns": [], "metrics": ["visits"], "filters": [*filters, click]})
        asked = window.api("POST", "/api/v1/chart/data", {"datasource": source, "queries": queries})["result"]
        table, *tiles = (one["data"] for one in asked)
        assert {row["year"]: row["visits"] for row in table} == {
            i: tile[0]["visits"] for i, tile in enumerate(tiles, 1)
        }


def what_no_cube_answers(window: Browser) -> None:
    """The chart shows what dpsql says of it."""
    median = {"expressionType": "SQL", "sqlExpression": "MEDIAN(income)", "label": "median"}
    datasets = {one["table_name"]: one["id"] for one in window.api("GET", "/api/v1/dataset/")["result"]}
    params = {"viz_type": "table", "query_mode": "aggregate", "groupby": ["site"], "metrics": [median]}
    chart = {
        "slice_name": "Medians", "viz_type": "table", "datasource_id": datasets["people"], "datasource_type": "table",
        "params": json.dumps({"datasource": f"{datasets['people']}__table", **params}),
    }  # fmt: skip
    made = window.api("POST", "/api/v1/chart/", chart)["id"]
    window.open(f"/explore/?slice_id={made}")
    line = "DPSQL-505: nothing is to be bought (buy=off), and nothing that is stored answers this; leave buy=off out"
    window.until(lambda: any(line in error for error in window.errors()))
    window.picture("no cube")


@contextmanager
def settled(superset: Running, window: Browser, name: str, statements: int) -> Iterator[None]:
    """Afterwards so many more statements were answered, and every chart shows something; of which a picture is taken."""
    before = len(superset.statements())
    yield
    window.until(lambda: len(superset.statements()) >= before + statements)
    window.until(lambda: window.drawn(CHARTS))
    window.picture(name)
    assert window.errors() == []


def sql_lab(superset: Running, window: Browser) -> None:
    rows, errors = window.ask(GOOD)
    window.picture("SQL Lab")
    assert errors == [] and len(rows) == 12 + 6
    price = window.api(
        "POST", "/api/v1/sqllab/estimate/", {"database_id": 1, "sql": "SELECT MEDIAN(income) FROM person WHERE female"}
    )
    assert price["result"][0]["Price"] == "epsilon 0.1, delta 0"
    for sql in (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) MEDIAN(income) FROM person",
        "SELECT * FROM person",
        "SELECT COUNT(*) FROM person WHERE person_id = 7",
        "SELECT AVG(incom) FROM person",
    ):
        refused(superset, window, sql, refusal(superset.schema, sql))
    assert re.match(r"Error: DPSQL-30[15]: .* rows of people[^\n]*\Z", window.samples(1))
    window.picture("Samples")


def refused(superset: Running, window: Browser, sql: str, line: str, database: int = 1) -> None:
    """SQL Lab shows this line."""
    rows, errors = window.ask(sql, database)
    window.picture(line[:9])
    assert rows == [] and line in errors


def a_time_line(superset: Running, window: Browser) -> None:
    """Data with a time, added as a user adds it: a database, a dataset, a chart by month within a range."""
    unused(ROOT / "tests/notes/clinic", superset.folder / "clinic")
    uri = f"dpsql:///{superset.folder}/clinic/schema.toml"
    database = window.api("POST", "/api/v1/database/", {"database_name": "clinic", "sqlalchemy_uri": uri})["id"]
    table = {"database": database, "schema": "main", "table_name": "visit"}
    dataset = window.api("POST", "/api/v1/dataset/", table)["id"]
    seen = {
        "expressionType": "SQL",
        "columnType": "BASE_AXIS",
        "sqlExpression": "seen",
        "label": "seen",
        "timeGrain": "P1M",
    }
    within = {"col": "seen", "op": "TEMPORAL_RANGE", "val": "2020-02-01 : 2020-06-01"}
    query = {"columns": [seen], "metrics": ["count"], "filters": [within], "extras": {"time_grain_sqla": "P1M"}}
    asked = {"datasource": {"id": dataset, "type": "table"}, "queries": [query], "form_data": {"x_axis": "seen"}}
    answer = window.api("POST", "/api/v1/chart/data", asked)["result"][0]
    assert answer["error"] is None and answer["rowcount"] >= 4
    assert "DATE_TRUNC('month', seen)" in answer["query"]
    assert "seen >= TIMESTAMP '2020-02-01 00:00:00.000000'" in answer["query"]


def another_budget(superset: Running, window: Browser) -> None:
    """A copy of the data with a ledger of its own, asked by logins; after the first answer its budget is used up."""
    schema = unused(superset.schema.parent, superset.folder / "logins") / superset.schema.name
    schema.write_text(schema.read_text().partition("[analysts.")[0])
    ledger = schema.with_name("logins.ledger")
    uri = f"dpsql:///{schema}?ledger={ledger}"
    made = {"database_name": "logins", "sqlalchemy_uri": uri, "impersonate_user": True, "expose_in_sqllab": True}
    database = window.api("POST", "/api/v1/database/", made)["id"]
    rows, errors = window.ask("SELECT female, COUNT(*) AS n FROM person GROUP BY female", database)
    assert errors == [] and rows
    with dpsql.connect(schema, analyst="admin", ledger=ledger) as connection:
        assert connection.execute("SELECT COUNT(*) FROM dpsql.ledger WHERE analyst = 'admin'").fetchone() == (1,)
        with pytest.raises(dpsql.OperationalError, match=r"\ADPSQL-501"):
            while True:
                connection.execute("/* dpsql: fresh */ SELECT COUNT(*) FROM person")
        with pytest.raises(dpsql.OperationalError) as raised:
            connection.execute(sql := "SELECT AVG(income) FROM person")
    refused(superset, window, sql, str(raised.value).splitlines()[0], database)


def the_engine_fails(superset: Running, window: Browser) -> None:
    """The file with the data cannot be read any more."""
    (superset.schema.parent / "person.parquet").write_bytes(b"not what it was")
    with pytest.raises(dpsql.OperationalError, match=r"\ADPSQL-707") as raised:
        dpsql.connect(superset.schema, analyst="superset")
    refused(superset, window, "SELECT AVG(income) FROM person", str(raised.value).splitlines()[0])


def kinds(statements: list[dict[str, object]]) -> set[str]:
    """The number of statements by outcome; all but the first four are faults."""
    paid: set[object] = set()
    found = set()
    for statement in statements:
        found.add(kind(statement, statement["sql"] in paid))
        if statement.get("epsilon"):
            paid.add(statement["sql"])
    return found


def kind(statement: dict[str, object], paid: bool) -> str:
    match statement:
        case {"code": _, "hint": str()}:
            return "refused with a fix"
        case {"code": code}:
            return f"{code} without a fix"
        case {"epsilon": 0.0, "stored": True}:
            return "stored"
        case {"epsilon": 0.0}:
            return "free"
    return "charged again" if paid else "charged once"
