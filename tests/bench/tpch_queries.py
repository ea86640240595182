"""The TPC-H queries: dpsql beside plain DuckDB on the same files, in each way that a dataset can be opened; memory; planning.

python -m tests.bench.tpch_queries FOLDER (plain | unverified | prepared) LEDGER (QUERY's number | 0)
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory

import duckdb

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.connection import Connection
from dpsql.dataset import owner
from dpsql.dataset.opening import open_dataset
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.bench.memory import MEBIBYTE, _most
from tests.bench.timing import Pair, Times, fresh, heading, ms, p95, repeated, show, side_by_side
from tests.bench.workloads import by_row
from tests.support import tpch
from tests.support.copies import linked
from tests.support.planning import compile_statement

EPSILON = 8.0
NOTHING = 0
"""In place of a query's number: what the process takes by itself."""
SETTINGS = {
    "unverified": "opened without `dpsql check`",
    "prepared": "a prepared snapshot by `dpsql check --prepare`",
    "cut": "a prepared snapshot, and limits that cut the busiest customers' rows, so that every limit is enforced",
}
CUT = {"orders": 25, "lineitem": 100}
"""Rows of one customer in setting "cut": below what a few customers have."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query in one setting. pair: its times, or None where `refused` has the code of the refusal."""

    number: int
    shown: int = 0
    pair: Pair | None = None
    refused: str = ""


def compare(folder: Path, rounds: int) -> None:
    """Every answered query in every setting, each in turn with plain DuckDB; then the peaks of memory; then planning."""
    with TemporaryDirectory() as scratch:
        ledgers = {setting: approved(folder, setting, Path(scratch)) for setting in SETTINGS}
        for setting, ledger in ledgers.items():
            _compare(folder, setting, ledger, rounds)
        _memory(folder, ledgers)
        _planning(folder)


def approved(folder: Path, setting: str, scratch: Path) -> Path:
    """A ledger in which the data is approved in that way; see `data`."""
    path = scratch / setting
    schema = declared(linked(folder, data(path)), setting)
    with _ledger(schema, path) as ledger:
        if setting in ("unverified", "row"):
            open_dataset(schema, ledger, approve=True).engine.close()
        else:
            owner.check(schema, ledger, prepare=True)
    return path


def data(ledger: Path) -> Path:
    """The folder of the data that is bound to a ledger."""
    return ledger.with_name(f"{ledger.name}-data")


def declared(folder: Path, setting: str) -> Schema:
    """The declared schema, with the unit and the limits of a setting."""
    if setting.startswith("row"):
        return by_row(folder)
    schema = tpch.schema(folder)
    if setting != "cut":
        return schema
    tables = (replace(t, max_rows_per_unit=CUT.get(t.name, t.max_rows_per_unit)) for t in schema.tables)
    return replace(schema, tables=tuple(tables))


@contextmanager
def _ledger(schema: Schema, path: Path) -> Iterator[Ledger]:
    ledger = Ledger.open(path, ledger_identity(schema))
    try:
        yield ledger
    finally:
        ledger.close()


# --- times --------------------------------------------------------------------------------------------------------


def _compare(folder: Path, setting: str, ledger: Path, rounds: int) -> None:
    plain = tpch.plain(folder)
    with dpsql.connect(declared(data(ledger), setting), ledger=ledger) as connection:
        found = [_ask(connection, plain, number, rounds) for number in tpch.ANSWERED]
    plain.close()
    heading(f"TPC-H, {setting} ({SETTINGS[setting]}): dpsql beside plain DuckDB on Parquet, median of {rounds}")
    show(("query", "rows", "dpsql s", "plain s", "ratio", "over s", "processor ratio", ""), [_line(a) for a in found])
    _summary(found)


def _ask(connection: Connection, plain: duckdb.DuckDBPyConnection, number: int, rounds: int) -> Asked:
    """The times of one query; every repetition has a price of its own, so that no stored answer hides the work."""
    sql, shown = tpch.query(number), 0

    def ours() -> None:
        nonlocal shown
        shown = len(connection.execute(fresh(sql, EPSILON)).fetchall())

    try:
        pair = side_by_side(ours, lambda: plain.execute(sql).fetchall(), rounds)
    except dpsql.Error as refused:
        return Asked(number, refused=refused.code)
    return Asked(number, shown, pair)


def _line(asked: Asked) -> tuple[str, ...]:
    name, pair = f"Q{asked.number}", asked.pair
    if pair is None:
        return name, *[""] * 6, f"not answered: {asked.refused}"
    times = f"{median(pair.ours.passed):.3f}", f"{median(pair.plain.passed):.3f}", f"{pair.ratio:.2f}"
    return name, f"{asked.shown:,}", *times, f"{median(pair.over.passed):.3f}", f"{pair.processor_ratio:.2f}", ""


def _summary(found: list[Asked]) -> None:
    """The geometric mean of the ratios, and the worst of them."""
    ratios = {asked.number: asked.pair.ratio for asked in found if asked.pair is not None}
    if not ratios:
        print("no query was answered")
        return
    worst = max(ratios, key=ratios.__getitem__)
    mean = geometric_mean(ratios.values())
    print(f"{len(ratios)} of {len(found)} answered; geometric mean {mean:.2f}, worst Q{worst} {ratios[worst]:.2f}")


# --- memory -------------------------------------------------------------------------------------------------------


def _memory(folder: Path, ledgers: dict[str, Path]) -> None:
    """The peak of every query, one process each; the data was approved before, so none holds the verification."""
    heading("TPC-H, peak memory of a process [MiB]")
    kinds = {"plain": Path("none"), **ledgers}
    body = []
    for number in (NOTHING, *tpch.ANSWERED):
        peaks = [_peak(folder, kind, ledger, number) for kind, ledger in kinds.items()]
        body.append((f"Q{number}" if number != NOTHING else "imported, nothing asked", *peaks, ""))
    show(("query", *kinds, ""), body)


def _peak(folder: Path, kind: str, ledger: Path, number: int) -> str:
    """[MiB] or "" where the query is not answered."""
    command = [sys.executable, "-m", "tests.bench.tpch_queries", str(folder), kind, str(ledger), str(number)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{int(found) / MEBIBYTE:,.0f}" if found else ""


def _work(folder: Path, kind: str, ledger: Path, number: int) -> bool:
    """Ask once in this process; whether it was answered."""
    if number == NOTHING:
        return True
    if kind == "plain":
        tpch.plain(folder).execute(tpch.query(number)).fetchall()
        return True
    with dpsql.connect(declared(data(ledger), kind), ledger=ledger) as connection:
        try:
            # The ledger has answers at other prices.
            connection.execute(fresh(tpch.query(number), EPSILON + 1)).fetchall()
        except dpsql.Error:
            return False
    return True


# --- planning -----------------------------------------------------------------------------------------------------


def _planning(folder: Path, rounds: int = 40) -> None:
    """From text to engine SQL, or to the refusal, for each of the 22."""
    heading(f"TPC-H, planning, {rounds} rounds")
    found = _planned_all(folder, rounds)
    body = [_planning_line(f"Q{number}", times, code) for number, (times, code) in found.items()]
    every = Times([t for times, _ in found.values() for t in times.passed])
    show(("query", "p50", "p95", ""), [*body, _planning_line("all 22", every, "")])


def planning_times(folder: Path, rounds: int) -> Times:
    """Of all 22 together."""
    found = [times for times, _ in _planned_all(folder, rounds).values()]
    return Times([t for times in found for t in times.passed], [t for times in found for t in times.processor])


def _planned_all(folder: Path, rounds: int) -> dict[int, tuple[Times, str]]:
    session = open_session(tpch.schema(folder), None, ":memory:")
    found = {number: _planned(number, session, rounds) for number in tpch.QUERIES}
    session.close()
    return found


def _planned(number: int, session: Session, rounds: int) -> tuple[Times, str]:
    """The times, and the code of the refusal or ""."""
    sql, code, world = tpch.query(number), "", session._world

    def plan() -> None:
        nonlocal code
        try:
            compile_statement(parse(sql), Options(), session.schema, world.catalog, identities=world.identities)
        except dpsql.Error as refused:
            code = refused.code

    return repeated(plan, rounds), code


def _planning_line(name: str, times: Times, code: str) -> tuple[str, ...]:
    return name, ms(median(times.passed)), ms(p95(times.passed)), f"refused: {code}" if code else ""


if __name__ == "__main__":
    if _work(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])):
        print(_most())
