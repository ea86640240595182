"""practice: invented tables are a function of the declarations alone, have the declared structure, and are asked as data would be."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity
from dpsql.session.practising import FILE, practice

TOML = """
[dataset]
name = "club"
source = "."
[privacy]
unit = "member.id"
epsilon = 1
delta = 1e-6
units = 500
[analysts.ann]
epsilon = 0.5
[tables.member]
source = "member.csv"
key = ["id"]
[tables.member.columns]
id = { type = "INTEGER" }
town = { type = "VARCHAR", domain = { from = "town.name" } }
born = { type = "DATE", bounds = [1920-01-01, 2010-12-31] }
fee = { type = "DECIMAL(8,2)", bounds = [0, 900.5], nullable = true }
vip = { type = "BOOLEAN" }
note = { type = "VARCHAR" }
[tables.visit]
source = "visit.csv"
references = { id = "member.id" }
max_rows_per_unit = 4
[tables.visit.columns]
id = { type = "INTEGER" }
hour = { type = "INTEGER", domain = [8, 12, 18] }
[tables.town]
source = "town.csv"
public = true
key = ["name"]
"""


def club(folder: Path, members: int) -> Path:
    """A club whose members are all alike, so that two of different sizes share no statistic."""
    folder.mkdir()
    (folder / "schema.toml").write_text(TOML)
    rows = "".join(f"{i},North,1999-01-0{members},1.5,true,x{members}\n" for i in range(members))
    (folder / "member.csv").write_text("id,town,born,fee,vip,note\n" + rows)
    (folder / "visit.csv").write_text("id,hour\n" + "".join(f"{i},8\n" for i in range(members)))
    (folder / "town.csv").write_text("name,inhabitants\nNorth,10\nSouth,20\n")
    return folder / "schema.toml"


def practised(folder: Path, members: int) -> Path:
    schema = read_schema(club(folder, members))
    with closing(Ledger.open(":memory:", ledger_identity(schema))) as ledger:
        owner.check(schema, ledger)
        return practice(schema, ledger, folder / "practice")


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    with closing(duckdb.connect(str(path.parent / FILE), read_only=True)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_it_tells_nothing_of_people(tmp_path: Path) -> None:
    one, other = practised(tmp_path / "one", 2), practised(tmp_path / "other", 9)
    for table in ("member", "visit", "town"):
        assert rows(one, table) == rows(other, table)
    assert one.read_text() == other.read_text()


def test_it_has_the_declared_structure_and_values(tmp_path: Path) -> None:
    path = practised(tmp_path / "club", 3)
    members, visits = rows(path, "member"), rows(path, "visit")
    assert len(members) == 500 == len({member[0] for member in members})
    assert {member[1] for member in members} == {"North", "South"} and len({member[4] for member in members}) == 2
    assert any(member[3] is None for member in members) and any(member[3] is not None for member in members)
    assert {visit[0] for visit in visits} <= {member[0] for member in members} and {v[1] for v in visits} == {8, 12, 18}
    assert rows(path, "town") == [("North", 10), ("South", 20)]
    schema = read_schema(path)
    assert schema.analysts is None and schema.privacy.query == read_schema(tmp_path / "club/schema.toml").privacy.query


def test_statements_cost_and_err_as_over_the_data(tmp_path: Path) -> None:
    path = practised(tmp_path / "club", 3)
    sql = "SELECT town, COUNT(*) AS n, SUM(fee) AS fees FROM member JOIN town ON town = name GROUP BY town"
    with dpsql.connect(path) as connection:
        assert connection.execute(sql).fetchall()
        plan = connection.explain(sql)
    schema = read_schema(tmp_path / "club/schema.toml")
    with closing(Ledger.open(tmp_path / "club/club.ledger", ledger_identity(schema))) as ledger:
        owner.check(schema, ledger)
    with dpsql.connect(schema, analyst="ann") as connection:
        lines = [line for line in connection.explain(sql).splitlines() if "half-width" in line or "scale" in line]
    assert lines and all(line in plan for line in lines)


def test_a_thousand_statements_do_not_end_it(tmp_path: Path) -> None:
    path = practised(tmp_path / "club", 3)
    with dpsql.connect(path) as connection:
        price = connection.price("SELECT note, COUNT(*) AS n FROM member GROUP BY note")
        assert (
            price.delta > 0 and price.remaining_delta / price.delta > 10**6 and price.remaining / price.epsilon > 10**6
        )


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = practised(tmp_path / "club", 3)
    before = (path.parent / FILE).read_bytes()
    schema = read_schema(tmp_path / "club/schema.toml")
    with (
        closing(Ledger.open(tmp_path / "l.ledger", ledger_identity(schema))) as ledger,
        pytest.raises(Error, match="is there already"),
    ):
        owner.check(schema, ledger)
        practice(schema, ledger, path.parent)
    assert (path.parent / FILE).read_bytes() == before
