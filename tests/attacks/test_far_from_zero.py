"""A clamp far from zero is computed without failing, whether anybody is there or not (rule 39): an engine that failed on the first row
would say for nothing that there is one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dpsql.aggregates import term
from dpsql.core.errors import Error
from dpsql.planner.total import Texts
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise

FAR = "100000000000000000000"
VALUES = [
    f"age + {FAR}",
    f"age - {FAR}",
    f"CAST(score AS DECIMAL(30,2)) + 10{FAR}",
    "CAST(age AS HUGEINT) * 1000000000000000000000000",
    "age + 1e22",
    "CAST(age AS UBIGINT) + 18446744073709551000",
]
AGGREGATES = [
    "MEDIAN({x})",
    "QUANTILE_DISC({x}, 0.9)",
    "MAX({x})",
    "MIN({x})",
    "VAR_POP({x})",
    "STDDEV({x})",
    "CORR({x}, weight)",
    "COVAR_POP(weight, {x})",
    "REGR_SLOPE(weight, {x})",
    "SUM({x})",
    "AVG({x})",
    "dp_sum({x}, bounds := 'auto')",
    "dp_clamped({x})",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("far")
    clinic.schema(folder)
    data = clinic.database(random.Random(3), wild=False)
    row = (1, 1, True, 20.0, 80.0, 11, "50.00", "a", "n1", "1995-01-15", 1)
    clinic.write(folder, {**data, "patient": [row], "visit": [], "item": []})
    opened = open_session(folder / "patient.toml", None, ":memory:")
    opened._world.release._noise = ZeroNoise()
    yield opened
    opened.close()


def fails(session: Session, sql: str) -> str | None:
    """The code of what goes wrong."""
    try:
        session.execute(sql)
    except Error as problem:
        return problem.code
    return None


@pytest.mark.few(7)
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("value", VALUES)
def test_the_first_row_changes_nothing(session: Session, value: str, aggregate: str) -> None:
    """Somebody is 11, nobody is 12."""
    asked = aggregate.format(x=value)
    found = {age: fails(session, f"SELECT {asked} FROM patient WHERE age = {age} AND site = 1") for age in (11, 12)}
    assert found[11] == found[12]
    assert found[11] in (None, "DPSQL-201", "DPSQL-202")


def test_the_fault_tells_nobody_anything(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """With limits wherever the spread alone puts them, the first row would fail, and that alone: what runs is guarded before."""
    monkeypatch.setattr(term, "FARTHEST", 2**200)
    monkeypatch.setattr(term.Term, "__post_init__", lambda self: None)
    asked = f"MEDIAN(age + {FAR}), COUNT(*)"
    statements = [f"SELECT {asked} FROM patient WHERE age = {age} AND site = 1" for age in (11, 12)]
    assert [fails(session, sql) for sql in statements] == [None, None]
    assert not session._world.ledger.guarded
    monkeypatch.setattr(Texts, "check", lambda *_, **__: None)
    monkeypatch.setattr(Texts, "printed", lambda self, sql, *_, **__: sql)
    assert fails(session, statements[0].replace("site = 1", "site IN (1, 9)")) == "DPSQL-701"


def test_a_clamp_beyond_bigint_is_never_planned(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term, "FARTHEST", 2**200)
    assert fails(session, f"SELECT MEDIAN(age + {FAR}) FROM patient WHERE age = 12 AND site = 2") == "DPSQL-901"
