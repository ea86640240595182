"""Promises of PostgreSQL's engine beside its answers: versions, ends, secrets, errors, the owner's verbs."""

from __future__ import annotations

import builtins
import os
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.domains import Interval
from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS
from dpsql.core.sqltypes import SqlType
from dpsql.dataset import owner
from dpsql.engines.base import RaisedError
from dpsql.engines.postgres.engine import PostgresEngine
from dpsql.schema.model import Column, Reference, Schema, Table
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.engines import conformance
from tests.support import clinic
from tests.support.noise import ZeroNoise

COUNT = "SELECT COUNT(*) FROM patient"


@pytest.fixture
def schema(postgres: str, tmp_path: Path) -> Schema:
    clinic.write(tmp_path, clinic.database(random.Random(5), wild=False))
    return conformance.moved(clinic.schema(tmp_path), postgres, tmp_path.name)


@pytest.fixture
def session(schema: Schema) -> Iterator[Session]:
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        yield opened


def execute(schema: Schema, sql: str) -> None:
    import psycopg

    with psycopg.connect(schema.source, autocommit=True) as connection:
        connection.execute(sql.encode())


def log_of(schema: Schema) -> str:
    return (Path(schema.source.partition("host=")[2]) / "log").read_text()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE patient SET age = age + 1 WHERE patient_id = (SELECT min(patient_id) FROM patient)",
        "DELETE FROM patient WHERE patient_id = (SELECT min(patient_id) FROM patient)",
        "INSERT INTO patient SELECT * FROM patient LIMIT 1",
        "ALTER TABLE patient ALTER COLUMN age TYPE text",
    ],
)
@pytest.mark.few(3)
def test_changed_data_is_not_read(session: Session, schema: Schema, change: str) -> None:
    session.execute(COUNT)
    execute(schema, change)
    with pytest.raises(Error) as raised:
        session.execute(f"{COUNT} WHERE age > 1")
    assert raised.value.code in ("DPSQL-702", "DPSQL-708")
    with pytest.raises(Error, match=r"DPSQL-708"):
        session.execute(f"{COUNT} WHERE age > 2")


def test_rows_that_moved_are_the_same_version(session: Session, schema: Schema) -> None:
    execute(
        schema,
        "CREATE TABLE moved AS SELECT * FROM patient; TRUNCATE patient; INSERT INTO patient SELECT * FROM moved ORDER BY age",
    )
    assert session.execute(COUNT).rows


def test_the_version_is_checked_in_the_transaction_that_reads(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that was exchanged after the charge releases nothing all the same."""
    monkeypatch.setattr(PostgresEngine, "unchanged", lambda engine: True)
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        execute(schema, "DELETE FROM patient WHERE patient_id = (SELECT max(patient_id) FROM patient)")
        with pytest.raises(Error, match=r"DPSQL-702") as raised:
            opened.execute(COUNT)
        assert raised.value.__context__ is None and opened._world.ledger.spent() != NO_LOSS


def test_no_secret_is_in_the_log(session: Session, schema: Schema) -> None:
    session.execute("SELECT site, year, COUNT(*) FROM patient JOIN visit USING (patient_id) GROUP BY site, year")
    engine = session._world.dataset.engine
    assert isinstance(engine, PostgresEngine) and len(engine.signature.key) == 64
    log, secret = log_of(schema), session._world.ledger.secret.hex()
    assert "dpsql secret" in log and secret not in log and engine.signature.key not in log


def test_a_failure_says_no_value_and_is_told_apart(session: Session) -> None:
    engine = session._world.dataset.engine
    with pytest.raises(RaisedError, match=r"DPSQL-701") as raised:
        engine.exact("SELECT (('x' || note)::int)::text FROM patient WHERE note IS NOT NULL", 0, 1)
    assert "invalid" not in str(raised.value) and raised.value.__context__ is None and raised.value.__cause__ is None
    with pytest.raises(Error, match=r"DPSQL-903"):
        engine.exact("SELECT '1.5'", 0, 1)


def test_nothing_is_written_and_other_tables_are_out_of_reach(session: Session, schema: Schema) -> None:
    engine = session._world.dataset.engine
    execute(schema, "CREATE TABLE other AS SELECT 1 AS x")
    for sql in ("SELECT x FROM other", "SELECT setval('a', 1)", "INSERT INTO patient VALUES (1) RETURNING 1"):
        with pytest.raises(Error, match=r"DPSQL-701"):
            engine.exact(sql, 0, 1)


def test_a_statement_is_ended_from_outside(session: Session) -> None:
    sql = "SELECT count(*) FROM patient a, patient b, patient c, patient d, patient e, generate_series(1, 100000) AS s"
    engine = session._world.dataset.engine
    found: list[str] = []

    def ask() -> None:
        try:
            session._guarded(sql, lambda: engine.exact(sql, 0, 1))
        except Error as problem:
            found.append(problem.code)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(1.0)
    session.interrupt()
    thread.join(20)
    assert found == ["DPSQL-703"] and session.execute(COUNT).rows


def test_a_statement_ends_with_its_time(schema: Schema) -> None:
    hurried = replace(schema, limits=replace(schema.limits, seconds=1))
    sql = "SELECT count(*) FROM patient a, generate_series(1, 1000000000) AS s"
    with closing(open_session(hurried, None, ":memory:", ZeroNoise())) as opened:
        engine = opened._world.dataset.engine
        with pytest.raises(Error, match=r"DPSQL-710"):
            opened._guarded(sql, lambda: engine.exact(sql, 0, 1))


def test_a_fork_is_refused_and_its_parent_goes_on(session: Session) -> None:
    child = os.fork()
    if child == 0:
        try:
            session.execute(COUNT)
        except Error as refused:
            os._exit(0 if refused.code == "DPSQL-802" else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert session.execute(COUNT).rows


def test_the_owner_checks_and_drafts(schema: Schema, tmp_path: Path) -> None:
    with closing(Ledger.open(tmp_path / "a.ledger", ledger_identity(schema))) as ledger:
        report = owner.check(schema, ledger)
        assert {facts.table.name for facts in report.tables} == {"patient", "visit", "item"}
        with pytest.raises(Error, match=r"DPSQL-801"):
            owner.check(schema, ledger, prepare=True)
        again = owner.check(schema, ledger)
        assert again.version == report.version and "declared structure and is approved" in str(again)
    with (
        closing(Ledger.open(tmp_path / "b.ledger", ledger_identity(schema))) as other,
        pytest.raises(Error, match=r"DPSQL-714"),
    ):
        owner.check(schema, other)
    text = owner.init(schema.source.replace("postgres@", "postgres:hidden@"))
    assert "[tables.patient]" in text and 'income = { type = "DOUBLE"' in text and "hidden" not in text


def test_facts_are_those_of_duckdb(schema: Schema, tmp_path: Path) -> None:
    found = []
    for each in (schema, clinic.schema(tmp_path)):
        with closing(Ledger.open(":memory:", ledger_identity(each))) as ledger:
            facts = owner.check(each, ledger).tables
            found.append(
                [
                    (f.rows, f.unit, [(c.nulls, c.nans, c.outside, c.infinite, c.too_long) for c in f.columns])
                    for f in facts
                ]
            )
            assert isinstance(facts[0].unit.mean if facts[0].unit is not None else None, Fraction)
    assert found[0] == found[1]


def test_without_the_driver_the_hint_says_what_to_install(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name.startswith("psycopg"):
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Error, match=r"DPSQL-707.*psycopg.*pip install 'dpsql\[postgres\]'"):
        open_session(schema, None, ":memory:")


def test_what_cannot_be_reached_or_declared_so(schema: Schema) -> None:
    gone = replace(schema, source=schema.source.replace("host=", "host=/nowhere"))
    with pytest.raises(Error, match=r"DPSQL-707.*cannot be reached"):
        open_session(gone, None, ":memory:")
    execute(schema, "ALTER TABLE patient ALTER COLUMN born TYPE text")
    with pytest.raises(Error, match=r"DPSQL-804.*column born is stored as text"):
        open_session(schema, None, ":memory:")
    execute(schema, "DROP TABLE visit")
    with pytest.raises(Error, match=r"DPSQL-707.*holds no table visit"):
        open_session(schema, None, ":memory:")


def test_tables_of_another_schema_are_named_with_it(schema: Schema) -> None:
    execute(schema, "CREATE SCHEMA ward; ALTER TABLE patient SET SCHEMA ward; ALTER TABLE visit SET SCHEMA ward")

    def placed(name: str) -> str:
        return f"ward.{name}" if name in ("patient", "visit") else name

    tables = tuple(
        replace(
            t,
            name=placed(t.name),
            source=placed(t.name),
            references=tuple(replace(r, table=placed(r.table)) for r in t.references),
        )
        for t in schema.tables
    )
    moved = replace(schema, tables=tables, privacy=replace(schema.privacy, unit="ward.patient.patient_id"))
    with closing(open_session(moved, None, ":memory:", ZeroNoise())) as opened:
        both = "FROM ward.visit JOIN ward.patient ON visit.patient_id = ward.patient.patient_id"
        one = opened.execute(f"SELECT SUM(ward.visit.days) {both}").rows
        assert one == opened.execute("SELECT SUM(days) FROM visit").rows
        assert opened.execute("SELECT COUNT(*) FROM patient").rows[0][0]
    assert '[tables."ward.visit"]' in owner.init(moved.source)


def test_a_draft_has_the_keys_that_the_database_declares(schema: Schema) -> None:
    execute(
        schema,
        """CREATE SCHEMA sales;
        CREATE TABLE people (id INTEGER PRIMARY KEY, nick TEXT UNIQUE, city TEXT NOT NULL);
        CREATE TABLE sales.visits (visit BIGINT, day DATE, who INTEGER NOT NULL REFERENCES people, PRIMARY KEY (visit, day))""",
    )
    text = owner.init(schema.source)
    people, visits = (text[text.index(f"[tables.{name}]") :] for name in ("people", '"sales.visits"'))
    assert people.startswith('[tables.people]\nsource = "people"\nkey = ["id"]\n')
    assert 'nick = { type = "VARCHAR", nullable = true }' in people and 'city = { type = "VARCHAR" }' in people
    assert 'key = ["visit", "day"]\nreferences = { who = "people.id" }\n' in visits
    assert 'day = { type = "DATE" }' in visits and 'who = { type = "INTEGER" }' in visits


def test_a_reference_over_several_columns_leads_to_the_unit(schema: Schema) -> None:
    dose = "SELECT visit_id, n, n::DOUBLE PRECISION AS amount FROM visit, generate_series(1, 2) AS n"
    execute(schema, f"CREATE TABLE dose AS {dose}; CREATE TABLE effect AS SELECT visit_id, n, 1 AS kind FROM dose")
    execute(schema, "INSERT INTO effect VALUES (NULL, 1, 1), ((SELECT min(visit_id) FROM visit), NULL, 1)")
    visit = next(t for t in schema.tables if t.name == "visit")
    held, number = visit.column("visit_id"), SqlType("INTEGER")
    assert held is not None
    columns = (held, Column("n", number, Interval(Fraction(1), Fraction(2)), False, "identifier"))
    over = Reference(("n", "visit_id"), "dose", ("n", "visit_id"))
    doses = Table(
        "dose", "dose", False, ("visit_id", "n"), columns, (Reference(("visit_id",), "visit", ("visit_id",)),),
        max_rows_per_unit=100,
    )  # fmt: skip
    effects = Table("effect", "effect", False, (), columns, (over,), max_rows_per_unit=100)
    moved = replace(schema, tables=(*schema.tables, doses, effects))
    with closing(open_session(moved, None, ":memory:", ZeroNoise())) as opened:
        known = opened.execute("SELECT COUNT(*) FROM dose").rows
        assert known[0][0] and opened.execute("SELECT COUNT(*) FROM effect").rows == known
        joined = "SELECT COUNT(*) FROM effect e JOIN dose d ON d.n = e.n AND d.visit_id = e.visit_id"
        assert opened.execute(joined).rows == known
