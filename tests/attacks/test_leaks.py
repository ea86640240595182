"""A1, A16 and the architecture's point 6: exact values do not come out by messages, tracebacks, copies, files, names or intervals."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.session.opening import open_session
from tests.attacks.observing import NAME, SHARP, empty, opened, ordinary, patient, see
from tests.support import clinic
from tests.support.noise import ZeroNoise


class Failing(ZeroNoise):
    """A generator that stops in the middle of a release."""

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        raise self.fault


def frames(problem: BaseException) -> list[dict[str, object]]:
    return [
        frame.f_locals for frame, _ in traceback.walk_tb(problem.__traceback__) if "dpsql" in frame.f_code.co_filename
    ]


@pytest.mark.parametrize(
    "fault, code", [(ValueError("41"), "DPSQL-901"), (MemoryError(), "DPSQL-901"), (KeyboardInterrupt(), "DPSQL-703")]
)
def test_a_failure_during_release_carries_no_exact_sums(tmp_path: Path, fault: BaseException, code: str) -> None:
    """Debuggers and error collectors print the variables of every frame of a traceback."""
    data = ordinary()
    extra = [patient(100 + i, city="b") for i in range(711)]
    clinic.write(tmp_path, {**data, "patient": data["patient"] + extra})
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=Failing(fault))
    with pytest.raises(dpsql.Error) as raised:
        session.execute("SELECT city, COUNT(*) FROM patient GROUP BY city")
    problem = raised.value
    assert problem.code == code and problem.__cause__ is None and problem.__context__ is None
    assert "715" not in repr(frames(problem)) and "715" not in str(problem)
    assert session.execute("SELECT 1").receipt.remaining.epsilon < 1_000_000
    session.close()


def test_an_engine_failure_is_constant_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB quotes values in its messages; what reaches the caller is a constant, and the charge stands."""
    texts = set()
    for data in (ordinary(), empty()):
        with opened(data) as connection:
            original = DuckDBEngine.exact

            def broken(
                engine: DuckDBEngine,
                sql: str,
                keys: int,
                sums: int,
                *_: object,
                run: Callable[..., object] = original,
            ) -> object:
                return run(engine, "SELECT CAST('Wilhelmina ' || count(*) AS INTEGER) FROM patient", keys, sums)

            monkeypatch.setattr(DuckDBEngine, "exact", broken)
            seen = see(connection, "SELECT COUNT(*) FROM patient")
            monkeypatch.undo()
            assert seen.error is not None and seen.epsilon == 1
            assert NAME not in seen.error[1] and "12" not in seen.error[1] and "DPSQL-701" in seen.error[1]
            texts.add(seen.error)
    assert len(texts) == 1


def test_objects_cannot_be_copied_out() -> None:
    """pickle, copy and repr of what a caller holds show nothing that was not released."""
    with opened(ordinary()) as connection:
        cursor = connection.execute("SELECT city, COUNT(*) FROM patient GROUP BY city")
        for thing in (connection, cursor):
            for copier in (pickle.dumps, copy.deepcopy):
                with pytest.raises(TypeError):
                    copier(thing)  # type: ignore[operator]
            assert repr(thing) in ("<dpsql.Connection open>", "<dpsql.Cursor open>")
        problem = see(connection, "SELECT note FROM patient").error
        assert problem is not None and NAME not in problem[1]


def test_nothing_is_left_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary file and nothing in the ledger holds a value of the data."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    clinic.write(tmp_path, ordinary())
    connection = dpsql.connect(clinic.schema(tmp_path), ledger=tmp_path / "clinic.ledger")
    assert all((p.stat().st_mode & 0o077) == 0 for p in folder.iterdir())
    connection.execute("SELECT note, COUNT(*) FROM patient GROUP BY note").fetchall()
    with pytest.raises(dpsql.Error):
        connection.execute("SELECT * FROM patient")
    connection.close()
    assert list(folder.rglob("*")) == []
    for path in tmp_path.glob("clinic.ledger*"):
        assert NAME.encode() not in path.read_bytes()
        assert os.stat(path).st_mode & 0o077 == 0


class Shifted(ZeroNoise):
    """Noise that is the same number every time."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return [self.shift] * size


def test_intervals_follow_from_the_released_value_alone(tmp_path: Path) -> None:
    """12 people and noise 3 must look like 15 people and noise 0, or the interval is around the exact value."""
    seen = []
    for people in (12, 14, 15, 20):
        clinic.write(tmp_path, ordinary(people))
        session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=Shifted(15 - people))
        answer = session.execute("SELECT COUNT(*), COUNT(*) FILTER (WHERE age > 0) FROM patient")
        session.close()
        seen.append((answer.rows, answer.accuracy))
    assert seen[0][0] == [(15, 15)]
    assert all(one == seen[0] for one in seen)


STRANGE_TEXT = [
    "SELECT COUNT(*) FROM patient WHERE note = '\ud800'",
    "SELECT COUNT(*) FROM patient WHERE note = 'a\0b'",
    'SELECT COUNT(*) AS "\ud800" FROM patient',
    "SELECT COUNT(*) FROM patient WHERE age > " + "9" * 5000,
    "SELECT COUNT(*) FROM patient WHERE age > 0." + "9" * 5000,
    "SELECT COUNT(*) FROM patient WHERE age > 1e9999",
    "SELECT COUNT(*) FROM patient WHERE date_part('year') = 1",
    "SELECT COUNT(*) FROM patient WHERE date_diff('day') = 1",
    "SELECT COUNT(*) FROM patient WHERE trunc() = 1",
    "SELECT COUNT(*) FROM patient WHERE date_part() = 1",
    "SELECT dp_sum() FROM patient",
    "SELECT mean() FROM patient",
    "SELECT COUNT(DISTINCT) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE age IN ()",
    "SELECT SUM() FROM patient",
    "SELECT COUNT(*) FROM patient GROUP BY 0",
    "SELECT COUNT(*) FROM patient ORDER BY 0",
    "SELECT COUNT(*) FROM patient GROUP BY 99999999999999999999",
    "SELECT COUNT(*) FROM patient LIMIT 99999999999999999999999",
    "",
    ";",
    "'",
    "--",
    "/*",
    "(",
    "SELECT",
    "EXPLAIN",
    "EXPLAIN EXPLAIN SELECT 1",
    "SET",
    "SET dp_epsilon",
    "SET dp_epsilon = -1",
    "SET dp_epsilon = 1e99999",
    "/* dpsql: epsilon=1e-99999 */ SELECT 1",
    "\ufeff",
    "SELECT COUNT(*) FROM patient WHERE " + "NOT " * 3000 + "true",
    "SELECT COUNT(*) FROM patient WHERE " + "-" * 1 + "- 1",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT COUNT(*) FROM patient WHERE " + "age > 1 AND " * 5000 + "true",
    "SELECT COUNT(*) FROM patient WHERE age > " + "1 + " * 5000 + "1",
    "SELECT $²",
    "SELECT ?",
    "SELECT $1",
    "SELECT :x",
]


@pytest.mark.slow
def test_every_outcome_is_an_answer_or_an_error_of_ours() -> None:
    """Another exception would carry another library's words, or a frame of ours."""
    with opened(ordinary()) as connection:
        for sql in STRANGE_TEXT:
            try:
                connection.execute(sql).fetchall()
            except dpsql.Error as raised:
                assert raised.code[6] in "1234", (sql[:60], raised.code)
                assert "\x1b" not in str(raised).replace(sql, "")
                assert raised.__context__ is None and raised.__cause__ is None


STRANGE_VALUES: list[object] = [
    "\ud800",
    "a\0b",
    10**5000,
    -(10**400),
    Decimal("1e100000"),
    Decimal("1e-999999999"),
    Decimal("nan"),
    float("inf"),
    Fraction(10) ** 400,
    b"x",
    [1],
    object(),
]


def test_strange_parameters_are_refused() -> None:
    """Values that no constant stands for are refused with a code, at once, before anything is charged."""
    with opened(ordinary()) as connection:
        for value in STRANGE_VALUES:
            seen = see(connection, "SELECT COUNT(*) FROM patient WHERE age > ?", [value])
            assert seen.error is not None and "DPSQL-108" in seen.error[1] and seen.epsilon == 0


NAMES = [
    "k0",
    "u",
    "x0",
    "r0",
    "s0",
    "c0",
    "a0",
    "one",
    "turn",
    "before0",
    "total0",
    "release_row",
    "release_0",
    "counted",
    "limited",
    "by_unit",
    "ordered",
    "$cut",
    "{}",
    "{cut}",
    'a"b',
    "a.b",
    "select",
    "é",
    "%s",
]


@pytest.mark.slow
def test_names_of_ours_in_the_schema_and_statement_mean_nothing(tmp_path: Path) -> None:
    """Tables, columns and aliases named as our own intermediate columns, or holding what quoting and templates care about."""
    import duckdb

    quoted = {name: '"' + name.replace('"', '""') + '"' for name in NAMES}
    path = tmp_path / "names.duckdb"
    with duckdb.connect(str(path)) as writer:
        columns = ", ".join(f"i % 3 AS {q}" for q in quoted.values())
        writer.execute(f'CREATE TABLE "release_0" AS SELECT i % 10 AS "u id", {columns} FROM range(60) AS r(i)')
        writer.execute('CREATE TABLE "counted" AS SELECT i AS id FROM range(10) AS r(i)')
    declared = "\n".join(f'{_toml(name)} = {{ type = "BIGINT", domain = [0, 1, 2] }}' for name in NAMES)
    (tmp_path / "schema.toml").write_text(
        '[dataset]\nname = "names"\nsource = "names.duckdb"\n[privacy]\nunit = "counted.id"\nepsilon = 1000000.0\ndelta = 0.5\n'
        "query = { epsilon = 100.0, delta = 1e-3 }\ncaps = { epsilon = 1000000.0, delta = 0.4 }\n"
        '[tables.counted]\nkey = ["id"]\n[tables.counted.columns]\nid = { type = "BIGINT" }\n'
        '[tables.release_0]\nreferences = { "u id" = "counted.id" }\nmax_rows_per_unit = 6\n'
        f'[tables.release_0.columns]\n"u id" = {{ type = "BIGINT" }}\n{declared}\n'
    )
    session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
    for name, q in quoted.items():
        rows = session.execute(
            f"SELECT {q} AS {q}, COUNT(*) AS a0, SUM({q}), AVG({q}) AS k0 FROM release_0 AS {q} "
            f"WHERE {q}.{q} < 2 GROUP BY {q}.{q} ORDER BY 1"
        ).rows
        assert rows == [(0, 20, 0, 0.0), (1, 20, 20, 1.0)], name
        assert session.execute(f"SELECT COUNT(*) AS {q} FROM release_0 WHERE {q} >= 0 ORDER BY {q}").rows == [(60,)]
    session.close()


def _toml(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_comments_do_not_travel() -> None:
    """A comment that is printed again could open or close one in another parser."""
    with opened(ordinary()) as connection:
        for sql in (
            "SELECT COUNT(*) -- /* \n FROM patient",
            "SELECT COUNT(*) -- */ DROP TABLE x \n FROM patient",
            "SELECT COUNT(*) /* '\" */ FROM patient -- */",
        ):
            assert connection.execute(SHARP + sql).fetchall() == [(12,)]


def test_a_table_named_as_a_release_is_none(tmp_path: Path) -> None:
    """Each release of a statement has a name of its own, whatever the declared tables are called: what one of them is limited by,
    judged by and shown as is never another's."""
    import duckdb

    with duckdb.connect() as writer:
        people = tmp_path / "people.parquet"
        writer.execute(f"COPY (SELECT i AS id, i % 3 AS site, i % 50 AS age FROM range(200) AS r(i)) TO '{people}'")
        for number in (0, 2):
            listed = tmp_path / f"release_{number}.parquet"
            writer.execute(f"COPY (SELECT i AS k, i * 10 AS w FROM range(3) AS r(i)) TO '{listed}'")
    text = (
        '[dataset]\nname = "names"\nsource = "."\n[privacy]\nunit = "people.id"\nepsilon = 1000000.0\ndelta = 0.5\n'
        "query = { epsilon = 100.0, delta = 1e-3 }\ncaps = { epsilon = 1000000.0, delta = 0.4 }\n"
        '[guard]\nmode = "off"\n[tables.people]\nsource = "people.parquet"\nkey = ["id"]\n[tables.people.columns]\n'
        'id = { type = "BIGINT" }\nsite = { type = "BIGINT", domain = [0, 1, 2] }\nage = { type = "BIGINT", bounds = [0, 50] }\n'
    )
    public = "".join(
        f'[tables.release_{n}]\npublic = true\nsource = "release_{n}.parquet"\nkey = ["k"]\n' for n in (0, 2)
    )
    (tmp_path / "schema.toml").write_text(text + public)
    above = "SELECT COUNT(*) FROM people WHERE age > (SELECT MAX(w) FROM release_0) + (SELECT AVG(age) FROM people)"
    half = (
        "SELECT AVG(n) / 2 FROM (SELECT site, COUNT(*) AS n FROM people GROUP BY site) AS x JOIN release_2 ON k = site"
    )
    three = "SELECT (SELECT COUNT(*) FROM people), (SELECT SUM(age) FROM people), (SELECT MAX(age) FROM people WHERE site = 1)"
    session = open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())
    assert session.execute(above).rows == [(20,)]
    assert session.execute(f"SELECT COUNT(*) FROM people WHERE age > ({half})").rows == [(64,)]
    assert session.execute(three).rows == [(200, 4900, 49)]
    session.close()
