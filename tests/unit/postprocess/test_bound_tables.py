"""Public tables that one statement alone sees: nothing stays, nothing meets another statement's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT, DATE, DOUBLE, HUGEINT, VARCHAR, SqlType
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.plan.tables import PublicTable
from tests.unit.engines.clinic_files import clinic


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDBEngine]:
    opened = DuckDBEngine.open(clinic(tmp_path))
    yield opened
    opened.close()


def table(name: str, *columns: tuple[SqlType, list[object]]) -> PublicTable:
    typed = tuple((f"c{i}", sqltype) for i, (sqltype, _) in enumerate(columns))
    return PublicTable(name, typed, tuple(values for _, values in columns))


def ask(engine: DuckDBEngine, sql: str, *bound: PublicTable) -> list[int]:
    return engine.exact(sql, 0, 1, bound).open_exact()[1][0]


def code(engine: DuckDBEngine, sql: str, *bound: PublicTable) -> str:
    with pytest.raises(Error) as raised:
        engine.exact(sql, 0, 1, bound)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    return raised.value.code


def test_a_statement_joins_its_tables_and_they_are_gone_after_it(engine: DuckDBEngine) -> None:
    wanted = table("bound_0", (BIGINT, [1, 3, None]))
    sql = 'SELECT count(*) FROM person JOIN "bound_0" ON person_id = c0'
    assert ask(engine, sql, wanted) == [2]
    assert code(engine, sql) == "DPSQL-701"
    assert ask(engine, sql, table("bound_0", (BIGINT, [9]))) == [0]


def test_values_arrive_exactly(engine: DuckDBEngine) -> None:
    odd = table(
        'odd "name',
        (HUGEINT, [str(2**127 - 1), None]),
        (DOUBLE, [float("nan"), None]),
        (SqlType("DECIMAL", 38, 2), ["-0.05", "1"]),
        (DATE, ["infinity", "2020-02-29"]),
        (VARCHAR, ["é\x00'", None]),
    )
    sql = """SELECT count(*) FROM "odd ""name" WHERE c0 = 170141183460469231731687303715884105727 AND isnan(c1)
        AND c2 = -0.05 AND NOT isfinite(c3) AND c4 = 'é' || chr(0) || ''''"""
    assert ask(engine, sql, odd) == [1]
    assert ask(engine, """SELECT count(*) FROM "odd ""name" WHERE c0 IS NULL AND c1 IS NULL AND c4 IS NULL""", odd) == [
        1
    ]


def test_an_empty_table(engine: DuckDBEngine) -> None:
    assert ask(engine, 'SELECT count(*) FROM "bound_0"', table("bound_0", (BIGINT, []), (VARCHAR, []))) == [0]


def test_several_tables_at_once(engine: DuckDBEngine) -> None:
    many = [table(f"bound_{i}", (BIGINT, list(range(i)))) for i in range(5)]
    sql = f"SELECT {' + '.join(f'(SELECT count(*) FROM bound_{i})' for i in range(5))}"
    assert ask(engine, sql, *many) == [10]


@pytest.mark.parametrize("values", [[2**63], ["x"], [0.5, "y"]])
def test_a_value_beyond_its_type_says_nothing(engine: DuckDBEngine, values: list[object]) -> None:
    assert code(engine, "SELECT count(*) FROM bound_0", table("bound_0", (BIGINT, values))) == "DPSQL-701"
    assert ask(engine, "SELECT count(*) FROM person") == [4]


def test_statements_at_once_see_their_own(engine: DuckDBEngine) -> None:
    found: list[tuple[int, int]] = []

    def work(i: int) -> None:
        for _ in range(10):
            found.append((i, ask(engine, "SELECT sum(c0) FROM bound_0", table("bound_0", (BIGINT, [i, i])))[0]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40 and all(total == 2 * i for i, total in found)


def test_an_input_table_opens_no_way_out(engine: DuckDBEngine, tmp_path: Path) -> None:
    bound = table("bound_0", (BIGINT, [1]))
    for sql in (f"COPY bound_0 TO '{tmp_path}/out.csv'", "DROP TABLE bound_0", f"ATTACH '{tmp_path}/new.db'"):
        assert code(engine, sql, bound) == "DPSQL-901"
    assert not any(p.name.startswith(("out", "new")) for p in tmp_path.iterdir())
