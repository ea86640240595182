"""Joins, subqueries, groups and windows within a unit, set operations and pivots: without noise they mean what DuckDB says.

The clinic has patients without visits, visits without items, sites without a drug of that number, NULL in most columns, and repeated
rows. Limits are far above what any patient has, so that nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.semantics.plain import Beside, beside
from tests.semantics.test_statements import crowded
from tests.support import clinic


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("relational"), crowded(7))
    yield opened
    opened.close()


INNER = [
    "SELECT COUNT(*) FROM patient JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM patient p JOIN visit v ON p.patient_id = v.patient_id",
    "SELECT COUNT(*) FROM patient p INNER JOIN visit v ON v.patient_id = p.patient_id AND v.cost > p.income",
    "SELECT COUNT(*) FROM patient, visit WHERE patient.patient_id = visit.patient_id AND female",
    "SELECT COUNT(*) FROM patient NATURAL JOIN visit",
    "SELECT p.site, AVG(v.cost), COUNT(*) FROM patient p JOIN visit v USING (patient_id) GROUP BY p.site",
    "SELECT p.city, v.year, SUM(v.cost), COUNT(v.days) FROM patient p JOIN visit v USING (patient_id) GROUP BY ALL "
    "HAVING COUNT(*) > 0 ORDER BY COUNT(*)",
    "SELECT COUNT(*) FROM visit JOIN item USING (visit_id)",
    "SELECT COUNT(*) FROM visit v JOIN item i ON v.visit_id = i.visit_id WHERE v.cost > 20 AND i.amount < 0",
    "SELECT i.drug, AVG(v.cost) FROM item i JOIN visit v ON v.visit_id = i.visit_id GROUP BY i.drug",
    "SELECT COUNT(*) FROM patient p JOIN visit v USING (patient_id) JOIN item i USING (visit_id)",
    "SELECT COUNT(*), SUM(i.amount) FROM item i, visit v, patient p "
    "WHERE i.visit_id = v.visit_id AND p.patient_id = v.patient_id AND p.age > 30",
    "SELECT p.female, SUM(i.amount) FROM patient p JOIN (SELECT * FROM visit WHERE cost > 10) v USING (patient_id) "
    "JOIN item i USING (visit_id) GROUP BY p.female",
    "SELECT COUNT(*) FROM patient p JOIN visit v ON p.patient_id = v.patient_id AND (v.cost > 30 OR p.female)",
    "SELECT COUNT(DISTINCT p.patient_id) FROM patient p JOIN visit v USING (patient_id) WHERE v.days IS NULL",
    "SELECT COUNT(*) FILTER (WHERE v.year = 1), COUNT(*) FROM patient p JOIN visit v USING (patient_id)",
    "SELECT COUNT(*) FROM patient p JOIN visit v ON v.patient_id = p.patient_id WHERE p.weight IS NULL",
    "SELECT p.site + v.year AS k, COUNT(*) FROM patient p JOIN visit v USING (patient_id) GROUP BY k",
]
SELF = [
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id)",
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.patient_id = b.patient_id AND b.year = a.year + 1",
    "SELECT COUNT(*) FROM visit a, visit b WHERE a.patient_id = b.patient_id AND a.year < b.year AND a.cost > b.cost",
    "SELECT a.year, COUNT(*), AVG(b.cost) FROM visit a JOIN visit b ON a.patient_id = b.patient_id AND b.year < a.year "
    "GROUP BY a.year HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.visit_id = b.visit_id",
    "SELECT COUNT(*) FROM patient a JOIN patient b USING (patient_id)",
    "SELECT COUNT(*) FROM patient a JOIN patient b ON a.patient_id = b.patient_id WHERE a.site = b.site",
    "SELECT COUNT(*) FROM visit a JOIN visit b USING (patient_id) JOIN visit c USING (patient_id) "
    "WHERE a.year < b.year AND b.year < c.year",
    "SELECT COUNT(*) FROM item a JOIN item b ON a.visit_id = b.visit_id WHERE a.drug = b.drug",
    "SELECT COUNT(DISTINCT a.patient_id) FROM visit a JOIN visit b ON a.patient_id = b.patient_id AND a.year + 1 = b.year",
]
OUTER = [
    "SELECT COUNT(*), COUNT(v.year) FROM patient p LEFT JOIN visit v USING (patient_id)",
    "SELECT p.site, COUNT(v.cost), SUM(v.cost) FROM patient p LEFT JOIN visit v ON v.patient_id = p.patient_id GROUP BY p.site",
    "SELECT COUNT(*) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.cost > 20 WHERE v.cost IS NULL",
    "SELECT COUNT(*) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.cost > p.income",
    "SELECT COUNT(*) FROM visit v RIGHT JOIN patient p USING (patient_id)",
    "SELECT COUNT(*), COUNT(patient_id) FROM visit v RIGHT JOIN patient p USING (patient_id) WHERE v.year IS NULL",
    "SELECT v.year, COUNT(*) FROM patient p LEFT JOIN visit v USING (patient_id) GROUP BY v.year",
    "SELECT COALESCE(v.year, 0) AS y, COUNT(*) FROM patient p LEFT JOIN visit v USING (patient_id) GROUP BY y",
    "SELECT COUNT(*), COUNT(v.cost), COUNT(p.age) FROM patient p FULL JOIN visit v USING (patient_id)",
    "SELECT COUNT(*) FROM patient p FULL OUTER JOIN visit v ON p.patient_id = v.patient_id AND v.year = 2",
    "SELECT COUNT(*), COUNT(i.amount) FROM visit FULL JOIN item i USING (visit_id)",
    "SELECT i.drug, COUNT(*) FROM visit LEFT JOIN item i USING (visit_id) GROUP BY i.drug",
    "SELECT COUNT(*) FROM visit a LEFT JOIN visit b ON a.patient_id = b.patient_id AND b.year = a.year + 1 WHERE b.cost IS NULL",
    "SELECT COUNT(*), COUNT(i.amount) FROM patient p LEFT JOIN (SELECT v.patient_id, i.amount FROM visit v JOIN item "
    "i USING (visit_id)) i "
    "USING (patient_id)",
    "SELECT COUNT(*) FROM patient p LEFT JOIN (SELECT patient_id, cost FROM visit WHERE year = 1) v USING (patient_id)",
    "SELECT SUM(COALESCE(v.days, 0)) FROM patient p LEFT JOIN visit v USING (patient_id)",
    "SELECT p.female, COUNT(*) FROM visit v LEFT JOIN patient p USING (patient_id) GROUP BY p.female",
]
SEMI = [
    "SELECT COUNT(*) FROM patient SEMI JOIN visit ON patient.patient_id = visit.patient_id",
    "SELECT COUNT(*) FROM patient p SEMI JOIN visit v ON p.patient_id = v.patient_id AND v.cost > 30",
    "SELECT city, COUNT(*) FROM patient p ANTI JOIN visit v ON p.patient_id = v.patient_id AND v.year > 1 GROUP BY city",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit)",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit WHERE cost > 30)",
    "SELECT COUNT(*) FROM patient WHERE patient_id NOT IN (SELECT patient_id FROM visit WHERE cost > 30)",
    "SELECT COUNT(*) FROM patient WHERE NOT (patient_id IN (SELECT patient_id FROM visit))",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id)",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT * FROM visit v WHERE v.patient_id = p.patient_id AND v.cost > p.income)",
    "SELECT site, COUNT(*) FROM patient p WHERE NOT EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id AND v.year > 2) "
    "GROUP BY site",
    "SELECT COUNT(*) FROM patient p WHERE female OR EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id AND cost > 40)",
    "SELECT COUNT(*) FROM visit WHERE visit_id IN (SELECT visit_id FROM item WHERE drug = 2)",
    "SELECT COUNT(*) FROM visit v WHERE NOT EXISTS (SELECT 1 FROM item i WHERE i.visit_id = v.visit_id)",
    "SELECT COUNT(*) FROM visit WHERE patient_id IN (SELECT patient_id FROM patient WHERE female)",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM item i JOIN visit v USING (visit_id) "
    "WHERE v.patient_id = p.patient_id AND i.drug = 5)",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id "
    "AND NOT EXISTS (SELECT 1 FROM item i WHERE i.visit_id = v.visit_id))",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit GROUP BY patient_id HAVING COUNT(*) > 1)",
    "SELECT COUNT(CASE WHEN EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id) THEN 1 END) FROM patient p",
    "SELECT COUNT(*) FROM visit a WHERE EXISTS (SELECT 1 FROM visit b WHERE b.patient_id = a.patient_id AND b.year > a.year)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient EXCEPT SELECT patient_id FROM visit WHERE cost > 30)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient INTERSECT SELECT patient_id FROM visit WHERE cost > 30)",
    "SELECT COUNT(*), AVG(year) FROM (SELECT patient_id, year FROM visit INTERSECT SELECT patient_id, site FROM patient)",
    "SELECT COUNT(*), COUNT(t) FROM (SELECT patient_id, CASE WHEN year > 1 THEN tag END AS t FROM visit EXCEPT "
    "SELECT patient_id, NULL FROM visit WHERE cost > 30)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM patient EXCEPT SELECT patient_id FROM visit WHERE year = 1 "
    "EXCEPT SELECT patient_id FROM visit WHERE year = 2)",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM patient INTERSECT SELECT patient_id FROM visit)",
    "SELECT COUNT(*) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.year = 1 WHERE v.patient_id IS NULL",
    "SELECT p.site, COUNT(DISTINCT v.patient_id), COUNT(v.patient_id) FROM patient p "
    "LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.cost > 20 GROUP BY p.site",
    "SELECT COUNT(DISTINCT v.visit_id) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id",
    "SELECT COUNT(DISTINCT CASE WHEN cost > 20 THEN patient_id END), COUNT(DISTINCT IF(year = 1, patient_id, NULL)) FROM visit",
    "SELECT COUNT(DISTINCT CASE WHEN year = 1 THEN NULL WHEN cost > 20 THEN patient_id ELSE NULL END) FROM visit",
    "SELECT COUNT(DISTINCT CASE WHEN year = 1 THEN patient_id ELSE CASE WHEN cost > 20 THEN patient_id END END) FROM visit",
    "SELECT COUNT(DISTINCT COALESCE(v.patient_id, p.patient_id)) FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id",
    "SELECT COUNT(DISTINCT uid) FROM (SELECT v.patient_id AS uid FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id)",
]
PUBLIC = [
    "SELECT COUNT(*) FROM item JOIN drug USING (drug)",
    "SELECT d.label, COUNT(*), SUM(i.amount) FROM item i JOIN drug d ON i.drug = d.drug GROUP BY d.label",
    "SELECT label, COUNT(*) FROM drug, item WHERE drug.drug = item.drug GROUP BY label",
    "SELECT COUNT(*) FROM drug d JOIN item i ON d.drug = i.drug WHERE d.label = 'x'",
    "SELECT COUNT(*) FROM patient JOIN drug ON patient.code = drug.drug",
    "SELECT COUNT(*), COUNT(label) FROM patient LEFT JOIN drug ON patient.site = drug.drug",
    "SELECT COUNT(*) FROM drug RIGHT JOIN patient ON patient.site = drug.drug WHERE drug.drug IS NULL",
    "SELECT COUNT(*) FROM patient p JOIN visit v USING (patient_id) JOIN item i USING (visit_id) JOIN drug d USING (drug) "
    "WHERE d.label = 'y' AND p.female",
    "SELECT COUNT(*) FROM patient p JOIN drug a ON p.site = a.drug LEFT JOIN drug b ON p.code = b.drug WHERE b.label IS NULL",
    "SELECT a.label, COUNT(*) FROM visit v JOIN drug a ON v.year = a.drug JOIN patient p USING (patient_id) JOIN drug "
    "b ON p.site = b.drug "
    "WHERE b.label = 'x' GROUP BY a.label HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM patient WHERE site IN (SELECT drug FROM drug)",
    "SELECT COUNT(*) FROM patient WHERE site NOT IN (SELECT drug FROM drug WHERE label IS NOT NULL)",
    "SELECT COUNT(*) FROM patient WHERE code NOT IN (SELECT drug FROM drug)",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM drug d WHERE d.drug > p.site AND d.label IS NULL)",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT MAX(drug) * 8 FROM drug)",
    "SELECT COUNT(*) FROM item JOIN (SELECT drug, label FROM drug WHERE label IS NOT NULL) d USING (drug)",
    "SELECT t.label, COUNT(*) FROM item i JOIN (SELECT drug AS k, MIN(label) AS label FROM drug GROUP BY drug) t ON i.drug = t.k "
    "GROUP BY t.label",
    "SELECT COUNT(*) FROM patient SEMI JOIN drug ON patient.site = drug.drug",
    "SELECT COUNT(*) FROM patient ANTI JOIN drug ON patient.site = drug.drug",
    "SELECT COUNT(*) FROM patient CROSS JOIN (SELECT MAX(drug) AS top FROM drug) t WHERE site < top",
]
WITH = [
    "WITH adults AS (SELECT * FROM patient WHERE age >= 18) SELECT site, COUNT(*) FROM adults GROUP BY site",
    "WITH v AS (SELECT patient_id, year, cost FROM visit WHERE cost > 10), w AS (SELECT patient_id, cost FROM v WHERE year < 3) "
    "SELECT COUNT(*), SUM(cost) FROM w",
    "WITH v(who, paid) AS (SELECT patient_id, cost FROM visit) SELECT COUNT(DISTINCT who), AVG(paid) FROM v",
    "WITH v AS (SELECT patient_id, year, cost FROM visit) SELECT COUNT(*) FROM v a JOIN v b ON a.patient_id = "
    "b.patient_id AND b.year = a.year + 1",
    "WITH v AS (SELECT * FROM visit WHERE cost > 10) SELECT COUNT(*) FROM v a JOIN v b USING (patient_id) WHERE a.year < b.year",
    "WITH v AS (SELECT * FROM visit) SELECT COUNT(*) FROM v WHERE patient_id IN (SELECT patient_id FROM v WHERE cost > 20)",
    "WITH v AS (SELECT * FROM visit) SELECT COUNT(*) FROM v a WHERE EXISTS "
    "(SELECT 1 FROM v b WHERE b.patient_id = a.patient_id AND b.year > a.year)",
    "WITH v AS (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) SELECT COUNT(*) FROM v a JOIN v b "
    "USING (patient_id) WHERE a.n = b.n",
    "WITH v AS (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) SELECT COUNT(*) FROM v WHERE n > "
    "(SELECT AVG(n) FROM v)",
    "WITH v AS (SELECT patient_id, year FROM visit) SELECT COUNT(*) FROM (SELECT * FROM v UNION ALL SELECT * FROM v)",
    "WITH r AS (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) SELECT a.site, b.n FROM r a JOIN r b ON a.site = b.site",
    "WITH r AS (SELECT city, COUNT(*) AS n FROM patient GROUP BY city) SELECT MAX(n) - MIN(n), COUNT(*) FROM r",
    "WITH p AS (SELECT patient_id, site AS k FROM patient) SELECT k, COUNT(*) FROM p JOIN visit USING (patient_id) GROUP BY k",
    "SELECT COUNT(*) FROM (WITH v AS (SELECT * FROM visit WHERE year = 2) SELECT patient_id FROM v) t",
]
SCALARS = [
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient WHERE female) + 5",
    "SELECT (SELECT COUNT(*) FROM patient) - (SELECT COUNT(*) FROM visit) AS gap",
    "SELECT (SELECT COUNT(*) FROM patient)",
    "SELECT (SELECT AVG(age) FROM patient WHERE female) / (SELECT COUNT(*) FROM visit) AS ratio, 1 AS one",
    "SELECT COUNT(*) FROM patient HAVING COUNT(*) > (SELECT COUNT(*) FROM drug)",
    "SELECT site, COUNT(*) / (SELECT COUNT(*) FROM patient) AS share FROM patient GROUP BY site",
    "SELECT label FROM drug WHERE drug < (SELECT COUNT(*) FROM patient WHERE age > 88)",
    "SELECT SUM(age) FILTER (WHERE age > (SELECT AVG(age) FROM patient)) FROM patient",
    "SELECT COUNT(*) FROM patient p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site = p.site)",
    "SELECT COUNT(*) FROM patient p WHERE age >= (SELECT AVG(age) FROM patient q WHERE q.site = p.site AND q.female = p.female)",
    "SELECT COUNT(*) FROM patient p WHERE (SELECT COUNT(*) FROM visit v WHERE v.patient_id = p.patient_id) > 1",
    "SELECT COUNT(*) FROM patient p WHERE (SELECT COUNT(*) FROM visit v WHERE v.patient_id = p.patient_id) = 0",
    "SELECT COUNT(*) FROM patient p WHERE (SELECT SUM(cost) FROM visit v WHERE v.patient_id = p.patient_id) IS NULL",
    "SELECT AVG((SELECT COUNT(*) FROM visit v WHERE v.patient_id = p.patient_id)) FROM patient p",
    "SELECT COUNT(*) FROM visit v WHERE days > (SELECT AVG(days) FROM visit w WHERE w.patient_id = v.patient_id)",
    "SELECT drug, (SELECT COUNT(*) FROM item i WHERE i.drug = d.drug) AS n FROM drug d",
    "SELECT drug, (SELECT COUNT(*) FROM patient p WHERE p.site = d.drug) AS n FROM drug d",
    "SELECT label FROM drug d WHERE (SELECT COUNT(*) FROM item i WHERE i.drug = d.drug) > 30",
    "SELECT COUNT(*) FROM patient WHERE site IN (SELECT site FROM patient GROUP BY site ORDER BY SUM(age) DESC LIMIT 2)",
    "SELECT v.year, COUNT(*) FROM visit v JOIN (SELECT year AS top FROM visit GROUP BY year ORDER BY SUM(cost) DESC LIMIT 2) t "
    "ON v.year = t.top GROUP BY v.year",
    "SELECT COUNT(*) FROM patient p JOIN (SELECT site AS s, AVG(age) AS a FROM patient GROUP BY site) t ON p.site = "
    "t.s WHERE p.age > t.a",
]
PER_UNIT = [
    "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)",
    "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visit WHERE year < 4 GROUP BY patient_id) WHERE n <= 3 GROUP BY n",
    "SELECT AVG(total), COUNT(*) FROM (SELECT patient_id, SUM(cost) AS total FROM visit GROUP BY patient_id)",
    "SELECT SUM(total) FROM (SELECT patient_id, SUM(days) AS total FROM visit GROUP BY patient_id HAVING COUNT(*) >= 2)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visit GROUP BY patient_id HAVING SUM(cost) > 50 AND MIN(year) = 1)",
    "SELECT AVG(least), AVG(most) FROM (SELECT patient_id, MIN(cost) AS least, MAX(cost) AS most FROM visit GROUP BY patient_id)",
    "SELECT AVG(middle) FROM (SELECT patient_id, MEDIAN(cost) AS middle FROM visit GROUP BY patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, MEDIAN(days) AS m, AVG(days) AS a FROM visit GROUP BY patient_id) WHERE m > a",
    "SELECT SUM(d) FROM (SELECT patient_id, COUNT(DISTINCT tag) AS d FROM visit GROUP BY patient_id)",
    "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(days) AS n FROM visit GROUP BY patient_id) WHERE n = 0",
    "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) FILTER (WHERE cost > 20) AS n FROM visit GROUP BY patient_id)",
    "SELECT year, COUNT(*), SUM(s) FROM (SELECT patient_id, year, SUM(days) AS s FROM visit GROUP BY patient_id, year) GROUP BY year",
    "SELECT COUNT(*), SUM(n) FROM (SELECT patient_id, cost > 20 AS big, COUNT(*) AS n FROM visit GROUP BY ALL)",
    "SELECT site, AVG(n) FROM (SELECT p.patient_id, p.site, COUNT(v.year) AS n FROM patient p LEFT JOIN visit v USING (patient_id) "
    "GROUP BY p.patient_id, p.site) GROUP BY site",
    "SELECT p.site, SUM(n) FROM patient p LEFT JOIN (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id) t "
    "USING (patient_id) GROUP BY p.site",
    "SELECT AVG(n) FROM (SELECT visit_id, COUNT(*) AS n FROM item GROUP BY visit_id)",
    "SELECT SUM(n) FROM (SELECT patient_id, SUM(n) AS n FROM (SELECT patient_id, year, COUNT(*) AS n FROM visit GROUP "
    "BY patient_id, year) "
    "GROUP BY patient_id)",
    "SELECT COUNT(*) FROM visit v JOIN (SELECT patient_id, MAX(year) AS last FROM visit GROUP BY patient_id) m "
    "ON v.patient_id = m.patient_id AND v.year = m.last",
    "SELECT CASE WHEN total > 60 THEN 'much' ELSE 'little' END AS band, COUNT(*) FROM (SELECT patient_id, SUM(cost) "
    "AS total FROM visit "
    "GROUP BY patient_id) GROUP BY band",
    "SELECT AVG(s) FROM (SELECT patient_id, SUM(score) AS s FROM patient JOIN visit USING (patient_id) GROUP BY patient_id)",
]
WINDOWS = [
    "SELECT AVG(change) FROM (SELECT patient_id, days - LAG(days) OVER (PARTITION BY patient_id ORDER BY year) AS change FROM visit) "
    "WHERE change IS NOT NULL",
    "SELECT COUNT(*) FROM (SELECT patient_id, cost - LEAD(cost) OVER (PARTITION BY patient_id ORDER BY year) AS d "
    "FROM visit) WHERE d > 0",
    "SELECT COUNT(*) FROM (SELECT patient_id, LAG(cost, 2) OVER (PARTITION BY patient_id ORDER BY year) AS before FROM visit) "
    "WHERE before IS NOT NULL",
    "SELECT r, COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY cost) AS r FROM "
    "visit) WHERE r <= 3 GROUP BY r",
    "SELECT COUNT(*) FROM (SELECT patient_id, RANK() OVER (PARTITION BY patient_id ORDER BY tag) AS r FROM visit) WHERE r = 1",
    "SELECT COUNT(*) FROM (SELECT patient_id, DENSE_RANK() OVER (PARTITION BY patient_id ORDER BY tag DESC) AS r FROM "
    "visit) WHERE r = 2",
    "SELECT AVG(m) FROM (SELECT patient_id, MAX(cost) OVER (PARTITION BY patient_id) AS m FROM visit)",
    "SELECT AVG(m) FROM (SELECT patient_id, AVG(cost) OVER (PARTITION BY patient_id ORDER BY year ROWS BETWEEN 1 "
    "PRECEDING AND CURRENT ROW) "
    "AS m FROM visit)",
    "SELECT AVG(f) FROM (SELECT patient_id, FIRST_VALUE(cost) OVER (PARTITION BY patient_id ORDER BY year) AS f FROM visit)",
    "SELECT COUNT(*) FROM (SELECT patient_id, year, COUNT(*) OVER (PARTITION BY patient_id) AS n FROM visit) WHERE n > 2 AND year = 1",
    "SELECT year, COUNT(*) FROM (SELECT patient_id, year FROM visit QUALIFY ROW_NUMBER() OVER (PARTITION BY "
    "patient_id ORDER BY year DESC) = 1) "
    "GROUP BY year HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM (SELECT patient_id, cost FROM visit QUALIFY days > AVG(days) OVER (PARTITION BY patient_id))",
    "SELECT COUNT(*) FROM (SELECT patient_id, SUM(days) OVER w AS s FROM visit WINDOW w AS (PARTITION BY patient_id "
    "ORDER BY year)) WHERE s > 20",
    "SELECT COUNT(*) FROM (SELECT patient_id, MIN(days) OVER (PARTITION BY patient_id, tag) AS m FROM visit) WHERE m < 0",
]
LATERAL = [
    "SELECT COUNT(*), SUM(l.cost) FROM patient p, LATERAL (SELECT cost FROM visit v WHERE v.patient_id = p.patient_id) l",
    "SELECT p.site, SUM(l.year) FROM patient p CROSS JOIN LATERAL (SELECT v.year FROM visit v "
    "WHERE p.patient_id = v.patient_id AND v.cost > 10 ORDER BY v.year DESC LIMIT 2) AS l GROUP BY p.site",
    "SELECT COUNT(*), COUNT(l.y), SUM(l.y) FROM patient p LEFT JOIN LATERAL (SELECT year AS y FROM visit v "
    "WHERE v.patient_id = p.patient_id AND year > 1 ORDER BY 1 LIMIT 1) l ON TRUE",
    "SELECT COUNT(l.y) FROM patient p LEFT JOIN LATERAL (SELECT year AS y FROM visit v "
    "WHERE v.patient_id = p.patient_id ORDER BY y DESC LIMIT 1) l ON l.y < p.site",
    "SELECT l.y, COUNT(*) FROM patient p, LATERAL (SELECT year FROM visit v WHERE v.patient_id = p.patient_id "
    "ORDER BY year LIMIT 1 OFFSET 1) AS l(y) GROUP BY l.y HAVING COUNT(*) > 0",
    "SELECT l.n, COUNT(*) FROM patient p, LATERAL (SELECT COUNT(*) AS n, SUM(cost) AS s FROM visit v "
    "WHERE v.patient_id = p.patient_id) l GROUP BY l.n HAVING COUNT(*) > 0",
    "SELECT SUM(n), SUM(s), COUNT(s) FROM patient p, LATERAL (SELECT 1 + COUNT(year) AS n, SUM(year) AS s FROM visit v "
    "WHERE v.patient_id = p.patient_id AND v.cost > 20) l",
    "SELECT COUNT(*) FROM patient p JOIN LATERAL (SELECT COUNT(*) AS n FROM visit v WHERE v.patient_id = p.patient_id) l ON l.n < 2",
    "SELECT SUM(l.s) FROM patient p, LATERAL (SELECT v.year, COUNT(*) AS s FROM visit v WHERE v.patient_id = p.patient_id "
    "GROUP BY v.year ORDER BY s DESC LIMIT 1) l",
    "SELECT COUNT(*) FROM patient p, LATERAL (SELECT DISTINCT year FROM visit v WHERE v.patient_id = p.patient_id) l",
    "SELECT COUNT(*) FROM patient p, LATERAL (SELECT year, RANK() OVER (ORDER BY year) AS r FROM visit v "
    "WHERE v.patient_id = p.patient_id) l WHERE l.r = 1",
    "SELECT COUNT(*) FROM (SELECT * FROM patient p, LATERAL (SELECT * FROM visit v WHERE v.patient_id = p.patient_id "
    "ORDER BY year LIMIT 1) l) WHERE year = 1",
    "SELECT SUM(b.year - a.year) FROM patient p, LATERAL (SELECT year FROM visit v WHERE v.patient_id = p.patient_id "
    "ORDER BY year LIMIT 1) a, LATERAL (SELECT year FROM visit v WHERE v.patient_id = p.patient_id ORDER BY year DESC LIMIT 1) b",
    "SELECT COUNT(*) FROM patient p, LATERAL (SELECT label FROM drug WHERE drug.drug = p.site LIMIT 1) l",
    "SELECT d.drug, l.n FROM drug d, LATERAL (SELECT COUNT(*) AS n FROM patient WHERE patient.site = d.drug) l "
    "WHERE d.drug IN (1, 2, 3)",
    "SELECT a.label, l.label FROM drug a, LATERAL (SELECT label FROM drug b WHERE b.drug = a.drug ORDER BY label LIMIT 1) l",
    "SELECT COUNT(*), SUM(l.cost) FROM patient p, (SELECT cost FROM visit v WHERE v.patient_id = p.patient_id AND v.year < 4) l",
    "SELECT l.n, COUNT(*) FROM patient p JOIN (SELECT COUNT(*) AS n FROM visit v WHERE v.patient_id = p.patient_id) l ON TRUE "
    "GROUP BY l.n HAVING COUNT(*) > 0",
    "SELECT COUNT(*), SUM(a.year) FROM patient p LEFT JOIN (SELECT year FROM visit v WHERE v.patient_id = p.patient_id ORDER BY year "
    "LIMIT 1) a ON TRUE",
    "SELECT COUNT(l.n) FROM patient p, (SELECT COUNT(*) AS n FROM drug d WHERE d.drug = p.site) l WHERE l.n = 1",
    "SELECT d.drug, l.n FROM drug d, (SELECT COUNT(*) AS n FROM patient WHERE patient.site = d.drug) l WHERE d.drug < 4",
    "SELECT a.label, l.label FROM drug a, (SELECT label FROM drug b WHERE b.drug < a.drug ORDER BY label LIMIT 1) l",
    "SELECT COUNT(*) FROM patient p, LATERAL (SELECT 1 AS one) l",
    "SELECT COUNT(*) FROM LATERAL (SELECT patient_id FROM patient) p, visit v WHERE v.patient_id = p.patient_id",
]
SETS = [
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visit WHERE cost > 20 UNION ALL SELECT patient_id FROM visit WHERE days > 5)",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visit WHERE cost > 20 UNION SELECT patient_id FROM visit WHERE days > 5)",
    "SELECT k, COUNT(*) FROM (SELECT patient_id, site AS k FROM patient UNION ALL SELECT patient_id, CAST(year AS "
    "INTEGER) FROM visit WHERE year < 4) "
    "GROUP BY k",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, tag FROM visit)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id FROM visit WHERE cost > 20)",
    "SELECT site FROM patient GROUP BY site UNION SELECT drug FROM item GROUP BY drug",
    "SELECT COUNT(*) FROM patient UNION ALL SELECT COUNT(*) FROM visit UNION ALL SELECT COUNT(*) FROM item",
    "SELECT site FROM patient GROUP BY site HAVING COUNT(*) > 5 EXCEPT SELECT site FROM patient GROUP BY site HAVING AVG(age) > 50",
    "SELECT site FROM patient GROUP BY site HAVING COUNT(*) > 5 INTERSECT SELECT drug FROM drug",
    "SELECT drug FROM drug EXCEPT SELECT site FROM patient GROUP BY site",
    "SELECT site, COUNT(*) AS n FROM patient GROUP BY site UNION ALL SELECT NULL, COUNT(*) FROM patient",
]
GROUPED_RESULTS = [
    "SELECT COUNT(*) FROM (SELECT site, COUNT(*) FROM patient GROUP BY site)",
    "SELECT SUM(n) FROM (SELECT city, COUNT(*) AS n FROM patient GROUP BY city)",
    "SELECT AVG(n), MAX(n), MIN(s) FROM (SELECT site, COUNT(*) AS n, SUM(age) AS s FROM patient GROUP BY site)",
    "SELECT female, SUM(n) FROM (SELECT site, female, COUNT(*) AS n FROM patient GROUP BY site, female) GROUP BY female",
    "SELECT * FROM (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) WHERE n > 5",
    "SELECT a.site, n, m FROM (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) a "
    "LEFT JOIN (SELECT CAST(year AS INTEGER) AS site, COUNT(*) AS m FROM visit GROUP BY year) b USING (site)",
    "SELECT d.label, n FROM drug d JOIN (SELECT drug, COUNT(*) AS n FROM item GROUP BY drug) t USING (drug)",
    "SELECT site, female, COUNT(*) FROM patient GROUP BY ROLLUP (site, female)",
    "SELECT site, city, SUM(age), COUNT(score) FROM patient WHERE city IS NOT NULL GROUP BY ROLLUP (site, city) HAVING COUNT(*) > 0",
    "SELECT site, female, COUNT(*), AVG(age) FROM patient GROUP BY CUBE (site, female)",
    "SELECT site, GEOMEAN(age + 1), GEOMEAN(CASE WHEN female THEN age + 1 END) FROM patient GROUP BY ROLLUP (site) HAVING COUNT(*) > 0",
    "SELECT site, female, COUNT(*), GROUPING(site) FROM patient GROUP BY GROUPING SETS ((site), (female), ())",
    "SELECT p.site, v.year, COUNT(*) FROM patient p JOIN visit v USING (patient_id) GROUP BY ROLLUP (p.site, v.year) "
    "HAVING COUNT(*) > 0",
    "PIVOT (SELECT site, female FROM patient) ON site IN (1, 2, 3) USING COUNT(*) GROUP BY female",
    "PIVOT (SELECT year, drug FROM item JOIN visit USING (visit_id)) ON drug IN (1, 2) USING COUNT(*), AVG(year) AS mean GROUP BY year",
    "SELECT * FROM (PIVOT (SELECT city, site, age FROM patient) ON site IN (1, 2) USING SUM(age) GROUP BY city)",
]
FUNCTIONS = [
    """SELECT COUNT(*), AVG(age) FROM patient WHERE ('{"k": ["' || city || '", 7]}') ->> '$.k[0]' LIKE 'A%'""",
    """SELECT SUM(LEAST(GREATEST(CAST(('{"k": {"n": ' || CAST(age AS TEXT) || '}}') ->> '$.k.n' AS INTEGER), 0), 99)) FROM patient""",
    "SELECT YEAR(born + age * INTERVAL 1 MONTH) // 10 AS d, COUNT(*) FROM patient GROUP BY 1 HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM patient WHERE born - INTERVAL (site) YEAR > DATE '1980-01-01' AND born + site < DATE '2000-01-01'",
    "SELECT HOUR(CAST(born AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo') AS h, COUNT(*) FROM patient "
    "GROUP BY 1 HAVING COUNT(*) > 0",
    "SELECT HOUR(CAST(CAST(born AS TIMESTAMP) + age * INTERVAL 37 MINUTE AS TIME)) AS h, COUNT(*) FROM patient "
    "GROUP BY 1 HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM patient WHERE TRIM(BOTH 'Ae' FROM city) <> city AND site <> ALL([2, 3]) AND EXTRACT(epoch FROM born) > 0",
]
EVERYTHING = [
    *INNER, *SELF, *OUTER, *SEMI, *PUBLIC, *WITH, *SCALARS, *PER_UNIT, *WINDOWS, *LATERAL, *SETS, *GROUPED_RESULTS, *FUNCTIONS,
]  # fmt: skip


def test_there_are_enough_statements_and_none_twice() -> None:
    assert len(EVERYTHING) == len(set(EVERYTHING)) >= 120


@pytest.mark.few(8)
@pytest.mark.parametrize("sql", EVERYTHING)
def test_relational(sql: str, both: Beside) -> None:
    both.check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT (SELECT site, female FROM patient) ON site USING COUNT(*) GROUP BY female",
        "PIVOT patient ON site USING COUNT(*) GROUP BY female",
        "PIVOT (SELECT year, drug FROM item JOIN visit USING (visit_id)) ON drug USING COUNT(*) GROUP BY year",
        "FROM (SELECT site, female, age FROM patient) PIVOT (SUM(age) FOR site IN (1, 2) GROUP BY female)",
    ],
)
def test_the_columns_of_a_pivot_are_the_declared_values(sql: str, both: Beside) -> None:
    """Every declared value occurs in this data, so DuckDB finds the same columns in it."""
    answer = both.ask(sql)
    assert answer.columns == tuple((str(c[0]), str(c[1])) for c in both.plain.execute(sql).description or [])
    assert sorted(map(repr, answer.rows)) == sorted(map(repr, both.expect(sql)))


ORDERED = [
    "SELECT site, AVG(n) AS m FROM (SELECT p.patient_id, p.site, COUNT(v.year) AS n FROM patient p LEFT JOIN visit v "
    "USING (patient_id) "
    "GROUP BY p.patient_id, p.site) GROUP BY site ORDER BY m DESC",
    "WITH a AS (SELECT site, COUNT(*) AS n FROM patient GROUP BY site), b AS (SELECT p.site, SUM(v.days) AS s FROM patient p "
    "JOIN visit v USING (patient_id) GROUP BY p.site) SELECT a.site, s / n AS each FROM a JOIN b USING (site) ORDER BY 2 DESC",
    "SELECT drug, (SELECT COUNT(*) FROM item i WHERE i.drug = d.drug) AS n FROM drug d ORDER BY n DESC",
    "SELECT site, female, COUNT(*) AS n FROM patient GROUP BY ROLLUP (site, female) ORDER BY site NULLS LAST, female NULLS LAST, n",
    "SELECT year, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY year) FROM patient JOIN visit USING (patient_id) GROUP "
    "BY year ORDER BY year LIMIT 3",
    "SELECT city, COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id) "
    "GROUP BY city ORDER BY city",
]


@pytest.mark.parametrize("sql", ORDERED)
def test_in_their_order(sql: str, both: Beside) -> None:
    both.check(sql, ordered=True)


BOUNDED = [
    "SELECT dp_sum(cost, unit_lower := 0, unit_upper := 200) FROM visit",
    "SELECT dp_sum(cost, lower := 5, upper := 50, unit_lower := 0, unit_upper := 200) FROM visit",
    "SELECT year, dp_sum(days, unit_lower := -300, unit_upper := 300) FROM visit GROUP BY year",
    "SELECT p.site, dp_sum(v.days, unit_lower := -300, unit_upper := 300) FROM patient p JOIN visit v USING "
    "(patient_id) GROUP BY p.site",
    "SELECT dp_sum(total, lower := -300, upper := 300) FROM (SELECT patient_id, SUM(days) AS total FROM visit GROUP BY patient_id)",
    "SELECT SUM(total) FROM (SELECT patient_id, dp_sum(days, lower := -3, upper := 30) AS total FROM visit GROUP BY patient_id)",
]


@pytest.mark.parametrize("sql", BOUNDED)
def test_bounds_of_a_units_total_that_nobody_reaches(sql: str, both: Beside) -> None:
    plain = sql.replace("dp_sum(", "SUM(")
    for bound in (
        ", lower := 5, upper := 50", ", unit_lower := 0, unit_upper := 200", ", unit_lower := -300, unit_upper := 300",
        ", lower := -300, upper := 300", ", lower := -3, upper := 30",
    ):  # fmt: skip
        plain = plain.replace(bound, "")
    answer = both.ask(sql)
    expected = dict(both.expect(plain)) if len(answer.rows[0]) == 2 else {None: both.expect(plain)[0][0]}
    found = dict(answer.rows) if len(answer.rows[0]) == 2 else {None: answer.rows[0][0]}  # type: ignore[arg-type]
    assert {k: float(str(v)) for k, v in found.items()} == pytest.approx(
        {k: float(str(v)) for k, v in expected.items()}
    )


# --- data that plain DuckDB and dpsql read differently --------------------------------------------------------------


@pytest.mark.slow
def test_rows_of_nobody_are_left_out_of_every_join(tmp_path: Path) -> None:
    """A visit without a patient, or of one who is not there, belongs to nobody."""
    data = crowded(7)
    nobody: list[clinic.Row] = [(9001, None, 1, 40.0, 1, "t1"), (9002, 999_999, 1, 40.0, 1, "t1")]
    items: list[clinic.Row] = [(9001, 1, "1.000", 1), (None, 1, "1.000", 1), (77_777, 1, "1.000", 1)]
    with_nobody = {**data, "visit": [*data["visit"], nobody[0]], "item": data["item"] + items}
    opened = beside(tmp_path, with_nobody, plain=data)
    for sql in (
        "SELECT COUNT(*) FROM visit",
        "SELECT COUNT(*) FROM item",
        "SELECT COUNT(*) FROM patient JOIN visit USING (patient_id)",
        "SELECT COUNT(*) FROM visit JOIN item USING (visit_id)",
        "SELECT COUNT(*) FROM patient FULL JOIN visit USING (patient_id)",
        "SELECT COUNT(*), COUNT(visit.year) FROM patient RIGHT JOIN visit USING (patient_id)",
        "SELECT COUNT(*) FROM patient WHERE patient_id NOT IN (SELECT patient_id FROM visit)",
        "SELECT COUNT(*) FROM patient p WHERE NOT EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id)",
        "SELECT COUNT(*), SUM(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)",
        "SELECT COUNT(*) FROM (SELECT patient_id FROM visit UNION SELECT patient_id FROM patient)",
        "SELECT COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY year) AS r FROM "
        "visit) WHERE r = 1",
    ):
        opened.check(sql)
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_on_other_data_too(seed: int, tmp_path: Path) -> None:
    """A sample of everything, on other people."""
    opened = beside(tmp_path, crowded(100 + seed))
    for sql in EVERYTHING[seed::9]:
        opened.check(sql)
    opened.close()


def test_empty_tables_are_answers(tmp_path: Path) -> None:
    """Joins, groups and windows of nobody: what plain SQL says of empty tables, with every declared group."""
    nothing: clinic.Database = {**{name: [] for name in clinic.DDL}, "drug": [(1, "x"), (2, "y"), (5, None)]}
    opened = beside(tmp_path, nothing)
    for sql, rows in [
        ("SELECT COUNT(*) FROM patient JOIN visit USING (patient_id)", [(0,)]),
        ("SELECT p.site, COUNT(*) FROM patient p JOIN visit v USING (patient_id) GROUP BY p.site", [(1, 0), (2, 0), (3, 0)]),
        ("SELECT label, COUNT(*) FROM item JOIN drug USING (drug) GROUP BY label", [("x", 0), ("y", 0), (None, 0)]),
        ("SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visit GROUP BY patient_id)", [(None,)]),
        ("SELECT drug, (SELECT COUNT(*) FROM item i WHERE i.drug = d.drug) AS n FROM drug d ORDER BY 1", [(1, 0), (2, 0), (5, 0)]),
        ("SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)", [(0,)]),
        ("SELECT COUNT(*) FROM (SELECT patient_id FROM visit UNION ALL SELECT patient_id FROM visit)", [(0,)]),
    ]:  # fmt: skip
        assert opened.ask(sql).rows == rows, sql
    opened.close()
