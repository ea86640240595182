"""Refused statements beside what the refusal suggests and the statement that one gets by doing so.

Every statement of refuse.sql stands in LISTED, in the file's order; MORE covers the other refusals of the planner.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import TokenType

PERCENT = "ask over all rows" if TokenType.MOD not in DuckDB.Parser.TERM else "check the words just before it"
"""The lower end of the supported parser versions reads 10% as the begin of 10 % x."""


class Suggestion(NamedTuple):
    """`says` is a part of the message's first line; `followed` is the refused statement after one did what it says."""

    refused: str
    says: str
    followed: str
    schema: str = "randhie"


LISTED = [
    # rows of people
    Suggestion("SELECT * FROM person;", "SELECT COUNT(*)", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT person_id, income FROM person LIMIT 10;",
        "leave it out, or write COUNT(*)",
        "SELECT COUNT(*), AVG(income) FROM person LIMIT 10",
    ),
    Suggestion(
        "SELECT DISTINCT income FROM person_year JOIN person USING (person_id);",
        "CAST(FLOOR(income / 10) AS INTEGER)",
        "SELECT DISTINCT CAST(FLOOR(income / 10) AS INTEGER) FROM person_year JOIN person USING (person_id)",
    ),
    Suggestion(
        "SELECT site, income FROM person GROUP BY site, income, person_id;",
        "SELECT COUNT(*) FROM (...)",
        "SELECT COUNT(*) FROM (SELECT site, income FROM person GROUP BY site, income, person_id)",
    ),
    # groups that are people
    Suggestion(
        "SELECT person_id, COUNT(*) FROM person_year GROUP BY person_id;",
        "SELECT COUNT(*) FROM (...)",
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT person_id, SUM(medical_usd) AS s FROM person_year GROUP BY person_id ORDER BY s DESC LIMIT 1;",
        "group by what people share",
        "SELECT year, SUM(medical_usd) AS s FROM person_year GROUP BY year ORDER BY s DESC LIMIT 1",
    ),
    Suggestion(
        "SELECT p.person_id % 1000000 AS k, COUNT(*) FROM person p GROUP BY k;",
        "group by what people share",
        "SELECT p.site AS k, COUNT(*) FROM person p GROUP BY k",
    ),
    # an identifier compared, grouped or aggregated
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE person_id = 125024;",
        "filter by what many people share",
        "SELECT COUNT(*) FROM person WHERE site = 2",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE person_id <> 125024;",
        "leave person_id out",
        "SELECT COUNT(*) FROM person",
    ),
    Suggestion("SELECT MAX(person_id) FROM person;", "COUNT(*)", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT site, MIN(CAST(person_id AS VARCHAR)) FROM person GROUP BY site;",
        "ask for what people share",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    # values without bounds
    Suggestion("SELECT SUM(person_id) FROM person;", "COUNT(*)", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT SUM(EXP(income)) FROM person;",
        "dp_sum(EXP(income), lower := 0, upper := 100)",
        "SELECT dp_sum(EXP(income), lower := 0, upper := 100) FROM person",
    ),
    Suggestion(
        "SELECT STRING_AGG(CAST(income AS VARCHAR)) FROM person;",
        "how often each value occurs",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    Suggestion(
        "SELECT LIST(income), FIRST(income), ARG_MAX(income, site), HISTOGRAM(income) FROM person;",
        "how often each value occurs",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    # nested, missing or misplaced aggregates
    Suggestion("SELECT SUM(SUM(income)) FROM person;", "aggregate once", "SELECT SUM(income) FROM person"),
    Suggestion(
        "SELECT site, income, COUNT(*) FROM person GROUP BY site;",
        "write AVG(income)",
        "SELECT site, AVG(income), COUNT(*) FROM person GROUP BY site",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE COUNT(*) > 1;", "HAVING", "SELECT COUNT(*) FROM person HAVING COUNT(*) > 1"
    ),
    # joins that lose or multiply people
    Suggestion(
        "SELECT COUNT(*) FROM person a, person b;",
        "add a.person_id = b.person_id as an AND part",
        "SELECT COUNT(*) FROM person a JOIN person b ON a.person_id = b.person_id",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person a JOIN person b ON a.site = b.site;",
        "add a.person_id = b.person_id as an AND part of ON",
        "SELECT COUNT(*) FROM person a JOIN person b ON a.site = b.site AND a.person_id = b.person_id",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person a JOIN person_year b ON a.person_id = b.person_id OR a.site = b.year;",
        "add a.person_id = b.person_id as an AND part of ON",
        "SELECT COUNT(*) FROM person a JOIN person_year b ON a.person_id = b.person_id AND a.site = b.year",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person a JOIN person b ON a.person_id < b.person_id;",
        "add a.person_id = b.person_id as an AND part of ON",
        "SELECT COUNT(*) FROM person a JOIN person b ON a.person_id = b.person_id",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM plan LEFT JOIN person ON person.plan = plan.plan;",
        "people LEFT JOIN public table",
        "SELECT COUNT(*) FROM person LEFT JOIN plan ON person.plan = plan.plan",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person CROSS JOIN LATERAL (SELECT * FROM person_year y WHERE y.year > person.site) z;",
        "JOIN the subquery on the privacy unit",
        "SELECT COUNT(*) FROM person JOIN (SELECT * FROM person_year) z ON z.person_id = person.person_id AND z.year > person.site",
    ),
    # a public FROM that looks at people
    Suggestion(
        "SELECT * FROM plan WHERE EXISTS (SELECT 1 FROM person WHERE person.plan = plan.plan);",
        "(SELECT COUNT(*) FROM ... WHERE ...) > 10",
        "SELECT * FROM plan WHERE (SELECT COUNT(*) FROM person WHERE person.plan = plan.plan) > 10",
    ),
    Suggestion(
        "SELECT * FROM plan WHERE plan IN (SELECT plan FROM person);",
        "(SELECT COUNT(*) FROM ... WHERE ...) > 10",
        "SELECT * FROM plan WHERE (SELECT COUNT(*) FROM person WHERE person.plan = plan.plan) > 10",
    ),
    Suggestion(
        "SELECT * FROM plan WHERE plan NOT IN (SELECT plan FROM person WHERE income > 20000);",
        "(SELECT COUNT(*) FROM ... WHERE ...) > 10",
        "SELECT * FROM plan WHERE NOT (SELECT COUNT(*) FROM person WHERE income > 20000 AND person.plan = plan.plan) > 10",
    ),
    Suggestion(
        "SELECT EXISTS (SELECT 1 FROM person WHERE income > 29000);",
        "(SELECT COUNT(*) FROM ... WHERE ...) > 10",
        "SELECT (SELECT COUNT(*) FROM person WHERE income > 29000) > 10",
    ),
    # other people inside a condition
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE plan IN (SELECT plan FROM person WHERE income > 20000);",
        "unit IN (SELECT unit ...)",
        "SELECT COUNT(*) FROM person WHERE person_id IN (SELECT person_id FROM person WHERE income > 20000)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE income >= ALL (SELECT income FROM person);",
        "compare with one value",
        "SELECT COUNT(*) FROM person WHERE income >= (SELECT AVG(income) FROM person)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE EXISTS (SELECT 1 FROM person_year WHERE medical_usd > 30000);",
        "EXISTS (... WHERE inner.unit = outer.unit)",
        "SELECT COUNT(*) FROM person WHERE EXISTS "
        "(SELECT 1 FROM person_year WHERE medical_usd > 30000 AND person_year.person_id = person.person_id)",
    ),
    # a group of the null-extended side
    Suggestion(
        "SELECT y.person_id, COUNT(*) FROM person p LEFT JOIN person_year y ON p.person_id = y.person_id AND "
        "y.admissions > 0 GROUP BY y.person_id;",
        "leave the identifier out of GROUP BY",
        "SELECT COUNT(*) FROM person p LEFT JOIN person_year y ON p.person_id = y.person_id AND y.admissions > 0",
    ),
    # a cast on the key of a public join
    Suggestion(
        "SELECT COUNT(*) FROM person JOIN plan ON CAST(person.plan AS VARCHAR) = CAST(plan.plan AS VARCHAR);",
        "write ON person.plan = plan.plan",
        "SELECT COUNT(*) FROM person JOIN plan ON person.plan = plan.plan",
    ),
    # DISTINCT without the unit
    Suggestion(
        "SELECT SUM(income) FROM (SELECT DISTINCT site, income FROM person);",
        "CAST(FLOOR(income / 10) AS INTEGER)",
        "SELECT SUM(band) FROM (SELECT DISTINCT site, CAST(FLOOR(income / 10) AS INTEGER) AS band FROM person)",
    ),
    # order that other rows decide
    Suggestion(
        "SELECT AVG(v) FROM (SELECT person_id, APPROX_QUANTILE(md_visits, 0.5) AS v FROM person_year GROUP BY person_id);",
        "BOOL_OR within one person's rows",
        "SELECT AVG(v) FROM (SELECT person_id, MEDIAN(md_visits) AS v FROM person_year GROUP BY person_id)",
    ),
    # order, sampling and chance before aggregation
    Suggestion(
        "SELECT AVG(income) FROM (SELECT income, person_id FROM person ORDER BY income DESC LIMIT 10);",
        "aggregate first, then order and limit the groups",
        "SELECT AVG(income) AS m FROM person GROUP BY site ORDER BY m DESC LIMIT 10",
    ),
    Suggestion("SELECT COUNT(*) FROM person USING SAMPLE 10%;", PERCENT, "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT COUNT(*) FROM person TABLESAMPLE 1 PERCENT;", "ask over all rows", "SELECT COUNT(*) FROM person"
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE random() < 0.5;",
        "leave it out",
        "SELECT COUNT(*) FROM person",
    ),
    Suggestion(
        "SELECT AVG(x) FROM (SELECT person_id, AVG(income) OVER () AS x FROM person);",
        "write PARTITION BY the privacy unit",
        "SELECT AVG(x) FROM (SELECT person_id, AVG(income) OVER (PARTITION BY person_id) AS x FROM person)",
    ),
    Suggestion(
        "SELECT AVG(r) FROM (SELECT person_id, RANK() OVER (ORDER BY income) AS r FROM person);",
        "or aggregate first",
        "SELECT AVG(r) FROM (SELECT site, RANK() OVER (ORDER BY AVG(income)) AS r FROM person GROUP BY site)",
    ),
    Suggestion(
        "WITH RECURSIVE t AS (SELECT person_id, 1 AS n FROM person UNION ALL SELECT person_id, n + 1 FROM t WHERE n < "
        "5) SELECT COUNT(*) FROM t;",
        "each as a WITH query",
        "WITH t AS (SELECT person_id, 1 AS n FROM person UNION ALL SELECT person_id, 2 FROM person) SELECT COUNT(*) FROM t",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person POSITIONAL JOIN person_year;",
        "JOIN ... ON a.key = b.key",
        "SELECT COUNT(*) FROM person a JOIN person_year b ON a.person_id = b.person_id",
    ),
    # work that grows with values
    Suggestion(
        "SELECT COUNT(*) FROM patients WHERE length(repeat(education, 100000000)) > 1;",
        "write REPEAT(x, 2)",
        "SELECT COUNT(*) FROM patients WHERE length(education) > 1",
        "nhefs",
    ),
    # outside the schema
    Suggestion("SELECT COUNT(*) FROM 'person.parquet';", "the tables are person", "SELECT COUNT(*) FROM person"),
    Suggestion("SELECT * FROM read_csv('/etc/passwd');", "name a declared table", "SELECT * FROM plan"),
    Suggestion("SELECT * FROM duckdb_tables();", "name a declared table", "SELECT * FROM information_schema.tables"),
    Suggestion(
        "SELECT COUNT(*) FROM query('SELECT * FROM person');", "name a declared table", "SELECT COUNT(*) FROM person"
    ),
    Suggestion("SUMMARIZE person;", "write DESCRIBE and the name of a table", "DESCRIBE person"),
    Suggestion(
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM person;", "write EXPLAIN SELECT", "EXPLAIN SELECT COUNT(*) FROM person"
    ),
    # PIVOT without GROUP BY
    Suggestion(
        "PIVOT person ON site USING COUNT(*);",
        "write GROUP BY and the columns to keep",
        "PIVOT person ON site USING COUNT(*) GROUP BY female",
    ),
    # statements that are not questions
    Suggestion(
        "CREATE TABLE x AS SELECT * FROM person;",
        "write WITH name AS (SELECT ...) SELECT ...",
        "WITH x AS (SELECT * FROM person) SELECT COUNT(*) FROM x",
    ),
    Suggestion("COPY (SELECT COUNT(*) FROM person) TO 'x.csv';", "write SELECT ...", "SELECT COUNT(*) FROM person"),
    Suggestion("INSERT INTO person VALUES (1);", "write SELECT ...", "SELECT COUNT(*) FROM person"),
    Suggestion("ATTACH 'x.db';", "write SELECT ...", "SELECT 1"),
    Suggestion("PRAGMA database_size;", "write SELECT ...", "SELECT 1"),
    Suggestion("SET threads = 1;", "SET dp_epsilon = 0.2", "SET dp_epsilon = 0.2"),
    Suggestion("SET dp_noise = false;", "max_rows", "SET dp_max_rows = 3"),
    Suggestion(
        "/* dpsql: epsilon=1000000 */ SELECT COUNT(*) FROM person;",
        "/* dpsql: epsilon=0.5 */",
        "/* dpsql: epsilon=0.5 */ SELECT COUNT(*) FROM person",
    ),
    Suggestion("SELECT COUNT(*) FROM person; DROP TABLE person;", "one at a time", "SELECT COUNT(*) FROM person;"),
    # malformed
    Suggestion("SELECT COUNT(*) FORM person;", "did you mean FROM in place of FORM?", "SELECT COUNT(*) FROM person"),
    Suggestion("SELECT COUNT(*) FROM persn;", "did you mean person?", "SELECT COUNT(*) FROM person"),
    Suggestion("SELECT COUNT(incme) FROM person;", "did you mean income?", "SELECT COUNT(income) FROM person"),
    Suggestion("SELECT COUNT(DISTINCT *) FROM person;", "COUNT(*)", "SELECT COUNT(*) FROM person"),
]

MORE = [
    # more names than columns
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT site, plan FROM person) AS p(a, b, c)",
        "write p(a, b)",
        "SELECT COUNT(*) FROM (SELECT site, plan FROM person) AS p(a, b)",
    ),
    Suggestion(
        "WITH w(a, b) AS (SELECT site FROM person) SELECT COUNT(*) FROM w",
        "write w(a)",
        "WITH w(a) AS (SELECT site FROM person) SELECT COUNT(*) FROM w",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person AS p, plan AS q(a, b, c) WHERE p.plan = q.a",
        "write q(a, b)",
        "SELECT COUNT(*) FROM person AS p, plan AS q(a, b) WHERE p.plan = q.a",
    ),
    # prices and accuracies (planner/options.py, planning.py, accurate.py, buying.py)
    Suggestion(
        "/* dpsql: error=2 */ SELECT COUNT(*) FROM person",
        "write error=6 or more",
        "/* dpsql: error=6 */ SELECT COUNT(*) FROM person",
    ),
    Suggestion(
        "/* dpsql: error=50, epsilon=0.1 */ SELECT COUNT(*) FROM person",
        "write one of them",
        "/* dpsql: error=50 */ SELECT COUNT(*) FROM person",
    ),
    Suggestion(
        "/* dpsql: confidence=0.9 */ SELECT COUNT(*) FROM person",
        "write error=50, confidence=0.95",
        "/* dpsql: error=50, confidence=0.95 */ SELECT COUNT(*) FROM person",
    ),
    Suggestion(
        "/* dpsql: error=500 */ SELECT SUM(income) / COUNT(*) FROM person",
        "name a price instead: epsilon=0.1",
        "/* dpsql: epsilon=0.1 */ SELECT SUM(income) / COUNT(*) FROM person",
    ),
    Suggestion(
        "/* dpsql: error=500 */ SELECT STDDEV(income) FROM person",
        "name a price instead: epsilon=0.1",
        "/* dpsql: epsilon=0.1 */ SELECT STDDEV(income) FROM person",
    ),
    Suggestion(
        "/* dpsql: error=5% */ SELECT COUNT(*) FROM person_year",
        "such as error=50",
        "/* dpsql: error=50 */ SELECT COUNT(*) FROM person_year",
    ),
    Suggestion(
        "/* dpsql: weights=2:1:1 */ SELECT COUNT(*), SUM(income) FROM person",
        "write weights=1:1",
        "/* dpsql: weights=1:1 */ SELECT COUNT(*), SUM(income) FROM person",
    ),
    Suggestion(
        "SET dp_weights = 2:1",
        "write /* dpsql: weights=2:1 */ in it",
        "/* dpsql: weights=2:1 */ SELECT COUNT(*), SUM(income) FROM person",
    ),
    # aggregates over people (resolve/aggregates.py)
    Suggestion(
        "SELECT SUM(family_size) FROM person_year",
        "dp_sum(family_size, lower := 0, upper := 100)",
        "SELECT dp_sum(family_size, lower := 0, upper := 100) FROM person_year",
    ),
    Suggestion(
        "SELECT AVG(family_size) FROM person_year",
        "add WHERE family_size BETWEEN 0 AND 100",
        "SELECT AVG(family_size) FROM person_year WHERE family_size BETWEEN 0 AND 100",
    ),
    Suggestion(
        "SELECT AVG(family_size + 1) FROM person_year",
        "AVG(LEAST(GREATEST(family_size + 1, 0), 100))",
        "SELECT AVG(LEAST(GREATEST(family_size + 1, 0), 100)) FROM person_year",
    ),
    Suggestion("SELECT AVG(person_id) FROM person", "COUNT(*)", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT AVG(female) FROM person",
        "AVG(CAST(female AS INTEGER))",
        "SELECT AVG(CAST(female AS INTEGER)) FROM person",
    ),
    Suggestion(
        "SELECT COUNT(DISTINCT person_id + 0) FROM person",
        "name the column of the privacy unit",
        "SELECT COUNT(DISTINCT person_id) FROM person",
    ),
    Suggestion("SELECT COUNT(DISTINCT site, *) FROM person", "COUNT(*) for rows", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT BOOL_OR(income) FROM person", "income IS NOT NULL", "SELECT BOOL_OR(income IS NOT NULL) FROM person"
    ),
    Suggestion("SELECT SUM(DISTINCT income) FROM person", "SUM(x)", "SELECT SUM(income) FROM person"),
    Suggestion("SELECT AVG(income ORDER BY site) FROM person", "AVG(x)", "SELECT AVG(income) FROM person"),
    Suggestion("SELECT MEDAIN(income) FROM person", "did you mean MEDIAN()?", "SELECT MEDIAN(income) FROM person"),
    Suggestion("SELECT QUANTILE_CONT(income, 1.5) FROM person", "0.9", "SELECT QUANTILE_CONT(income, 0.9) FROM person"),
    Suggestion(
        "SELECT APPROX_TOP_K(plan) FROM person", "APPROX_TOP_K(x, 3)", "SELECT APPROX_TOP_K(plan, 3) FROM person"
    ),
    Suggestion(
        "SELECT MODE(family_size) FROM person_year",
        "GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
        "SELECT site, COUNT(*) FROM person GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
    ),
    Suggestion("SELECT dp_clamped(site = 1) FROM person", "leave it out", "SELECT dp_clamped(income) FROM person"),
    Suggestion(
        "SELECT n, dp_low(n) FROM (SELECT COUNT(*) AS n FROM person)",
        "in the query that does",
        "SELECT n, low FROM (SELECT COUNT(*) AS n, dp_low(n) AS low FROM person)",
    ),
    Suggestion(
        "SELECT dp_sum(income, bounds := 'auto', lower := 0) FROM person",
        "dp_sum(x, bounds := 'auto')",
        "SELECT dp_sum(income, bounds := 'auto') FROM person",
    ),
    Suggestion(
        "SELECT SUM(n) FROM (SELECT person_id, dp_sum(family_size, bounds := 'auto') AS n FROM person_year GROUP BY 1)",
        "dp_sum(x, lower := 0, upper := 100)",
        "SELECT SUM(n) FROM (SELECT person_id, dp_sum(family_size, lower := 0, upper := 100) AS n FROM person_year GROUP BY 1)",
    ),
    Suggestion(
        "SELECT dp_randomized_response(plan, 0.05) FROM person",
        "dp_randomized_response(plan = 3, 1.0)",
        "SELECT dp_randomized_response(plan = 3, 0.05) FROM person",
    ),
    Suggestion(
        "SELECT dp_randomized_response(female, 0.2) FROM person",
        "/* dpsql: epsilon=0.24 */",
        "/* dpsql: epsilon=0.24 */ SELECT dp_randomized_response(female, 0.2) FROM person",
    ),
    Suggestion(
        "SELECT dp_sum(income) FROM person",
        "dp_sum(x, lower := 0, upper := 100)",
        "SELECT dp_sum(income, lower := 0, upper := 100) FROM person",
    ),
    Suggestion(
        "SELECT dp_sum(income, lower := 5, upper := 1) FROM person",
        "dp_sum(x, lower := 0, upper := 100)",
        "SELECT dp_sum(income, lower := 0, upper := 100) FROM person",
    ),
    Suggestion(
        "SELECT dp_sum(md_visits, unit_lower := 9, unit_upper := year) FROM person_year",
        "dp_sum(x, unit_lower := 0, unit_upper := 100)",
        "SELECT dp_sum(md_visits, unit_lower := 0, unit_upper := 100) FROM person_year",
    ),
    # groups, rows and their order (resolve/people.py, query.py)
    Suggestion("SELECT income FROM person", "write AVG(income)", "SELECT AVG(income) FROM person"),
    Suggestion("SELECT female FROM person", "write COUNT(female)", "SELECT COUNT(female) FROM person"),
    Suggestion("SELECT female FROM person", "add it to GROUP BY", "SELECT female FROM person GROUP BY female"),
    Suggestion(
        "SELECT female, COUNT(*) FROM person",
        "add it to GROUP BY",
        "SELECT female, COUNT(*) FROM person GROUP BY female",
    ),
    Suggestion(
        "SELECT DISTINCT education_years FROM person",
        "CAST(FLOOR(education_years / 10) AS INTEGER)",
        "SELECT DISTINCT CAST(FLOOR(education_years / 10) AS INTEGER) FROM person",
    ),
    Suggestion(
        "SELECT DISTINCT education_years FROM person",
        "or ask for COUNT(*) beside it",
        "SELECT education_years, COUNT(*) FROM person GROUP BY education_years",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person GROUP BY 3",
        "write its number, at most 1",
        "SELECT COUNT(*) FROM (SELECT site FROM person GROUP BY 1)",
    ),
    Suggestion(
        "SELECT site, COUNT(*) FROM person GROUP BY COUNT(*)",
        "group by columns",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person GROUP BY *", "name the columns", "SELECT COUNT(*) FROM person GROUP BY site"
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person ORDER BY income",
        "write AVG(income)",
        "SELECT COUNT(*) FROM person ORDER BY AVG(income)",
    ),
    Suggestion(
        "SELECT site, COUNT(*) FROM person GROUP BY site LIMIT (SELECT COUNT(*) FROM person)",
        "write LIMIT 10",
        "SELECT site, COUNT(*) FROM person GROUP BY site LIMIT 10",
    ),
    Suggestion(
        "SELECT DISTINCT ON (site) site, COUNT(*) FROM person GROUP BY site",
        "write GROUP BY",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT person_id FROM person HAVING female)",
        "write the condition in WHERE",
        "SELECT COUNT(*) FROM (SELECT person_id FROM person WHERE female)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT * EXCLUDE (income) FROM person)",
        "name the columns that are to be shown",
        "SELECT COUNT(*) FROM (SELECT person_id, site FROM person)",
    ),
    Suggestion(
        "SELECT site, COUNT(*) FROM person p JOIN person_year y USING (person_id) GROUP BY site HAVING year > 3",
        "write AVG(year)",
        "SELECT site, COUNT(*) FROM person p JOIN person_year y USING (person_id) GROUP BY site HAVING AVG(year) > 3",
    ),
    # groups and windows of one person (resolve/unit_groups.py, unit_windows.py)
    Suggestion(
        "SELECT SUM(n) FROM (SELECT person_id, COUNT(*) AS n FROM person_year GROUP BY person_id LIMIT 3)",
        "aggregate over people first",
        "SELECT SUM(n) FROM (SELECT person_id, COUNT(*) AS n FROM person_year GROUP BY person_id) LIMIT 3",
    ),
    Suggestion(
        "SELECT SUM(r) FROM (SELECT person_id, RANK() OVER (PARTITION BY person_id ORDER BY COUNT(*)) AS r FROM "
        "person_year GROUP BY person_id)",
        "window the rows in a subquery first",
        "SELECT SUM(LEAST(r, 5)) FROM (SELECT person_id, MAX(LEAST(GREATEST(r, 0), 5)) AS r FROM "
        "(SELECT person_id, RANK() OVER (PARTITION BY person_id ORDER BY year) AS r FROM person_year) GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT AVG(f) FROM (SELECT person_id, FIRST(md_visits) AS f FROM person_year GROUP BY person_id)",
        "how often each value occurs",
        "SELECT f, COUNT(*) FROM (SELECT person_id, md_visits AS f FROM person_year) GROUP BY f",
    ),
    Suggestion(
        "SELECT AVG(f) FROM (SELECT person_id, VAR_POP(md_visits) AS f FROM person_year GROUP BY person_id)",
        "use COUNT, SUM, AVG, MIN, MAX, MEDIAN",
        "SELECT AVG(f) FROM (SELECT person_id, MEDIAN(md_visits) AS f FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT AVG(f) FROM (SELECT person_id, SUM(DISTINCT md_visits) AS f FROM person_year GROUP BY person_id)",
        "write SUM(x)",
        "SELECT AVG(f) FROM (SELECT person_id, SUM(md_visits) AS f FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT AVG(f) FROM (SELECT person_id, SUM(LN(family_size)) AS f FROM person_year GROUP BY person_id)",
        "LEAST(GREATEST(x, 0), 100)",
        "SELECT AVG(f) FROM (SELECT person_id, SUM(LEAST(GREATEST(LN(family_size), 0), 100)) AS f FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT person_id, age FROM person_year GROUP BY person_id)",
        "write MAX(age)",
        "SELECT COUNT(*) FROM (SELECT person_id, MAX(age) FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT *, COUNT(*) FROM person_year GROUP BY person_id)",
        "name the columns",
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(DISTINCT year, *) FROM person_year GROUP BY person_id)",
        "COUNT(DISTINCT column)",
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(DISTINCT year) FROM person_year GROUP BY person_id)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT patient_id, MEDIAN(education) AS m FROM patients GROUP BY patient_id) WHERE m IS NULL",
        "use MIN or MAX",
        "SELECT COUNT(*) FROM (SELECT patient_id, MIN(education) AS m FROM patients GROUP BY patient_id) WHERE m IS NULL",
        "nhefs",
    ),
    Suggestion(
        "SELECT AVG(x) FROM (SELECT person_id, LAG(age, 1, 0.0) OVER (PARTITION BY person_id ORDER BY year) AS x FROM person_year)",
        "COALESCE(LAG(x) OVER (...), 0)",
        "SELECT AVG(x) FROM (SELECT person_id, COALESCE(LAG(age) OVER (PARTITION BY person_id ORDER BY year), 0) AS x "
        "FROM person_year)",
    ),
    Suggestion(
        "SELECT AVG(x) FROM (SELECT person_id, LAG(age, year) OVER (PARTITION BY person_id ORDER BY year) AS x FROM person_year)",
        "write LAG(x, 1)",
        "SELECT AVG(x) FROM (SELECT person_id, LAG(age, 1) OVER (PARTITION BY person_id ORDER BY year) AS x FROM person_year)",
    ),
    Suggestion(
        "SELECT AVG(x) FROM (SELECT person_id, NTILE(2) OVER (PARTITION BY person_id ORDER BY year) AS x FROM person_year)",
        "FIRST_VALUE",
        "SELECT AVG(x) FROM (SELECT person_id, FIRST_VALUE(age) OVER (PARTITION BY person_id ORDER BY year) AS x FROM person_year)",
    ),
    Suggestion(
        "SELECT AVG(x) FROM (SELECT person_id, AVG(age) OVER (PARTITION BY person_id ORDER BY year "
        "ROWS BETWEEN year PRECEDING AND CURRENT ROW) AS x FROM person_year)",
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        "SELECT AVG(x) FROM (SELECT person_id, AVG(age) OVER (PARTITION BY person_id ORDER BY year "
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS x FROM person_year)",
    ),
    Suggestion(
        "SELECT AVG(x) FROM (SELECT person_id, AVG(age) OVER (PARTITION BY person_id ORDER BY year "
        "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM person_year)",
        "ROWS BETWEEN ...",
        "SELECT AVG(x) FROM (SELECT person_id, AVG(age) OVER (PARTITION BY person_id ORDER BY year "
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM person_year)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) FILTER (WHERE child) OVER (PARTITION BY person_id) AS x "
        "FROM person_year) WHERE x > 1",
        "CASE WHEN",
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(CASE WHEN child THEN 1 END) OVER (PARTITION BY person_id) AS x "
        "FROM person_year) "
        "WHERE x > 1",
    ),
    # joins and FROM (resolve/sources.py, joined.py)
    Suggestion(
        "SELECT COUNT(*) FROM person JOIN plan ON person.site = plan.coinsurance_pct",
        "write ON person.plan = plan.plan",
        "SELECT COUNT(*) FROM person JOIN plan ON person.plan = plan.plan",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person CROSS JOIN plan",
        "write ON person.plan = plan.plan",
        "SELECT COUNT(*) FROM person JOIN plan ON person.plan = plan.plan",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person ASOF JOIN person_year ON person.site >= person_year.year",
        "JOIN ... ON a.key = b.key",
        "SELECT COUNT(*) FROM person JOIN person_year ON person.person_id = person_year.person_id AND person.site >= person_year.year",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person SEMI JOIN person_year USING (person_id)",
        "ON a.key = b.key",
        "SELECT COUNT(*) FROM person SEMI JOIN person_year ON person.person_id = person_year.person_id",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person JOIN plan USING (nothing)",
        "name a column of both sides",
        "SELECT COUNT(*) FROM person JOIN plan USING (plan)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person_year NATURAL JOIN plan",
        "write ON",
        "SELECT COUNT(*) FROM person_year JOIN plan ON person_year.year = plan.plan",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person, person",
        "person AS another_name",
        "SELECT COUNT(*) FROM person, person AS another_name WHERE person.person_id = another_name.person_id",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person FULL JOIN plan USING (plan)",
        "people LEFT JOIN public table",
        "SELECT COUNT(*) FROM person LEFT JOIN plan USING (plan)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person p JOIN person q USING (person_id) WHERE site = 3",
        "write p.site",
        "SELECT COUNT(*) FROM person p JOIN person q USING (person_id) WHERE p.site = 3",
    ),
    Suggestion("SELECT COUNT(x.site) FROM person", "did you mean person?", "SELECT COUNT(person.site) FROM person"),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE born > 3",
        "its columns are person_id, site",
        "SELECT COUNT(*) FROM person WHERE site > 3",
    ),
    Suggestion("SELECT COUNT(*) FROM nobody_knows", "the tables are person", "SELECT COUNT(*) FROM person"),
    # queries inside queries (resolve/query.py, subqueries.py, correlated.py)
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT plan FROM person UNION ALL SELECT plan FROM plan)",
        "aggregate both sides first",
        "SELECT COUNT(*) FROM (SELECT plan FROM person GROUP BY plan UNION ALL SELECT plan FROM plan GROUP BY plan)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT site FROM person UNION SELECT plan FROM person)",
        "select the privacy unit too",
        "SELECT COUNT(*) FROM (SELECT person_id, site FROM person UNION SELECT person_id, plan FROM person)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT site FROM person UNION SELECT plan FROM person)",
        "UNION write UNION ALL",
        "SELECT COUNT(*) FROM (SELECT site FROM person UNION ALL SELECT plan FROM person)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT site FROM person EXCEPT SELECT year FROM person_year)",
        "write SELECT unit, ... EXCEPT SELECT unit, ...",
        "SELECT COUNT(*) FROM (SELECT person_id, site FROM person EXCEPT SELECT person_id, year FROM person_year)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT site FROM person EXCEPT SELECT year FROM person_year)",
        "EXISTS on the privacy unit",
        "SELECT COUNT(*) FROM (SELECT site FROM person WHERE NOT EXISTS "
        "(SELECT 1 FROM person_year WHERE person_year.person_id = person.person_id AND year = site))",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT person_id FROM person EXCEPT ALL SELECT person_id FROM person_year)",
        "write EXCEPT",
        "SELECT COUNT(*) FROM (SELECT person_id FROM person EXCEPT SELECT person_id FROM person_year)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM (SELECT person_id FROM person UNION ALL SELECT person_id, year FROM person_year)",
        "select as many on both sides",
        "SELECT COUNT(*) FROM (SELECT person_id FROM person UNION ALL SELECT person_id FROM person_year)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE person_id IN (SELECT year, person_id FROM person_year)",
        "select one column",
        "SELECT COUNT(*) FROM person WHERE person_id IN (SELECT person_id FROM person_year)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE plan IN (SELECT plan, coinsurance_pct FROM plan)",
        "select one column",
        "SELECT COUNT(*) FROM person WHERE plan IN (SELECT plan FROM plan)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE site = (SELECT plan, coinsurance_pct FROM plan LIMIT 1)",
        "select one column",
        "SELECT COUNT(*) FROM person WHERE site = (SELECT plan FROM plan LIMIT 1)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE site = (SELECT site FROM person)",
        "SELECT COUNT(*)",
        "SELECT COUNT(*) FROM person WHERE site = (SELECT COUNT(*) FROM person)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person p WHERE income > (SELECT AVG(income) FROM person q WHERE q.site > p.site)",
        "inner column = outer column as an AND part of WHERE",
        "SELECT COUNT(*) FROM person p WHERE income > (SELECT AVG(income) FROM person q WHERE q.site = p.site)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person p WHERE income > (SELECT income FROM person q WHERE q.person_id = p.person_id)",
        "(SELECT AVG(x) FROM ... WHERE inner column = outer column)",
        "SELECT COUNT(*) FROM person p WHERE income > (SELECT AVG(income) FROM person q WHERE q.person_id = p.person_id)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person_year WHERE year NOT IN (SELECT site FROM person)",
        "unit IN (SELECT unit ...)",
        "SELECT COUNT(*) FROM person_year WHERE person_id NOT IN (SELECT person_id FROM person)",
    ),
    Suggestion(
        "SELECT plan FROM plan ORDER BY (SELECT income FROM person)",
        "SELECT COUNT(*)",
        "SELECT plan FROM plan ORDER BY (SELECT COUNT(*) FROM person)",
    ),
    # grouping sets and PIVOT
    Suggestion(
        "SELECT site, COUNT(DISTINCT person_id) FROM person GROUP BY ROLLUP (site)",
        "one SELECT per level",
        "SELECT site, COUNT(DISTINCT person_id) FROM person GROUP BY site UNION ALL SELECT NULL, COUNT(DISTINCT person_id) FROM person",
    ),
    Suggestion(
        "SELECT family_size, COUNT(*) FROM person_year GROUP BY ROLLUP (family_size)",
        "GROUP BY it alone",
        "/* dpsql: max_groups=1 */ SELECT family_size, COUNT(*) FROM person_year GROUP BY family_size",
    ),
    Suggestion(
        "SELECT site, income, COUNT(*) FROM person GROUP BY ROLLUP (site)",
        "write COUNT(income)",
        "SELECT site, COUNT(income), COUNT(*) FROM person GROUP BY ROLLUP (site)",
    ),
    Suggestion(
        "SELECT site, GROUPING(plan), COUNT(*) FROM person GROUP BY ROLLUP (site)",
        "name a grouped column",
        "SELECT site, GROUPING(site), COUNT(*) FROM person GROUP BY ROLLUP (site)",
    ),
    Suggestion(
        "SELECT *, COUNT(*) FROM person GROUP BY ROLLUP (site)",
        "name the columns to group by",
        "SELECT site, COUNT(*) FROM person GROUP BY ROLLUP (site)",
    ),
    Suggestion(
        "PIVOT person_year ON family_size USING COUNT(*) GROUP BY child",
        "ON family_size IN (1, 2)",
        "PIVOT person_year ON family_size IN (1, 2) USING COUNT(*) GROUP BY child",
    ),
    Suggestion(
        "PIVOT person ON site USING COUNT(*) GROUP BY plan + 1",
        "PIVOT (SELECT x + 1 AS y, ...) ... GROUP BY y",
        "PIVOT (SELECT plan + 1 AS y, site FROM person) ON site USING COUNT(*) GROUP BY y",
    ),
    # limits and measures
    Suggestion(
        "SELECT CAST(income AS INTEGER), CAST(age AS INTEGER), COUNT(*) FROM person JOIN person_year USING (person_id) GROUP BY ALL",
        "group by fewer or coarser columns",
        "SELECT CAST(income / 1000 AS INTEGER), CAST(age AS INTEGER), COUNT(*) FROM person JOIN person_year USING "
        "(person_id) GROUP BY ALL",
    ),
    # expressions (resolve/scalars.py, functions.py)
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE site IN ()",
        "x IN (1, 2)",
        "SELECT COUNT(*) FROM person WHERE site IN (1, 2)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE site IS 3",
        "x IS NOT DISTINCT FROM y",
        "SELECT COUNT(*) FROM person WHERE site IS NOT DISTINCT FROM 3",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE LOG(3, income) > 1",
        "LN(x) / LN(3)",
        "SELECT COUNT(*) FROM person WHERE LN(income) / LN(3) > 1",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE JSON_VALUE(CAST(site AS VARCHAR), '$.a') = '1'",
        "write JSON_EXTRACT_STRING(x, '$.key')",
        "SELECT COUNT(*) FROM person WHERE JSON_EXTRACT_STRING(CAST(site AS VARCHAR), '$.a') = '1'",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE CAST(site AS VARCHAR) ->> '$..a' = '1'",
        "write a ->> '$.key[0]'",
        "SELECT COUNT(*) FROM person WHERE CAST(site AS VARCHAR) ->> '$.a[0]' = '1'",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC' > '2020-01-01'",
        "AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'",
        "SELECT COUNT(*) FROM person WHERE TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' > '2020-01-01'",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE (site, plan) < (3, 2)",
        "a < 1 OR (a = 1 AND b < 2)",
        "SELECT COUNT(*) FROM person WHERE site < 3 OR (site = 3 AND plan < 2)",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE CAST(site AS VARCHAR) ~ '1'",
        "write regexp_matches(x, 'pattern')",
        "SELECT COUNT(*) FROM person WHERE REGEXP_MATCHES(CAST(site AS VARCHAR), '1')",
    ),
    Suggestion(
        "SELECT GEOMEAN(c) FROM (SELECT site, COUNT(*) AS c FROM person GROUP BY site)",
        "write plain SQL, such as EXP(AVG(LN(c)))",
        "SELECT EXP(AVG(LN(c))) FROM (SELECT site, COUNT(*) AS c FROM person GROUP BY site)",
    ),
    Suggestion(
        "SELECT GEOMEAN(person_id) FROM person", "count people instead: COUNT(*)", "SELECT COUNT(*) FROM person"
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE CAST(site AS JSON) IS NULL",
        "use BIGINT, DOUBLE",
        "SELECT COUNT(*) FROM person WHERE CAST(site AS BIGINT) IS NULL",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE ROW_NUMBER() OVER (ORDER BY income) = 1",
        "PARTITION BY the privacy unit in a subquery of its own",
        "SELECT COUNT(*) FROM (SELECT person_id, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY income) AS n FROM "
        "person) WHERE n = 1",
    ),
    # slips of the pen, and other engines' SQL
    Suggestion("SELCT COUNT(*) FROM person", "did you mean SELECT?", "SELECT COUNT(*) FROM person"),
    Suggestion("SELECT COUNT(*) FORM person", "did you mean FROM in place of FORM?", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT COUNT(*) FROM person WERE site = 1",
        "did you mean WHERE in place of WERE?",
        "SELECT COUNT(*) FROM person WHERE site = 1",
    ),
    Suggestion(
        "SELECT site, COUNT(*) FROM person GROUP site",
        "write GROUP BY",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    Suggestion(
        "SELECT site COUNT(*) FROM person GROUP BY site",
        "a comma may be missing before COUNT",
        "SELECT site, COUNT(*) FROM person GROUP BY site",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE site =",
        "the statement ends too early",
        "SELECT COUNT(*) FROM person WHERE site = 1",
    ),
    Suggestion(
        "SELECT `site`, COUNT(*) FROM person GROUP BY 1",
        "in double quotes",
        'SELECT "site", COUNT(*) FROM person GROUP BY 1',
    ),
    Suggestion(
        'SELECT COUNT(*) FROM person WHERE site = "1"',
        "a text stands in single quotes",
        "SELECT COUNT(*) FROM person WHERE site = '1'",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE INTERVAL 1 DAY > INTERVAL 2 DAY",
        "such as d + INTERVAL 1 DAY",
        "SELECT DATE '2020-01-01' + INTERVAL 1 DAY",
    ),
    Suggestion(
        "SELECT (site, female), COUNT(*) FROM person GROUP BY 1",
        "write its columns one by one",
        "SELECT site, female, COUNT(*) FROM person GROUP BY 1, 2",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE @site = 1", "write abs(x)", "SELECT COUNT(*) FROM person WHERE abs(site) = 1"
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE CAST(plan AS VARCHAR) ~ '1'",
        "write regexp_matches(x, 'pattern')",
        "SELECT COUNT(*) FROM person WHERE regexp_matches(CAST(plan AS VARCHAR), '1')",
    ),
    Suggestion(
        "SELECT dp_sum(income, lower => 0, upper => 100) FROM person",
        "write name := value",
        "SELECT dp_sum(income, lower := 0, upper := 100) FROM person",
    ),
    Suggestion(
        "SELECT TO_CHAR(DATE '2020-01-01', 'YYYY')",
        "write strftime(d, '%Y-%m')",
        "SELECT strftime(DATE '2020-01-01', '%Y-%m')",
    ),
    Suggestion(
        "SELECT SUM(TO_NUMBER(plan)) FROM person",
        "write TRY_CAST(x AS DOUBLE)",
        "SELECT COUNT(TRY_CAST(plan AS DOUBLE)) FROM person",
    ),
    Suggestion(
        "SELECT ARRAY_AGG(plan) FROM person",
        "SELECT x, COUNT(*) FROM t GROUP BY x",
        "SELECT plan, COUNT(*) FROM person GROUP BY plan",
    ),
    Suggestion("SELECT FOO(income) FROM person", "SHOW FUNCTIONS lists", "SHOW FUNCTIONS"),
    Suggestion("SELECT dp_count(income) FROM person", "write COUNT(*)", "SELECT COUNT(*) FROM person"),
    Suggestion(
        "SELECT CAST(income AS MONEY), COUNT(*) FROM person GROUP BY 1",
        "write BIGINT, DOUBLE",
        "SELECT CAST(income AS BIGINT) // 1000, COUNT(*) FROM person GROUP BY 1",
    ),
    Suggestion("SELECT COUNT(income, site) FROM person", "write one", "SELECT COUNT(income) FROM person"),
    Suggestion("SELECT AVG(*) FROM person", "name a column", "SELECT AVG(income) FROM person"),
    Suggestion("SELECT #1, COUNT(*) FROM person", "name the column", "SELECT site, COUNT(*) FROM person GROUP BY site"),
    Suggestion(
        "SELECT COUNT(*) FROM person GROUP BY site WITH TOTALS",
        "write GROUP BY ROLLUP (a, b)",
        "SELECT COUNT(*) FROM person GROUP BY ROLLUP (site)",
    ),
    Suggestion(
        "SELECT site, COUNT(*) FROM person GROUP BY site FETCH FIRST 5 ROWS WITH TIES",
        "write LIMIT and a number",
        "SELECT site, COUNT(*) FROM person GROUP BY site LIMIT 5",
    ),
    Suggestion(
        "SELECT COUNT(*) FROM person WHERE CAST(plan AS VARCHAR) = e'1'",
        "write it in single quotes: 'text'",
        "SELECT COUNT(*) FROM person WHERE CAST(plan AS VARCHAR) = '1'",
    ),
    Suggestion(
        "SELECT site & 1, COUNT(*) FROM person GROUP BY 1",
        "write // and % instead",
        "SELECT site % 2, COUNT(*) FROM person GROUP BY 1",
    ),
    Suggestion(
        "SELECT site, COUNT(*) FROM person GROUP BY 1 ORDER BY 3",
        "at most 2",
        "SELECT site, COUNT(*) FROM person GROUP BY 1 ORDER BY 2",
    ),
    Suggestion("SHOW COLUMNS FROM person", "write DESCRIBE", "DESCRIBE person"),
    Suggestion("SUMMARIZE person", "write DESCRIBE", "DESCRIBE person"),
    Suggestion(
        "CREATE VIEW v AS SELECT COUNT(*) AS n FROM person",
        "write WITH name AS (SELECT ...) SELECT ...",
        "WITH v AS (SELECT COUNT(*) AS n FROM person) SELECT n FROM v",
    ),
    Suggestion("SELECT", "write SELECT COUNT(*) FROM ...", "SELECT COUNT(*) FROM person"),
]
