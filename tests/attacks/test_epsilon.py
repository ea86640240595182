"""A7, A10: the promised epsilon and delta against what 100,000 answers of real sessions show on D and on D'.

One statement over 1,000 declared groups of identical content gives 1,000 independent answers, a hundred of them 100,000. Noise with
a scale divided by 1.3 must be noticed, or the test would prove nothing.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pytest

from dpsql.mechanisms.lower_bound import eps_lower, rate_above, rate_below
from dpsql.mechanisms.source import SystemNoise
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session

GROUPS, RUNS, FEW = 1000, 100, 8
ALPHA = 1e-9
SCHEMA = """
[dataset]
name = "groups"
source = "groups.duckdb"
[guard]
mode = "off"
[privacy]
unit = "row"
accounting = "sequential"
epsilon = 1000000.0
delta = 0.9
query = { epsilon = 1.0, delta = 1e-2 }
caps = { epsilon = 100.0, delta = 0.4 }
[tables.people]
[tables.people.columns]
place = { type = "INTEGER", bounds = [0, 999] }
name = { type = "VARCHAR", role = "measure" }
value = { type = "INTEGER", bounds = [-2, 10] }
"""


class Narrow(SystemNoise):
    """A build with less noise than was paid for."""

    def __init__(self, fault: Fraction = Fraction(13, 10)) -> None:
        super().__init__()
        self._fault = fault

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return super().laplace(scale / self._fault, size)


def people(folder: Path, values: list[int]) -> Schema:
    """A database in which every group holds the same people."""
    (folder / "schema.toml").write_text(SCHEMA)
    path = folder / "groups.duckdb"
    path.unlink(missing_ok=True)
    connection = duckdb.connect(str(path))
    rows = (
        " UNION ALL ".join(f"SELECT i, 'n' || i, {v} FROM range({GROUPS}) AS r(i)" for v in values)
        or "SELECT 1, '', 1 WHERE false"
    )
    connection.execute(
        f"CREATE TABLE people AS SELECT CAST(i AS INTEGER) AS place, name, CAST(v AS INTEGER) AS value FROM ({rows}) AS t(i, name, v)"
    )
    connection.close()
    return read_schema(folder / "schema.toml")


def answers(folder: Path, values: list[int], sql: str, noise: SystemNoise, runs: int) -> npt.NDArray[np.int64]:
    """1,000 released numbers a run, in thousandths."""
    session = open_session(people(folder, values), None, ":memory:", noise=noise)
    found: list[int] = []
    for run in range(runs):
        # Another fingerprint, the same price: a repeated statement would be a stored answer.
        rows = session.execute(sql.replace("$n", str(run))).rows
        found += [round(1000 * float(row[1])) if row[1] is not None else -(10**9) for row in rows]  # type: ignore[arg-type]
    session.close()
    return np.array(found)


COUNT = "SELECT place, COUNT(*) FILTER (WHERE value <> 1000 + $n) FROM people GROUP BY place"
SUM = "SELECT place, SUM(value) FILTER (WHERE value <> 1000 + $n) FROM people GROUP BY place"
AVG = "SELECT place, AVG(value) FILTER (WHERE value <> 1000 + $n) FROM people GROUP BY place"
# The person that is added moves each of these as far as one person can.
CASES = {"count": (COUNT, [1, 2], 0), "sum": (SUM, [1, 2], 10), "avg": (AVG, [-2], 10)}


def bound(folder: Path, case: str, noise: SystemNoise, runs: int = RUNS) -> float:
    sql, values, added = CASES[case]
    without, beside = (answers(folder, people, sql, noise, runs) for people in (values, [*values, added]))
    return eps_lower([without], [beside], 0.0, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a7_a_few_real_answers_keep_epsilon(tmp_path: Path, case: str) -> None:
    assert bound(tmp_path, case, SystemNoise(), FEW) <= 1


@pytest.mark.slow
def test_a7_a_build_of_hardly_any_noise_is_noticed_by_a_few(tmp_path: Path) -> None:
    assert bound(tmp_path, "count", Narrow(Fraction(4)), FEW) > 1


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a7_real_answers_keep_epsilon(tmp_path: Path, case: str) -> None:
    """With one person more, no set of answers is e times as likely: at epsilon = 1."""
    assert bound(tmp_path, case, SystemNoise()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a7_a_narrower_build_is_noticed(tmp_path: Path, case: str) -> None:
    """Noise divided by 1.3 loses more than 1, and the same test says so."""
    assert bound(tmp_path, case, Narrow()) > 1


# --- threshold ----------------------------------------------------------------------------------------------------

DELTA = 0.005
SELECT = (
    f"/* dpsql: epsilon=1, delta={DELTA} */ SELECT name, COUNT(*) FROM people WHERE value <> 1000 + $n GROUP BY name"
)


def shown(folder: Path, noise: SystemNoise) -> int:
    """The number of groups of one person that are shown, of 100,000."""
    session = open_session(people(folder, [1]), None, ":memory:", noise=noise)
    found = sum(len(session.execute(SELECT.replace("$n", str(run))).rows) for run in range(RUNS))
    session.close()
    return found


@pytest.mark.slow
def test_a10_a_group_of_one_appears_at_most_as_often_as_delta_allows(tmp_path: Path) -> None:
    """A key that one person holds is shown with a probability of at most delta, the case of equality included."""
    assert rate_above(shown(tmp_path, SystemNoise()), RUNS * GROUPS, ALPHA) <= DELTA


@pytest.mark.slow
def test_a10_a_wider_noise_for_the_same_threshold_is_noticed(tmp_path: Path) -> None:
    """The power check: a build whose groups of one pass three times as often fails the test above."""

    class Wide(SystemNoise):
        def laplace(self, scale: Fraction, size: int) -> list[int]:
            return super().laplace(scale * Fraction(13, 10), size)

    assert rate_above(shown(tmp_path, Wide()), RUNS * GROUPS, ALPHA) > DELTA


def test_a10_groups_of_many_are_shown(tmp_path: Path) -> None:
    """A threshold that hides everything would pass the tests above."""
    session = open_session(people(tmp_path, [1] * 30), None, ":memory:")
    assert rate_below(len(session.execute(SELECT.replace("$n", "1")).rows), GROUPS, ALPHA) > 0.99
    session.close()
