"""The Harlequin adapter: what it tells of a dataset, what it lets through and what its window shows."""

from __future__ import annotations

import asyncio
import pickle
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import dpsql
from tests.notes.pages import NOTES, ROOT
from tests.support.copies import unused

harlequin = pytest.importorskip("harlequin")

from harlequin.exception import HarlequinConfigError, HarlequinConnectionError, HarlequinQueryError  # noqa: E402

from dpsql.clients.declared import name_sql  # noqa: E402
from dpsql.clients.harlequin import completions as words  # noqa: E402
from dpsql.clients.harlequin.adapter import DpsqlAdapter, DpsqlConnection, columns_of  # noqa: E402
from dpsql.clients.harlequin.catalog import TableItem  # noqa: E402
from dpsql.clients.harlequin.screen import WindowScreen  # noqa: E402
from dpsql.clients.harlequin.status import left, short_type  # noqa: E402

RANDHIE = str(ROOT / "examples/randhie/schema.toml")
CLINIC = str(ROOT / "tests/notes/clinic/schema.toml")
SITES = "SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site"


def opened(schema: str = RANDHIE, **options: str) -> DpsqlConnection:
    return DpsqlAdapter((schema,), **{"ledger": ":memory:", **options}).connect()


@pytest.fixture
def connection() -> Iterator[DpsqlConnection]:
    found = opened()
    yield found
    found.close()


def refused(connection: DpsqlConnection, sql: str) -> HarlequinQueryError:
    with pytest.raises(HarlequinQueryError) as raised:
        connection.execute(sql)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    return raised.value


# --- opening ------------------------------------------------------------------------------------------------------


def test_connecting_costs_nothing_and_says_what_is_left(connection: DpsqlConnection) -> None:
    assert connection.init_message == (
        "randhie, as default; remaining: epsilon 4, delta 5e-07. A question costs epsilon 0.1 unless it says otherwise."
    )
    spent = connection.execute("SELECT spent_epsilon FROM dpsql.budget")
    assert spent is not None and spent.fetchall().to_pylist() == [{"spent_epsilon": 0.0}]


def test_the_entry_point_names_the_adapter() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["harlequin.adapter"] == {"dpsql": f"{DpsqlAdapter.__module__}:DpsqlAdapter"}


def test_without_harlequin_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['harlequin'] = None; import dpsql.clients.harlequin.adapter"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        'ImportError: the Harlequin adapter needs Harlequin; write pip install "dpsql[harlequin]"'
    )


@pytest.mark.parametrize("paths", [(), ("a.toml", "b.toml")])
def test_it_opens_one_schema(paths: tuple[str, ...]) -> None:
    with pytest.raises(HarlequinConfigError, match=f"not {len(paths)}; write harlequin -a dpsql schema.toml"):
        DpsqlAdapter(paths)


def test_what_harlequin_passes_beside_its_options_is_ignored() -> None:
    adapter = DpsqlAdapter((RANDHIE,), True, analyst="", ledger=":memory:", theme="harlequin", no_such=1)
    adapter.connect().close()
    assert [option.name for option in adapter.ADAPTER_OPTIONS] == ["analyst", "ledger"]


def test_the_history_is_kept_by_the_whole_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    assert DpsqlAdapter(("randhie/schema.toml",)).connection_id == DpsqlAdapter((RANDHIE,)).connection_id
    assert DpsqlAdapter((RANDHIE,), analyst="ann").connection_id != DpsqlAdapter((RANDHIE,)).connection_id


def test_a_schema_that_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    with pytest.raises(HarlequinConnectionError) as raised:
        opened(str(path))
    assert raised.value.msg.startswith("DPSQL-801: ") and "does not exist" in raised.value.msg
    assert raised.value.__context__ is None


def test_brackets_of_a_mistake_survive_harlequins_markup(tmp_path: Path) -> None:
    """Harlequin prints the text through Rich, where [privacy] would be a style; `hsql` prints `msg`."""
    from harlequin.exception import pretty_error_message
    from rich.console import Console

    path = tmp_path / "schema.toml"
    path.write_text(Path(RANDHIE).read_text(encoding="utf-8").replace("[privacy]", "[privacy]\nunits_ = 3"), "utf-8")
    with pytest.raises(HarlequinConnectionError) as raised:
        opened(str(path))
    assert "[privacy]" in raised.value.msg
    console = Console(record=True, width=200, file=open(tmp_path / "out", "w"))  # noqa: SIM115
    console.print(pretty_error_message(raised.value))
    assert "[privacy]" in console.export_text()


# --- asking -------------------------------------------------------------------------------------------------------


def test_rows_and_error_bars(connection: DpsqlConnection) -> None:
    cursor = connection.execute(SITES)
    assert cursor is not None and cursor.columns() == [("site", "#"), ("n", "## ±30")]
    table = cursor.fetchall()
    assert table.column_names == ["site", "n"] and table.column("site").to_pylist() == [1, 2, 3, 4, 5, 6]


def test_a_limit_shows_fewer_rows(connection: DpsqlConnection) -> None:
    cursor = connection.execute(SITES)
    assert cursor is not None and cursor.set_limit(2).fetchall().num_rows == 2
    again = connection.execute(SITES)
    assert again is not None and again.set_limit(0).fetchall() is None


def test_no_rows_are_none_and_still_have_columns(connection: DpsqlConnection) -> None:
    cursor = connection.execute("SELECT site, COUNT(*) AS n FROM person WHERE 1 = 0 GROUP BY site")
    assert cursor is not None and cursor.fetchall() is None
    assert [name for name, _ in cursor.columns()] == ["site", "n"]


def test_an_option_has_no_rows_and_holds(connection: DpsqlConnection) -> None:
    assert connection.execute("SET dp_epsilon = 0.3") is None
    cursor = connection.execute("SELECT COUNT(*) FROM person")
    assert cursor is not None and cursor.columns()[0][1] == "## ±10"


def test_values_that_arrow_has_no_type_for_are_text() -> None:
    rows = [(2**100, None, Decimal("1.50"), "a", [1]), (None, 2**100, None, 3, None)]
    table = columns_of([("a",), ("a",), ("c",), ("d",), ("e",)], rows)
    assert table.column_names == ["a", "a", "c", "d", "e"]
    assert [column.to_pylist() for column in table.columns] == [
        [str(2**100), None],
        [None, str(2**100)],
        [Decimal("1.50"), None],
        ["a", "3"],
        [[1], None],
    ]


@pytest.mark.parametrize(
    ("sqltype", "label"),
    [("INTEGER", "#"), ("DECIMAL(6,2)", "#.#"), ("TIMESTAMP", "ts"), ("STRUCT(a INTEGER)", "{}"), ("JSON", "?")],
)
def test_short_types(sqltype: str, label: str) -> None:
    assert short_type(sqltype) == label


def test_a_refusal_shows_the_place_and_costs_nothing(connection: DpsqlConnection) -> None:
    problem = refused(connection, "SELECT SUM(family_size) FROM person_year")
    assert problem.title == "dpsql refused this statement. It cost nothing."
    first, place, line, carets = problem.msg.split("\n")
    assert first.startswith("DPSQL-201: SUM(family_size) has no bounds") and "dp_sum(family_size" in first
    assert (place.strip(), line.strip()) == ("line 1, column 8", "SELECT SUM(family_size) FROM person_year")
    assert carets.strip() == "^" * len("SUM(family_size)")
    assert connection._privacy.remaining == 4


def test_a_budget_that_does_not_allow_it(connection: DpsqlConnection) -> None:
    problem = refused(connection, "/* dpsql: epsilon=3 */ SELECT COUNT(*) FROM person")
    assert problem.title == "The budget does not allow this statement. It cost nothing."
    assert problem.msg.startswith("DPSQL-502")


def test_a_closed_connection_says_so(connection: DpsqlConnection) -> None:
    connection.close()
    assert refused(connection, SITES).msg.startswith("DPSQL-802: the connection is closed")


def test_cancelling_ends_the_statement_and_its_charge_stands(connection: DpsqlConnection) -> None:
    """The question about people is answered at once; what runs on is its use over 18^9 public rows."""
    public = ", ".join(f"plan AS p{i}" for i in range(9))
    long = f"SELECT MAX(asked.n + p0.plan) FROM {public}, (SELECT COUNT(*) AS n FROM person) AS asked"
    found: list[HarlequinQueryError] = []
    thread = threading.Thread(target=lambda: found.append(refused(connection, long)))
    thread.start()
    time.sleep(0.5)
    while thread.is_alive():
        connection.cancel()
        thread.join(0.1)
    assert found[0].msg == "DPSQL-703: interrupted; the charge stands"
    assert found[0].title == "The statement failed. What was charged stays charged."
    assert connection._privacy.remaining == Fraction(39, 10)


def test_a_selection_that_is_no_statement_is_not_called_one(connection: DpsqlConnection) -> None:
    for text in (SITES, f"{SITES};\nSHOW BUDGET;", "SELECT nothing FROM nowhere", "SELECT * FROM person WHERE x = ?"):
        assert connection.validate_sql(text) == text
    for text in ("SELEC", "person", "site, COUNT(*) AS n", f"{SITES}; FROM WHERE"):
        assert connection.validate_sql(text) == ""


# --- what is shown of the dataset ---------------------------------------------------------------------------------


def labels(connection: DpsqlConnection, table: str) -> dict[str, str]:
    dataset = connection.get_catalog().items[0]
    found = next(item for item in dataset.children if item.label == table)
    return {column.label: column.type_label for column in found.children}


def test_the_tree_has_the_declared_tables_and_those_of_what_was_spent(connection: DpsqlConnection) -> None:
    dataset, spent = connection.get_catalog().items
    assert (dataset.label, [(table.label, table.type_label) for table in dataset.children]) == (
        "randhie",
        [("person", "private, 1 row a unit"), ("person_year", "private, 5 rows a unit"), ("plan", "public")],
    )
    assert [table.query_name for table in spent.children] == [
        "dpsql.budget", "dpsql.ledger", "dpsql.analysts", "dpsql.guard", "dpsql.versions", "dpsql.cubes",
            "dpsql.models", "dpsql.randomized_tables", "dpsql.synthetic_tables",
    ]  # fmt: skip
    for table in spent.children:
        assert connection.execute(f"SELECT * FROM {table.query_name}") is not None


def test_columns_have_their_bounds_values_unit_and_null(connection: DpsqlConnection) -> None:
    found = labels(connection, "person")
    assert found["person_id"] == "## unit"
    assert found["site"] == "# 1, 2, 3, 4, 5, 6" and found["plan"] == "# 1, 2, 3, 4, 5, 6, ... (18 values)"
    assert found["female"] == "t/f" and found["education_years"] == "#.# 0 to 25, or NULL"
    assert labels(connection, "person_year")["family_size"] == "##"
    assert labels(connection, "plan") == {
        "plan": "# 1, 2, 3, 4, 5, 6, ... (18 values)",
        "coinsurance_pct": "# 0, 25, 50, 95, 100",
    }


def test_dates_and_texts_are_written_as_in_sql() -> None:
    connection = opened(CLINIC)
    found = labels(connection, "patient")
    assert found["born"] == "d 1990-01-01 to 1999-12-31" and found["city"] == "s 'Ash', 'Birk', 'Cole', or NULL"
    assert labels(connection, "visit")["seen"] == "ts 2020-01-01 00:00:00 to 2020-12-31 23:59:59"
    connection.close()


def test_every_name_of_the_tree_is_sql(connection: DpsqlConnection) -> None:
    for table in connection.get_catalog().items[0].children:
        columns = [column.query_name for column in table.children]
        assert connection.execute(f"EXPLAIN SELECT COUNT({columns[-1]}) FROM {table.query_name}") is not None
    assert name_sql('Body "Mass"') == '"Body ""Mass"""'


def test_the_tree_can_be_searched(connection: DpsqlConnection) -> None:
    def found(term: str, kind: str) -> list[str]:
        return [".".join([*one.parents, one.item.label]) for one in connection.search_catalog(term, kind)]

    assert found("PERSON", "relations") == ["randhie.person", "randhie.person_year"]
    assert found("person_", "columns") == ["randhie.person.person_id", "randhie.person_year.person_id"]
    assert found("dpsql", "all") == ["dpsql"]


def test_the_tree_holds_no_connection(connection: DpsqlConnection) -> None:
    catalog = connection.get_catalog()
    assert pickle.loads(pickle.dumps(catalog)) == catalog
    assert all(getattr(item, "connection", None) is None for item in catalog.items[0].children)


class Window:
    """Stands for a HarlequinDriver: remembers what it was told to do."""

    def __init__(self) -> None:
        self.inserted: list[str] = []

    def insert_text_in_new_buffer(self, text: str) -> None:
        self.inserted.append(text)

    insert_text_at_selection = insert_text_in_new_buffer


def test_the_menu_offers_free_statements(connection: DpsqlConnection) -> None:
    dataset, window = connection.get_catalog().items[0], Window()
    for item in (dataset, dataset.children[2]):
        for _, interaction in item.INTERACTIONS:
            interaction(item, window)
    columns = window.inserted.pop()
    assert columns == "plan, coinsurance_pct"
    assert window.inserted == ["SHOW BUDGET;", "DESCRIBE plan;", "EXPLAIN SELECT COUNT(*) FROM plan;"]
    assert isinstance(dataset.children[2], TableItem)
    for sql in window.inserted:
        assert connection.execute(sql) is not None
    assert connection._privacy.remaining == 4


def test_what_is_completed_is_in_the_grammar(connection: DpsqlConnection) -> None:
    text = (NOTES / "README.md").read_text(encoding="utf-8")
    screen = text[text.index("## The grammar on one screen") : text.index("Whatever is not on this screen")]
    known = {word.lower() for word in re.findall(r"\w+", screen)}
    lists = (words.KEYWORDS, words.AGGREGATES, words.INTERVALS, words.WINDOWS, words.SCALARS)
    assert {word for words_of in lists for word in words_of.lower().split()} - known == set()
    offered = {item.label: item for item in connection.get_completions()}
    assert {"dp_sum", "dp_low", "dp_epsilon", "qualify", "median"} <= set(offered)
    assert offered["dp_sum"].priority < offered["abs"].priority


# --- hsql and the window ------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, where Harlequin keeps its history and caches, and a dataset without anybody's ledger."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    unused(ROOT / "examples/randhie", tmp_path / "randhie")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_window_nothing_is_announced(connection: DpsqlConnection) -> None:
    assert connection.transaction_mode is None and connection.toggle_transaction_mode() is None


def test_a_window_that_shows_nothing_loses_no_answer(connection: DpsqlConnection) -> None:
    connection._screen = WindowScreen(None)  # as one that is closing
    cursor = connection.execute(SITES)
    assert cursor is not None and cursor.fetchall().num_rows == 6
    assert connection.transaction_mode is not None and connection.transaction_mode.label == "ε 3.9 left"


def test_the_label_has_room_for_four_digits() -> None:
    def privacy(remaining: Fraction) -> dpsql.clients.dbapi.cursor.StatementPrice:  # type: ignore[name-defined]
        return dpsql.clients.dbapi.cursor.StatementPrice(Fraction(0), Fraction(0), remaining, Fraction(0), False, 0)  # type: ignore[attr-defined]

    amounts = [Fraction(4), Fraction(38, 10), Fraction(123456, 100000), Fraction(0), Fraction(99999, 10**7)]
    assert [left(privacy(amount)) for amount in amounts] == [
        "ε 4 left", "ε 3.8 left", "ε 1.234 left", "ε 0 left", "ε 0.009999 left",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not any(e.name == "dpsql" for e in entry_points(group="harlequin.adapter")), reason="not installed")
def test_hsql_answers_and_refuses(home: Path) -> None:
    words = [sys.executable, "-c", "import sys; from harlequin.hsql import main; main()", "-a", "dpsql"]
    done = subprocess.run(
        [*words, "randhie/schema.toml", "-c", f"{SITES}; SELECT * FROM person"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode != 0 and "(6 rows)" in done.stdout
    assert done.stderr.startswith("hsql: error: DPSQL-301: the result would be rows of people")


class Pilot:
    """A Harlequin window without a terminal, and a hand on its keyboard."""

    def __init__(self, app: harlequin.Harlequin, pilot: object) -> None:
        self.app = app
        self._pilot = pilot

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(400):
            if holds():
                return
            await self._pilot.pause(0.05)  # type: ignore[attr-defined]
        pytest.fail("it never came")

    async def ask(self, sql: str) -> None:
        self.app.editor.focus()
        self.app.editor.text = sql
        await self._pilot.press("ctrl+j")  # type: ignore[attr-defined]

    @property
    def said(self) -> list[str]:
        return [notification.message for notification in self.app._notifications]

    @property
    def label(self) -> str:
        return str(self.app.run_query_bar.transaction_button.label)


@pytest.mark.slow
def test_a_session_in_the_window(home: Path) -> None:
    """Open, look at the tree, ask, read the answer and its price, be refused."""
    app = harlequin.Harlequin(DpsqlAdapter(("randhie/schema.toml",)), record_history=False)

    async def session() -> None:
        async with app.run_test(size=(130, 36)) as running:
            pilot = Pilot(app, running)
            tree = app.data_catalog.database_tree
            await pilot.until(lambda: app.editor is not None and len(tree.root.children) == 2)
            await pilot.until(lambda: pilot.label == "Tx: ε 4 left")
            assert any(text.startswith("randhie, as default; remaining: epsilon 4") for text in pilot.said)
            assert [str(node.label) for node in tree.root.children] == ["dpsql what was spent", "randhie dataset"]
            tree.root.children[1].expand()
            await pilot.until(lambda: len(tree.root.children[1].children) == 3)
            assert str(tree.root.children[1].children[0].label) == "person private, 1 row a unit"

            await pilot.ask(SITES + ";")
            await pilot.until(lambda: app.results_viewer.get_visible_table() is not None)
            table = app.results_viewer.get_visible_table()
            assert table.row_count == 6 and str(table.ordered_columns[1].label) == "n ## ±30"
            await pilot.until(lambda: pilot.label == "Tx: ε 3.9 left")
            price = "price: epsilon 0.1; remaining: epsilon 3.9, delta 5e-07"
            assert any(said.endswith(price) and said.startswith("note: rows with other values") for said in pilot.said)

            await pilot.ask(SITES)
            stored = "stored answer, free; remaining: epsilon 3.9, delta 5e-07"
            await pilot.until(lambda: any(said.endswith(stored) for said in pilot.said))

            await pilot.ask("SELECT SUM(family_size) FROM person_year")
            await pilot.until(lambda: len(app.screen_stack) == 2)
            assert app.screen.header == "dpsql refused this statement. It cost nothing."
            assert app.screen.text.startswith("DPSQL-201: ") and app.screen.text.endswith("^" * 16)
            assert pilot.label == "Tx: ε 3.9 left"

    asyncio.run(session())
    assert app.return_code in (0, None)


def test_the_page_shows_the_tree_as_it_is(connection: DpsqlConnection) -> None:
    page = (NOTES / "clients/harlequin.md").read_text(encoding="utf-8")
    shown = re.findall(r"^    [▼▶│├└ ─]+(\w.*)$", page, re.MULTILINE)
    dataset, spent = connection.get_catalog().items
    person = dataset.children[0]
    items = [spent, *spent.children, dataset, person, *person.children, *dataset.children[1:]]
    assert shown == [f"{item.label} {item.type_label}" for item in items]
