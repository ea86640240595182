"""Reading [privacy]: the unit, the total and how it is spent, and what one statement costs and may cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.accountants.registry import accountings
from dpsql.core.loss import EpsilonDelta
from dpsql.schema.columns import column_name
from dpsql.schema.mistakes import shown
from dpsql.schema.model import MECHANISM, ROW, WINDOWS, Privacy, mechanisms
from dpsql.schema.section import Section
from dpsql.schema.write import exact

LOSS = {"epsilon": "0.5", "delta": "1e-8"}
CAPS = {**LOSS, "cube": "{ epsilon = 1.0, delta = 1e-7 }"}
PRIVACY = {
    "unit": '"person.person_id"',
    "epsilon": "4.0",
    "delta": "1e-6",
    "units": "10000",
    "query": "{ epsilon = 0.1, delta = 1e-9 }",
    "caps": "{ epsilon = 0.5, delta = 1e-8 }",
    "least": "0.001",
    "max_cells": "1000000",
    "mechanism": '"auto"',
    "household": "4",
    "accounting": '"auto"',
    "window": '"month"',
    "partition": '"person.site"',
    "shared_answers": "true",
    "buy_again": "false",
    "reserve": "0.5",
}
MAX_CELLS = 1_000_000
MOST_TOGETHER = 100  # people of a household
PRICE = Fraction(1, 10)  # epsilon of a statement, where the owner names none
STAND_IN = Fraction(1, 10**6)  # for a total that could not be read; never used, since that was reported


@dataclass(frozen=True, slots=True)
class Written:
    """Amounts that the file says of one coordinate; None where it says nothing that can be read."""

    coordinate: str
    total: Fraction | None
    query: Fraction | None
    caps: Fraction | None


def read_privacy(top: Section) -> Privacy:
    """The promise.

    A price that is not written is epsilon 0.1 and a thousandth of delta; a cap 5 and 10 times it, within the total.
    """
    section = _section(top)
    query, caps = section.inner("query", LOSS, "[privacy], query"), section.inner("caps", CAPS, "[privacy], caps")
    epsilon = _amounts(section, _epsilons(section, query, caps), PRICE, 5)
    deltas = _deltas(section, query, caps)
    delta = _amounts(section, deltas, (deltas.total or STAND_IN) / 1000, 10)
    total, price, cap = (EpsilonDelta(e, d) for e, d in zip(epsilon, delta, strict=True))
    return Privacy(
        _unit(section),
        total,
        section.count("units"),
        price,
        cap,
        section.count("max_cells") or MAX_CELLS,
        (_one_of(section, "mechanism", mechanisms()) if "mechanism" in section else None) or MECHANISM,
        _household(section),
        _one_of(section, "accounting", accountings()) or accountings()[0],
        _one_of(section, "window", WINDOWS),
        column_name(section, "partition"),
        "shared_answers" not in section or section.flag("shared_answers"),
        _least(section, price.epsilon),
        _cube(caps, total) if caps is not None else None,
        "buy_again" in section and section.flag("buy_again"),
        _reserve(section, total),
    )


def _cube(caps: Section, total: EpsilonDelta) -> EpsilonDelta | None:
    """The most that a cube may spend; what is not written of it is the dataset's total."""
    section = caps.inner("cube", LOSS, "[privacy], caps, cube")
    if section is None:
        return None
    epsilon, delta = section.positive("epsilon"), section.share("delta")
    for name, found, most in (("epsilon", epsilon, total.epsilon), ("delta", delta, total.delta)):
        if found is not None and found > most:
            section.wrong(f"a cube has more {name} than the dataset's total", f"write {name} = {exact(most)} or less")
    return EpsilonDelta(epsilon or total.epsilon, total.delta if delta is None else delta)


def _least(section: Section, price: Fraction) -> Fraction | None:
    """The least price, never above the default one; None where the owner leaves it to that."""
    found = section.positive("least")
    if found is not None and found > price:
        section.wrong("least is above the default price", f"write least = {exact(price)} or less, or raise query")
        return None
    return found


def _reserve(section: Section, total: EpsilonDelta) -> Fraction | None:
    """An epsilon within the total."""
    found = section.positive("reserve")
    if found is not None and found > total.epsilon:
        section.wrong("reserve is more than the dataset's total", f"write reserve = {exact(total.epsilon)} or less")
        return None
    return found


def _one_of(section: Section, key: str, words: tuple[str, ...]) -> str | None:
    """One of some words; None where it is absent or another (reported)."""
    found = section.text(key)
    if found is None or found in words:
        return found
    section.misfit(key, f"one of {', '.join(words)}")
    return None


def _household(section: Section) -> int | None:
    """From 2 people on: what one loses is said anyway."""
    found = section.count("household")
    if found is not None and not 2 <= found <= MOST_TOGETHER:
        section.misfit("household", f"a whole number from 2 to {MOST_TOGETHER}")
        return None
    return found


def _section(top: Section) -> Section:
    """[privacy], or an empty stand-in where there is none (reported)."""
    section = top.inner("privacy", PRIVACY, "[privacy]")
    if section is not None:
        section.require("unit", "epsilon", "delta")
        return section
    if "privacy" not in top:
        top.wrong("[privacy] is missing", 'write [privacy] with unit = "person.person_id", epsilon = 4.0, delta = 1e-6')
    return Section({}, "[privacy]", PRIVACY, top.mistakes)


def _unit(section: Section) -> str:
    """The unit as written; "" where it cannot be read, and then nothing more is said of what depends on it."""
    if section.values.get("unit") == ROW:
        return ROW
    return ".".join(column_name(section, "unit") or ())


def _epsilons(section: Section, query: Section | None, caps: Section | None) -> Written:
    return Written("epsilon", *(s.positive("epsilon") if s else None for s in (section, query, caps)))


def _deltas(section: Section, query: Section | None, caps: Section | None) -> Written:
    """A price, and so a cap, may have none: noise that spends no delta is enough for much."""
    total = section.probability("delta")
    return Written("delta", total, *(s.share("delta") if s else None for s in (query, caps)))


def _amounts(section: Section, written: Written, default: Fraction, factor: int) -> tuple[Fraction, Fraction, Fraction]:
    """Total, price and cap of one coordinate; a default never passes a limit that the owner wrote."""
    _compare(section, written)
    if written.total is None:
        return STAND_IN, STAND_IN, STAND_IN
    most = written.total if written.caps is None else min(written.caps, written.total)
    price = min(default, most) if written.query is None else written.query
    return written.total, price, most if written.caps is not None else min((price or default) * factor, most)


def _compare(section: Section, written: Written) -> None:
    """Report a price above the cap and a cap above the total."""
    name, total, query, caps = written.coordinate, written.total, written.query, written.caps
    if total is not None and caps is not None and caps > total:
        most = shown(section.values[name])
        section.wrong(f"caps has more {name} than the dataset's total", f"write caps with {name} of at most {most}")
    limit, whose = (total, "the dataset's total") if caps is None else (caps, "caps")
    if limit is not None and query is not None and query > limit:
        section.wrong(f"query has more {name} than {whose}", f"write query with less {name}, or raise {whose}")
