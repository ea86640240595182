"""Conditions on a band: a cut that it does not need decides about nobody, by exact reading; one that leaves out a few is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise

INCOME = "CASE WHEN income < 0 THEN 'low' WHEN income < 50 THEN 'middle' ELSE 'high' END"
BORN = "CASE WHEN born < DATE '1993-05-02' THEN 1 WHEN born < DATE '1997-01-01' THEN 2 ELSE 3 END"
SITE = "CASE site WHEN 1 THEN 'here' WHEN 2 THEN 'there' END"
WEIGHT = "CASE WHEN weight < 80 THEN 1 WHEN weight < 120 THEN 2 END"
AT_END = "CASE WHEN income < 0 THEN 'low' WHEN income < 99.9 THEN 'middle' ELSE 'high' END"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("void")
    clinic.write(folder, {name: [] for name in clinic.DDL})
    found = open_session(clinic.schema(folder, guard="block"), None, ":memory:", noise=ZeroNoise())
    yield found
    found.close()


@pytest.mark.parametrize(
    ("band", "condition"),
    [
        (INCOME, "band = 'low'"),
        (INCOME, "band = 'high'"),
        (INCOME, "band <> 'low'"),
        (INCOME, "band IN ('low', 'high')"),
        (BORN, "band = 1"),
        (BORN, "band >= 2"),
        (SITE, "band = 'here'"),
        (SITE, "band IS NULL"),
        (WEIGHT, "band = 1"),
    ],
)
def test_a_cut_that_is_not_needed_is_of_nobody(band: str, condition: str, session: Session) -> None:
    sql = f"SELECT COUNT(*) FROM (SELECT {band} AS band FROM patient) AS banded WHERE {condition}"
    assert len(session.execute(sql).rows) == 1


@pytest.mark.parametrize(
    ("band", "condition"),
    [
        (AT_END, "band <> 'high'"),
        (AT_END, "band IN ('low', 'middle')"),
        ("CASE WHEN income <> 33.25 THEN 1 ELSE 0 END", "band = 1"),
        ("CASE WHEN income = 33.25 THEN 'one' WHEN income < 50 THEN 'low' ELSE 'high' END", "band = 'low'"),
        ("CASE WHEN income >= -50 THEN income * 3 WHEN income * 5 > 1 THEN 1 END", "band <> 99.75"),
        ("CASE WHEN age >= 10 THEN age * 7 % 101 WHEN age * 3 % 5 = 0 THEN 1 END", "band <> 45"),
    ],
)
def test_a_cut_that_leaves_out_a_few_is_refused(band: str, condition: str, session: Session) -> None:
    with pytest.raises(Error, match="rule R3"):
        session.execute(f"SELECT COUNT(*) FROM (SELECT {band} AS band FROM patient) AS banded WHERE {condition}")


def test_what_is_computed_of_the_rows_that_are_kept_is_read_within_their_bounds(session: Session) -> None:
    """The second condition implies the first, so nobody is kept by it alone, and of those who are kept the CASE is one."""
    early, year = "born < DATE '1995-06-01'", "EXTRACT(YEAR FROM born) < 1995"
    sql = f"SELECT COUNT(*), COUNT(CASE WHEN {early} THEN 1 END) FROM patient WHERE {early}"
    assert len(session.execute(f"{sql} AND {year}").rows) == 1
    with pytest.raises(Error, match="rule R3"):
        session.execute(f"{sql} AND born <> DATE '1993-05-02'")


@pytest.mark.parametrize(
    "end", ["DATE_TRUNC('year', DATE '2000-06-06')", "DATE '1999-12-31' + INTERVAL 1 DAY", "CAST('2000-01-01' AS DATE)"]
)
def test_a_constant_that_is_computed_is_read_as_one(end: str, session: Session) -> None:
    """As tools write periods; of the same end less a day a few are left out."""
    assert len(session.execute(f"SELECT COUNT(*) FROM patient WHERE born < {end}").rows) == 1
    with pytest.raises(Error, match="rule R3"):
        session.execute(f"SELECT COUNT(*) FROM patient WHERE born < {end} - INTERVAL 1 DAY")


@pytest.mark.parametrize("outer", ["income > -1000", "income < 100", "income <> 1000", "income IS NOT NULL"])
def test_bounds_that_a_condition_narrows_do_not_prove_it_void(outer: str, session: Session) -> None:
    """Outside of the derived table the column has the bounds that the condition inside leaves it."""
    for inner in ("income < 99.9", "income <> 33.25"):
        for sql in (
            f"SELECT COUNT(*) FROM (SELECT * FROM patient WHERE {inner}) AS p WHERE {outer}",
            f"SELECT COUNT(*) FROM (SELECT * FROM patient WHERE {outer}) AS p WHERE {inner}",
            f"SELECT SUM(CASE WHEN {inner} THEN 1 ELSE 0 END) FROM patient WHERE {inner} AND {outer}",
        ):
            with pytest.raises(Error, match="rule R3"):
                session.execute(sql)
