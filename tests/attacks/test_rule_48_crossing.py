"""Rule 48: what crosses from an engine is an integer of scale 0, and a key in one form. Anything else is 903, and nothing is released.

A point that was stripped made sums 10^scale too large, and the noise as much too small.
"""

from __future__ import annotations

import random
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.core.errors import Error
from dpsql.engines import base
from dpsql.engines.duckdb import fetch
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.locked import ask
from dpsql.planner.lower import rows
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.sql.duckdb import decimal_text
from tests.attacks.observing import SHARP, ordinary, visit
from tests.support import clinic
from tests.support.clinic import NAN
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement, compiled_by

NO_INTEGERS = [
    "35829580389.0000",
    "123.",
    ".5",
    "1e5",
    "1E5",
    "-",
    "",
    "+1",
    " 1",
    "1 ",
    "1_000",
    "0x10",
    "--1",
    "1\n2",
    "1\n",
    "٣",
    "nan",
    "inf",
    "9" * 40,
]


@pytest.mark.parametrize("value", [*NO_INTEGERS, 1.0, NAN, True, Decimal(1), Decimal("1.5"), b"1", Fraction(1)])
def test_rule_48_what_is_no_integer_never_becomes_one(value: object) -> None:
    for column in ([value], ["1", value], [1, value], [None, value], ["1", value, "2"]):
        with pytest.raises(Error) as raised:
            base.integers(column)
        assert raised.value.code == "DPSQL-903" and repr(value) not in str(raised.value)


def test_rule_48_integers_of_any_size_cross_exactly() -> None:
    values = [0, 1, -1, 2**53 + 1, -(2**63), 2**127 - 1, -(2**127)]
    assert base.integers([str(v) for v in values]) == base.integers(values) == values
    assert base.integers(["-0", "007", None, 5]) == [0, 7, 0, 5] and base.integers([]) == []


@pytest.mark.parametrize(
    "crossing",
    ["'123.0000'", "'1e5'", "1.5::DOUBLE", "1::DOUBLE", "12.50::DECIMAL(10,2)", "12::DECIMAL(10,0)", "true", "'1\n2'"],
)
def test_rule_48_an_engine_that_answers_otherwise_is_stopped(tmp_path: Path, crossing: str) -> None:
    clinic.write(tmp_path, ordinary())
    engine = DuckDBEngine.open(clinic.schema(tmp_path))
    with pytest.raises(Error) as raised:
        engine.exact(f"SELECT {crossing}", 0, 1)
    assert raised.value.code == "DPSQL-903" and raised.value.__context__ is None
    engine.close()


@pytest.mark.parametrize("crossing", ["1.5::DOUBLE", "DATE '2000-01-01'", "1.5::DECIMAL(2,1)", "[1]"])
def test_rule_48_a_key_is_an_integer_a_boolean_or_text(tmp_path: Path, crossing: str) -> None:
    clinic.write(tmp_path, ordinary())
    engine = DuckDBEngine.open(clinic.schema(tmp_path))
    with pytest.raises(Error) as raised:
        engine.exact(f"SELECT {crossing}, 1", 1, 1)
    assert raised.value.code == "DPSQL-903"
    engine.close()


def test_rule_48_the_charge_stands_and_nothing_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decimal that crosses as it was printed before: the statement ends, costs, and stores no answer."""
    clinic.write(tmp_path, ordinary())
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    sql = "SELECT SUM(score) FROM patient"
    with monkeypatch.context() as patch:
        patch.setattr(rows, "_crossing", lambda text: "'35829580389.0000'")
        with pytest.raises(dpsql.InternalError, match=r"DPSQL-903.*nothing was released.*stays charged"):
            session.execute(sql)
    assert session.execute("SELECT COUNT(*) FROM dpsql.ledger").rows == [(1,)]
    # not stored: it is bought again
    assert session.execute(sql).receipt.loss.epsilon > 0
    assert session.execute(sql).receipt.loss.epsilon == 0
    session.close()


DECIMALS = [
    (6, 2),
    (9, 9),
    (10, 4),
    (18, 10),
    (18, 0),
    (38, 2),
    (38, 10),
    (38, 15),
    (38, 20),
    (38, 30),
    (38, 37),
    (20, 19),
]
STATEMENTS = [
    "SELECT SUM(x) FROM t",
    "SELECT SUM(x), AVG(x), COUNT(*) FROM t",
    "SELECT g, SUM(x) FROM t GROUP BY g",
    "SELECT SUM(x) FROM many",
    "SELECT AVG(x), COUNT(x), COUNT(*) FROM many",
    "SELECT g, SUM(x) FROM many GROUP BY g",
    "SELECT dp_sum(x, unit_lower := {low}, unit_upper := {high}) FROM many",
    "SELECT VAR_SAMP(x) FROM t",
    "SELECT dp_sum(x, bounds := 'auto') FROM many",
    "SELECT MEDIAN(x) FROM many",
    "SELECT SUM(s) FROM (SELECT id, SUM(x) AS s FROM many GROUP BY id)",
    "SELECT SUM(x * x) FROM t",
]


def decimals(folder: Path, width: int, scale: int, low: str, high: str) -> Schema:
    """Two tables with a column of a decimal type, of one row and of several a unit."""
    column = f'x = {{ type = "DECIMAL({width},{scale})", bounds = [{low}, {high}], nullable = true }}'
    path = folder / f"{width}_{scale}.toml"
    path.write_text(
        '[dataset]\nname = "d"\nsource = "d.duckdb"\n[guard]\nmode = "off"\n[privacy]\nunit = "t.id"\nepsilon = 1000\ndelta = 1e-6\n'
        f'query.epsilon = 1\n[tables.t]\nkey = ["id"]\n[tables.t.columns]\nid = {{ type = "BIGINT" }}\n{column}\n'
        'g = { type = "INTEGER", domain = [1, 2] }\n[tables.many]\nreferences = { id = "t.id" }\nmax_rows_per_unit = 3\n'
        f'[tables.many.columns]\nid = {{ type = "BIGINT" }}\n{column}\ng = {{ type = "INTEGER", domain = [1, 2] }}\n'
    )
    return read_schema(path)


@pytest.mark.few(3)
@pytest.mark.parametrize(("width", "scale"), DECIMALS)
def test_rule_48_sums_of_decimals_are_printed_as_quanta(tmp_path: Path, width: int, scale: int) -> None:
    """Of every width and scale, at the ends of the type and of the bounds: the engine does not raise, and gives digits alone."""
    chance = random.Random(width * 100 + scale)
    ends = 10 ** min(width, 15) - 1
    low, high = sorted(chance.randint(-ends, ends) for _ in range(2))
    as_decimal = [decimal_text(Fraction(v, 10**scale), scale) for v in (low, high)]
    schema = decimals(tmp_path, width, scale, *as_decimal)
    connection = duckdb.connect()
    for table in ("t", "many"):
        connection.execute(f"CREATE TABLE {table} (id BIGINT, x DECIMAL({width},{scale}), g INTEGER)")
    quanta = [low, high, 0, 1, -1, 10**width - 1, 1 - 10**width, (low + high) // 2]
    for i, value in enumerate(quanta):
        with_point = f"CAST('{decimal_text(Fraction(value, 10**scale), scale)}' AS DECIMAL({width},{scale}))"
        connection.execute(f"INSERT INTO t VALUES ({i}, {with_point}, 1)")
        connection.execute(f"INSERT INTO many SELECT {i}, {with_point}, 1 + range % 2 FROM range({i + 1})")
    connection.execute("INSERT INTO t VALUES (99, NULL, 2)")
    ran = 0
    for statement in STATEMENTS:
        sql = statement.format(low=as_decimal[0], high=as_decimal[1])
        try:
            compiled = compile_statement(parse(sql), Options(), schema)
        except Error as refused:
            assert refused.code[6] in "12", (sql, refused)
            continue
        for part in compiled.releases:
            for text in part.texts:
                found = fetch.columns(ask(connection, text, "00"), len(ask(connection, text, "00").description))
                for column in found[part.key_columns :]:
                    if part.histograms == ():
                        assert all(re.fullmatch("-?[0-9]+", str(cell)) for cell in column), (sql, column)
                        base.integers(column)
                    ran += 1
    assert ran > len(STATEMENTS) // 2


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [2, 4, 9, 10, 14])
def test_rule_48_a_sum_of_decimals_is_exact(tmp_path: Path, scale: int) -> None:
    """Shorter SQL for verified data too: the quanta of a sum are those of its values."""
    schema = decimals(tmp_path, 18, scale, *(decimal_text(Fraction(v, 10**scale), scale) for v in (-(10**9), 10**9)))
    chance = random.Random(scale)
    values = [chance.randint(-(10**9), 10**9) for _ in range(50)]
    connection = duckdb.connect(str(tmp_path / "d.duckdb"))
    for table in ("t", "many"):
        connection.execute(f"CREATE TABLE {table} (id BIGINT, x DECIMAL(18,{scale}), g INTEGER)")
        for i, value in enumerate(values):
            connection.execute(
                f"INSERT INTO {table} VALUES ({i}, CAST('{decimal_text(Fraction(value, 10**scale), scale)}' AS DECIMAL(18,{scale})), 1)"
            )
    connection.close()
    session = open_session(schema, None, ":memory:", noise=ZeroNoise())
    for sql in ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM many", "SELECT AVG(x) * COUNT(x) FROM t"):
        ((found,),) = session.execute(sql).rows
        assert abs(Fraction(found) - Fraction(sum(values), 10**scale)) < Fraction(1, 10 ** (scale - 1)), sql
    session.close()


# --- keys ---------------------------------------------------------------------------------------------------------


def zeros(first: str, second: str) -> clinic.Database:
    """Visits whose cost is each of two equal values, one stored before the other."""
    return {**ordinary(), "visit": [visit(i, 1000 + i, cost=float((first, second)[i % 2])) for i in range(12)]}


@pytest.mark.few(1)
@pytest.mark.parametrize(("first", "second", "different"), [("0.0", "-0.0", 1), ("nan", "-nan", 0)])
def test_rule_48_equal_values_are_counted_as_one_whichever_came_first(
    tmp_path: Path, first: str, second: str, different: int
) -> None:
    found = set()
    for name, data in {"a": zeros(first, second), "b": zeros(second, first)}.items():
        folder = tmp_path / name
        folder.mkdir()
        clinic.write(folder, data)
        session = open_session(clinic.schema(folder), None, ":memory:", noise=ZeroNoise())
        found.add(repr(session.execute(SHARP + "SELECT COUNT(DISTINCT cost) FROM visit").rows))
        session.close()
    assert found == {f"[({different},)]"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT cost, COUNT(*) FROM visit GROUP BY cost",
        "SELECT cost * -2.0 AS k, COUNT(DISTINCT patient_id) FROM visit GROUP BY k",
        "SELECT CAST(cost AS FLOAT) AS k, COUNT(*) FROM visit GROUP BY k",
        "/* dpsql: max_groups=1, max_rows=1 */ SELECT cost, COUNT(*) FROM visit GROUP BY cost",
    ],
)
def test_rule_48_a_fraction_is_one_key_whichever_came_first(tmp_path: Path, sql: str) -> None:
    """A key would show which row was stored first where equal values are printed apart, and be two groups of one person."""
    found = set()
    for name, data in {"a": zeros("0.0", "-0.0"), "b": zeros("-0.0", "0.0")}.items():
        folder = tmp_path / name
        folder.mkdir()
        clinic.write(folder, data)
        session = open_session(clinic.schema(folder), None, ":memory:", noise=ZeroNoise())
        part = compiled_by(session, parse(SHARP + sql)).releases[0]
        keys, _ = session._world.dataset.engine.exact(part.sql, 1, part.sum_columns).open_exact()
        found.add(repr(tuple(map(list, keys))))
        session.close()
    assert len(found) == 1 and "-0.0" not in found.pop()


def test_rule_48_keys_cross_in_one_form(tmp_path: Path) -> None:
    """Dates as text, booleans and integers as themselves."""
    clinic.write(tmp_path, ordinary())
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    seen: dict[str, set[type]] = {}
    for key in ("born", "female", "age", "note"):
        sql = f"SELECT {key}, COUNT(*) FROM patient GROUP BY {key}"
        part = compiled_by(session, parse(sql)).releases[0]
        keys, _ = session._world.dataset.engine.exact(
            part.sql, part.key_columns, part.sum_columns, (), "00"
        ).open_exact()
        seen[key] = {type(value) for value in keys[0]} - {type(None)}
    session.close()
    assert seen == {"born": {str}, "female": {bool}, "age": {int}, "note": {str}}
