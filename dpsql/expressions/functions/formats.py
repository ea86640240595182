"""Dates and timestamps as text, and text as timestamps, by constant formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from fractions import Fraction
from functools import partial

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain
from dpsql.core.errors import error
from dpsql.core.sqltypes import TIMESTAMP, VARCHAR
from dpsql.expressions import temporal
from dpsql.expressions.functions.calendar import in_calendar, of_calendar
from dpsql.expressions.functions.record import Constants, Function, is_text
from dpsql.expressions.known import Known, Ruled, always, decided
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import dated, guarded, moment
from dpsql.sql.nodes import Call

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WIDTH = {"a": 3, "A": 9, "b": 3, "B": 9, "Y": 6, "j": 3, "p": 2}
"""[letters] of what a directive writes; 2 of others."""
_FINEST = {
    "Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day", "j": "day", "a": "day", "A": "day", "u": "day",
    "w": "day", "H": "hour", "I": "hour", "p": "hour", "M": "minute", "S": "second",
}  # fmt: skip
"""By directive the period that one text of it stands for."""
_ORDER = ("year", "month", "day", "hour", "minute", "second")
_DIRECTIVE = re.compile(r"%(-?)(.?)", re.DOTALL)


# --- scalars ----------------------------------------------------------------------------------------------------------


def _name(function: str, names: tuple[str, ...], scalar: Scalar) -> Scalar:
    """DAYNAME and MONTHNAME: a text, of those that the declared dates have."""
    scalar = dated(scalar, function.upper())
    tree = guarded(scalar, Call(function, (scalar.tree,)))
    starts = temporal.starts("day" if function == "dayname" else "month", scalar)
    if isinstance(starts, Categories):
        times = [moment(scalar, Fraction(value)) for value in starts.values if not isinstance(value, str)]
        names = tuple({names[time.weekday() if function == "dayname" else time.month - 1] for time in times})
    nullable = scalar.nullable or domains.hull(scalar.domain) is None
    return Scalar(function, (scalar,), tree, VARCHAR, Categories(tuple(sorted(names))), None, nullable, length=9)


def _strptime(text: Scalar, form: Scalar) -> Scalar:
    """STRPTIME(a, format): NULL for a text of another form."""
    if not text.sqltype.is_text:
        raise error(106, f"STRPTIME needs text, not {text.sqltype}", hint="write CAST(... AS VARCHAR) around it")
    tree = Call("try_strptime", (text.tree, form.tree))
    return Scalar("strptime", (text, form), tree, TIMESTAMP, UNBOUNDED, None, True)


def _strftime(scalar: Scalar, form: Scalar) -> Scalar:
    """STRFTIME(d, format): a listed text where the dates have bounds, and not too many forms."""
    if form.sqltype.is_temporal:
        scalar, form = form, scalar
    scalar, text = dated(scalar, "STRFTIME"), str(form.value)
    tree = guarded(scalar, Call("strftime", (scalar.tree, form.tree)))
    finest = max((_ORDER.index(_FINEST[d]) for _, d in _DIRECTIVE.findall(text) if d in _FINEST), default=0)
    domain: Domain = UNBOUNDED
    if _ORDER[finest] in temporal.TRUNCATIONS:
        starts = temporal.starts(_ORDER[finest], scalar)
        if isinstance(starts, Categories):
            moments = [moment(scalar, Fraction(v)) for v in starts.values if not isinstance(v, str)]
            domain = Categories(tuple(dict.fromkeys(_written(text, when) for when in moments)))
    length = sum(_WIDTH.get(d, 2) for _, d in _DIRECTIVE.findall(text)) + len(_DIRECTIVE.sub("", text))
    nullable = scalar.nullable or domains.hull(scalar.domain) is None
    return Scalar("strftime", (scalar, form), tree, VARCHAR, domain, None, nullable, length=length)


def _written(form: str, when: datetime) -> str:
    """A time as STRFTIME writes it."""
    hour = (when.hour - 1) % 12 + 1
    texts = {
        "Y": f"{when.year:04}", "y": f"{when.year % 100:02}", "m": f"{when.month:02}", "d": f"{when.day:02}", "H": f"{when.hour:02}",
        "I": f"{hour:02}", "M": f"{when.minute:02}", "S": f"{when.second:02}", "p": "AM" if when.hour < 12 else "PM",
        "a": _DAYS[when.weekday()][:3], "A": _DAYS[when.weekday()], "b": _MONTHS[when.month - 1][:3], "B": _MONTHS[when.month - 1],
        "j": f"{when.timetuple().tm_yday:03}", "u": str(when.isoweekday()), "w": str(when.isoweekday() % 7), "%": "%",
    }  # fmt: skip
    return _DIRECTIVE.sub(lambda found: str(int(texts[found[2]])) if found[1] else texts[found[2]], form)


# --- rules ------------------------------------------------------------------------------------------------------------


def _formatted(args: Sequence[Known]) -> Ruled | None:
    """STRFTIME(x, a constant format)."""
    if len(args) != 2 or not args[0].sqltype.is_temporal or args[1].word is None or not _is_known(args[1].word):
        return None
    return decided(Known(VARCHAR, None, args[0].null), in_calendar(args[0]))


def _read(args: Sequence[Known]) -> Ruled | None:
    fits = len(args) == 2 and is_text(args[0]) and args[1].word is not None and _is_known(args[1].word)
    return always(Known(TIMESTAMP)) if fits else None


# --- constants --------------------------------------------------------------------------------------------------------


def _is_known(form: str) -> bool:
    numbers = "ymdHIMSj"
    return bool(form) and all(
        d in {*_FINEST, "%"} and (not dash or d in numbers) for dash, d in _DIRECTIVE.findall(form)
    )


def _check_form(place: int, name: str) -> Callable[[Constants], None]:
    def check(constants: Constants) -> None:
        form = constants[place] if isinstance(constants[place], str) else constants[1 - place]
        if not isinstance(form, str) or len(form) > 200 or not _is_known(form):
            known = " ".join(f"%{d}" for d in _FINEST)
            raise error(102, f"the format of {name} must be a constant text of known parts", hint=f"use {known}")

    return check


FUNCTIONS = (
    Function(("dayname",), "DAYNAME(d)", "text, listed", ("value",), partial(_name, "dayname", _DAYS),
        {"dayname": of_calendar(lambda a: Known(VARCHAR, None, a.null))}),
    Function(("monthname",), "MONTHNAME(d)", "text, listed", ("value",), partial(_name, "monthname", _MONTHS),
        {"monthname": of_calendar(lambda a: Known(VARCHAR, None, a.null))}),
    Function(("strftime",), "STRFTIME(d, '%Y-%m')", "text, listed where d has bounds", ("value", "value"), _strftime,
        {"strftime": _formatted}, check=_check_form(1, "STRFTIME")),
    Function(("strptime", "try_strptime"), "STRPTIME(a, '%Y-%m-%d')", "TIMESTAMP; NULL for text of another form",
        ("value", "constant"), _strptime, {"try_strptime": _read}, check=_check_form(1, "STRPTIME"), tried=True),
)  # fmt: skip
