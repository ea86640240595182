"""An engine that comes as one folder works everywhere: tests/support/made_up_engine, found by the entry point of a package of its own.

Outside their folders nothing imports a concrete engine but what is DuckDB's by design: the sandbox, and what runs in one like it.
"""

from __future__ import annotations

import ast
import random
import sys
from contextlib import closing
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.dataset.preparing import prepare
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.registry import kind_of
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.parsed import nodes_of

ROOT = Path(__file__).parents[2]
IN_A_SANDBOX = {
    "clients/server/catalog.py",
    "clients/server/pg_catalog.py",
    "postprocess/declared.py",
    "postprocess/sandbox.py",
    "guard/units.py",
}


@pytest.fixture
def loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A schema whose source is of the made-up engine, which an installed package adds."""
    package = tmp_path / "site" / "made_up_engine-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up-engine\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[dpsql.engines]\nloud = tests.support.made_up_engine:LOUD\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    path = clinic.write(tmp_path, clinic.database(random.Random(17), wild=False))
    schema = tmp_path / "schema.toml"
    schema.write_text(clinic.schema_text().replace(f'source = "{path.name}"', f'source = "loud:{path}"'))
    assert "loud:" in schema.read_text()
    return schema


def test_it_answers_as_any_other(loud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    exact = DuckDBEngine.exact

    def listening(engine: DuckDBEngine, sql: str, *rest: object, **named: object) -> object:
        texts.append(sql)
        return exact(engine, sql, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "exact", listening)
    with closing(open_session(loud, None, ":memory:", ZeroNoise())) as session:
        rows = session.execute("SELECT site, count(*) FROM patient GROUP BY site ORDER BY site").rows
    assert rows and texts and all(text.startswith("/* loud */") for text in texts)


def test_what_it_lacks_is_refused_by_name_before_the_charge(loud: Path) -> None:
    with closing(open_session(loud, None, ":memory:", ZeroNoise())) as session:
        before = session.execute("SHOW BUDGET").rows
        with pytest.raises(Error, match="DPSQL-104: Loud has no UPPER"):
            session.execute("SELECT count(*) FROM patient WHERE upper(note) = 'A'")
        assert session.execute("SHOW BUDGET").rows == before


def test_the_owner_checks_binds_and_drafts_with_it(loud: Path, tmp_path: Path) -> None:
    schema = read_schema(loud)
    with closing(Ledger.open(tmp_path / "a.ledger", ledger_identity(schema))) as ledger:
        assert owner.check(schema, ledger).tables
        with pytest.raises(Error, match="DPSQL-801: Loud makes no prepared snapshot"):
            prepare(schema, ledger, "v")
    with (
        closing(Ledger.open(tmp_path / "b.ledger", ledger_identity(schema))) as other,
        pytest.raises(Error, match="DPSQL-714"),
    ):
        owner.check(schema, other)
    assert 'source = "loud:' in owner.init(schema.source)


def test_an_unknown_scheme_is_refused_with_those_that_are_known(loud: Path, tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"DPSQL-707: .*no engine reads soft:.*duckdb, loud"):
        kind_of("soft:data")
    assert kind_of("data") is kind_of("duckdb:data") is kind_of(r"c:\data")


def test_no_other_room_imports_a_concrete_engine() -> None:
    found = []
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        place = path.relative_to(ROOT / "dpsql").as_posix()
        if place.startswith("engines/") or place in IN_A_SANDBOX:
            continue
        for node in nodes_of(path.read_text()):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{place}: {name}" for name in names if name.startswith("dpsql.engines.") and name.count(".") > 2]
    assert found == []
    assert dpsql.__name__ in sys.modules
