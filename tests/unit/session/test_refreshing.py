"""[refresh]: what a refresh buys of a version, in which order and for how much; who is answered free then."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.books import Books
from dpsql.accounting.ledger import Ledger
from dpsql.clients.cli.main import main
from dpsql.core.errors import Error, SchemaError, error
from dpsql.dataset import owner
from dpsql.dataset.opening import open_dataset
from dpsql.mechanisms.prices import nominal
from dpsql.schema.toml import read_schema
from dpsql.schema.write import write
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.refreshing import BUYER, Followed, buy
from dpsql.session.session import Session
from tests.unit.engines.clinic_files import HEAD, TABLES, clinic, declare

PEOPLE, VISITS, COST = "SELECT COUNT(*) FROM person", "SELECT COUNT(*) FROM visit", "SELECT SUM(cost) FROM visit"
PRICE, MOST = Fraction(1, 10), 0.2
"""[nats] of each, and of what one version may be charged."""


def declared(*statements: str, epsilon: float = MOST, extra: str = "") -> str:
    listed = json.dumps(list(statements))
    plain = HEAD.format(source=".")
    text = f'{plain}{extra}[guard]\nmode = "off"\n[refresh]\nepsilon = {epsilon}\nstatements = {listed}\n'
    return text + TABLES.format(suffix=".csv") + "\n[analysts.ann]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    clinic(tmp_path, "csv")
    listed(tmp_path, VISITS, COST, PEOPLE)
    with ledger(tmp_path) as held:
        owner.check(read_schema(tmp_path / "schema.toml"), held)
    yield tmp_path


def listed(folder: Path, *statements: str, epsilon: float = MOST) -> None:
    declare(folder, declared(*statements, epsilon=epsilon))


def ledger(folder: Path) -> closing[Ledger]:
    return closing(Ledger.open(folder / "ledger", ledger_identity(read_schema(folder / "schema.toml"))))


def bought(folder: Path, told: Callable[[str], None] = lambda text: None) -> list[object]:
    """The state of each listed statement after a refresh."""
    with ledger(folder) as held:
        owner.refresh(read_schema(folder / "schema.toml"), held)
        return [one.fields["state"] for one in buy(read_schema(folder / "schema.toml"), held, told).purchases]


def charged(folder: Path) -> dict[str, Fraction]:
    """The charges of refreshes, by version."""
    found: dict[str, Fraction] = {}
    with ledger(folder) as held:
        for entry in held.history(BUYER.name):
            found[entry.version] = found.get(entry.version, Fraction(0)) + nominal(entry.loss)
    return found


def more(folder: Path) -> None:
    with open(folder / "visit.csv", "a") as file:
        file.write("3,7.00\n")


def test_what_is_listed_is_bought_in_its_order_as_far_as_it_fits(folder: Path) -> None:
    assert bought(folder) == ["bought", "bought", "left"]
    assert list(charged(folder).values()) == [2 * PRICE]
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger")) as session:
        assert [session.execute(sql).cached for sql in (VISITS, COST, PEOPLE)] == [True, True, False]


def test_a_statement_that_does_not_fit_leaves_room_for_the_next(folder: Path) -> None:
    listed(folder, f"/* dpsql: epsilon=0.175 */ {PEOPLE}", VISITS, f"/* dpsql: epsilon=0.025 */ {COST}")
    assert bought(folder) == ["bought", "left", "bought"]


def test_of_each_version_what_changed_is_bought_again_and_nothing_else(folder: Path) -> None:
    listed(folder, PEOPLE, VISITS)
    assert bought(folder) == ["bought", "bought"]
    assert bought(folder) == ["stored", "stored"]
    more(folder)
    assert bought(folder) == ["stored", "bought"]
    assert sorted(charged(folder).values()) == [PRICE, 2 * PRICE]


def spend_over_and_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Fraction:
    """The most that one version was charged where refreshes are killed, come again, and other statements are listed."""
    execute, turns = Session.execute, iter([True, False] * 20)

    def killed(session: Session, sql: str, *rest: object) -> object:
        execute(session, sql)
        if next(turns):
            raise KeyboardInterrupt
        return None

    with monkeypatch.context() as patched:
        patched.setattr(Session, "execute", killed)
        for again in ([VISITS, COST, PEOPLE], [f"{PEOPLE} WHERE ward = 1", VISITS, COST]):
            listed(folder, *again)
            for _ in range(3):
                try:
                    bought(folder)
                except KeyboardInterrupt:
                    continue
    return max(charged(folder).values())


def test_one_version_is_never_charged_more_than_declared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spend_over_and_over(folder, monkeypatch) == 2 * PRICE


@pytest.mark.slow
def test_a_refresh_that_forgets_what_was_charged_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Ledger, "history", lambda ledger, analyst=None, own=Ledger.history: [] if analyst else own(ledger)
    )
    monkeypatch.setattr(Books, "refusal_of_version", lambda *_: None)
    with pytest.raises(ValueError, match="empty"):
        spend_over_and_over(folder, monkeypatch)
    monkeypatch.undo()
    assert max(charged(folder).values()) > 2 * PRICE


def test_what_it_will_cost_is_told_before_anything_is_charged(folder: Path) -> None:
    told: list[str] = []

    def heard(text: str) -> None:
        told.append(text)
        assert charged(folder) == {}

    bought(folder, heard)
    assert told == [f"clinic: buys 2 statements, epsilon 0.2 together\nleft, epsilon 0.1: {PEOPLE}"]
    bought(folder, told.append)
    assert len(told) == 1, "nothing is bought, so nothing is said"


def test_what_is_told_and_charged_hangs_on_no_row(folder: Path, tmp_path: Path) -> None:
    found = []
    for name, person in (("with", ""), ("without", "3,")):
        place = tmp_path / name
        place.mkdir()
        clinic(place, "csv")
        listed(place, VISITS, f"{PEOPLE} WHERE income > 90", COST)
        for table in ("person", "visit"):
            lines = (place / f"{table}.csv").read_text().splitlines()
            kept = [line for line in lines if not person or not line.startswith(person)]
            (place / f"{table}.csv").write_text("\n".join([*kept, ""]))
        with ledger(place) as held:
            owner.check(read_schema(place / "schema.toml"), held)
        told: list[str] = []
        found.append((bought(place, told.append), told, list(charged(place).values())))
    assert found[0] == found[1] and found[0][0] == ["bought", "bought", "left"]


def test_a_statement_that_is_refused_does_not_keep_back_those_after_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed(folder, "SELECT COUNT(*) FROM nobody", VISITS)
    command = ["refresh", str(folder / "schema.toml"), "--ledger", str(folder / "ledger")]
    assert main(command) != 0
    shown = capsys.readouterr()
    assert shown.out == "clinic: buys 1 statement, epsilon 0.1 together\n" and "DPSQL-105" in shown.err
    assert main([*command, "--json"]) != 0
    states = [one["state"] for one in json.loads(capsys.readouterr().out)["statements"]]
    assert states == ["refused", "stored"]


def test_a_mistake_in_what_is_free_is_told(folder: Path) -> None:
    """It costs nothing and is not asked."""
    listed(folder, "SELECT nonsense", "SELECT 1")
    assert bought(folder) == ["refused", "stored"] and charged(folder) == {}


def test_the_budget_of_the_dataset_is_kept(folder: Path) -> None:
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger")) as session:
        for ward in range(1, 9):
            session.execute(f"/* dpsql: epsilon=0.5 */ {PEOPLE} WHERE income > {ward}")
    assert bought(folder)[:2] == ["refused", "refused"] and charged(folder) == {}


def test_a_schema_with_purchases_reads_back(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    assert schema.refresh is not None and schema.refresh.statements == (VISITS, COST, PEOPLE)
    declare(folder, write(schema))
    assert read_schema(folder / "schema.toml").refresh == schema.refresh


@pytest.mark.parametrize(
    "text, what",
    [
        (declared(), "a list of different texts"),
        (declared(PEOPLE, PEOPLE), "a list of different texts"),
        (declared(PEOPLE, epsilon=0), "a finite number above 0"),
        (declared(PEOPLE, extra="shared_answers = false\n"), "buys answers for nobody"),
        (declared(PEOPLE).replace("statements =", "# "), "statements is missing"),
    ],
)
def test_purchases_that_cannot_be(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        declare(tmp_path, text)


def test_without_the_section_nothing_is_bought(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    with ledger(folder) as held:
        assert buy(replace(schema, refresh=None), held) == Followed()


# --- cubes that are listed --------------------------------------------------------------------------------------------

CUBE = """CREATE PRIVATE CUBE wards OPTIONS (epsilon = 0.5, delta = 1e-9) AS
SELECT ward, COUNT(*), SUM(income) FROM person GROUP BY CUBE (ward)"""
TILES = (
    "SELECT ward, COUNT(*) FROM person GROUP BY ward",
    "SELECT AVG(income) FROM person",
    "SELECT COUNT(*) FROM person WHERE ward = 2",
)


@pytest.fixture
def cubed(folder: Path) -> Path:
    listed(folder, CUBE, *TILES, VISITS)
    return folder


def one_more(folder: Path) -> None:
    with open(folder / "person.csv", "a") as file:
        file.write("5,2,50,1990-01-01,Eve\n")


def answered(folder: Path, sql: str) -> bool:
    """True if an analyst is answered free, off the cube of the version that is read."""
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger")) as session:
        found = session.execute(sql)
        ((current,),) = session.execute("SELECT current FROM dpsql.cubes").rows
        return found.cached and any("read off the cube wards" in note for note in found.notes) and current is True


def test_one_cube_answers_what_stands_behind_it(cubed: Path) -> None:
    told: list[str] = []
    assert bought(cubed, told.append) == ["bought", *["stored"] * 3, "bought"]
    (text,) = told
    assert text.startswith("clinic: buys 1 cube and 1 statement, epsilon 0.1") and "read off them, free: 3" in text
    assert all(answered(cubed, sql) for sql in TILES)
    with ledger(cubed) as held:
        assert len(list(held.history(BUYER.name))) == 2


def test_the_cube_of_each_version_takes_the_name(cubed: Path) -> None:
    before = (cubed / "person.csv").read_text()
    bought(cubed)
    one_more(cubed)
    assert bought(cubed) == ["bought", *["stored"] * 3, "bought"], "the visits lead to people whose rows changed"
    assert all(answered(cubed, sql) for sql in TILES)
    assert bought(cubed) == ["stored"] * 5
    (cubed / "person.csv").write_text(before)
    assert bought(cubed) == ["stored"] * 5, "the first version again, with its cube under its name"
    assert all(answered(cubed, sql) for sql in TILES)


def test_what_would_be_read_off_a_cube_that_does_not_fit_has_its_price(cubed: Path) -> None:
    listed(cubed, CUBE, *TILES, epsilon=0.05)
    assert bought(cubed) == ["left"] * 4


def test_what_stands_before_a_cube_is_bought_itself(cubed: Path) -> None:
    listed(cubed, TILES[0], CUBE, TILES[1], epsilon=1)
    assert bought(cubed) == ["bought", "bought", "stored"]


@pytest.mark.parametrize(
    "sql", [f"/* dpsql: cube=off */ {TILES[0]}", f"/* dpsql: error=9 */ {TILES[0]}", PEOPLE + " WHERE income > 5"]
)
def test_what_the_cube_does_not_answer_is_bought(cubed: Path, sql: str) -> None:
    listed(cubed, CUBE, sql, epsilon=10)
    assert bought(cubed) == ["bought", "bought"]


def test_a_cube_that_is_refused_leaves_its_tiles_unpaid(cubed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = Session.execute

    def refused(session: Session, sql: str, *rest: object) -> object:
        if sql == CUBE:
            raise error(502, "no", hint="none")
        return execute(session, sql)

    monkeypatch.setattr(Session, "execute", refused)
    assert bought(cubed) == ["refused", *["left"] * 3, "bought"]


def test_the_owner_takes_the_name_of_an_analysts_cube(cubed: Path) -> None:
    other = (
        "CREATE PRIVATE CUBE wards OPTIONS (epsilon = 0.2) AS SELECT ward, COUNT(*) FROM person GROUP BY CUBE (ward)"
    )
    with closing(open_session(cubed / "schema.toml", "ann", cubed / "ledger")) as session:
        session.execute(other)
    assert bought(cubed)[0] == "bought" and all(answered(cubed, sql) for sql in TILES)
    with closing(open_session(cubed / "schema.toml", "ann", cubed / "ledger")) as session:
        for sql, told in ((other, "there is a cube"), ("DROP CUBE wards", "made by another analyst")):
            with pytest.raises(Error, match=told):
                session.execute(sql)


def test_a_cube_that_analysts_made_is_listed_by_its_name(cubed: Path) -> None:
    with closing(open_session(cubed / "schema.toml", "ann", cubed / "ledger")) as session:
        session.execute(CUBE)
    listed(cubed, "REFRESH CUBE wards", *TILES)
    assert bought(cubed) == ["stored"] * 4
    one_more(cubed)
    assert bought(cubed) == ["bought", *["stored"] * 3]
    listed(cubed, "REFRESH CUBE nobody")
    assert bought(cubed) == ["refused"]


# --- two at once ------------------------------------------------------------------------------------------------------

BESIDE = """
import sys, time
from pathlib import Path
from dpsql.accounting.books import Books
from dpsql.accounting.ledger import Ledger
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity
from dpsql.session.refreshing import buy
from dpsql.session.session import Session
schema, ledger, here, other, fault = sys.argv[1:]
if fault:
    Books.refusal_of_version = lambda *_: None
declared, execute = read_schema(schema), Session.execute
def met(session, sql, *rest):
    Path(here).touch()
    while not Path(other).exists():
        time.sleep(0.01)
    return execute(session, sql, *rest)
Session.execute = met
found = buy(declared, Ledger.open(ledger, ledger_identity(declared)))
print(*(one.fields["state"] for one in found.purchases))
"""
"""A refresh that has planned what it buys, and buys once the other one has planned too."""


@pytest.mark.parametrize("fault", ["", "what the other one spends is not seen"])
def test_two_processes_have_one_total_of_a_version(folder: Path, fault: str) -> None:
    lists, processes = ((VISITS, COST), (PEOPLE, f"{PEOPLE} WHERE income > 5")), []
    schemas = [folder / "first.toml", folder / "second.toml"]
    for schema, statements in zip(schemas, lists, strict=True):
        listed(folder, *statements)
        (folder / "schema.toml").rename(schema)
    shutil.copy(schemas[0], folder / "schema.toml")
    for schema, here, other in zip(schemas, "ab", "ba", strict=True):
        places = (schema, folder / "ledger", folder / here, folder / other)
        command = [sys.executable, "-c", BESIDE, *map(str, places), fault]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    told = [process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), told
    states = " ".join(out for out, _ in told).split()
    (spent,) = charged(folder).values()
    if fault:
        assert states == ["bought"] * 4 and spent == 4 * PRICE, "the planted fault spends the total twice"
    else:
        assert sorted(states) == ["bought", "bought", "left", "left"] and spent == 2 * PRICE


def test_what_the_ledger_refuses_of_a_version_is_told(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    with ledger(folder) as held:
        opened = open_dataset(schema, held, approve=False)
        with closing(Session(opened, held, BUYER)) as session:
            session.execute(VISITS)
            session.execute(COST)
            with pytest.raises(Error, match=r"0 is left of the 0\.2 that one version may cost") as raised:
                session.execute(PEOPLE)
            assert raised.value.code == "DPSQL-501" and raised.value.hint == "the owner may raise epsilon in [refresh]"
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger")) as session:
        assert session.execute(PEOPLE).receipt.loss.rho, "it is a refresh's alone"
