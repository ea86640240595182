"""A text that is known by the proof of its shape is as it would be if it were proved itself."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.expressions.known import Known
from dpsql.planner import total
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.planner.total import proofs
from dpsql.planner.total.proofs import Proof
from dpsql.planner.walks import lifted
from dpsql.schema.model import Schema
from tests.support.opened import data_of
from tests.support.planning import compile_statement
from tests.support.statements import read

EXAMPLES = Path(__file__).parents[3] / "examples"
SCHEMA = data_of(EXAMPLES / "randhie" / "schema.toml").schema
LARGE = ("99", "123456789", "1234567890", "9223372036854775807", "9223372036854775808")
NUMBERS = ("0.0", "5.0", "123456789.5", "99999999999.0", "99999999999999999999.0")
DATES = ("1990-01-31", "2020-02-31", "9999-12-31", "2020-02-29")
SUM = "SELECT sum(CASE WHEN {} BETWEEN {} AND {} THEN CAST({} AS BIGINT) END) AS a FROM person"
MORE = "income + CAST({} AS DOUBLE)"
TEXTS = (
    ("SELECT count(CAST(CAST({} AS BIGINT) * CAST({} AS BIGINT) AS BIGINT)) AS a FROM person", [LARGE, LARGE]),
    (SUM.format("income", "CAST({} AS DOUBLE)", "CAST({} AS DOUBLE)", "income"), [NUMBERS, NUMBERS]),
    ("SELECT count(*) AS a FROM person WHERE CAST('{}' AS DATE) < CAST('{}' AS DATE)", [DATES[::3], DATES]),
    # the two are one expression, and a condition says something of it, while their constants are equal
    (SUM.format(MORE, "CAST(0.0 AS DOUBLE)", "CAST(9.0 AS DOUBLE)", MORE), [("1.0", "2.0")] * 2),
    ("SELECT count(site + {}) AS a, count(site * {}) AS b FROM person LIMIT {}", [("1", "2147483647", LARGE[-2])] * 3),
)
"""Engine texts with holes, and what is put into each."""


def filled() -> list[list[str]]:
    return [[text.format(*values) for values in itertools.product(*holes)] for text, holes in TEXTS]


def is_never_true(text: str) -> bool:
    """True if something stands BETWEEN a larger and a smaller number: what is said of it there is said of no row."""
    ends = re.findall(r"BETWEEN CAST\(([0-9.]+) AS \S+ AND CAST\(([0-9.]+) AS", text)
    return any(Fraction(low) > Fraction(high) for low, high in ends)


def outcome(work: Callable[[], str]) -> str:
    try:
        return work()
    except Error as refused:
        return str(refused)


def texts_of(schema: Schema) -> total.Texts:
    return total.Texts(schema, frozenset(), lambda checked: checked.text, True, True)


def differing(schema: Schema, texts: Sequence[str]) -> Iterator[str]:
    """The texts that come out otherwise than by themselves, each asked after those before it."""
    known, tables = texts_of(schema), total.tables_of(schema)
    for text in texts:
        found = outcome(lambda text=text: known.printed(text, (), (), everywhere=False))  # type: ignore[misc]
        if found != outcome(lambda text=text: total.total(text, tables)) and not is_never_true(text):  # type: ignore[misc]
            yield text


def shuffled(texts: Sequence[str], seed: int) -> list[str]:
    """In an order that makes another one the first of its shape."""
    found = list(texts) * 2
    random.Random(seed).shuffle(found)
    return found


def other(value: str, chance: random.Random) -> str:
    """A constant of the same form, of any size."""
    if "-" in value:
        return chance.choice(["1970-01-01", "1999-12-31", "2023-02-29", "9999-12-31", value])
    _, point, after = value.partition(".")
    digits = str(chance.randrange(10 ** chance.choice([1, 2, 4, 4, 9, 9, 12, 25])))
    return chance.choice([value, value, f"{digits}{point}{''.join(chance.choice('0123456789') for _ in after)}"])


def varied(text: str, chance: random.Random) -> str:
    """The text with other constants, most of them where a cast makes a value of them, and most equal ones equal again."""
    key, values = lifted(text) or (text, [])
    parts, again = re.split("[\0\1]", key), dict[str, str]()
    found = parts[0]
    for before, value, part in zip(parts, values, parts[1:], strict=False):
        asked = again.setdefault(value, other(value, chance)) if chance.random() < 0.98 else other(value, chance)
        in_cast = before.removesuffix("'").endswith("CAST(") and part.removeprefix("'").startswith(" AS")
        found += (asked if in_cast or chance.random() < 0.01 else value) + part
    return found


def engine_texts() -> list[str]:
    """The SQL of the accepted statements over one schema."""
    found: list[str] = []
    for statement in read("accept.sql"):
        asked = parse(statement.sql, statement.parameters)
        if statement.schema == "randhie" and isinstance(asked, Query):
            try:
                compiled = compile_statement(asked, Options(), SCHEMA)
            except Error:
                continue
            found += [sql for part in compiled.releases if not part.bounds for sql, _ in part.sources]
    return list(dict.fromkeys(found))


def test_a_text_is_as_if_it_were_proved_itself() -> None:
    for texts in filled():
        for seed in range(4):
            assert not list(differing(SCHEMA, shuffled(texts, seed)))


@pytest.mark.slow
def test_engine_texts_with_any_constants_are_as_if_they_were_proved_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    chance, covered = random.Random(1), [0]
    asked = Proof.covers

    def counted(proof: Proof, values: Sequence[str]) -> bool:
        found = asked(proof, values)
        covered[0] += found
        return found

    monkeypatch.setattr(Proof, "covers", counted)
    for text in engine_texts()[::3]:
        again = list(dict.fromkeys(varied(text, chance) for _ in range(7)))
        assert not list(differing(SCHEMA, [text, *again]))
    assert covered[0] > 7


def test_the_second_text_of_a_shape_proves_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []
    written = total.written
    monkeypatch.setattr(total, "written", lambda text, *a, **k: (walked.append(text), written(text, *a, **k))[1])
    text = 'SELECT count(*) AS s0 FROM "person" AS "person" WHERE "person"."income" > CAST({} AS DOUBLE)'
    known = texts_of(SCHEMA)
    for number in ("1.0", "20.0", "300.5", "40.0", "0.1"):
        assert known.printed(text.format(number), (), (), everywhere=False) == text.format(number)
    assert walked == [text.format("1.0"), text.format("20.0")]


def test_a_proof_is_of_its_shape_its_facts_and_its_tables_alone() -> None:
    text = 'SELECT sum(CAST("person"."income" * CAST({} AS DOUBLE) AS BIGINT)) AS s0 FROM "person" AS "person"'
    facts = frozenset({"person.income within its bounds"})
    known, plain = texts_of(SCHEMA), total.tables_of(SCHEMA)
    for number in ("1.0", "2.0", "3.0"):
        sql = text.format(number)
        assert known._checked(sql, facts, (), False) == total.total(sql, total.tables_of(SCHEMA, facts))
        assert known._checked(sql, frozenset(), (), False) == total.total(sql, plain)
        assert known._checked(sql, frozenset(), (), True) == total.total(sql, plain, everywhere=True)


def test_a_dialect_that_writes_its_own_words_has_no_proofs() -> None:
    known = total.Texts(SCHEMA, frozenset(), lambda checked: checked.text.upper(), True, False)
    for number in range(5):
        text = f'select count(*) AS s0 FROM "person" AS "person" WHERE income > CAST({number} AS DOUBLE)'
        assert known.printed(text, (), (), everywhere=False) == text.upper()


def _any_constant(proof: Proof, values: Sequence[str]) -> bool:
    return True


def _wherever_equal(proof: Proof, values: Sequence[str]) -> bool:
    pairs = zip(proof.values, values, proof.wide, strict=True)
    return all(found == value if wide is None else proofs._holds(wide, found) for value, found, wide in pairs)


def _any_size(assumed: Known, value: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "name", "planted"),
    [(Proof, "covers", _any_constant), (Proof, "covers", _wherever_equal), (proofs, "_holds", _any_size)],
)
def test_a_planted_proof_that_covers_too_much_is_found(
    owner: object, name: str, planted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert any(list(differing(SCHEMA, shuffled(texts, seed))) for texts in filled() for seed in range(4))


def test_a_planted_proof_of_everything_in_reach_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of constants that are no operand of a cast a proof is of none but themselves: the type of a bare one goes by its size."""
    widened = proofs._widened

    def planted(node: object) -> Known | None:
        return widened(node) or (proofs.number("999999999") if str(node).isdigit() else None)  # type: ignore[arg-type]

    monkeypatch.setattr(proofs, "_widened", planted)
    monkeypatch.setattr(proofs, "_holds", _any_size)
    assert any(list(differing(SCHEMA, shuffled(texts, seed))) for texts in filled() for seed in range(4))
