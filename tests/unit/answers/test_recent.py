"""The newest answers by what was asked: when one is given again, and when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from dpsql.answers.recent import MOST, Recent, Shelf, asked_for


@dataclass(slots=True)
class Stored:
    """The charges of stored answers."""

    charges: dict[str, int] = field(default_factory=dict)

    def charges_of(self, fingerprints: Sequence[str]) -> list[int | None]:
        return [self.charges.get(name) for name in fingerprints]


def test_rule_40_an_answer_is_given_while_what_it_was_made_of_is_stored() -> None:
    stored = Stored({"a": 1, "b": 2})
    recent: Recent[str] = Recent(stored.charges_of)
    recent.put("asked", "kept", ("a", "b"))
    assert recent.get("asked") == recent.get("asked") == "kept"
    stored.charges["b"] = 3
    assert recent.get("asked") is None
    stored.charges["b"] = 2
    assert recent.get("asked") is None, "what does not stand is forgotten"


def test_rule_40_an_answer_that_was_not_stored_and_is_now_takes_the_place() -> None:
    """Read off others: as soon as the statement's own answer is there, that one is read."""
    stored = Stored({"finer": 1})
    recent: Recent[str] = Recent(stored.charges_of)
    recent.put("asked", "kept", ("finer", "own"))
    assert recent.get("asked") == "kept"
    stored.charges["own"] = 2
    assert recent.get("asked") is None


def test_rule_40_an_answer_that_is_gone_is_not_given() -> None:
    stored = Stored({"a": 1})
    recent: Recent[str] = Recent(stored.charges_of)
    recent.put("asked", "kept", ("a",))
    stored.charges.clear()
    assert recent.get("asked") is None


def test_another_question_has_no_answer() -> None:
    recent: Recent[str] = Recent(Stored().charges_of)
    recent.put("asked", "kept", ())
    assert recent.get("other") is None and recent.get(None) is None


def test_the_answer_that_was_not_asked_for_longest_goes_first() -> None:
    recent: Recent[int] = Recent(Stored().charges_of)
    for i in range(MOST):
        recent.put(i, i, ())
    assert recent.get(0) == 0
    recent.put(MOST, MOST, ())
    assert recent.get(1) is None
    assert [recent.get(i) for i in (0, 2, MOST)] == [0, 2, MOST]


def test_putting_again_replaces() -> None:
    stored = Stored({"a": 1})
    recent: Recent[str] = Recent(stored.charges_of)
    recent.put("asked", "old", ("a",))
    stored.charges["a"] = 2
    recent.put("asked", "new", ("a",))
    assert recent.get("asked") == "new"


VALUES = [1, True, 1.0, "1", "True", "1.0", None, "None", 0, False, 0.0, -0.0, "", "'", '"', "1, 1", 10**30, 1e30]


def test_rule_40_parameters_of_other_types_are_other_questions() -> None:
    asked = [asked_for("SELECT ?", [value], {}) for value in VALUES]
    assert None not in asked and len(set(asked)) == len(VALUES)


def test_rule_40_where_a_parameter_stands_is_part_of_the_question() -> None:
    asked = [
        asked_for("SELECT ?, ?", [1, 2], {}),
        asked_for("SELECT ?, ?", [2, 1], {}),
        asked_for("SELECT ?, ?", [1], {}),
        asked_for("SELECT ?, ?", ["1, 2"], {}),
        asked_for("SELECT ?, ?", {"a": 1, "b": 2}, {}),
        asked_for("SELECT ?, ?", {"a": 2, "b": 1}, {}),
        asked_for("SELECT ?, ? ", [1, 2], {}),
        asked_for("SELECT ?, ?", [1, 2], {"epsilon": 1}),
    ]
    assert len(set(asked)) == len(asked)
    assert asked_for("q", {"a": 1, "b": 2}, {}) == asked_for("q", {"b": 2, "a": 1}, {})


@pytest.mark.parametrize("value", [[1], (1,), b"1", {"a": 1}, object(), 1j, bytearray(b"1")])
def test_what_cannot_be_told_apart_by_its_text_is_not_kept(value: object) -> None:
    assert asked_for("SELECT ?", [value], {}) is None


class Odd(int):
    """An integer that shows as another one."""

    def __repr__(self) -> str:
        return "1"


def test_a_type_of_the_caller_is_not_kept() -> None:
    assert asked_for("SELECT ?", [Odd(2)], {}) is None


def test_names_that_are_no_text() -> None:
    assert asked_for("SELECT ?", {0: 5}, {}) != asked_for("SELECT ?", [5], {})  # type: ignore[dict-item]
    assert asked_for("SELECT ?", {"a": 1, 3: 1}, {}) is None  # type: ignore[dict-item]


# --- what sessions keep together ------------------------------------------------------------------------------------------


def test_rule_73_what_is_for_all_is_given_to_other_sessions() -> None:
    stored, shelf = Stored({"a": 1}), Shelf[str]()
    one: Recent[str] = Recent(stored.charges_of, shelf, "version")
    other: Recent[str] = Recent(stored.charges_of, shelf, "version")
    one.put("asked", "kept", ("a",), for_all=True)
    one.put("own", "kept", ("a",))
    assert (other.get("asked"), other.get("own"), one.get("own")) == ("kept", None, "kept")
    stored.charges["a"] = 2
    assert other.get("asked") is one.get("asked") is None


def test_rule_61_another_version_of_the_data_has_another_answer() -> None:
    stored, shelf = Stored({"a": 1}), Shelf[str]()
    Recent(stored.charges_of, shelf, "one").put("asked", "kept", ("a",), for_all=True)
    assert Recent(stored.charges_of, shelf, "two").get("asked") is None


def test_without_a_shelf_it_is_kept_all_the_same() -> None:
    recent: Recent[str] = Recent(Stored({"a": 1}).charges_of)
    recent.put("asked", "kept", ("a",), for_all=True)
    assert recent.get("asked") == "kept"
