"""Rows that the statement writes out beside people's, and outer joins that keep public rows, without noise: plain DuckDB's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dpsql.core.errors import Error
from dpsql.planner.resolve import nobody, people
from dpsql.planner.resolve.key_lists import key_lists
from tests.semantics.plain import Beside, beside
from tests.support import clinic

KEPT = "drug LEFT JOIN item ON item.drug = drug.drug"
NARROW = f"SELECT drug.drug, COUNT(amount) FROM {KEPT} AND item.drug < 3 GROUP BY 1"
BANDS = "(VALUES ('young', 0, 30), ('old', 30, 55)) AS b(name, lo, hi)"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """Forty patients, of each two visits and on them items; no item has the drug 5, nobody was at site 3."""
    data: clinic.Database = {
        "patient": [
            (
                i,
                1 + i % 2,
                i % 5 < 2,
                float(i),
                None,
                20 + i,
                None,
                "abc"[i % 3],
                None,
                f"199{i % 9}-0{1 + i % 9}-1{i % 7}",
                None,
            )
            for i in range(40)
        ],
        "visit": [
            (2 * i + y, i, 1 + y, float(5 + (7 * i + 11 * y) % 45), y, "xyz"[(i + y) % 3])
            for i in range(40)
            for y in range(2)
        ],
        "item": [(n, 1 + n % 2, 1.5 + n % 7, n % 4) for n in range(80)],
        "drug": [(1, "x"), (2, "y"), (5, "z")],
    }
    opened = beside(tmp_path_factory.mktemp("written"), data)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT drug.drug, COUNT(item.visit_id) AS n FROM {KEPT} GROUP BY drug.drug",
        f"SELECT label, SUM(CASE WHEN amount > 3 THEN 1 ELSE 0 END), COUNT(amount) FROM {KEPT} WHERE label <> 'x' GROUP BY label",
        f"SELECT AVG(n), MIN(n), COUNT(*) FROM (SELECT drug.drug, COUNT(item.visit_id) AS n FROM {KEPT} GROUP BY 1)",
        f"SELECT label FROM {KEPT} GROUP BY label HAVING COUNT(item.visit_id) = 0",
        f"SELECT COUNT(item.visit_id) FROM {KEPT} AND amount > 2",
        f"SELECT label, COUNT(DISTINCT visit.patient_id) FROM {KEPT} LEFT JOIN visit USING (visit_id) GROUP BY label",
        "SELECT label, COUNT(i.n) FROM drug LEFT JOIN (SELECT drug, 1 AS n FROM item WHERE amount > 2) i USING (drug) GROUP BY 1",
        "SELECT label, COUNT(amount) FROM item RIGHT JOIN drug USING (drug) GROUP BY label ORDER BY 2 DESC LIMIT 3",
        NARROW,
        # what WHERE asks of people's rows leaves the others out, as plain SQL does
        f"SELECT COUNT(*) FROM {KEPT} WHERE amount > 0",
        "SELECT v.site, COUNT(patient_id) FROM (VALUES (1), (2), (3)) AS v(site) LEFT JOIN patient USING (site) GROUP BY v.site",
        "SELECT y.x, COUNT(v.visit_id) FROM generate_series(1, 4) AS y(x) LEFT JOIN visit v ON v.year = y.x GROUP BY y.x",
        "SELECT y.x, COUNT(visit_id) FROM range(1, 3) AS y(x), visit WHERE visit.year = y.x GROUP BY y.x ORDER BY 1",
        f"SELECT name, COUNT(*), SUM(age) FROM patient JOIN {BANDS} ON age >= lo AND age < hi GROUP BY name",
        f"SELECT b.name, COUNT(*) FROM patient LEFT JOIN {BANDS} ON age BETWEEN lo AND hi - 1 GROUP BY b.name",
        f"SELECT COUNT(*) AS rows, COUNT(b.lo) AS met FROM patient LEFT JOIN {BANDS} ON age > lo AND age <= hi",
        "SELECT v.least, COUNT(*) FROM patient JOIN (VALUES (20), (30), (40)) AS v(least) ON age >= v.least GROUP BY v.least",
        "SELECT v.name, COUNT(*) FROM patient JOIN (VALUES (1, 'north'), (2, 'south')) AS v(site, name) USING (site) GROUP BY 1",
        "SELECT m.d, COUNT(*) FROM (VALUES (DATE '1992-01-01'), (DATE '1995-01-01')) AS m(d), patient WHERE born < m.d GROUP BY m.d",
    ],
)
def test_as_plain_sql(both: Beside, sql: str) -> None:
    both.check(sql)


COUNTS = "count columns of people's tables and not rows"
REFUSED = {
    f"SELECT label, COUNT(*) FROM {KEPT} GROUP BY label": COUNTS,
    f"SELECT label, AVG(COALESCE(amount, 0)) FROM {KEPT} GROUP BY label": COUNTS,
    f"SELECT label, COUNT(drug.drug) FROM {KEPT} GROUP BY label": COUNTS,
    f"SELECT label, COUNT(CASE WHEN amount IS NULL THEN 1 END) FROM {KEPT} GROUP BY label": COUNTS,
    "SELECT COUNT(n) FROM drug LEFT JOIN (SELECT drug, COALESCE(amount, 1) AS n FROM item) AS i USING (drug) WHERE n IS NULL": COUNTS,
    f"SELECT label, item.drug, COUNT(amount) FROM {KEPT} GROUP BY ALL": COUNTS,
    f"SELECT COUNT(amount) FROM {KEPT} WHERE amount IS NULL": COUNTS,
    f"SELECT label, COUNT(amount) FROM {KEPT} AND label <> 'x' GROUP BY label": COUNTS,
    "SELECT COUNT(*) FROM patient JOIN generate_series(1, 3, 0) AS s(x) ON site = x": "at most 100,000 of them",
    "SELECT COUNT(*) FROM generate_series(1, 10000000000) AS s(x)": "at most 100,000 of them",
    "SELECT COUNT(*) FROM patient, generate_series(1, site) AS s(x)": "with constants",
    "SELECT COUNT(*) FROM patient, range(900) AS s(x), range(900) AS t(y)": "about shorter ones",
}


@pytest.mark.parametrize(("sql", "hint"), REFUSED.items())
def test_refused_with_what_to_write(both: Beside, sql: str, hint: str) -> None:
    with pytest.raises(Error) as caught:
        both.ask(sql)
    assert hint in caught.value.hint


def nothing_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nobody, "_is_there", lambda statement, relation, conditions: False)


def keys_are_public(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nobody, "reads_public", lambda scalar, relation: True)


def joins_leave_groups_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(people, "key_lists", lambda *given, kept: key_lists(*given))


@pytest.mark.parametrize(
    ("fault", "asked"),
    # each asks statements of its own: plans and answers are kept
    [
        (nothing_counts, [*REFUSED][:4]),
        (keys_are_public, [*REFUSED][4:]),
        (joins_leave_groups_out, [NARROW.replace("< 3", "< 2")]),
    ],
)
def test_a_planted_fault_is_a_wrong_number(
    both: Beside, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None], asked: list[str]
) -> None:
    fault(monkeypatch)
    assert any(_is_wrong(both, sql) for sql in asked)


def _is_wrong(both: Beside, sql: str) -> bool:
    try:
        both.check(sql)
    except AssertionError:
        return True
    except Error:
        pass
    return False


def test_a_series_is_public_rows(both: Beside) -> None:
    assert both.check("SELECT x * x AS y FROM generate_series(2, 10, 4) AS s(x) ORDER BY 1").rows == [
        (4,),
        (36,),
        (100,),
    ]
