"""Promises of Spark's engine beside its answers: versions, ends, secrets, errors, the owner's verbs."""

from __future__ import annotations

import builtins
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.columns import Column
from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS
from dpsql.core.sqltypes import SqlType
from dpsql.dataset import owner
from dpsql.engines.base import ExactTable, RaisedError
from dpsql.engines.spark import arrow, copies
from dpsql.engines.spark import server as server_module
from dpsql.engines.spark.copies import TableCopy
from dpsql.engines.spark.engine import SparkEngine
from dpsql.engines.spark.server import ClusterAddress, ConnectServer, address
from dpsql.engines.spark.shown import of_owner
from dpsql.plan.tables import PublicTable
from dpsql.schema.model import Schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.engines import cluster
from tests.support import clinic
from tests.support.noise import ZeroNoise

COUNT = "SELECT COUNT(*) FROM patient"


def made(spark: str, folder: Path) -> Schema:
    """Two tables of a clinic, since each costs calls of the server."""
    clinic.write(folder, clinic.database(random.Random(5), wild=False))
    whole = clinic.schema(folder)
    few = replace(whole, tables=tuple(t for t in whole.tables if t.name in ("patient", "visit")))
    return cluster.moved(few, spark, folder.name)


@pytest.fixture
def schema(spark: str, tmp_path: Path) -> Schema:
    return made(spark, tmp_path)


@pytest.fixture(scope="module")
def session(spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """For what changes no file."""
    with closing(open_session(made(spark, tmp_path_factory.mktemp("kept")), None, ":memory:", ZeroNoise())) as opened:
        yield opened


def files(schema: Schema, table: str) -> Path:
    return cluster.folder_of(schema.source) / table


def engine_of(session: Session) -> SparkEngine:
    found = session._world.dataset.engine
    assert isinstance(found, SparkEngine)
    return found


# --- what needs no server ---------------------------------------------------------------------------------------------


def test_an_address_has_a_folder_of_ours_and_no_secret_where_it_is_written() -> None:
    held = address("sc://host:15002/;token=hidden;folder=/data/shop/")
    assert held == ClusterAddress("sc://host:15002/;token=hidden", "/data/shop")
    assert held.place == "sc://host:15002/;folder=/data/shop"
    assert address("sc://host:15002/;folder=/data/shop;prepared=safe").prepared == "safe"
    assert address("sc://host:15002") == ClusterAddress("sc://host:15002", "")


def test_the_owners_words_are_put_in_those_of_spark() -> None:
    asked = """SELECT CAST("a VARCHAR" AS VARCHAR) WHERE x SIMILAR TO '-?(0|1)' AND y = 'AS VARCHAR \\ ''' AND z AS DOUBLE PRECISION"""
    own = """SELECT CAST("a VARCHAR" AS STRING) WHERE x RLIKE '^(-?(0|1))$' AND y = 'AS VARCHAR \\\\ ''' AND z AS DOUBLE"""
    assert of_owner(asked) == own


def test_without_the_driver_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name.startswith("pyspark"):
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Error, match=r"DPSQL-707.*pyspark-client.*pip install 'dpsql\[spark\]'"):
        ConnectServer("sc://127.0.0.1:1")


# --- versions ---------------------------------------------------------------------------------------------------------


def rewritten(schema: Schema) -> None:
    file = files(schema, "patient") / "part-0.parquet"
    with closing(duckdb.connect()) as connection:
        connection.execute(f"CREATE TABLE held AS SELECT * FROM '{file}' ORDER BY age LIMIT 3")
        connection.execute(f"COPY held TO '{file}' (FORMAT parquet)")


def added(schema: Schema) -> None:
    shutil.copy(files(schema, "patient") / "part-0.parquet", files(schema, "patient") / "part-1.parquet")


def removed(schema: Schema) -> None:
    (files(schema, "patient") / "part-0.parquet").unlink()


@pytest.mark.parametrize("change", [rewritten, added, removed])
def test_a_version_that_moves_between_check_and_statement_is_not_read(
    schema: Schema, change: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """708 before the charge; and where it moved after it, 702, with nothing released."""
    assert callable(change)
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        change(schema)
        with pytest.raises(Error, match=r"DPSQL-708"):
            opened.execute(f"{COUNT} WHERE age > 1")
        assert opened._world.ledger.spent() == NO_LOSS
        monkeypatch.setattr(SparkEngine, "unchanged", lambda engine: True)
        with pytest.raises(Error, match=r"DPSQL-702") as raised:
            opened.execute(f"{COUNT} WHERE age > 2")
        assert raised.value.__context__ is None and opened._world.ledger.spent() != NO_LOSS


def test_the_listing_behind_a_statement_is_that_before_the_next(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls a statement. What moves in between is found behind the next one, which releases nothing."""
    asked: list[object] = []
    real = ConnectServer._read
    monkeypatch.setattr(ConnectServer, "_read", lambda *given: asked.append(given) or real(*given))
    monkeypatch.setattr("dpsql.engines.spark.engine.RECENT", 3600.0)
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        opened.execute(f"{COUNT} WHERE age > 1")
        asked.clear()
        opened.execute(f"{COUNT} WHERE age > 2")
        assert len(asked) == 2
        rewritten(schema)
        with pytest.raises(Error, match=r"DPSQL-702"):
            opened.execute(f"{COUNT} WHERE age > 3")
        spent = opened._world.ledger.spent()
        with pytest.raises(Error, match=r"DPSQL-708"):
            opened.execute(f"{COUNT} WHERE age > 4")
        assert opened._world.ledger.spent() == spent


def test_files_that_come_later_are_not_read_even_if_nobody_looks(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the look after a statement it reads the files that were there when it was opened all the same."""
    monkeypatch.setattr(SparkEngine, "unchanged", lambda engine: True)
    monkeypatch.setattr(SparkEngine, "_require", lambda engine: None)
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        engine = engine_of(opened)
        known = engine.owner_rows(COUNT)
        added(schema)
        assert engine.owner_rows(COUNT) == known


def test_the_same_rows_in_other_files_are_the_same_version(schema: Schema, tmp_path: Path) -> None:
    with closing(Ledger.open(tmp_path / "a.ledger", ledger_identity(schema))) as ledger:
        report = owner.check(schema, ledger)
        file = files(schema, "patient") / "part-0.parquet"
        with closing(duckdb.connect()) as connection:
            connection.execute(f"CREATE TABLE held AS SELECT * FROM '{file}' ORDER BY age DESC")
            connection.execute(f"COPY (SELECT * FROM held LIMIT 4) TO '{file}' (FORMAT parquet)")
            other = files(schema, "patient") / "part-1.parquet"
            connection.execute(f"COPY (SELECT * FROM held OFFSET 4) TO '{other}' (FORMAT parquet)")
        assert owner.check(schema, ledger).version == report.version
        rewritten(schema)
        assert owner.check(schema, ledger).version != report.version


# --- secrets and errors -----------------------------------------------------------------------------------------------


def test_no_secret_and_no_value_is_in_what_the_server_keeps(
    session: Session, spark: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    engine = engine_of(session)
    real = engine.exact

    def listening(*given: object, **named: object) -> object:
        asked.append(str(named.get("cut", given[4] if len(given) > 4 else "")))
        return real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "exact", listening)
    session.execute("SELECT site, COUNT(*) FROM patient JOIN visit USING (patient_id) GROUP BY site")
    kept = cluster.events(spark)
    assert any(asked) and "dpsql held" in kept and "SparkListener" in kept
    assert not any(cut in kept for cut in asked if cut) and session._world.ledger.secret.hex() not in kept
    assert not any(cut in "".join(capfd.readouterr()) for cut in asked if cut)


def test_an_error_quotes_no_value(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    engine = engine_of(session)
    with pytest.raises(RaisedError, match=r"DPSQL-701: the engine could not finish") as raised:
        engine.exact("SELECT CAST(note || ' a value' AS INT) FROM patient WHERE note IS NOT NULL", 0, 1)
    assert raised.value.__context__ is None and raised.value.__cause__ is None
    written = capfd.readouterr()
    assert "a value" not in written.err + written.out + str(raised.value)
    for sql in ("SELECT 1.5", "SELECT 1e0", "SELECT 'x'"):
        with pytest.raises(Error, match=r"DPSQL-903"):
            engine.exact(sql, 0, 1)
    with pytest.raises(Error, match=r"DPSQL-901"):
        engine.exact("SELECT 1, 2", 0, 1)


def test_text_that_is_no_utf8_is_null_and_ends_nothing(schema: Schema, spark: str) -> None:
    opened = ConnectServer(spark)
    try:
        folder = cluster.folder_of(schema.source)
        odd = "named_struct('k', 1, 't', CAST(X'ff' AS STRING)), named_struct('k', 2, 't', 'plain')"
        asked = f"SELECT inline(array({odd}))"
        opened.session.sql(asked).write.mode("overwrite").parquet(f"{folder}/odd")
        stored = opened.show("odd", opened.session.read.parquet(f"{folder}/odd"))
        assert stored == [("k", "int"), ("t", "string")]
    finally:
        opened.close()
    alone = of_two_columns(schema, "odd")
    with closing(open_session(alone, None, ":memory:", ZeroNoise())) as session:
        assert [*engine_of(session).owner_rows("SELECT k, t FROM odd ORDER BY k")] == [(1, None), (2, "plain")]


def test_a_table_of_no_released_values_has_its_types(session: Session) -> None:
    columns = tuple((f"a `{name}", SqlType(name)) for name in ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "DATE"))
    none = arrow.table(PublicTable("none", columns, tuple([] for _ in columns)))
    server = engine_of(session)._server
    with server.held(none) as view:
        (typed,) = server.rows(
            f"SELECT count(*), count(CASE WHEN `a ``boolean` THEN `a ``double` + 1 END) FROM `{view}`"
        )
        assert typed == (0, 0) and server.batches(
            f"SELECT * FROM `{view}`", lambda found: next(found).column_names
        ) == [c for c, _ in columns]


# --- ends -------------------------------------------------------------------------------------------------------------

LONG = "SELECT count(*) FROM range(1000000000) AS a CROSS JOIN range(1000) AS b WHERE (a.id * b.id) % 7 = 3"


def test_a_statement_is_ended_from_outside(session: Session) -> None:
    engine, found = engine_of(session), list[str]()

    def ask() -> None:
        try:
            session._guarded(LONG, lambda: engine.exact(LONG, 0, 1))
        except Error as problem:
            found.append(problem.code)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(3.0)
    session.interrupt()
    thread.join(60)
    assert found == ["DPSQL-703"] and session.execute(COUNT).rows


def test_a_statement_ends_with_its_time(schema: Schema) -> None:
    hurried = replace(schema, limits=replace(schema.limits, seconds=3))
    with closing(open_session(hurried, None, ":memory:", ZeroNoise())) as opened:
        engine = opened._world.dataset.engine
        with pytest.raises(Error, match=r"DPSQL-710"):
            opened._guarded(LONG, lambda: engine.exact(LONG, 0, 1))


def ended(engine: SparkEngine) -> None:
    """The server forgets the session, as after an hour in which nobody asked."""
    from pyspark.sql.connect.proto import ReleaseSessionRequest

    client = engine._server.session.client
    asked = ReleaseSessionRequest(session_id=client._session_id)
    asked.user_context.user_id = client._user_id or ""
    client._stub.ReleaseSession(asked)


def test_a_session_that_the_server_closed_is_opened_again(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a charge; the same rows are cut, since the key of the cut is sent anew; and other files are no more read than before."""
    monkeypatch.setattr("dpsql.engines.spark.engine.RECENT", 0.0)
    sql = "SELECT site, COUNT(*) FROM patient JOIN visit USING (patient_id) WHERE age > {} GROUP BY site"
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        engine, known = engine_of(opened), opened.execute(sql.format("-1")).rows
        ended(engine)
        assert opened.execute(sql.format("-2")).rows == known
        ended(engine)
        rewritten(schema)
        with pytest.raises(Error, match=r"DPSQL-708"):
            opened.execute(sql.format("-3"))


def test_a_session_that_is_closed_behind_the_charge_is_opened_for_the_next_statement(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_session(schema, None, ":memory:", ZeroNoise())) as opened:
        engine = engine_of(opened)
        opened.execute(f"{COUNT} WHERE age > 1")
        with monkeypatch.context() as patch:
            patch.setattr(SparkEngine, "unchanged", lambda engine: True)
            ended(engine)
            with pytest.raises(Error, match=r"DPSQL-701"):
                opened.execute(f"{COUNT} WHERE age > 2")
        monkeypatch.setattr("dpsql.engines.spark.engine.RECENT", 0.0)
        assert opened.execute(f"{COUNT} WHERE age > 3").rows and not opened._world.ledger.guarded


# --- batches ----------------------------------------------------------------------------------------------------------


def test_candidates_come_in_batches_and_each_is_sieved_alone(session: Session) -> None:
    """The groups of an answer, each in one batch; and of an answer without groups one batch that has none."""
    engine, sizes = engine_of(session), list[int]()
    engine._server.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")

    def sieve(batch: ExactTable) -> ExactTable:
        (keys,), (counts,) = batch.open_exact()
        sizes.append(len(keys))
        return ExactTable(([*keys][:1],), ([*counts][:1],), Column.of([7][: len(keys)]))

    sql = "SELECT patient_id, '1' FROM patient GROUP BY patient_id"
    (all_keys,), _ = engine.exact(sql, 1, 1).open_exact()
    found = engine.exact(sql, 1, 1, sieve=sieve)
    (keys,), (counts,) = found.open_exact()
    assert len(sizes) > 2 and sum(sizes) == len(all_keys) == len(set(all_keys)) and max(sizes) == 3
    assert len(keys) == len(sizes) and set(keys) <= set(all_keys) and set(counts) == {1}
    assert found.units is not None and found.units.tolist() == [7] * len(keys)
    sizes.clear()
    none = engine.exact(f"{sql} HAVING count(*) > 1000000", 1, 1, sieve=sieve)
    assert sizes == [0] and [*map(len, none.open_exact()[0])] == [0]


def test_an_interrupt_between_two_batches_ends_a_statement(session: Session) -> None:
    """The server has nothing more to do then."""
    engine, seen = engine_of(session), list[int]()
    engine._server.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")

    def sieve(batch: ExactTable) -> ExactTable:
        seen.append(1)
        session.interrupt()
        time.sleep(1.0)
        return batch

    with pytest.raises(Error, match=r"DPSQL-703"):
        session._guarded(
            COUNT, lambda: engine.exact("SELECT patient_id, '1' FROM patient GROUP BY patient_id", 1, 1, sieve=sieve)
        )
    assert seen == [1]


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


@pytest.mark.slow
def test_a_worker_that_is_killed_in_mid_statement_changes_nothing(spark_installed: None, tmp_path: Path) -> None:
    busy = "SELECT count(*), sum((a.id * b.id) % 7) FROM range(0, 200000, 1, 8) AS a CROSS JOIN range(10000) AS b"
    known = [(2_000_000_000, _sum_of_products_mod_7(200_000, 10_000))]
    with ExitStack() as stack:
        url = stack.enter_context(cluster.started("local-cluster[2,1,1024]"))
        engine = stack.enter_context(closing(SparkEngine(made(url, tmp_path), lambda version: None)))
        while len(cluster.workers(url)) < 2:
            time.sleep(0.1)
        found = list[object]()
        thread = threading.Thread(target=lambda: found.extend(engine.owner_rows(busy)))
        thread.start()
        thread.join(1.5)
        working = cluster.workers(url)
        os.kill(working[0], signal.SIGKILL)
        assert len(working) == 2 and thread.is_alive()
        thread.join()
        assert found == known and "SparkListenerExecutorRemoved" in cluster.events(url)
        assert engine.owner_rows(COUNT)[0][0] and engine.unchanged()


def _sum_of_products_mod_7(first: int, second: int) -> int:
    """Of all pairs of numbers below both."""
    by_rest = [[len(range(rest, end, 7)) for rest in range(7)] for end in (first, second)]
    return sum(by_rest[0][i] * by_rest[1][j] * (i * j % 7) for i in range(7) for j in range(7))


# --- the owner --------------------------------------------------------------------------------------------------------


def test_the_owner_checks_and_drafts(schema: Schema, tmp_path: Path) -> None:
    with closing(Ledger.open(tmp_path / "a.ledger", ledger_identity(schema))) as ledger:
        facts = {f.table.name: f for f in owner.check(schema, ledger).tables}
    few = clinic.schema(tmp_path)
    few = replace(few, tables=tuple(t for t in few.tables if t.name in facts))
    with closing(Ledger.open(":memory:", ledger_identity(few))) as ledger:
        for known in owner.check(few, ledger).tables:
            found = facts[known.table.name]
            assert (found.rows, found.unit, found.dangling) == (known.rows, known.unit, known.dangling)
            assert [(c.nulls, c.nans, c.outside, c.infinite, c.too_long, c.unfit) for c in found.columns] == [
                (c.nulls, c.nans, c.outside, c.infinite, c.too_long, c.unfit) for c in known.columns
            ]
    text = owner.init(schema.source.replace("/;", "/;x-hidden=secret;"))
    assert "[tables.patient]" in text and 'income = { type = "DOUBLE"' in text and "secret" not in text


JOINED = "SELECT year, SUM(cost), COUNT(*) FROM visit JOIN patient USING (patient_id) GROUP BY year"


def with_copies(schema: Schema, folder: Path) -> Schema:
    """The schema with a database of its own for copies."""
    server = ConnectServer(schema.source)
    try:
        server.rows(f"DROP DATABASE IF EXISTS safe_{folder.name} CASCADE")
        server.rows(f"CREATE DATABASE safe_{folder.name}")
    finally:
        server.close()
    return replace(schema, source=f"{schema.source};prepared=safe_{folder.name}")


def prepared(schema: Schema, file: Path) -> set[str]:
    """The owner's check with a ledger. Output: the tables that are in the database of copies then."""
    with closing(Ledger.open(file, ledger_identity(schema))) as ledger:
        assert owner.check(schema, ledger, prepare=True).snapshot is not None
    server = ConnectServer(schema.source)
    try:
        found = server.rows(f"SHOW TABLES IN {address(schema.source).prepared}")
        return {str(name) for _, name, temporary in found if not temporary}
    finally:
        server.close()


def plan_of(engine: SparkEngine, sql: str) -> str:
    (row,) = engine._server.rows(f"EXPLAIN EXTENDED {engine._asked(sql, {})}")
    return str(row[0]).partition("== Physical Plan ==")[2]


def test_the_owner_writes_a_copy_in_buckets_of_the_unit_where_the_address_says(schema: Schema, tmp_path: Path) -> None:
    """It is read where it is as it was written, with what was verified, and joined by the unit without a shuffle; answers are those
    of the files."""
    there, file = with_copies(schema, tmp_path), tmp_path / "a.ledger"
    assert len(prepared(there, file)) == 2
    by_unit = (
        'SELECT v."patient_id", count(*) FROM "visit" v JOIN "patient" p ON v."patient_id" = p."patient_id" GROUP BY 1'
    )
    with ExitStack() as stack:
        plain = stack.enter_context(closing(open_session(schema, None, ":memory:", ZeroNoise())))
        copied = stack.enter_context(closing(open_session(there, None, file, ZeroNoise())))
        assert engine_of(copied).is_pinned and copied._world.dataset.facts and not engine_of(plain).is_pinned
        # the same rows are cut
        plain._world.ledger.store.secret = copied._world.ledger.store.secret
        assert sorted(copied.execute(JOINED).rows) == sorted(plain.execute(JOINED).rows)
        for session, moves in ((plain, True), (copied, False)):
            engine = engine_of(session)
            engine._server.session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
            found = plan_of(engine, by_unit)
            assert ("Exchange" in found) == moves and ("SelectedBucketsCount" in found) != moves
        # a session that the server has closed shows the copies again
        ended(engine_of(copied))
        engine_of(copied)._listed_at = -1e9
        assert copied.execute(f"{COUNT} WHERE age > 1").rows and engine_of(copied).is_pinned


def test_a_copy_that_is_not_as_it_was_written_is_not_read(schema: Schema, tmp_path: Path) -> None:
    """Nor is it by who has it open, and the next one takes its place; the version of a copy is that of the files."""
    there, file = with_copies(schema, tmp_path), tmp_path / "a.ledger"
    first, safe, of_others = prepared(there, file), address(there.source).prepared, "dpsql_0123456789abcdef_1"
    (visits,) = (TableCopy.read(path) for path in Path(f"{file}.prepared").glob("*/visit.parquet"))
    server = ConnectServer(schema.source)
    try:
        server.rows(f"CREATE TABLE {safe}.{of_others} (a INT) USING parquet")
        with closing(open_session(there, None, file, ZeroNoise())) as opened:
            known = opened.execute(JOINED).rows
            assert engine_of(opened).is_pinned
            assert visits is not None
            server.rows(f"INSERT INTO {visits.relation} SELECT * FROM {visits.relation}")
            engine_of(opened)._listed_at = -1e9
            with pytest.raises(Error, match=r"DPSQL-708"):
                opened.execute(f"{COUNT} WHERE age > 1")
    finally:
        server.close()
    with closing(open_session(there, None, file, ZeroNoise())) as opened:
        assert not engine_of(opened).is_pinned
        assert sorted(opened.execute(f"/* dpsql: fresh */ {JOINED}").rows) == sorted(known)
    rewritten(schema)
    with closing(Ledger.open(file, ledger_identity(there))) as ledger:
        version = owner.check(there, ledger).version
    assert not (Path(f"{file}.prepared") / version).exists()
    again = prepared(there, file)
    assert first < again and of_others in again and len(again) == 5
    with closing(open_session(there, None, file, ZeroNoise())) as opened:
        assert engine_of(opened).is_pinned and opened.execute("SELECT COUNT(*) AS n FROM patient").rows == [(3,)]
        # the next preparation drops what no file names, and nothing of other data
        server, root = engine_of(opened)._server, Path(f"{file}.prepared")
        copies._sweep(server, copies._dotted(safe), copies._prefix(there), root)
        kept = {str(name) for _, name, temporary in server.rows(f"SHOW TABLES IN {safe}") if not temporary}
        assert kept == again - first


def test_without_a_database_for_it_no_copy_is_made(schema: Schema, tmp_path: Path) -> None:
    with closing(Ledger.open(tmp_path / "a.ledger", ledger_identity(schema))) as ledger:
        with pytest.raises(Error, match=r"DPSQL-801.*names no database") as raised:
            owner.check(schema, ledger, prepare=True)
        assert ";prepared=NAME" in str(raised.value)
        other = replace(schema, source=f"{schema.source};prepared=nowhere")
        with pytest.raises(Error, match=r"DPSQL-704.*database that is named"):
            owner.check(other, ledger, prepare=True)


def test_tables_of_the_catalog_are_read_and_what_has_no_version_is_refused(schema: Schema, spark: str) -> None:
    opened, folder = ConnectServer(spark), cluster.folder_of(schema.source)
    plain = spark.partition("/;")[0]
    try:
        for sql in (
            "CREATE DATABASE IF NOT EXISTS ward",
            "DROP TABLE IF EXISTS ward.patient",
            f"CREATE TABLE ward.patient USING parquet LOCATION '{folder}/patient'",
            "CREATE OR REPLACE VIEW ward.seen AS SELECT * FROM ward.patient",
            "CREATE TABLE IF NOT EXISTS ward.lines (a INT) USING csv",
        ):
            opened.rows(sql)
    finally:
        opened.close()
    (patient,) = (t for t in schema.tables if t.name == "patient")
    held = replace(schema, source=plain, tables=(replace(patient, source="ward.patient", references=()),))
    with closing(open_session(held, None, ":memory:", ZeroNoise())) as session:
        assert session.execute(COUNT).rows[0][0]
    for source, told in (
        ("ward.seen", "it is a view"),
        ("ward.lines", "stored as csv"),
        (
            "delta:/data/x",
            "cannot read: start it with the jar io.delta:delta-spark of its version of Spark.*DeltaCatalog",
        ),
        ("iceberg:/data/x", "stored as iceberg, and has no version that is known here: write it as Parquet"),
        ("ward.gone", "has no such table"),
        ("/gone/away", "no folder or file"),
    ):
        other = replace(held, tables=(replace(held.tables[0], source=source),))
        with pytest.raises(Error, match=rf"DPSQL-707.*{told}"):
            open_session(other, None, ":memory:")
    assert '[tables."ward.patient"]' in owner.init(plain)


def commit(folder: Path, number: int) -> None:
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    (folder / "_delta_log" / f"{number:020}.json").write_text(f'{{"commitInfo": {number}}}')


def delta_stand_in(session: object) -> None:
    """A stand-in for Delta Lake on the server: of commit n there are n + 1 rows."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Rows(DataSourceReader):
        def __init__(self, number: int) -> None:
            self.number = number

        def read(self, partition: object) -> Iterator[tuple[int, str]]:
            yield from ((k, "text") for k in range(self.number + 1))

    class Commits(DataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> str:
            return "k bigint, t string"

        def reader(self, schema: object) -> Rows:
            return Rows(int(self.options.get("versionAsOf", "99")))

    session.dataSource.register(Commits)  # type: ignore[attr-defined]


@pytest.fixture
def reads_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    real = server_module._connected

    def connected(remote: str) -> object:
        found = real(remote)
        delta_stand_in(found)
        return found

    monkeypatch.setattr(server_module, "_connected", connected)


def test_a_table_of_delta_lake_is_read_as_of_the_commit_that_it_was_opened_on(
    schema: Schema, reads_delta: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is the listing of the commits; what is read is the last of them, whatever is committed later."""
    folder = files(schema, "delta")
    commit(folder, 9)
    commit(folder, 10)
    with closing(open_session(of_two_columns(schema, "delta:delta"), None, ":memory:", ZeroNoise())) as session:
        engine = engine_of(session)
        assert session.execute("SELECT COUNT(*) FROM odd").rows == [(11,)]
        commit(folder, 11)
        engine._listed_at = -1e9
        with pytest.raises(Error, match=r"DPSQL-708"):
            session.execute("SELECT COUNT(*) FROM odd WHERE k > 1")
        monkeypatch.setattr(SparkEngine, "_require", lambda engine: None)
        assert engine.owner_rows("SELECT COUNT(*) FROM odd") == [(11,)]
    with closing(open_session(of_two_columns(schema, "delta:delta"), None, ":memory:", ZeroNoise())) as session:
        assert engine_of(session).owner_rows("SELECT COUNT(*) FROM odd") == [(12,)]


def test_a_folder_of_delta_lake_is_declared_so(schema: Schema, reads_delta: None) -> None:
    """As Parquet the files of rows that were removed would be read too; a draft declares it so."""
    folder = files(schema, "delta")
    shutil.copytree(files(schema, "patient"), folder)
    plain, whole = of_two_columns(schema, "delta"), of_two_columns(schema, str(folder))
    for declared in (plain, whole):
        with pytest.raises(Error, match=r"DPSQL-804"):
            open_session(declared, None, ":memory:")
    commit(folder, 0)
    for declared, told in ((plain, "delta:delta"), (whole, f"delta:{folder}")):
        with pytest.raises(Error, match=rf'DPSQL-707.*removed rows too: write source = "{told}"'):
            open_session(declared, None, ":memory:")
    text = owner.init(schema.source)
    assert '[tables.delta]\nsource = "delta:delta"' in text and "[tables.patient]" in text


def test_a_folder_of_delta_lake_alone_is_no_empty_one(schema: Schema) -> None:
    """A draft says what the server lacks that cannot read it."""
    folder = files(schema, "lake") / "orders"
    shutil.copytree(files(schema, "patient"), folder)
    commit(folder, 0)
    with pytest.raises(Error, match=r"DPSQL-707.*table delta:orders: .*jar io.delta:delta-spark"):
        owner.init(f"{schema.source}/lake")


def test_what_has_rows_that_were_removed_is_refused_and_named_in_a_draft(schema: Schema) -> None:
    """A log of Hudi, and one of Delta Lake in a folder of a partition; others are drafted beside them."""
    for name, log in (("hudi", ".hoodie/hoodie.properties"), ("within", "k=1/_delta_log/00000000000000000000.json")):
        shutil.copytree(files(schema, "patient"), files(schema, name))
        path = files(schema, name) / log
        path.parent.mkdir(parents=True)
        path.write_text("{}")
        with pytest.raises(Error, match=r"DPSQL-707.*it is of Hudi.* removed rows too: write it as Parquet"):
            open_session(of_two_columns(schema, name), None, ":memory:")
    shutil.copytree(files(schema, "patient"), files(schema, "lake"))
    commit(files(schema, "lake"), 0)
    text = owner.init(schema.source)
    assert "[tables.patient]" in text and "[tables.hudi]" not in text
    for name, told in (("hudi", "of Hudi"), ("within", "of Hudi"), ("delta:lake", "stored as Delta Lake")):
        assert f"# CHECK: left out table {name}: it is {told}" in text


def of_two_columns(schema: Schema, source: str) -> Schema:
    """One table `odd` with the unit k and a text t."""
    patient = next(t for t in schema.tables if t.name == "patient")
    note, key = patient.column("note"), patient.column("patient_id")
    assert note is not None and key is not None
    columns = replace(key, name="k"), replace(note, name="t")
    table = replace(patient, name="odd", source=source, key=("k",), references=(), columns=columns)
    return replace(schema, tables=(table,), privacy=replace(schema.privacy, unit="odd.k"))


def test_what_is_not_declared_so_is_told(schema: Schema) -> None:
    (patient,) = (t for t in schema.tables if t.name == "patient")
    born = tuple(replace(c, name="birth") if c.name == "born" else c for c in patient.columns)
    other = replace(schema, tables=tuple(replace(t, columns=born) if t is patient else t for t in schema.tables))
    with pytest.raises(Error, match=r"DPSQL-804.*has no column birth"):
        open_session(other, None, ":memory:")
