"""Questions of `dpsql init` to an owner at a terminal. They are written to standard error: standard output is the schema."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from dpsql.core.escaping import harmless
from dpsql.core.sqltypes import SqlType
from dpsql.schema.draft import chosen_unit
from dpsql.schema.drafted import NOTHING_ASKED, UNTYPED, DraftAnswers, DraftTable, Unit, links_of, usable, ways_to
from dpsql.schema.guesses import bounds_of, with_guesses
from dpsql.schema.write import quoted

_BOUNDS = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:,|\s|\.\.|to)\s*(-?\d+(?:\.\d+)?)")
_NOTHING = ("-", "n", "no", "none")
FILE = "schema.toml"


def asked(tables: list[DraftTable]) -> DraftAnswers:
    """The owner's answers about the tables; Enter takes what stands in brackets."""
    found = with_guesses(tables)
    _say(f"{len(found)} tables: {', '.join(table.name for table in found)}. Enter takes what stands in brackets.")
    unit = _unit(found)
    answers = DraftAnswers(unit=unit)
    links = links_of(found)
    chosen = chosen_unit(found, links, answers)
    units = _number("How many people are there, about? A public estimate, for warnings and expected errors [none]: ")
    public, rows = set[str](), dict[str, int]()
    for table in found:
        if chosen is None or table.name == chosen.table:
            continue
        if not _is_of_people(table, bool(ways_to(table.name, links, chosen))):
            public.add(table.name)
        elif most := _number(f"{table.name}: the most rows of one person that count [10]: ", 10):
            rows[table.name] = most
    private = [table for table in found if table.name not in public]
    return DraftAnswers(unit, units, frozenset(public), rows, _limits(private, chosen))


def sniffs(source: str) -> bool:
    """True if the owner wants types to be read off the values of a folder that holds delimited text, which has none."""
    folder = Path(source)
    within = (*folder.glob("*"), *folder.glob("*/*")) if folder.is_dir() else ()
    if not any(path.name.lower().endswith(UNTYPED) for path in within):
        return False
    return _yes("CSV and JSON columns have no types. Read all their values to find some? [yes] ", True)


def written(text: str) -> bool:
    """True if the owner let the text be written to schema.toml of the working folder, which held none."""
    path = Path(FILE)
    if path.exists() or not _yes(f"Write it to {FILE}? [yes] ", True):
        return False
    path.write_text(text, encoding="utf-8")
    _say(f"Written. Look at the lines that say CHECK, then: dpsql check {FILE}")
    return True


def _unit(tables: Sequence[DraftTable]) -> tuple[str, str]:
    """The table and the column whose privacy counts."""
    guess = chosen_unit(list(tables), links_of(list(tables)), NOTHING_ASKED)
    usual = f"{guess.table}.{guess.column}" if guess is not None else ""
    known = {f"{t.name}.{column}".lower(): (t.name, column) for t in tables for column in usable(t)}
    while True:
        given = (
            _ask(f"Whose privacy counts? The key of the table of people, as table.column [{usual or 'none'}]: ")
            or usual
        )
        if given.lower() in known:
            return known[given.lower()]
        _say(f"There is no such column; the columns are {', '.join('.'.join(one) for one in known.values())}")


def _is_of_people(table: DraftTable, leads: bool) -> bool:
    usual = "yes" if leads else "no"
    about = "its rows lead to people" if leads else "no column leads to people"
    return _yes(
        f"{table.name}: has it rows about people? If not it is public, shown exactly and free ({about}) [{usual}]: ",
        leads,
    )


def _limits(tables: Sequence[DraftTable], unit: Unit | None) -> dict[tuple[str, str], str]:
    """Bounds of numbers and lists of texts that are no keys, as the owner says them; a name may suggest bounds."""
    found = dict[tuple[str, str], str]()
    _say(
        "Bounds and lists, by what is known of the subject and not by the data: - is for none, a point leaves the rest as it is."
    )
    try:
        for table in tables:
            leading = {*table.key, *(column for foreign in table.foreign_keys for column in foreign.columns)}
            leading |= {unit.column} if unit is not None and unit.table == table.name else set()
            for name, sqltype in usable(table).items():
                limit = None if name in leading else _limit(f"{table.name}.{name}", name, sqltype)
                if limit is not None:
                    found[table.name, name] = limit
    except EnoughAskedError:
        pass
    return found


class EnoughAskedError(Exception):
    """The owner wants to be asked no more."""


def _limit(place: str, name: str, sqltype: SqlType) -> str | None:
    """The limit of one column as a schema writes it; None for none, and for what needs none. Raises EnoughAskedError."""
    if sqltype.is_number:
        return _pair(place, bounds_of(name, sqltype))
    if not sqltype.is_text:
        return None
    given = _limit_asked(f"{place}: the values that it can have, with commas between [none]: ")
    values = list(dict.fromkeys(value.strip() for value in given.split(",") if value.strip()))
    return f"domain = [{', '.join(map(quoted, values))}]" if values and given not in _NOTHING else None


def _pair(place: str, usual: str | None) -> str | None:
    """Bounds as a schema writes them; None for none. Raises EnoughAskedError."""
    while True:
        given = _limit_asked(f"{place}: bounds, such as 0 to 100 [{usual or 'none'}]: ")
        if given in _NOTHING or not given:
            return f"bounds = {usual}" if not given and usual else None
        pair = _BOUNDS.fullmatch(given.strip("[] "))
        if pair is not None and (low := Decimal(pair[1])) < (high := Decimal(pair[2])):
            # TOML has no number with a zero before it
            return f"bounds = [{low}, {high}]"
        _say("Write two numbers, the smaller one first")


def _limit_asked(question: str) -> str:
    given = _ask(question)
    if given == ".":
        raise EnoughAskedError
    return given


def _number(question: str, usual: int | None = None) -> int | None:
    """A whole number above 0; `usual` where nothing is written."""
    while True:
        given = _ask(question).replace(",", "").replace("_", "")
        if not given or given.lower() in _NOTHING:
            return None if given else usual
        if given.isascii() and given.isdigit() and int(given[:10]) > 0 and len(given) < 11:
            return int(given)
        _say("Write a whole number above 0")


def _yes(question: str, usual: bool) -> bool:
    given = _ask(question).lower()
    return usual if not given else given in ("y", "yes")


def _ask(question: str) -> str:
    """One line from the terminal; the end of it is no answer."""
    sys.stderr.write(harmless(question))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip()


def _say(text: str) -> None:
    sys.stderr.write(harmless(text) + "\n")
