"""Error bars: of released cells, of what is computed from them, and as columns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from scipy import stats

from dpsql.core.errors import Error
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.release.estimating import LEAST_DRAWS, MOST_DRAWS, MOST_ROWS, draws_of
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data

LEVEL = Fraction(95, 100)
DRAWS = 2000


@pytest.fixture
def session() -> Iterator[Session]:
    opened = clinic_data(clinic.schema_text(), clinic.database(random.Random(5), wild=False)).session()
    yield opened
    opened.close()


def ends(answer: Answer, column: int) -> list[tuple[float, float] | None]:
    cells = [row[column] for row in answer.accuracy]
    return [None if cell is None else (cell.low, cell.high) for cell in cells]


def test_the_ends_of_a_released_cell_are_those_of_its_accuracy(session: Session) -> None:
    aggregates = "COUNT(*), SUM(income), AVG(weight), STDDEV(age), MEDIAN(age), MAX(score), COUNT(DISTINCT patient_id)"
    shown = ", ".join(f"{a}, dp_low({a}), dp_high({a})" for a in aggregates.split(", "))
    answer = session.execute(f"SELECT site, {shown} FROM patient GROUP BY site")
    for first in range(1, len(answer.columns), 3):
        for row, cell in zip(answer.rows, ends(answer, first), strict=True):
            assert (row[first + 1], row[first + 2]) == (cell or (None, None))


def test_names_and_types_of_ends(session: Session) -> None:
    answer = session.execute("SELECT COUNT(*) AS n, dp_low(n), dp_HIGH(n) AS top, dp_low(COUNT(*)) + 1 FROM patient")
    assert [name for name, _ in answer.columns[:3]] == ["n", "dp_low(n)", "top"]
    assert [sqltype for _, sqltype in answer.columns[1:]] == ["DOUBLE"] * 3


def test_ends_cost_nothing_more(session: Session) -> None:
    first = session.execute("SELECT site, COUNT(*) AS n FROM patient GROUP BY site")
    second = session.execute("SELECT site, COUNT(*) AS n, dp_low(n), dp_high(2 * n) FROM patient GROUP BY site")
    assert second.cached and second.receipt.loss.epsilon == 0
    assert [row[:2] for row in second.rows] == first.rows


def test_ends_of_a_computed_column_are_those_of_its_accuracy(session: Session) -> None:
    sql = "SELECT site, 100.0 * COUNT(*) / 7 AS share, dp_low(share), dp_high(share) FROM patient GROUP BY site"
    answer = session.execute(sql)
    for row, cell in zip(answer.rows, ends(answer, 1), strict=True):
        assert cell is not None and cell[0] < row[1] < cell[1]  # type: ignore[operator]
        assert (row[2], row[3]) == pytest.approx(cell)


def test_a_multiple_of_a_count_is_as_wide_as_the_count(session: Session) -> None:
    """Of 1,000 draws of the noise the ends are within a few quanta of the exact ones."""
    scale = DiscreteLaplace(Fraction(10))
    answer = session.execute("/* dpsql: epsilon=0.1 */ SELECT COUNT(*) AS n, 10 * COUNT(*) AS m FROM patient")
    ((low, high),) = [e for e in ends(answer, 1) if e is not None]
    exact = scale.half_width(LEVEL)
    assert (high - low) / 20 == pytest.approx(exact, rel=0.1)


def test_ends_in_every_clause(session: Session) -> None:
    session._world.release._noise = ZeroNoise()
    counted = session.execute("SELECT site, COUNT(*) AS n FROM patient GROUP BY site ORDER BY n DESC, site").rows
    sql = "SELECT site, COUNT(*) AS n FROM patient GROUP BY site HAVING dp_high(n) > 0 ORDER BY dp_high(n) DESC, site"
    assert session.execute(sql).rows == counted
    nested = "SELECT * FROM (SELECT site, COUNT(*) AS n, dp_low(n) AS low FROM patient GROUP BY ALL) WHERE low > -1000"
    assert sorted(row[:2] for row in session.execute(nested).rows) == sorted(counted)
    within = f"WITH t AS ({nested}) SELECT MAX(low) FROM t"
    assert len(session.execute(within).rows) == 1


def test_private_keys_have_ends_too(session: Session) -> None:
    answer = session.execute(
        "/* dpsql: epsilon=100, delta=0.1 */ SELECT note, COUNT(*) AS n, dp_low(n), COUNT(*) / 2.0 AS h FROM patient GROUP BY note"
    )
    for row, direct, computed in zip(answer.rows, ends(answer, 1), ends(answer, 3), strict=True):
        assert direct is not None and row[2] == direct[0] and computed is not None


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT dp_low(site) FROM patient GROUP BY site", "106"),
        ("SELECT dp_low(5) FROM patient", "301"),
        ("SELECT COUNT(*), dp_low() FROM patient", "106"),
        ("SELECT dp_low(COUNT(*), 2) FROM patient", "106"),
        ("SELECT dp_low(SUM(COUNT(*)) OVER ()) FROM patient", "106"),
        ("SELECT dp_low(COUNT(*) + (SELECT COUNT(*) FROM drug)) FROM patient", "106"),
        ("SELECT dp_low(MEDIAN(age) * 2) FROM patient", "106"),
        ("SELECT dp_low(CORR(age, weight) + 1) FROM patient", "106"),
        ("SELECT dp_clamped(drug) FROM drug", "102"),
        ("SELECT dp_low(label) FROM drug", "102"),
        ("SELECT dp_low(n) FROM (SELECT COUNT(*) AS n FROM patient)", "102"),
        ("SELECT COUNT(*) FROM patient WHERE dp_low(age) > 5", "102"),
        ("SELECT COUNT(*) FROM patient GROUP BY dp_low(age)", "109"),
    ],
)
def test_what_has_no_interval_is_refused_at_no_cost(session: Session, sql: str, code: str) -> None:
    before = session.execute("SELECT 1").receipt.remaining
    with pytest.raises(Error) as refused:
        session.execute(sql)
    assert refused.value.code == f"DPSQL-{code}", str(refused.value)
    assert session.execute("SELECT 1").receipt.remaining == before


def test_what_is_computed_across_rows_has_no_interval(session: Session) -> None:
    answer = session.execute("SELECT site, SUM(COUNT(*)) OVER () AS all_of_them FROM patient GROUP BY site")
    assert ends(answer, 1) == [None] * len(answer.rows)


@pytest.mark.parametrize(
    "item",
    [
        "MODE(site)",
        "CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END",
        "MEDIAN(age) * 2",
        "MAX(score) - AVG(score)",
        "COALESCE(CORR(age, weight), 0) + 1",
        "dp_sum(age, bounds := 'auto') / 2",
    ],
)
def test_text_choices_and_what_is_computed_of_choices_have_no_interval(session: Session, item: str) -> None:
    """A choice from a histogram stays as it is when noise is drawn again: an interval from there would leave out its error."""
    answer = session.execute(f"SELECT {item}, COUNT(*) FROM patient WHERE age > 0")
    assert [row[0] for row in answer.accuracy] == [None]


def test_accuracy_can_be_read_after_other_statements(session: Session) -> None:
    """Each statement has a release of the same name; the first one's intervals are those of its own."""
    first = session.execute("SELECT site, COUNT(*) * 2 AS n FROM patient GROUP BY site")
    second = session.execute(
        "/* dpsql: epsilon=0.001 */ SELECT 10 * COUNT(*) AS m, dp_low(m) FROM patient WHERE age > 0"
    )
    assert [end[1] - end[0] < 40 for end in ends(first, 1) if end is not None] == [True] * 3
    (wide,) = [end for end in ends(second, 0) if end is not None]
    assert wide[1] - wide[0] > 10_000 and second.rows[0][1] == pytest.approx(wide[0])


def test_how_often_groups_are_redrawn() -> None:
    assert draws_of(1) == MOST_DRAWS
    assert draws_of(MOST_ROWS // LEAST_DRAWS) == LEAST_DRAWS
    assert draws_of(MOST_ROWS // LEAST_DRAWS + 1) == 0


@pytest.mark.slow
def test_a_ratio_of_released_cells_is_covered(tmp_path: Path) -> None:
    """Over groups of the same people: at least 94 %, and at most 96.5 %, up to a chance of one in a million."""
    text = (clinic.ROW + clinic.PATIENT.replace('role = "identifier"', 'role = "measure"') + clinic.PUBLIC).replace(
        "domain = [1, 2, 3]", f"bounds = [1, {DRAWS}]"
    )
    (tmp_path / "many.toml").write_text(text)
    data = clinic.database(random.Random(1), wild=False)
    clinic.write(tmp_path, {**data, "patient": [], "visit": [], "item": []})
    _fill(tmp_path / "clinic.duckdb", 100 * DRAWS)
    session = open_session(tmp_path / "many.toml", None, ":memory:")
    answer = session.execute("SELECT site, SUM(age) / COUNT(*) AS mean FROM patient GROUP BY site")
    found = ends(answer, 1)
    session.close()
    assert len(found) == DRAWS
    hits = sum(end is not None and end[0] <= 40 <= end[1] for end in found)
    assert stats.binom.ppf(1e-6, DRAWS, 0.94) <= hits <= stats.binom.ppf(1 - 1e-6, DRAWS, 0.965)


def _fill(file: Path, people: int) -> None:
    """As many people at each site, all alike."""
    connection = duckdb.connect(str(file))
    connection.execute(
        f"INSERT INTO patient SELECT i, 1 + i % {DRAWS}, true, 20.0, 80.0, 40, 50.00, 'a', 'n1', DATE '1995-01-15', 1 "
        f"FROM range({people}) AS t(i)"
    )
    connection.close()
