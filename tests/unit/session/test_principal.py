"""A pca without noise is numpy's and DuckDB's of the same columns; kept by name, and read for nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import duckdb
import numpy as np
import pytest

from dpsql.core.errors import Error
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data

TEXT = clinic.schema_text().replace("query = { epsilon = 1.0", "query = { epsilon = 0.1")
CREATE = """CREATE MODEL axes OPTIONS (model_type = 'pca', epsilon = 8, delta = 1e-6) AS
SELECT age, weight, income, female FROM patient"""
CITIES = (
    """CREATE MODEL cities OPTIONS (model_type = 'PCA', epsilon = 8, delta = 1e-6) AS SELECT city, age FROM patient"""
)


def patients(count: int) -> list[clinic.Row]:
    """Of ages, weights and incomes about the middle of their bounds, so that no row is clipped; half of them are female."""
    chance = random.Random(11)
    found: list[clinic.Row] = []
    for i in range(count):
        age = 50 + chance.randint(-8, 8)
        weight = 120 + chance.randint(-16, 16) + (age - 50)
        income = 25.0 + round(0.7 * (age - 50) - 0.3 * (weight - 120))
        found.append((i, 1 + i % 3, i % 2 == 0, income, weight, age, "50.00", "abc"[i % 3], None, "1995-01-01", None))
    return found


DATA: clinic.Database = {"patient": patients(2000), "visit": [], "item": [], "drug": []}
COLUMNS = ["age", "weight", "income", "female"]


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
        yield opened


def scaled() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The columns by their bounds in [-1, 1], a boolean at -1/3 or 1/3."""
    rows = [(age, weight, income, female) for _, _, female, income, weight, age, *_ in DATA["patient"]]
    values = np.array(rows, dtype=np.float64)
    low, high = np.array([10, 40, -50, 0]), np.array([90, 200, 100, 1])
    return (2 * values - low - high) / (high - low) * np.array([1, 1, 1, 1 / 3])


def test_components_are_the_eigenvectors_of_the_covariance(session: Session) -> None:
    bought = session.execute(CREATE)
    values, vectors = np.linalg.eigh(np.cov(scaled().T, bias=True))
    found = np.array(
        session.execute("SELECT value FROM ML.PRINCIPAL_COMPONENTS(MODEL axes)").rows, dtype=np.float64
    ).reshape(4, 4)
    for one, true in zip(found, vectors.T[::-1], strict=True):
        assert one[np.argmax(np.abs(one))] > 0, "the sign is that of the longest entry"
        assert abs(one @ true) == pytest.approx(1, abs=1e-5)
    info = np.array(bought.rows, dtype=np.float64)
    assert info[:, 1] == pytest.approx(values[::-1], rel=1e-2)
    assert info[:, 2] == pytest.approx(values[::-1] / values.sum(), rel=1e-2) and info[-1, 3] == pytest.approx(1)
    assert session.execute("SELECT * FROM ML.PRINCIPAL_COMPONENT_INFO(MODEL axes)").rows == bought.rows


def test_correlations_are_those_of_duckdb(session: Session) -> None:
    session.execute(CREATE)
    rows = session.execute(
        "SELECT feature, other_feature, correlation, low, high FROM ML.CORRELATIONS(MODEL axes)"
    ).rows
    assert len(rows) == 6
    with closing(duckdb.connect()) as connection:
        connection.execute("CREATE TABLE of_people (age DOUBLE, weight DOUBLE, income DOUBLE, female DOUBLE)")
        connection.executemany("INSERT INTO of_people VALUES (?, ?, ?, ?)", scaled().tolist())
        for feature, other, correlation, low, high in rows:
            found = connection.execute(f"SELECT CORR({feature}, {other}) FROM of_people").fetchone()
            assert found is not None
            assert float(str(correlation)) == pytest.approx(found[0], abs=2e-3)
            assert float(str(low)) < found[0] < float(str(high))


def test_values_of_a_list_are_columns(session: Session) -> None:
    session.execute(CITIES)
    rows = session.execute(
        "SELECT feature, category, other_category, correlation FROM ML.CORRELATIONS(MODEL cities)"
    ).rows
    assert [row[:3] for row in rows[:2]] == [("city", "'a'", "'b'"), ("city", "'a'", "'c'")] and len(rows) == 6
    assert float(str(rows[0][3])) == pytest.approx(-0.5, abs=0.01), "of three values, each of a third of the people"


def test_it_is_explained_kept_and_dropped(session: Session) -> None:
    told = session.explain(CREATE)
    assert "model axes: pca of age, weight, income and female" in told and "gradient" not in told
    assert "second moments, once" in told
    bought = session.execute(CREATE)
    assert [name for name, _ in session.describe(CREATE)] == [name for name, _ in bought.columns]
    again = session.execute(CREATE)
    assert again.rows == bought.rows and not again.receipt.loss.rho
    read = session.execute("SELECT COUNT(*) AS n FROM ML.CORRELATIONS(MODEL axes) WHERE ABS(correlation) <= 1")
    assert read.rows == [(6,)] and not read.releases
    ((name, kind, label, features, *_, current),) = session.execute("SHOW MODELS").rows
    assert (name, kind, label, features, current) == ("axes", "pca", None, "age, weight, income, female", True)
    session.execute("DROP MODEL axes")
    with pytest.raises(Error, match="there is no model axes"):
        session.execute("SELECT * FROM ML.CORRELATIONS(MODEL axes)")
