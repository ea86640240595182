"""Rule R1 inside a person's rows: an identifier in a join condition, a link, a window or a group key singles out as one in WHERE does.

What is computed of an identifier decides which rows meet, how they are numbered or how many groups there are, and COUNT tells. A bare
key only says whose rows they are, or which row is which: it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.observing import PERSON, everywhere, ordinary
from tests.support import clinic
from tests.support.noise import ZeroNoise

SAME, ONE = "p.patient_id = q.patient_id", "p.patient_id - 1001 = q.age * 0"
VISITS, THEIRS = "p.patient_id = v.patient_id", "v.year = p.patient_id - 1000"
PICKED = f"CASE WHEN patient_id = {PERSON} THEN year END"

JOINS = [
    f"SELECT COUNT(*) FROM patient p JOIN patient q ON {SAME} AND {ONE}",
    f"SELECT COUNT(*) FROM patient p, patient q WHERE {SAME} AND {ONE}",
    f"SELECT COUNT(*) FROM patient p LEFT JOIN patient q ON {SAME} AND {ONE}",
    f"SELECT COUNT(q.age) FROM patient p LEFT JOIN patient q ON {SAME} AND {ONE}",
    f"SELECT COUNT(q.age) FROM patient p FULL JOIN patient q ON {SAME} AND {ONE}",
    f"SELECT COUNT(p.age) FROM patient p RIGHT JOIN patient q ON {SAME} AND {ONE}",
    f"SELECT COUNT(*) FROM patient p JOIN visit v ON {VISITS} AND {THEIRS}",
    f"SELECT COUNT(*) FROM patient p, visit v WHERE {VISITS} AND {THEIRS}",
    f"SELECT COUNT(*) FROM patient p RIGHT JOIN visit v ON {VISITS} AND {THEIRS}",
    f"SELECT COUNT(*) FROM (SELECT p.age FROM patient p JOIN visit v ON {VISITS} AND {THEIRS}) t",
    f"SELECT AVG(n) FROM (SELECT p.patient_id, COUNT(*) AS n FROM patient p JOIN visit v ON {VISITS} AND {THEIRS} GROUP BY 1) t",
    "SELECT COUNT(*) FROM patient p JOIN drug d ON d.drug = p.patient_id",
    "SELECT COUNT(*) FROM patient p JOIN drug d ON d.drug = p.patient_id - 1000",
    "SELECT COUNT(*) FROM patient p LEFT JOIN drug d ON d.drug = p.patient_id - 1000 WHERE d.label = 'x'",
]
LINKS = [
    f"SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE {VISITS} AND {THEIRS})",
    f"SELECT COUNT(*) FROM patient p WHERE NOT EXISTS (SELECT 1 FROM visit v WHERE {VISITS} AND {THEIRS})",
    f"SELECT COUNT(*) FROM patient p WHERE female OR EXISTS (SELECT 1 FROM visit v WHERE {VISITS} AND {THEIRS})",
    f"SELECT COUNT(*) FROM patient p SEMI JOIN visit v ON {VISITS} AND {THEIRS}",
    f"SELECT COUNT(*) FROM patient p ANTI JOIN visit v ON {VISITS} AND {THEIRS}",
    f"SELECT COUNT(*) FROM patient p WHERE 0 < (SELECT COUNT(*) FROM visit v WHERE {VISITS} AND {THEIRS})",
    f"SELECT COUNT(*) FROM patient p WHERE 0 < (SELECT COUNT(*) FROM visit v WHERE {VISITS} AND v.patient_id = {PERSON})",
    "SELECT COUNT(*) FROM patient p WHERE p.age > (SELECT AVG(q.age) FROM patient q WHERE q.site = p.patient_id - 1000)",
]
WINDOWS = [
    f"SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id, {PICKED} ORDER BY cost) AS r FROM visit) WHERE r = 1",
    f"SELECT COUNT(*) FROM (SELECT year, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY {PICKED}) AS r FROM visit) "
    "WHERE r = 1 AND year = 2",
    f"SELECT COUNT(*) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id, patient_id = {PERSON} AND year = 1) "
    f"AS n FROM visit) WHERE n = 1",
    "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY patient_id ORDER BY CASE WHEN visit_id = 3 THEN 0 "
    "ELSE 1 END) AS r FROM visit) "
    "WHERE r > 1",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visit QUALIFY RANK() OVER (PARTITION BY patient_id ORDER BY visit_id = 3) > 1)",
    f"SELECT COUNT(*) FROM (SELECT RANK() OVER (w ORDER BY {PICKED}) AS r FROM visit WINDOW w AS (PARTITION BY "
    f"patient_id)) WHERE r > 1",
    f"SELECT SUM(LEAST(s, 9)) FROM (SELECT SUM(days) OVER w AS s FROM visit WINDOW w AS (PARTITION BY patient_id ORDER BY {PICKED}))",
]
KEYS = [
    f"SELECT COUNT(*) FROM (SELECT patient_id, {PICKED} AS k FROM visit GROUP BY patient_id, {PICKED})",
    f"SELECT COUNT(*) FROM (SELECT patient_id, {PICKED} AS k FROM visit GROUP BY 1, 2)",
    f"SELECT COUNT(*) FROM (SELECT patient_id, {PICKED} AS k FROM visit GROUP BY patient_id, k)",
    f"SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, {PICKED} AS k FROM visit)",
    f"SELECT COUNT(*) FROM (SELECT patient_id, {PICKED} AS k FROM visit UNION SELECT patient_id, year FROM visit WHERE year = 1)",
    "SELECT COUNT(*) FROM (SELECT patient_id, visit_id = 3 AS k FROM visit GROUP BY patient_id, visit_id = 3)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, visit_id = 3 AS k FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id, visit_id = 3 AS k FROM visit UNION SELECT patient_id, false FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id, visit_id % 7 AS k FROM visit GROUP BY 1, 2)",
    "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id, visit_id = 3 HAVING COUNT(*) = 2)",
    "SELECT COUNT(*) FROM (SELECT patient_id, k FROM (SELECT patient_id, patient_id % 2 AS k FROM visit) GROUP BY patient_id, k)",
    f"SELECT COUNT(*) FROM (SELECT patient_id, MIN({PICKED}) AS k FROM visit GROUP BY patient_id) WHERE k = 1",
]
FLAG = "SELECT patient_id, MAX(CASE WHEN patient_id = 1003 THEN 1 END) AS flag FROM visit GROUP BY patient_id"
COUNTED = [
    f"SELECT COUNT(flag) FROM ({FLAG}) t",
    f"SELECT COUNT(flag) FROM ({FLAG} UNION ALL SELECT patient_id, NULL FROM visit) t",
    f"SELECT COUNT(t.flag) FROM patient p LEFT JOIN ({FLAG}) t USING (patient_id)",
    "SELECT COUNT(flag) FROM (SELECT LAG(CASE WHEN patient_id = 1003 THEN 1 END) OVER (PARTITION BY patient_id ORDER BY year) "
    "AS flag, patient_id FROM visit) t",
    f"SELECT COUNT(*) FROM (SELECT patient_id FROM ({FLAG}) t GROUP BY patient_id HAVING COUNT(flag) > 0)",
    f"SELECT COUNT(*) FROM (SELECT patient_id FROM ({FLAG}) t QUALIFY COUNT(flag) OVER (PARTITION BY patient_id) > 0)",
    f"SELECT COUNT(*) FROM patient p WHERE (SELECT COUNT(flag) FROM ({FLAG}) t WHERE t.patient_id = p.patient_id) > 0",
    "SELECT COUNT(*) - COUNT(n) FROM (SELECT NULLIF(patient_id, 1003) AS n FROM visit UNION ALL SELECT patient_id FROM patient)",
]
SINGLED_OUT = [*JOINS, *LINKS, *WINDOWS, *KEYS, *COUNTED]

FULL = "FROM patient FULL JOIN visit USING (patient_id)"
BARE = [
    "SELECT COUNT(*) FROM patient p JOIN visit v USING (patient_id)",
    "SELECT COUNT(*) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.year = 1",
    "SELECT COUNT(*) FROM patient p FULL JOIN visit v USING (patient_id)",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit)",
    # bare keys in the order of a window, and in groups
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_id) AS r FROM visit) WHERE r = 1",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id, visit_id ORDER BY cost) AS r FROM visit) WHERE r = 1",
    "SELECT COUNT(*) FROM (SELECT days - LAG(days) OVER (PARTITION BY patient_id ORDER BY year, visit_id DESC) "
    "AS d FROM visit) WHERE d > 0",
    "SELECT COUNT(*) FROM (SELECT visit_id FROM visit QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_id) = 1)",
    "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, visit_id, COUNT(*) AS n FROM visit GROUP BY patient_id, visit_id)",
    "SELECT COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM (SELECT patient_id AS k FROM visit) GROUP BY k)",
    "SELECT COUNT(*) FROM (SELECT visit_id FROM visit v JOIN item i USING (visit_id) GROUP BY patient_id, visit_id)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id FROM visit)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, visit_id FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visit UNION SELECT patient_id FROM patient)",
    "SELECT COUNT(*) FROM (SELECT patient_id, visit_id FROM visit UNION SELECT patient_id, visit_id FROM visit WHERE year = 1)",
    # the unit equality again, inside OR
    f"SELECT COUNT(*) FROM patient p JOIN visit v ON {VISITS} AND (p.age > 33 OR v.patient_id = p.patient_id)",
    f"SELECT COUNT(*) FROM patient p, visit v WHERE {VISITS} AND (v.year = 1 OR p.patient_id = v.patient_id)",
    f"SELECT COUNT(*) FROM patient p JOIN visit v ON {VISITS} WHERE {VISITS} OR v.year = 1",
    f"SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE {VISITS} AND (v.year = 1 OR "
    f"v.patient_id = p.patient_id))",
    f"SELECT COUNT(*) FROM patient p WHERE female OR EXISTS (SELECT 1 FROM visit v WHERE {VISITS} AND v.year = 1)",
    # the unit of a FULL JOIN is computed of both sides, and still only says whose rows they are
    f"SELECT COUNT(*) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id) AS n {FULL}) WHERE n > 2",
    f"SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY year) AS r {FULL}) WHERE r = 1",
    f"SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n {FULL} GROUP BY patient_id)",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY COALESCE(a.patient_id, b.patient_id) ORDER BY a.year, b.year) AS r "
    "FROM visit a FULL JOIN visit b ON a.patient_id = b.patient_id AND b.year = a.year + 1) WHERE r = 1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("clinic")
    data = ordinary()
    clinic.write(found, {**data, "item": [(row[0], 1, "1.000", 1) for row in data["visit"]]})
    return found


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    found = open_session(clinic.schema(folder, guard="block"), None, ":memory:", noise=ZeroNoise())
    yield found
    found.close()


@pytest.fixture(scope="module")
def warned(folder: Path) -> Iterator[Session]:
    found = open_session(clinic.schema(folder, guard="warn"), None, ":memory:", noise=ZeroNoise())
    yield found
    found.close()


@pytest.mark.few(15)
@pytest.mark.parametrize("sql", SINGLED_OUT)
def test_what_is_computed_of_an_identifier_is_flagged(sql: str, session: Session) -> None:
    before = session.execute("SELECT 1").receipt.remaining
    with pytest.raises(Error) as raised:
        session.execute(sql)
    assert raised.value.code == "DPSQL-601" and "rule R1" in str(raised.value)
    assert session.execute("SELECT 1").receipt.remaining == before


@pytest.mark.slow
def test_it_is_refused_for_nothing_and_alike_everywhere() -> None:
    for sql, found in everywhere(SINGLED_OUT, guard="block").items():
        assert found[0].error is not None and "DPSQL-601" in found[0].error[1], sql
        assert found[0].epsilon == found[0].delta == 0 and all(one == found[0] for one in found), sql


@pytest.mark.few(13)
@pytest.mark.parametrize("sql", BARE)
def test_a_bare_key_is_not_flagged(sql: str, warned: Session) -> None:
    answer = warned.execute(sql)
    assert not any("rule R1" in note for note in answer.notes) and len(answer.rows) == 1
    assert int(str(answer.rows[0][0])) > 0
