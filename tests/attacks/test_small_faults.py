"""Faults that were small: each with the kind that it is of."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.clients.cli.main import main
from dpsql.core.errors import Error
from dpsql.planner.grammar import ALLOWED_NAMES
from dpsql.planner.options import FLAGS, NAMES
from dpsql.planner.parse import parse
from dpsql.schema.model import Analyst
from dpsql.schema.toml import read_schema
from dpsql.session.opening import find_analyst, open_session
from dpsql.session.refreshing import BUYER
from dpsql.session.session import Session
from tests.attacks.observing import ordinary
from tests.support import clinic
from tests.support.opened import clinic_data
from tests.support.planning import compiled_by

STATEMENTS = [
    "SELECT COUNT(*) FROM patient",
    "SELECT SUM(age), AVG(score), COUNT(*) FROM patient",
    "SELECT site, COUNT(*) FROM patient GROUP BY site",
    "SELECT note, COUNT(*), SUM(age) FROM patient GROUP BY note",
    "SELECT year, SUM(days), SUM(cost) FROM visit GROUP BY year",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient) AND score > (SELECT AVG(score) FROM patient)",
    "SELECT (SELECT COUNT(*) FROM patient) + (SELECT SUM(days) FROM visit)",
    "SELECT MEDIAN(age), MODE(city), MAX(income) FROM patient",
    "SELECT VAR_SAMP(age), CORR(age, weight) FROM patient",
    "SELECT dp_sum(cost, bounds := 'auto'), COUNT(DISTINCT tag) FROM visit",
    "SELECT dp_randomized_response(female, 1.0) FROM patient",
    "SELECT dp_clamped(income), dp_low(COUNT(*)) FROM patient",
]
CONSTANTS = ["3", "0", "-2.5", "1", "-1", "1e3", "1e300", "NULL", "9223372036854775807", "0.000001", "true"]
OVER = [
    "SUM({})",
    "AVG({})",
    "dp_sum({}, bounds := 'auto')",
    "MEDIAN({})",
    "VAR_SAMP({})",
    "COUNT(DISTINCT {})",
    "MAX({})",
]


@pytest.fixture
def session() -> Iterator[Session]:
    opened = clinic_data(clinic.schema_text(), ordinary()).session()
    yield opened
    opened.close()


def told(problem: Error) -> str:
    assert not problem.code.startswith("DPSQL-9"), problem
    return problem.code


# --- no price is an invariant's end -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["auto", "zcdp", "sequential"])
def test_every_price_is_answered_or_refused(tmp_path: Path, accounting: str) -> None:
    """Whatever the price and the mechanism: a plan, or a refusal that says why. No division by an error of nothing, no 9xx."""
    chance = random.Random(accounting)
    clinic.write(tmp_path, ordinary())
    session = open_session(clinic.schema(tmp_path, accounting=accounting), None, ":memory:")
    for sql in STATEMENTS:
        for _ in range(6):
            price = f"epsilon={10 ** chance.uniform(-15, 5.99):.6g}, mechanism={chance.choice(['laplace', 'gaussian', 'auto'])}"
            delta = chance.choice(["", ", delta=0.3", ", delta=1e-12", ", delta=0"])
            try:
                session.explain(f"/* dpsql: {price}{delta} */ {sql}")
            except Error as problem:
                assert told(problem)[6] in "125", (price, sql, problem)
    session.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", ["auto", "laplace", "gaussian"])
def test_the_largest_prices_run(session: Session, mechanism: str) -> None:
    """A price at which no mechanism has an error left still gets one of them."""
    for sql in STATEMENTS[:6]:
        session.execute(f"/* dpsql: epsilon=40000, mechanism={mechanism} */ {sql}")


@pytest.mark.few(1)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_aggregates_of_constants(session: Session, constant: str) -> None:
    for over in OVER:
        for table in ("patient", "visit"):
            try:
                session.execute(f"/* dpsql: epsilon=1000 */ SELECT {over.format(constant)} FROM {table}")
            except Error as problem:
                assert told(problem)[6] in "12", (over, constant, problem)
    assert session.execute("/* dpsql: epsilon=1000 */ SELECT dp_sum(3, bounds := 'auto') FROM patient").rows == [(36,)]


# --- what is decidable is decided before the charge ---------------------------------------------------------------

MIXED = [
    "SELECT AVG(age) FROM patient UNION ALL SELECT APPROX_TOP_K(city, 2) FROM patient",
    "SELECT APPROX_TOP_K(city, 2) FROM patient EXCEPT SELECT MODE(city) FROM patient",
    "SELECT APPROX_TOP_K(city, 2) = 5.0 FROM patient",
    "SELECT COUNT(*) FROM patient HAVING APPROX_TOP_K(city, 2) = MODE(city)",
    "SELECT CASE WHEN COUNT(*) > 0 THEN APPROX_TOP_K(city, 2) ELSE MODE(city) END FROM patient",
    "SELECT site, MODE(city) AS m FROM patient GROUP BY site ORDER BY m = DATE '2000-01-01'",
]


@pytest.mark.parametrize("sql", MIXED)
def test_what_cannot_be_post_processed_is_refused_before_it_is_charged(session: Session, sql: str) -> None:
    before = session.execute("SELECT COUNT(*) FROM dpsql.ledger").rows
    try:
        session.execute(sql)
    except Error as problem:
        assert problem.code < "DPSQL-7", problem
        assert session.execute("SELECT COUNT(*) FROM dpsql.ledger").rows == before


def test_a_statement_of_typical_values_leaves_no_rows_behind(session: Session) -> None:
    """A trial is not the answer: groups nobody selected, and groups of nobody."""
    rows = session.execute("/* dpsql: epsilon=0.001 */ SELECT note, COUNT(*) FROM patient GROUP BY note").rows
    assert ("x", 1) not in rows
    assert len(session.execute("SELECT site, COUNT(*) FROM patient GROUP BY site").rows) == 3


# --- the cap on listed groups -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT site, city, COUNT(*) FROM patient GROUP BY site, city",
        "SELECT age, COUNT(*) FROM patient WHERE age BETWEEN 20 AND 40 GROUP BY age",
        "SELECT drug, label, COUNT(*) FROM item JOIN drug USING (drug) GROUP BY drug, label",
        "SELECT site, COUNT(*) FROM patient WHERE site IN (SELECT drug FROM drug) GROUP BY site",
        "SELECT d.label, year, COUNT(*) FROM visit CROSS JOIN (SELECT DISTINCT label FROM drug) AS d GROUP BY d.label, year",
    ],
)
def test_304_no_list_makes_more_groups_than_the_owner_allows(tmp_path: Path, sql: str) -> None:
    """The cap holds of declared keys at planning, and of keys listed by public rows before the charge: never one listed group more."""
    clinic.write(tmp_path, ordinary())
    schema = clinic.schema(tmp_path)
    for cap in (1, 2, 3, 5, 12, 100):
        capped = replace(schema, privacy=replace(schema.privacy, max_cells=cap))
        session = open_session(capped, None, ":memory:")
        try:
            shown = len(session.execute(sql).rows)
            assert shown <= cap, (cap, sql)
        except Error as problem:
            assert told(problem) in ("DPSQL-304", "DPSQL-402", "DPSQL-303"), problem
            assert session.execute("SELECT COUNT(*) FROM dpsql.ledger").rows == [(0,)]
        session.close()


LABELS = "SELECT l, COUNT(*) FROM item JOIN (SELECT drug, label || 'x' AS l FROM drug) AS d USING (drug) GROUP BY l"
CUBE = "SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)"


@pytest.mark.parametrize(("sql", "keys"), [(CUBE, "declared"), (LABELS, "listed")])
def test_304_is_said_where_keys_must_have_a_list(tmp_path: Path, sql: str, keys: str) -> None:
    """Of what is added up over all groups, and of what public rows list; at as many groups as are allowed it is answered."""
    clinic.write(tmp_path, ordinary())
    schema = clinic.schema(tmp_path)
    cap = 2
    session = open_session(replace(schema, privacy=replace(schema.privacy, max_cells=cap)), None, ":memory:")
    with pytest.raises(Error, match=f"the {keys} keys make more than {cap} groups") as refused:
        session.execute(sql)
    assert refused.value.code == "DPSQL-304"
    assert session.execute("SELECT COUNT(*) FROM dpsql.ledger").rows == [(0,)]
    session.close()
    session = open_session(replace(schema, privacy=replace(schema.privacy, max_cells=cap + 2)), None, ":memory:")
    assert len(session.execute(sql).rows) == cap + 1 + (sql == CUBE)
    session.close()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("sql", "cap", "selected"),
    [
        ("SELECT site, COUNT(*) FROM patient GROUP BY site", 2, (0,)),
        ("SELECT site FROM patient GROUP BY site", 2, (0,)),
        ("SELECT label, COUNT(*) FROM item JOIN drug USING (drug) GROUP BY label", 2, (0,)),
        # age alone has the longest list, and the others keep theirs
        ("SELECT site, age, city, COUNT(*) FROM patient GROUP BY ALL", 100, (1,)),
    ],
)
def test_keys_with_more_groups_than_are_allowed_are_selected(
    tmp_path: Path, sql: str, cap: int, selected: tuple[int, ...]
) -> None:
    """A threshold stands before them, delta is paid for it, and one more group allowed gives the list back."""
    clinic.write(tmp_path, ordinary())
    schema = clinic.schema(tmp_path)
    session = open_session(replace(schema, privacy=replace(schema.privacy, max_cells=cap)), None, ":memory:")
    (part,) = compiled_by(session, parse(sql)).releases
    block = part.release.limited.block
    assert tuple(i for i in range(len(block.keys)) if block.is_selected(i)) == selected
    assert part.release.selection is not None
    assert part.release.loss.delta > 0
    # four people at most share a site, and fewer the rest of it: at this delta one passes once in 10^10 runs
    assert session.execute(f"/* dpsql: delta=1e-12 */ {sql}").rows == []
    session.close()
    session = open_session(schema, None, ":memory:")
    assert all(one.release.selection is None for one in compiled_by(session, parse(sql)).releases)
    session.close()


# --- delta = 0 ----------------------------------------------------------------------------------------------------


def test_delta_0_is_a_price_for_what_spends_none(session: Session) -> None:
    for sql in ("SELECT COUNT(*) FROM patient", "SELECT site, AVG(age), MEDIAN(income) FROM patient GROUP BY site"):
        for mechanism in ("laplace", "auto"):
            answer = session.execute(f"/* dpsql: delta=0, mechanism={mechanism}, fresh */ {sql}")
            assert answer.receipt.loss.delta == 0 < answer.receipt.loss.epsilon
    session.execute("SET dp_delta = 0")
    assert session.execute("SELECT SUM(age) FROM patient").receipt.loss.delta == 0


@pytest.mark.parametrize(
    ("sql", "mechanism", "word"),
    [
        ("SELECT note, COUNT(*) FROM patient GROUP BY note", "laplace", "domain"),
        ("SELECT note, COUNT(*) FROM patient GROUP BY note", "auto", "domain"),
        ("SELECT COUNT(*) FROM patient", "gaussian", "mechanism=laplace"),
    ],
)
def test_delta_0_is_refused_where_something_spends_delta(session: Session, sql: str, mechanism: str, word: str) -> None:
    with pytest.raises(Error) as refused:
        session.execute(f"/* dpsql: delta=0, mechanism={mechanism} */ {sql}")
    assert refused.value.code == "DPSQL-104" and word in str(refused.value)


def test_delta_0_in_a_schema(tmp_path: Path) -> None:
    clinic.write(tmp_path, ordinary())
    path = tmp_path / "patient.toml"
    clinic.schema(tmp_path)
    path.write_text(
        path.read_text().replace("query = { epsilon = 1.0, delta = 1e-3 }", "query = { epsilon = 1.0, delta = 0 }")
    )
    schema = read_schema(path)
    assert schema.privacy.query.delta == 0 < schema.privacy.caps.delta
    opened = open_session(schema, None, ":memory:")
    assert opened.execute("SELECT COUNT(*) FROM patient").receipt.loss.delta == 0
    assert (
        opened.execute("/* dpsql: delta=1e-3 */ SELECT note, COUNT(*) FROM patient GROUP BY note").receipt.loss.delta
        > 0
    )
    opened.close()


def test_a_delta_of_1_or_below_0_is_none() -> None:
    for text in ("1", "1.5", "-0.1", "0x", "", "."):
        with pytest.raises(Error, match="DPSQL-104"):
            parse(f"/* dpsql: delta={text} */ SELECT 1")


# --- messages -----------------------------------------------------------------------------------------------------


def test_no_hint_names_what_was_written(session: Session) -> None:
    """Whatever was misused: "did you mean" it is no help."""
    wrong = [f"SET dp_{name} = 1" for name in FLAGS] + [f"RESET dp_{name}" for name in (*FLAGS, *NAMES)]
    wrong += [f"SELECT age FROM patient WHERE {name}(age) > 1" for name in ALLOWED_NAMES]
    wrong += [f'SELECT "{name.upper()}"(age) FROM patient' for name in ALLOWED_NAMES]
    for sql in wrong:
        try:
            session.execute(sql)
        except Error as problem:
            hint = (problem.hint or "").lower()
            for name in (*ALLOWED_NAMES, *FLAGS):
                written = name in sql.lower().replace('"', "")
                assert not (written and f"did you mean {name}" in hint), (sql, problem)


def test_803_helps_in_a_shell_too(tmp_path: Path) -> None:
    schema = replace(clinic.schema(tmp_path), analysts=(Analyst("ada"),))
    with pytest.raises(Error) as raised:
        find_analyst(schema, "eve")
    assert raised.value.code == "DPSQL-803" and "--analyst" in str(raised.value) and "ada" not in str(raised.value)


@pytest.mark.parametrize("name", [BUYER.name, "dpsql owner", "dpsql anything"])
def test_nobody_asks_under_a_name_of_dpsqls_own(tmp_path: Path, name: str) -> None:
    """The spending of a refresh is counted by its name, and cubes of such names are the owner's: a label is none of them."""
    schema = clinic.schema(tmp_path)
    assert schema.analysts is None and find_analyst(schema, "eve").name == "eve"
    with pytest.raises(Error, match="DPSQL-803: names that begin"):
        find_analyst(schema, name)


def test_each_schema_mistake_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('[dataset]\nname = "x"\nsorce = "."\n[privacy]\nepsilon = "four"\n[guard]\nmode = "blok"\n')
    with pytest.raises(Error) as raised:
        read_schema(path)
    lines = [
        line.partition("mistakes: ")[2] or line.partition(f"{path}: ")[2] for line in str(raised.value).splitlines()
    ]
    assert len(lines) == len(set(lines)) > 2


def test_a_plan_in_a_pipe_is_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clinic.write(tmp_path, ordinary())
    clinic.schema(tmp_path)
    asked = [
        str(tmp_path / "patient.toml"),
        "--ledger",
        ":memory:",
        "-c",
        'EXPLAIN SELECT COUNT(*) AS "a, b" FROM patient',
    ]
    assert main(asked) == 0
    plain = capsys.readouterr().out
    assert plain.startswith("release_0: ") and '""' not in plain and '\n"' not in plain
    assert main([*asked, "--mode", "csv"]) == 0
    assert capsys.readouterr().out.startswith("plan\n")


# --- drafts of a killed preparation -------------------------------------------------------------------------------

KILLED = """
import sys, time
from pathlib import Path
from dpsql.engines import snapshot
from dpsql.schema.toml import read_schema
with snapshot.draft(Path(sys.argv[1]), read_schema(sys.argv[2])) as folder:
    (folder / "patient.parquet").write_bytes(b"rows of people")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_the_draft_of_a_killed_preparation_goes_at_the_next_check(tmp_path: Path) -> None:
    """It holds people's rows. One that is being written stays."""
    clinic.write(tmp_path, ordinary())
    clinic.schema(tmp_path)
    schema, ledger = str(tmp_path / "patient.toml"), str(tmp_path / "clinic.ledger")
    assert main(["check", schema, "--ledger", ledger, "--prepare"]) == 0
    (root,) = {path.parent.parent for path in tmp_path.rglob("*.parquet")}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(root), schema], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    assert main(["check", schema, "--ledger", ledger]) == 0
    assert left.is_dir(), "somebody writes it"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert left.is_dir()
    assert main(["check", schema, "--ledger", ledger]) == 0
    assert not left.exists() and list(root.rglob("*.parquet"))
