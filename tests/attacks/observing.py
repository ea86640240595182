"""An attacker's view of a statement, on the databases that the attacks compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import dpsql
from dpsql.clients.dbapi.connection import Connection
from tests.support import clinic
from tests.support.clinic import INF, NAN, Database, Row
from tests.support.opened import clinic_data

PERSON = 1003
NAME = "Wilhelmina"
"""A note that only PERSON has."""
SHARP = "/* dpsql: epsilon=100000 */ "
"""At this price there is next to no noise, so that what is released shows the sensitivity."""


def patient(number: int, **changed: object) -> Row:
    """An ordinary patient, well inside every declaration, with some columns changed."""
    row: dict[str, object] = {
        "patient_id": 1000 + number,
        "site": 1 + number % 3,
        "female": (True, False, None)[number % 3],
        "income": 10.0 + number,
        "weight": 60.0 + number,
        "age": 30 + number,
        "score": f"{20 + number}.50",
        "city": "abc"[number % 3],
        "note": f"n{number % 2}",
        "born": f"199{number % 10}-03-15",
        "code": number % 4,
    }
    return tuple((row | changed).values())


def visit(number: int, person: object, **changed: object) -> Row:
    row: dict[str, object] = {
        "visit_id": number,
        "patient_id": person,
        "year": 1 + number % 4,
        "cost": 10.0 + number % 7,
        "days": number % 5,
        "tag": f"t{number % 2}",
    }
    return tuple((row | changed).values())


def ordinary(people: int = 12) -> Database:
    """D: everybody inside the declarations; PERSON has a note of their own."""
    patients = [patient(i) if 1000 + i != PERSON else patient(i, note=NAME, age=77) for i in range(people)]
    visits = [visit(3 * i + j, 1000 + i) for i in range(people) for j in range(3)]
    return {"patient": patients, "visit": visits, "item": [], "drug": [(1, "x"), (2, "y"), (5, None)]}


def missing() -> Database:
    """D': D without PERSON."""
    return clinic.without(ordinary(), PERSON)


def empty() -> Database:
    """De: no people at all."""
    return {**ordinary(), "patient": [], "visit": []}


def poisoned() -> Database:
    """Dn: D with people whose values are NULL, NaN, infinite and huge."""
    odd = [(20 + i, value) for i, value in enumerate([None, NAN, INF, -INF, 1e308, -1e308, 5e-324])]
    people = [
        patient(n, income=v, weight=v, age=2147483647, score="-9999.99", born="0001-01-01", code=None, site=None)
        for n, v in odd
    ]
    visits = [visit(100 + n, 1000 + n, cost=v, days=-2147483648, year=99) for n, v in odd]
    data = ordinary()
    return {**data, "patient": data["patient"] + people, "visit": data["visit"] + visits}


def heavy(rows: int = 1_000) -> Database:
    """Dh: D, where one more person has very many visits."""
    data = ordinary()
    visits = [visit(1000 + i, 1999, cost=50.0) for i in range(rows)]
    return {**data, "patient": [*data["patient"], patient(999)], "visit": data["visit"] + visits}


def all_databases() -> dict[str, Database]:
    return {"D": ordinary(), "D'": missing(), "De": empty(), "Dn": poisoned()}


@dataclass(frozen=True)
class Seen:
    """Everything about a statement that may not depend on anybody: `columns` and `keys` are None after an error."""

    error: tuple[type, str] | None
    columns: object
    rows: int | None
    keys: object
    epsilon: Fraction
    delta: Fraction
    answer: list[tuple[object, ...]] = field(compare=False, default_factory=list)


def opened(data: Database, *, unit: str = "patient", more: str = "", guard: str = "off") -> Connection:
    """A new connection, on a ledger of its own, to exactly this database; `more` is SQL that adds rows fast."""
    return clinic_data(clinic.schema_text(unit=unit, guard=guard), data, more).connection()


def spent(connection: Connection) -> tuple[Fraction, Fraction]:
    """The epsilon left, read from a statement that is free."""
    privacy = connection.execute("SELECT 1").privacy
    return privacy.remaining, privacy.remaining_delta


def see(connection: Connection, sql: str, parameters: Sequence[object] = (), keys: int = 0) -> Seen:
    """Run a statement; the first `keys` columns are its group keys."""
    before = spent(connection)
    cursor = None
    problem: dpsql.Error | None = None
    try:
        cursor = connection.execute(sql, parameters)
    except dpsql.Error as raised:
        problem = raised
    after = spent(connection)
    charge = (before[0] - after[0], before[1] - after[1])
    if problem is not None:
        assert problem.__cause__ is None and problem.__context__ is None
        return Seen((type(problem), str(problem)), None, None, None, *charge)
    assert cursor is not None
    rows = cursor.fetchall()
    return Seen(None, cursor.description, len(rows), [row[:keys] for row in rows], *charge, rows)


def everywhere(statements: Iterable[str], keys: int = 0, guard: str = "off") -> dict[str, list[Seen]]:
    """The view of each statement on D, D', De and Dn."""
    found: dict[str, list[Seen]] = {sql: [] for sql in statements}
    for data in all_databases().values():
        with opened(data, guard=guard) as connection:
            for sql, seen in found.items():
                seen.append(see(connection, sql, keys=keys))
    return found


def everywhere_alone(statements: Iterable[str]) -> dict[str, list[Seen]]:
    """As above, but each statement is the first that its ledger sees: no answer of another is there to use again."""
    found: dict[str, list[Seen]] = {sql: [] for sql in statements}
    for data in all_databases().values():
        for sql, seen in found.items():
            with opened(data) as connection:
                seen.append(see(connection, sql))
    return found


def sharp(data: Database, sql: str, *, unit: str = "patient") -> list[tuple[object, ...]]:
    """The rows of a statement at a price at which there is next to no noise."""
    with opened(data, unit=unit) as connection:
        return connection.execute(SHARP.replace("100000", "900000") + sql).fetchall()
