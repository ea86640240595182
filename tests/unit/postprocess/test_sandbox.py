"""The sandbox: what goes in comes out, names are DuckDB's, and nothing else is in reach."""

from __future__ import annotations

import datetime
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.core.cancellation import Cancellation, under
from dpsql.core.columns import Decimals
from dpsql.core.errors import Error, OperationalError, ProgrammingError
from dpsql.core.sqltypes import decimal, parse_type
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.public import fill
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.sandbox import Sandbox
from tests.unit.engines.clinic_files import clinic


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


def table(name: str, **columns: tuple[str, list[object]]) -> PublicTable:
    typed = []
    for column, (sqltype, _) in columns.items():
        parsed = parse_type(sqltype)
        assert parsed is not None
        typed.append((column, parsed))
    return PublicTable(name, tuple(typed), tuple(values for _, values in columns.values()))


EVERY_TYPE: dict[str, tuple[str, list[object], list[object]]] = {
    "tiny": ("TINYINT", [-128, None, 127], [-128, None, 127]),
    "ubig": ("UBIGINT", [2**64 - 1, None, "5"], [2**64 - 1, None, 5]),
    "int_": ("BIGINT", [-(2**63), None, 2**63 - 1], [-(2**63), None, 2**63 - 1]),
    "full": ("BIGINT", [1, 2, 3], [1, 2, 3]),
    "huge": ("HUGEINT", [2**127 - 1, None, "-170141183460469231731687303715884105728"], [2**127 - 1, None, -(2**127)]),
    "money": ("DECIMAL(38,2)", ["-0.05", None, "999999.10"], [Decimal("-0.05"), None, Decimal("999999.10")]),
    "real": ("DOUBLE", [0.1, None, float("inf")], [0.1, None, float("inf")]),
    "small": ("FLOAT", [0.5, None, 1.0], [0.5, None, 1.0]),
    "yes": ("BOOLEAN", [True, None, False], [True, None, False]),
    "word": ("VARCHAR", ["", None, "é\x00'\"\n"], ["", None, "é\x00'\"\n"]),
    "digits": ("VARCHAR", ["1", "nan", "0"], ["1", "nan", "0"]),
    "none": ("VARCHAR", [None, None, None], [None, None, None]),
    "day": ("DATE", ["2020-02-29", None, "0001-01-01"], [datetime.date(2020, 2, 29), None, datetime.date(1, 1, 1)]),
    "at": (
        "TIMESTAMP",
        ["2020-01-01 10:00:00.5", None, None],
        [datetime.datetime(2020, 1, 1, 10, 0, 0, 500000), None, None],
    ),
}


def test_every_type_comes_out_as_it_went_in(sandbox: Sandbox) -> None:
    sandbox.load(table("r", **{n: (t, given) for n, (t, given, _) in EVERY_TYPE.items()}))
    columns, rows = sandbox.describe("SELECT * FROM r"), sandbox.run("SELECT * FROM r")
    assert list(columns) == [(n, t) for n, (t, _, _) in EVERY_TYPE.items()]
    assert rows == list(zip(*(expected for _, _, expected in EVERY_TYPE.values()), strict=True))


def test_nan_is_not_null(sandbox: Sandbox) -> None:
    sandbox.load(
        table("r", x=("DOUBLE", [float("nan"), None, -0.0, 5e-324]), y=("FLOAT", [None, float("nan"), 1.0, 2.0]))
    )
    rows = sandbox.run("SELECT x IS NULL, isnan(x), y IS NULL, isnan(y) FROM r")
    assert rows == [(False, True, True, None), (True, None, False, True), (False,) * 4, (False,) * 4]
    assert str(list(sandbox.run("SELECT x FROM r"))[2:]) == "[(-0.0,), (5e-324,)]"


@pytest.mark.parametrize("size", [0, 1, 2048, 5000])
def test_tables_of_any_length(sandbox: Sandbox, size: int) -> None:
    sandbox.load(table("r", k=("INTEGER", list(range(size))), t=("VARCHAR", [None, *map(str, range(1, size))][:size])))
    assert sandbox.run("SELECT count(*), count(t), coalesce(sum(k), 0)::BIGINT FROM r") == [
        (size, max(size - 1, 0), size * (size - 1) // 2)
    ]
    assert sandbox.describe("SELECT * FROM r") == (("k", "INTEGER"), ("t", "VARCHAR"))


def test_a_table_is_replaced_and_forgotten(sandbox: Sandbox) -> None:
    sandbox.load(table('odd "name"', a=("BIGINT", [1])))
    sandbox.load(table('odd "name"', b=("VARCHAR", ["x"])))
    assert sandbox.run('SELECT b FROM "odd ""name"""') == [("x",)]
    sandbox.forget()
    sandbox.forget()
    assert fault(sandbox, 'SELECT * FROM "odd ""name"""') == "DPSQL-706"


def test_what_was_tried_is_of_the_columns_that_it_was_tried_over(sandbox: Sandbox) -> None:
    whole, word = table("t", a=("BIGINT", [1])), table("t", a=("VARCHAR", ["x"]))
    for _ in range(2):
        assert sandbox.tried("SELECT a + 1 AS b FROM t", [whole]) == (("b", "BIGINT"),)
        with pytest.raises(ProgrammingError, match="106"):
            sandbox.tried("SELECT a + 1 AS b FROM t", [word])
        with pytest.raises(OperationalError, match="706"):
            sandbox.run("SELECT a FROM t")


ITEMS = """NULL; a; a / 2; avg(a) OVER (); sum(d) OVER (); d * d; [a]; {'k': a}; []; CASE WHEN a = 1 THEN NULL END; a::HUGEINT;
row(1, 'x'); DATE '2020-01-31'; TIME '01:02:03'; INTERVAL 1 DAY; NULL::VARCHAR[]"""


@pytest.mark.parametrize("item", ITEMS.split(";"))
def test_a_question_that_is_run_has_the_columns_that_it_is_described_with(sandbox: Sandbox, item: str) -> None:
    """So the columns of a question that is tried on a row need not be asked for again."""
    one, none = (table("t", a=("BIGINT", [1][:n]), d=("DECIMAL(10,2)", ["1.50"][:n])) for n in (1, 0))
    for sql in (f"SELECT {item} FROM t", f"SELECT {item} AS x FROM t"):
        assert sandbox.tried(sql, [one]) == sandbox.tried(sql, [none])


def test_two_hundred_thousand_rows(sandbox: Sandbox) -> None:
    size = 200_000
    values: list[list[object]] = [
        list(range(size)),
        [None if i % 9 == 0 else i / 7 for i in range(size)],
        [f"key {i}" for i in range(size)],
    ]
    big = table("r", k=("BIGINT", values[0]), v=("DOUBLE", values[1]), t=("VARCHAR", values[2]))
    started = time.perf_counter()
    sandbox.load(big)
    took = time.perf_counter() - started
    assert sandbox.run("SELECT count(*), count(v), max(t) FROM r") == [(size, size - size // 9 - 1, "key 99999")]
    assert took < 5, "the aim is 0.3 s"


# --- names and types ----------------------------------------------------------------------------------------------


@pytest.fixture
def declared(tmp_path: Path) -> Iterator[DeclaredTables]:
    schema = clinic(tmp_path)
    engine = DuckDBEngine.open(schema)
    made = DeclaredTables(fill(engine, schema))
    engine.close()
    yield made
    made.close()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), count(*), avg(income), sum(person_id) FROM person",
        "SELECT ward, ward AS Ward, PERSON_ID, income + 1 FROM person",
        "SELECT sum(cost) / count(*), extract(year FROM DATE '2020-01-01') FROM visit",
        "SELECT CASE WHEN income > 1 THEN 'a' END, income::INTEGER, \"born\" FROM person AS p",
        "SELECT label, size FROM ward ORDER BY ALL LIMIT 3",
        "WITH a AS (SELECT count(*) AS n FROM visit) SELECT n * 2, (SELECT max(n) FROM a) FROM a",
    ],
)
def test_names_are_those_of_plain_duckdb(declared: DeclaredTables, sql: str) -> None:
    plain = duckdb.connect()
    plain.execute("CREATE TABLE person (person_id BIGINT, ward INTEGER, income DOUBLE, born DATE, name VARCHAR)")
    plain.execute("CREATE TABLE visit (person_id BIGINT, cost DECIMAL(10,2))")
    plain.execute("CREATE TABLE ward (ward INTEGER, label VARCHAR, size DECIMAL(4,1), opened DATE)")
    assert declared.describe(sql) == tuple((c[0], str(c[1])) for c in plain.execute(sql).description or [])


def test_declared_and_released_tables_are_apart(declared: DeclaredTables, sandbox: Sandbox) -> None:
    sandbox.load(table("person", n=("BIGINT", [5])))
    assert declared.describe("SELECT * FROM person")[0] == ("person_id", "BIGINT")
    assert sandbox.run("SELECT * FROM person") == [(5,)]
    with pytest.raises(ProgrammingError):
        declared.describe("SELECT n FROM person")


def test_what_is_described_beside_the_declared_tables_is_gone_after_it(declared: DeclaredTables) -> None:
    empty = table("released", n=("BIGINT", []))
    found = declared.describe_public("SELECT ward, label || n AS s FROM ward, released", [empty])
    assert [(name, str(sqltype)) for name, sqltype in found] == [("ward", "INTEGER"), ("s", "VARCHAR")]
    with pytest.raises(ProgrammingError):
        declared.describe_public("SELECT nothing FROM released", [empty])
    assert "released" not in {row[0] for row in declared.rows("SHOW TABLES")[1]}
    with pytest.raises(ProgrammingError):
        declared.describe("SELECT * FROM released")


def test_describing_does_not_run(sandbox: Sandbox) -> None:
    started = time.perf_counter()
    assert sandbox.describe("SELECT count(*) AS n FROM range(1000000000000)") == (("n", "BIGINT"),)
    assert time.perf_counter() - started < 2


# --- errors -------------------------------------------------------------------------------------------------------


def fault(sandbox: Sandbox, sql: str) -> str:
    with pytest.raises(Error) as raised:
        sandbox.run(sql)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    return raised.value.code


@pytest.mark.few(2)
@pytest.mark.parametrize("sql", ["SELECT 'secret' + 1", "SELECT nothing", "SELECT ((", "SELECT upper(1, 'secret')"])
def test_what_does_not_bind_is_refused_in_our_words(declared: DeclaredTables, sandbox: Sandbox, sql: str) -> None:
    for describe in (sandbox.describe, declared.describe):
        with pytest.raises(ProgrammingError) as raised:
            describe(sql)
        assert raised.value.code == "DPSQL-106"
        assert "secret" not in str(raised.value) and "\x1b" not in str(raised.value)
        assert raised.value.__cause__ is None and raised.value.__context__ is None


def test_a_value_that_fails_is_not_quoted(sandbox: Sandbox) -> None:
    sandbox.load(table("r", t=("VARCHAR", ["secret"])))
    with pytest.raises(OperationalError) as raised:
        sandbox.run("SELECT CAST(t AS INTEGER) FROM r")
    assert raised.value.code == "DPSQL-706" and "secret" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__context__ is None


@pytest.mark.parametrize(
    ("sqltype", "value"),
    [("BIGINT", 2**63), ("TINYINT", 300), ("DATE", "x"), ("VARCHAR", "\ud800"), ("DECIMAL(3,1)", "1000")],
)
def test_a_value_beyond_its_type_fails_and_leaves_the_sandbox_whole(
    sandbox: Sandbox, sqltype: str, value: object
) -> None:
    with pytest.raises(OperationalError) as raised:
        sandbox.load(table("r", x=(sqltype, [value, None])))
    assert raised.value.code == "DPSQL-706" and raised.value.__context__ is None
    sandbox.load(table("r", x=("BIGINT", [1])))
    assert sandbox.run("SELECT x FROM r") == [(1,)]


SLOW = "SELECT count(*) FROM range(1000000000) a, range(100000) b WHERE (a.range * b.range) % 7 = 1"


def test_an_interrupt_from_a_thread(sandbox: Sandbox) -> None:
    statement = Cancellation()
    threading.Timer(0.2, statement.cancel).start()
    with under(statement):
        assert fault(sandbox, SLOW) == "DPSQL-703"
        assert fault(sandbox, "SELECT 1") == "DPSQL-703"
    assert sandbox.run("SELECT 1") == [(1,)]


def test_ctrl_c(sandbox: Sandbox) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        assert fault(sandbox, SLOW) == "DPSQL-703"
    finally:
        signal.signal(signal.SIGINT, before)
    assert sandbox.run("SELECT 1") == [(1,)]


@pytest.mark.parametrize("most", [None, 5000])
def test_rows_come_in_the_order_of_the_question_with_a_limit_and_without(most: int | None) -> None:
    sandbox, numbers = Sandbox(rows=most), [(i * 7919) % 5000 for i in range(5000)]
    sandbox.load(table("r", x=("BIGINT", numbers), t=("VARCHAR", [f"t{i}" for i in numbers])))
    orders: dict[str, Callable[[int], object]] = {
        "x DESC": lambda i: -i,
        "t": str,
        "x % 10, x DESC": lambda i: (i % 10, -i),
    }
    for order, key in orders.items():
        asked = f"SELECT x, x AS x, t FROM r ORDER BY {order} -- the last"
        numbers.sort(key=key)  # type: ignore[arg-type]
        assert sandbox.run(asked) == [(i, i, f"t{i}") for i in numbers]
    assert sandbox.run("WITH w AS (SELECT x FROM r) SELECT x FROM w ORDER BY x LIMIT 2 OFFSET 1;"[:-1]) == [(1,), (2,)]
    for other in ("SELECT 1) AS t; SELECT (1", "SELECT 1; SELECT 2"):
        with pytest.raises(Error) as raised:
            sandbox.run(other)
        assert raised.value.code in ("DPSQL-901", "DPSQL-706")
    sandbox.close()


@pytest.mark.parametrize("scale", [1, 2, 18, 19, 37])
def test_decimals_come_out_as_they_went_in(sandbox: Sandbox, scale: int) -> None:
    numbers = [0, 5, -5, 2**63 - 1, -(2**63)]
    held = Decimals(np.array([*numbers, 7]), scale, np.array([False] * 5 + [True]))
    sandbox.load(PublicTable("r", (("x", decimal(38, scale)),), (held,)))
    exact = Context(prec=40)
    assert sandbox.run("SELECT x FROM r") == [*((Decimal(i).scaleb(-scale, exact),) for i in numbers), (None,)]


def test_a_limit_of_rows() -> None:
    sandbox = Sandbox(rows=3)
    assert len(sandbox.run("SELECT * FROM range(3)")) == 3
    assert sandbox.table("t", "SELECT * FROM range(3)").data == ([0, 1, 2],)
    begun = time.monotonic()
    for question in (sandbox.run, lambda sql: sandbox.table("t", sql)):
        with pytest.raises(OperationalError) as raised:
            question("SELECT * FROM range(1000000) a, range(1000000) b")
        assert raised.value.code == "DPSQL-712" and raised.value.__context__ is None
    assert time.monotonic() - begun < 5
    sandbox.close()


def test_a_limit_of_memory() -> None:
    sandbox = Sandbox(memory=64_000_000)
    doubled = "".join(f", t{i + 1} AS (SELECT s || s AS s FROM t{i})" for i in range(30))
    assert (
        fault(sandbox, f"WITH t0 AS (SELECT 'x' AS s FROM range(3)){doubled} SELECT length(s) FROM t30") == "DPSQL-711"
    )
    assert fault(sandbox, "SELECT * FROM range(100000000) ORDER BY hash(range)") == "DPSQL-711"
    assert sandbox.run("SELECT 1") == [(1,)]
    sandbox.close()


def test_threads_take_turns(sandbox: Sandbox) -> None:
    results: list[object] = []

    def work(i: int) -> None:
        for _ in range(20):
            sandbox.load(table(f"r{i}", x=("BIGINT", [i])))
            results.append(sandbox.run(f"SELECT x = {i} FROM r{i}"))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[(True,)]] * 80


# --- nothing else is in reach -------------------------------------------------------------------------------------


def test_no_way_out(declared: DeclaredTables, sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    secret = np.arange(3)
    assert len(secret) == 3
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"SELECT * FROM '{tmp_path}/other.csv'",
        f"SELECT * FROM read_parquet('{tmp_path}/person.parquet')",
        f"SELECT * FROM read_text('{tmp_path}/*')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM secret",
        f"ATTACH '{tmp_path}/new.db'",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "SET enable_external_access = true",
        "SET temp_directory = '/tmp'",
        "RESET ALL",
        "SELECT 1; SELECT 2",
    ):
        assert fault(sandbox, sql) in ("DPSQL-706", "DPSQL-901"), sql
        for connection in (sandbox._connection, declared._connection):
            if sql != "SELECT 1; SELECT 2":
                with pytest.raises(duckdb.Error):
                    connection.execute(sql).fetchall()
    assert not any(p.name.startswith(("out", "new")) for p in tmp_path.iterdir())
    assert repr(sandbox) == "<Sandbox>" and repr(declared) == "<DeclaredTables>"
