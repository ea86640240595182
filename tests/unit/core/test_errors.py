"""Errors: PEP 249's tree, a code, one line first, then the place."""

from __future__ import annotations

import pytest

from dpsql.core import errors
from dpsql.core.errors import CODES, Error, error
from dpsql.core.spans import Span


def test_the_first_line_holds_code_message_and_hint() -> None:
    assert str(error(102, "X is not supported", hint="write Y")) == "DPSQL-102: X is not supported; write Y"
    assert str(error(102, "X is not supported")) == "DPSQL-102: X is not supported"


def test_the_place_is_shown_once_the_statement_is_known() -> None:
    found = error(105, "there is no column 'b'", hint="did you mean a?", span=Span(7, 8))
    assert "\n" not in str(found)
    assert str(found.located("SELECT b FROM t")) == (
        "DPSQL-105: there is no column 'b'; did you mean a?\n  line 1, column 8\n    SELECT b FROM t\n           ^"
    )
    assert "another" not in str(found.located("another text"))


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_its_class(code: int) -> None:
    found = error(code, "text")
    assert type(found) is CODES[code][0]
    assert isinstance(found, Error)
    assert found.code == f"DPSQL-{code}"


def test_the_classes_are_those_of_pep_249() -> None:
    assert issubclass(errors.InterfaceError, errors.Error)
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert issubclass(getattr(errors, name), errors.DatabaseError)
    assert issubclass(errors.Warning, Exception)
    assert not issubclass(errors.Warning, errors.Error)


def test_refusals_and_failures_are_told_apart() -> None:
    for code, (kind, _) in CODES.items():
        if code == 505:  # a question back, which no budget decides
            assert kind is errors.ProgrammingError
        elif 500 <= code < 600:
            assert kind is errors.BudgetError
        if code < 500:
            assert kind in (errors.ProgrammingError, errors.NotSupportedError)
