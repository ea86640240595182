"""Random expression trees over the extremes of every type, run as they are printed; a query that fails is halved until it is found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from pathlib import Path

import duckdb
import numpy as np

from dpsql.core.domains import Interval
from dpsql.core.errors import Error
from dpsql.expressions.scalar import Scalar
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.planner.total import derived, tables_of, total
from dpsql.planner.total.relations import Tables
from dpsql.relations.declared import scan
from dpsql.schema.model import Schema
from tests.attacks.expressions import BINARY, CASTS, UNARY
from tests.support import extremes
from tests.support.planning import compile_statement
from tests.support.sides import SIDES, Sides
from tests.support.trees import text as text_of

CONSTANTS = (
    "0", "1", "-1", "0.0", "0.5", "-0.5", "1e0", "0e0", "1e308", "-5e-324", "9223372036854775807", "2147483648", "0.5 - 0.5",
    "99999999999999999999999999999999999999", "170141183460469231731687303715884105727", "'a'", "''", "'12'", "true", "NULL",
    "DATE '0001-01-01'", "DATE '9999-12-31'", "TIMESTAMP '9999-12-31'", "DATE '2020-02-29'", "0.00000000000000000000000000000000001",
)  # fmt: skip
MORE = (
    "{0} * 0.0", "0.0 * {0}", "{0} * (0.0 * {1})", "{0} * (0.5 - 0.5)", "{0} * 1", "{0} + 0", "{0} - {0}", "{0} * CAST(0 AS HUGEINT)",
    "CASE WHEN {0} BETWEEN 0 AND 1 THEN {1} END", "CASE WHEN {0} BETWEEN {1} AND {1} THEN {0} ELSE {1} END", "COALESCE({0} * 0, {1})",
    "LEAST(GREATEST({0}, 0), 0)", "LEAST(GREATEST({0}, 0), 1) * {1}", "CASE WHEN {0} IS NULL THEN 0 ELSE {1} END", "{0} // {0}",
    *(f"CAST({{0}} * 0.0 AS {sqltype})" for sqltype in CASTS[:9]),
)  # fmt: skip
TEMPLATES = (*UNARY, *BINARY, *MORE)
CLAUSES = (
    "SELECT COUNT({x}) FROM extreme",
    "SELECT dp_sum({x}, lower := -5.5, upper := 7) FROM extreme",
    "SELECT COUNT(*) FROM extreme WHERE ({x}) IS NOT NULL",
    "SELECT {x} AS k, COUNT(*) FROM extreme GROUP BY 1",
    "SELECT COUNT(*) FILTER (WHERE ({x}) IS NULL) FROM extreme",
    "SELECT COUNT(CASE WHEN l_boolean THEN {x} END) FROM extreme",
    "SELECT COUNT(*) FROM (SELECT person_id, MAX({x}) AS m FROM extreme GROUP BY person_id) AS p WHERE m IS NOT NULL",
    "SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM extreme GROUP BY person_id HAVING MAX({x}) IS NULL) AS p",
    "SELECT COUNT(*) FROM (SELECT person_id, SUM({x}) AS m FROM extreme GROUP BY person_id) AS p WHERE m > 0",
    "SELECT COUNT(*) FROM extreme JOIN person ON person_id = id AND ({x}) IS NOT NULL",
    "SELECT COUNT(*) FROM person LEFT JOIN (SELECT person_id, {x} AS x FROM extreme) AS e ON e.person_id = id",
    "SELECT COUNT(x) FROM person LEFT JOIN (SELECT person_id, {x} AS x FROM extreme) AS e ON e.person_id = id",
    "SELECT COUNT(*) FROM extreme WHERE ({x}) IN ({x}, NULL)",
)
BATCH = 200


@dataclass(frozen=True, slots=True)
class Form:
    """An expression as it is written, and what the planner made of it."""

    text: str
    scalar: Scalar


@dataclass(slots=True)
class World:
    """The extremes in engines: all of them, without one person, and nobody."""

    folder: Path
    schema: Schema = field(init=False)
    by_person: Schema = field(init=False)
    connections: list[duckdb.DuckDBPyConnection] = field(init=False)
    scope: Scope = field(init=False)
    sides: Sides = field(init=False)
    refused: int = 0
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        self.schema, self.by_person = extremes.schema(self.folder), extremes.schema(self.folder, unit="person.id")
        table, self.tables = self.schema.tables[0], tables_of(self.schema)
        self.scope = scope_of(scan(self.schema, table, table.name))
        whole = duckdb.connect(config={"threads": "1"})
        extremes.fill(whole)
        self.connections = [
            whole,
            *(self._without(whole, name, kept) for name, kept in (("fewer", "<> 3"), ("empty", "< 0"))),
        ]
        self.sides = Sides(whole, self.tables)

    @staticmethod
    def _without(whole: duckdb.DuckDBPyConnection, name: str, kept: str) -> duckdb.DuckDBPyConnection:
        """A connection that sees only the rows of people whose number is `kept`."""
        found = whole.cursor()
        found.execute(f"CREATE SCHEMA {name}")
        for table, column in (("extreme", "person_id"), ("person", "id")):
            found.execute(f"CREATE TABLE {name}.{table} AS SELECT * FROM main.{table} WHERE {column} {kept}")
        found.execute(f"SET schema = '{name}'")
        return found

    def close(self) -> None:
        for connection in (*self.sides.connections.values(), *self.connections):
            connection.close()

    # --- expressions --------------------------------------------------------------------------------------------------

    def forms(self, chance: random.Random) -> Iterator[Form]:
        """Random trees without end: each is made of columns, constants, and what was made before."""
        pool: dict[str, list[Form]] = {}
        for (_, name), column in self.scope.columns.items():
            pool.setdefault(column.sqltype.name, []).append(Form(name, column))
        for text in CONSTANTS:
            found = self.built(text)
            if found is not None:
                pool.setdefault(found.scalar.sqltype.name, []).append(found)
        first = {name: len(forms) for name, forms in pool.items()}
        trees = [parse(f"SELECT COUNT(*), {t.format('a', 'b')}").tree.expressions[-1] for t in TEMPLATES]  # type: ignore[union-attr]
        while True:
            place = chance.randrange(len(trees))
            a, b = (chance.choice(pool[chance.choice(sorted(pool))]) for _ in range(2))
            try:
                made = scalar(trees[place], Scope({("t", "a"): a.scalar, ("t", "b"): b.scalar}))
            except Error as refused:
                assert not refused.code.startswith("DPSQL-9"), TEMPLATES[place].format(a.text, b.text)
                self.refused += 1
                continue
            found = Form(TEMPLATES[place].format(f"({a.text})", f"({b.text})"), made)
            if len(text_of(made)) > 2000 or len(found.text) > 1500:
                continue
            yield found
            kept = pool.setdefault(made.sqltype.name, [])
            if len(kept) < first.get(made.sqltype.name, 0) + 40:
                kept.append(found)
            else:
                kept[chance.randrange(first.get(made.sqltype.name, 0), len(kept))] = found

    def built(self, text: str) -> Form | None:
        """An expression as the planner makes it; None where it is refused."""
        try:
            return Form(text, scalar(parse(f"SELECT COUNT(*), {text}").tree.expressions[-1], self.scope))  # type: ignore[union-attr]
        except Error:
            return None

    def problems(self, forms: Sequence[Form], everywhere: bool) -> list[str]:
        """The refusals, the errors that the engine raises, and the values that leave the limits that were derived for them.

        everywhere  whether it also runs with guards around every operator, which must change nothing
        """
        items = ", ".join(f"{text_of(form.scalar)} AS c{i}" for i, form in enumerate(forms))
        text = f'SELECT {items} FROM "extreme" AS "extreme"'
        try:
            printed, columns = derived(text, self.tables)
            guarded = total(text, self.tables, everywhere=True) if everywhere else printed
            ends = ", ".join(
                f"CAST(min(c{i}) AS VARCHAR), CAST(max(c{i}) AS VARCHAR), count(c{i})" for i in range(len(forms))
            )
            texts = (printed, guarded) if everywhere else (printed,)
            rows = [self.connections[0].execute(f"SELECT {ends} FROM ({sql})").fetchone() for sql in texts]
        except (Error, duckdb.Error) as raised:
            if len(forms) == 1:
                return [f"{str(raised)[:300]} ON {forms[0].text} AS {text_of(forms[0].scalar)}"]
            half = len(forms) // 2
            return self.problems(forms[:half], everywhere) + self.problems(forms[half:], everywhere)
        known, first, last = [k.limits for k in columns.values()], rows[0], rows[-1]
        assert first is not None and last is not None
        found: list[str] = []
        for i, form in enumerate(forms):
            low, high, _ = first[3 * i : 3 * i + 3]
            if first[3 * i : 3 * i + 3] != last[3 * i : 3 * i + 3]:
                found.append(f"a guard changes it ON {form.text} AS {text_of(form.scalar)}")
            numbers = form.scalar.sqltype.is_number
            for what, limits in (("the algebra", form.scalar.limits), ("the checker", known[i] if known else None)):
                if numbers and limits is not None and not (is_inside(low, limits) and is_inside(high, limits)):
                    found.append(
                        f"{low} to {high} leaves the limits of {what}, {limits}, ON {form.text} AS {text_of(form.scalar)}"
                    )
        return found

    # --- statements ---------------------------------------------------------------------------------------------------

    def run(self, form: Form, clause: str) -> tuple[bool, str]:
        """(whether the planner takes a statement, what an engine raised on it)."""
        sql = clause.format(x=form.text)
        try:
            compiled = compile_statement(parse(sql), Options(), self.by_person)
            tables = tables_of(self.by_person)
            texts = [text for part in compiled.releases for text in part.texts]
            printed = [total(text, tables, everywhere=everywhere) for text in texts for everywhere in (False, True)]
        except Error as refused:
            return False, f"{refused} ON {sql}" if refused.code.startswith("DPSQL-9") else ""
        outcomes = []
        for connection in self.connections:
            raised = ""
            for text in printed:
                try:
                    named = duckdb.extract_statements(text)[0].named_parameters
                    connection.execute(text, dict.fromkeys(named, "00")).fetchall()
                except duckdb.Error as problem:
                    raised = str(problem)[:300]
            outcomes.append(raised)
        return True, f"{outcomes} ON {sql}" if any(outcomes) else ""


def is_inside(text: str | None, limits: Interval) -> bool:
    """Tell whether a number as the engine shows it lies in its hard limits; NULL does."""
    if text is None or text in ("nan", "inf", "-inf"):
        return text is None
    # a DOUBLE or FLOAT is shown by the shortest digits that read as it: exact is what they read as
    with np.errstate(over="ignore"):
        single = float(np.float32(text))
    return any(Fraction(read) in limits for read in (text, float(text), single) if read not in (inf, -inf))


def expressions(world: World, seed: int, count: int) -> list[str]:
    """The problems of `count` random expressions."""
    made, problems = world.forms(random.Random(seed)), []
    for part, start in enumerate(range(0, count, BATCH)):
        forms = [next(made) for _ in range(min(BATCH, count - start))]
        found = world.problems(forms, everywhere=part % 5 == 0)
        if not found and part % 4 == 1:
            side = SIDES[part // 4 % len(SIDES)]
            found = world.sides.problems([text_of(form.scalar) for form in forms], side, where=20)
        problems += found
    return problems


def statements(world: World, seed: int, count: int) -> tuple[int, list[str]]:
    """The number of statements that were taken, and their problems: `count` expressions, each in every clause."""
    made, taken, problems = world.forms(random.Random(seed)), 0, []
    for _ in range(count):
        form = next(made)
        for clause in CLAUSES:
            ran, problem = world.run(form, clause)
            taken += ran
            problems += [problem] if problem else []
    return taken, problems


def printed(world: World, templates: Sequence[str]) -> list[str]:
    """Each template over columns of every type, as it is printed."""
    columns = [name for _, name in world.scope.columns if name.startswith("l_")]
    made = [
        world.built(template.format(a, b))
        for i, template in enumerate(templates)
        for a in columns
        for b in dict.fromkeys((columns[i % len(columns)], "2", "'a'") if "{1}" in template else ("",))
    ]
    return list(dict.fromkeys(text_of(form.scalar) for form in made if form is not None))
