"""dpsql init at a terminal: it asks, writes what was answered to schema.toml, and the check of that approves."""

from __future__ import annotations

import gzip
import os
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.clients.cli.main import main
from dpsql.core.domains import UNBOUNDED, Categories, Interval
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema

pexpect = pytest.importorskip("pexpect")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Customers, gzipped; orders, a file a day; and a table about nobody, with tabs."""
    folder = tmp_path / "shop"
    (folder / "orders").mkdir(parents=True)
    people = "".join(f"{i},{20 + i % 50},{i % 2 == 0}\n" for i in range(1, 101))
    (folder / "customers.csv.gz").write_bytes(gzip.compress(f"customer_id,age,vip\n{people}".encode()))
    for day in (1, 2):
        rows = "".join(f"{100 * day + i},{i},{i / 2},paid,x\n" for i in range(1, 101))
        (folder / f"orders/2026-01-0{day}.csv").write_text(f"order_id,customer_id,amount,status,note\n{rows}")
    (folder / "rates.tsv").write_text("country\trate\nAT\t0.2\nDE\t0.19\n")
    return folder


def test_it_asks_and_what_it_writes_is_approved(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    asked = pexpect.spawn(
        sys.executable,
        ["-m", "dpsql", "init", "."],
        cwd=str(shop),
        env={**os.environ, "PYTHONPATH": path, "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"},
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 200),
    )
    asked.expect(r"Read all their values to find some\? \[yes\] ")
    asked.sendline("")
    asked.expect("3 tables: customers, rates, orders")
    for question, answer in (
        (r"Whose privacy counts\?.*\[customers.customer_id\]: ", "customers.name"),
        ("There is no such column; the columns are customers.customer_id", None),
        (r"Whose privacy counts\?.*: ", ""),
        ("How many people are there", "some"),
        ("Write a whole number above 0", None),
        ("How many people are there", "100"),
        (r"rates: has it rows about people\?.*\[no\]: ", ""),
        (r"orders: has it rows about people\?.*\[yes\]: ", ""),
        (r"orders: the most rows of one person that count \[10\]: ", "5"),
        ("a point leaves the rest as it is", None),
        (r"customers.age: bounds.*\[\[0, 120\]\]: ", ""),
        (r"orders.amount: bounds.*\[none\]: ", "500 to 0"),
        ("Write two numbers, the smaller one first", None),
        (r"orders.amount: bounds.*: ", "00 to 0500.50"),
        (r"orders.status: the values.*: ", "new, paid"),
        (r"orders.note: the values.*: ", "."),
        (r"Write it to schema.toml\? \[yes\] ", ""),
    ):
        asked.expect(question)
        if answer is not None:
            asked.sendline(answer)
    asked.expect("dpsql check schema.toml")
    asked.expect(pexpect.EOF)
    schema = read_schema(shop / "schema.toml")
    assert (schema.privacy.unit, schema.privacy.units, float(schema.privacy.budget.delta)) == (
        "customers.customer_id",
        100,
        1e-3,
    )
    assert [(t.name, t.source, t.public, t.max_rows_per_unit) for t in schema.tables] == [
        ("customers", "customers.csv.gz", False, None),
        ("rates", "rates.tsv", True, None),
        ("orders", "orders/*.csv", False, 5),
    ]
    (orders,) = (table for table in schema.tables if table.name == "orders")
    (amount,) = (column for column in orders.columns if column.name == "amount")
    assert amount.domain == Interval(Fraction(0), Fraction(1001, 2))
    assert {c.name: c.domain for c in orders.columns if c.sqltype.is_text} == {
        "status": Categories(("new", "paid")),
        "note": UNBOUNDED,
    }
    monkeypatch.setenv("XDG_STATE_HOME", str(shop.parent / "state"))
    assert main(["check", str(shop / "schema.toml")]) == 0
    said = capsys.readouterr().out
    assert "table orders: 200 rows" in said and "public: rates" in said
    assert main([str(shop / "schema.toml"), "--mode", "csv", "-c", "SELECT SUM(rate) FROM rates"]) == 0
    assert "0.39" in capsys.readouterr().out
    assert main([str(shop / "schema.toml"), "-c", "SELECT SUM(amount) FROM orders"]) == 0


def test_without_a_terminal_it_drafts(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(shop), "--yes"]) == 0
    text = capsys.readouterr().out
    assert 'source = "orders/*.csv"' in text and 'customer_id = { type = "VARCHAR" }' in text
    assert "read off all their values" not in text
    assert main(["init", str(shop), "--sniff", "--yes"]) == 0
    text = capsys.readouterr().out
    assert "read off all their values" in text and 'customer_id = { type = "BIGINT" }' in text


def test_files_of_days_beside_others(tmp_path: Path) -> None:
    for name in ("log_2026-01-01.csv", "log_2026-01-02.csv", "logs.csv", "part-1.tsv", "part-2.tsv", "x1.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n" if name.endswith("csv") else "a\tb\n1\t2\n")
    (tmp_path / "shop.ledger.prepared").mkdir()
    (tmp_path / "shop.ledger.prepared/a.csv").write_text("a\n1\n")
    text = owner.init(tmp_path)
    written = [line.removeprefix("source = ").strip('"') for line in text.splitlines() if line.startswith("source = ")]
    assert sorted(written[1:]) == ["log_*.csv", "logs.csv", "part-*.tsv", "x1.csv"]


def test_a_folder_without_tables_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path)]) == 4
    assert "holds no Parquet or CSV file; write a folder that holds some" in capsys.readouterr().err
    (tmp_path / "events.xlsx").write_text("{}")
    assert main(["init", str(tmp_path)]) == 4
    assert "events.xlsx is not read: write it as Parquet" in capsys.readouterr().err
