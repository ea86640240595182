"""Rule 52: a refusal is no weapon. What one analyst asks takes no plain answer from another, and one's own only where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.test_trackers import (
    ANALYSTS,
    CONDITIONS,
    LIGHT,
    LIGHTER,
    REST,
    TOTAL,
    ask,
    decision,
    explained,
    placed,
    schema_text,
    where,
)
from tests.support.noise import ZeroNoise

PLAIN = [
    TOTAL,
    "SELECT sex, COUNT(*) FROM patients GROUP BY sex",
    "SELECT race, COUNT(*), AVG(age), SUM(cigarettes_per_day) FROM patients GROUP BY race",
    "SELECT sex, race, COUNT(*) AS n FROM patients GROUP BY ALL ORDER BY n DESC",
    "SELECT quit_smoking, education, AVG(weight_1971_kg) FROM patients GROUP BY quit_smoking, education",
    "SELECT AVG(age) FROM patients",
]
BMI = where("weight_1971_kg / (height_cm * height_cm / 10000) >= 30")
FEW = [
    "age = 41 AND marital = 4",
    "age = 62 AND education = '5'",
    "age = 50 AND income_band = 11",
    "weight_1971_kg = 79.04",
]
TWELVE = [
    *(where(f"NOT ({few})") for few in FEW),
    *(where(f"sex = '{sex}' AND NOT ({few})") for sex in ("male", "female") for few in FEW[:2]),
    *(where(f"race = 'white' AND NOT ({few})") for few in FEW[:2]),
    BMI,
    f"SELECT AVG(age) FROM patients WHERE NOT ({FEW[0]})",
]  # fmt: skip


@pytest.fixture
def both(tmp_path: Path) -> Iterator[dict[str, Session]]:
    """Two analysts of one ledger."""
    ledger = tmp_path / "x.ledger"
    open_session(placed(tmp_path), None, ledger).close()
    path = placed(tmp_path, text=schema_text("nhefs") + ANALYSTS)
    found = {name: open_session(path, name, ledger, noise=ZeroNoise()) for name in ("ann", "bob")}
    yield found
    for session in found.values():
        session.close()


def alone(folder: Path) -> closing[Session]:
    return closing(open_session(placed(folder), None, ":memory:", noise=ZeroNoise()))


def at(price: str, sql: str) -> str:
    return f"/* dpsql: epsilon={price} */ {sql}"


def poisoned(session: Session, price: str, statements: Sequence[str]) -> int:
    """The number of them that are answered."""
    return sum(decision(session, at(price, sql)) == "answered" for sql in statements)


@pytest.mark.slow
@pytest.mark.parametrize("price", ["0.001", "0.1", "10"])
def test_rule_52_twelve_statements_of_somebody_take_no_plain_answer(both: dict[str, Session], price: str) -> None:
    poisoned(both["ann"], price, [*TWELVE, LIGHT, LIGHTER])
    assert [decision(both["bob"], sql) for sql in PLAIN] == ["answered"] * len(PLAIN)


def test_rule_52_one_honest_question_takes_no_plain_answer(both: dict[str, Session]) -> None:
    assert decision(both["ann"], BMI) == "answered"
    assert [decision(both["bob"], sql) for sql in PLAIN] == ["answered"] * len(PLAIN)


@pytest.mark.slow
def test_rule_52_nothing_that_somebody_asks_takes_the_total(both: dict[str, Session]) -> None:
    """Every spelling of everybody but a few, and then the plain answers."""
    poisoned(both["ann"], "10", [where(condition) for condition in CONDITIONS])
    for sql in PLAIN:
        assert not [line for line in explained(both["bob"], sql) if "refused" in line], sql


@pytest.mark.parametrize(("price", "code"), [("0.001", "answered"), ("0.1", "answered"), ("10", "DPSQL-602")])
@pytest.mark.parametrize("order", [(LIGHT, LIGHTER), (LIGHTER, LIGHT)], ids=["larger first", "smaller first"])
def test_rule_52_ones_own_pair_is_refused_where_it_could_be_read(
    tmp_path: Path, order: tuple[str, str], price: str, code: str
) -> None:
    with alone(tmp_path) as session:
        assert [decision(session, at(price, sql)) for sql in order] == ["answered", code]


@pytest.mark.parametrize("price", ["0.1", "10"])
def test_rule_52_the_total_first_and_then_all_but_a_few_is_refused_at_every_price(tmp_path: Path, price: str) -> None:
    with alone(tmp_path) as session:
        ask(session, at(price, TOTAL))
        assert decision(session, at(price, REST)) == "DPSQL-602"


def test_rule_52_many_answers_to_one_question_count_together(tmp_path: Path) -> None:
    """One answer at the default price cannot be read beside the other half; the mean of several of the same question can."""
    with alone(tmp_path) as session:
        ask(session, at("10", LIGHT))
        codes = [decision(session, f"/* dpsql: epsilon=0.1, fresh */ {LIGHTER}") for _ in range(6)]
    assert codes[0] == "answered" and codes[-1] == "DPSQL-602" and codes == sorted(codes, reverse=True)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CASE WHEN age = 41 AND sex = 'male' AND marital = 4 THEN 1 ELSE 2 END AS one, COUNT(*) FROM patients GROUP BY one",
        "SELECT COUNT(*) FILTER (WHERE NOT (age = 41 AND sex = 'male' AND marital = 4)) FROM patients",
        "SELECT SUM(CASE WHEN age = 41 AND sex = 'male' AND marital = 4 THEN 0 ELSE 1 END) FROM patients",
        REST,
    ],
)  # fmt: skip
def test_rule_52_what_chooses_people_is_not_plain(both: dict[str, Session], sql: str) -> None:
    """Of several analysts together no two answers can be read that differ by a few, as long as neither is plain."""
    assert decision(both["ann"], where("age >= 25 AND marital <> 1000")) == "answered"
    assert decision(both["bob"], sql) == "DPSQL-602"
