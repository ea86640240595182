"""Stored answers come back exactly, or not at all."""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting import Answers, Ledger, payload
from dpsql.core.errors import IntegrityError, InternalError
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.charges import Budget, ChargeRequest
from dpsql.plan.tables import KeyValue, NoisyTable

Asks = Callable[..., ChargeRequest]
BUDGET = Budget(EpsilonDelta(Fraction(100), Fraction(0)))
INTEGERS = (
    st.integers() | st.integers(-(2**200), 2**200) | st.sampled_from([2**20000, -(2**20000), 2**2048, -(2**2048)])
)
TEXTS = st.text(st.characters(), max_size=8)
KEYS = st.none() | st.booleans() | INTEGERS | TEXTS


@st.composite
def tables(draw: st.DrawFn) -> NoisyTable:
    groups = draw(st.integers(0, 6))
    keys = draw(st.lists(st.lists(KEYS, min_size=groups, max_size=groups), max_size=3))
    cells = draw(st.lists(st.lists(INTEGERS, min_size=groups, max_size=groups), max_size=3))
    return NoisyTable(tuple(keys), tuple(cells), groups)


def typed(table: NoisyTable) -> list[list[tuple[type, KeyValue]]]:
    """True == 1, so equality alone would not see a key that changed its type."""
    return [[(type(value), value) for value in column] for column in (*table.keys, *table.cells)]


@settings(deadline=None)
@given(tables())
def test_a_table_round_trips(table: NoisyTable) -> None:
    stored = payload.encode(table)
    assert stored is not None
    again = payload.decode(stored)
    assert again is not None and again == table and typed(again) == typed(table)


def test_a_table_round_trips_under_a_narrower_limit_of_digits() -> None:
    table = NoisyTable(([2**1900, "x"],), ([2**3000, -(2**50000)],), 2)
    stored = payload.encode(table)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert stored is not None and payload.decode(stored) == table
    finally:
        sys.set_int_max_str_digits(limit)


def test_large_tables_are_compressed() -> None:
    table = NoisyTable((["north", "south"] * 5000,), (), 10000)
    stored = payload.encode(table)
    assert stored is not None and len(stored) < 5000
    assert payload.decode(stored) == table


def test_long_columns_of_integers_are_stored_as_their_bytes() -> None:
    table = NoisyTable((["north", "south"] * 5000,), (list(range(-(2**63), -(2**63) + 10000)),), 10000)
    stored = payload.encode(table)
    assert stored is not None and len(stored) < 80_000 * 1.5 + 100_000
    assert payload.decode(stored) == table
    larger = NoisyTable((), ([2**63, *range(9999)],), 10000)
    stored = payload.encode(larger)
    assert stored is not None and payload.decode(stored) == larger


@pytest.mark.parametrize(("bits", "size"), [(7, 1), (8, 2), (15, 2), (16, 4), (31, 4), (32, 8), (63, 8)])
def test_long_columns_take_the_bytes_that_their_numbers_need(bits: int, size: int) -> None:
    for numbers in ([2**bits - 1] * 9999, [-(2**bits)] * 9999, [0, -(2**bits), 2**bits - 1] * 3333):
        table = NoisyTable((), (numbers,), 9999)
        stored = payload.encode(table)
        assert stored is not None and payload.decode(stored) == table
        assert len(stored) - 9999 * size * 4 / 3 == pytest.approx(25, abs=15)


def test_what_was_stored_as_eight_bytes_each_is_read() -> None:
    numbers = [3, -4, 2**62] * 400
    held = base64.b64encode(np.array(numbers, dtype="<i8").tobytes()).decode()
    assert payload.decode(f'j[1200,[],[{{"i64":"{held}"}}]]'.encode()) == NoisyTable((), (numbers,), 1200)
    for damaged in ('{"i64":"AAAA"}', '{"i64":"AAA"}', '{"i64":7}', '{"i99":"AAAA"}', "{}", '{"i8":[]}', '{"i8":"é"}'):
        assert payload.decode(f"j[1,[],[{damaged}]]".encode()) is None


@pytest.mark.parametrize(
    "table",
    [
        NoisyTable(([1.5],), (), 1),  # type: ignore[arg-type, list-item]
        NoisyTable(([float("nan")],), (), 1),  # type: ignore[list-item]
        NoisyTable((), ([True],), 1),
        NoisyTable((), (["x"],), 1),  # type: ignore[list-item]
        NoisyTable(([1, 2],), ([1],), 2),
        NoisyTable(([1],), ([1],), 2),
    ],
)
def test_what_is_no_noisy_table_is_not_stored(ledger: Ledger, asks: Asks, table: NoisyTable) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    with pytest.raises(InternalError, match="DPSQL-901: a released table cannot be stored"):
        Answers(ledger).put(1, "f", table)
    assert Answers(ledger).get("f") is None


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"j" + tail))
def test_other_bytes_are_no_table(stored: bytes) -> None:
    assert payload.decode(stored) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[]",
        "[1,[],[]",
        "[1,[]]",
        "[1,[[1.5]],[]]",
        "[1,[[NaN]],[]]",
        "[1,[],[[true]]]",
        '["1",[],[]]',
        "[true,[],[]]",
        "[1,[[1,2]],[]]",
        "[1,[7],[]]",
        '[1,[{"hex":[[]]}],[]]',
        '[1,[{"hex":[["g"]]}],[]]',
        '[1,[{"hey":[]}],[]]',
        '[1,[{"hex":3}],[]]',
        "[" * 100_000,
    ],
)
def test_other_json_is_no_table(text: str) -> None:
    assert payload.decode(b"j" + text.encode()) is None


def test_an_answer_is_stored_for_good(ledger: Ledger, asks: Asks, path: Path) -> None:
    table = NoisyTable(([1, None, True, "x"], ["a", "b", "c", "d"]), ([-5, 0, 2**70, 3],), 4)
    assert Answers(ledger).get("f") is None
    receipt = ledger.charge(asks("0.1"), BUDGET)
    assert receipt is not None and receipt.id is not None
    assert Answers(ledger).put(receipt.id, "f", table) is table
    ledger.close()
    again = Answers(Ledger.open(path, "example"))
    assert again.get("f") == table
    assert again.get("g") is None


def test_the_first_answer_stays(ledger: Ledger, asks: Asks) -> None:
    first, second = NoisyTable((), ([10],), 1), NoisyTable((), ([12],), 1)
    ledger.charge(asks("0.1"), BUDGET)
    ledger.charge(asks("0.1"), BUDGET)
    answers = Answers(ledger)
    answers.put(1, "f", first)
    assert answers.put(2, "f", second) == first
    assert answers.get("f") == first


def test_threads_that_store_at_once_agree(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    answers, stored = Answers(ledger), []

    def work(number: int) -> None:
        stored.append(answers.put(1, "f", NoisyTable((), ([number],), 1)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored == [answers.get("f")] * 16


def test_an_answer_needs_a_charge(ledger: Ledger) -> None:
    with pytest.raises(InternalError) as caught:
        Answers(ledger).put(1, "f", NoisyTable((), ([1],), 1))
    assert str(caught.value) == "DPSQL-901: the ledger was asked for something that contradicts it"
    assert caught.value.__context__ is None
    assert Answers(ledger).get("f") is None


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE answer SET payload = x'6a5b312c5b5d2c5b5b395d5d5d' WHERE fingerprint = 'f'",  # [1,[],[[9]]]
        "UPDATE answer SET payload = substr(payload, 1, 5) WHERE fingerprint = 'f'",
        "UPDATE answer SET payload = 'text' WHERE fingerprint = 'f'",
        "UPDATE answer SET payload = x'' WHERE fingerprint = 'f'",
        "UPDATE answer SET digest = x'00' WHERE fingerprint = 'f'",
        "UPDATE answer SET digest = 7 WHERE fingerprint = 'f'",
        "UPDATE answer SET fingerprint = CASE fingerprint WHEN 'f' THEN 'moved' ELSE 'f' END",
    ],
)
def test_a_damaged_answer_is_refused(ledger: Ledger, asks: Asks, path: Path, edit: str) -> None:
    ledger.charge(asks("0.1"), BUDGET)
    answers = Answers(ledger)
    answers.put(1, "f", NoisyTable((), ([1],), 1))
    answers.put(1, "g", NoisyTable((), ([2],), 1))
    ledger.store.write(lambda connection: connection.execute(edit))
    with pytest.raises(IntegrityError) as caught:
        answers.get("f")
    assert str(caught.value) == f"DPSQL-705: the ledger {path} is damaged; restore its newest backup"
    assert caught.value.__context__ is None
