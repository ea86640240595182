"""advice: what of a schema its owner should look at again, by the declarations alone, and what may not be read off the data."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp

from dpsql.core.loss import EpsilonDelta
from dpsql.core.wording import number
from dpsql.schema.mistakes import printable
from dpsql.schema.model import ROW, Privacy, Schema
from dpsql.schema.write import exact

OUTSIDE_THE_PROMISE = (
    "These are exact facts about people, for the owner's eyes. A bound, a list or a limit chosen after seeing them is\n"
    "itself a function of the data, and what it gives away is outside the promise: choose limits from what is known\n"
    "of the subject."
)
WIDE = 10
"""[nats] Epsilon above which hardly anything is promised: odds may change by e^10 = 22,000."""


def of_declarations(schema: Schema) -> list[str]:
    """Warnings of a promise that says less than it may seem to."""
    return [*_delta(schema.privacy), *_epsilon(schema.privacy), *_analysts(schema), *_unlimited(schema)]


def guessed(total: EpsilonDelta) -> Fraction:
    """[probability] The most often that a guess is right whether a unit is in the data, of who held both equally likely: rounded up to
    a thousandth.

    Why     let S be the answers after which "in" is guessed: right with (P(S) + 1 - Q(S)) / 2, where P(S) <= e^epsilon Q(S) + delta
            and 1 - Q(S) <= e^epsilon (1 - P(S)) + delta. The largest such sum has both equal: 1 - Q(S) = P(S), at
            (e^epsilon + delta) / (1 + e^epsilon)
    Source  Wasserman, Zhou 2010, A Statistical Framework for Differential Privacy; Kairouz, Oh, Viswanath 2015

    >>> guessed(EpsilonDelta(Fraction(1), Fraction(0)))
    Fraction(183, 250)
    """
    odds = exp(min(float(total.epsilon), 700.0))
    return min(Fraction(1), Fraction(ceil(1000 * ((odds + float(total.delta)) / (1 + odds)) + 1e-9), 1000))


def guess(privacy: Privacy) -> str:
    """The promise of the total as a test of hypotheses, in words."""
    who = "a row" if privacy.unit == ROW else "a person"
    window = "" if privacy.window is None else f", after the answers of one {privacy.window}"
    most = number(100 * guessed(privacy.budget))
    return (
        f"whether {who} is in the data can be guessed right at most {most} % of the time{window}; a coin is right 50 %"
    )


def _delta(privacy: Privacy) -> list[str]:
    """Warn of a delta that allows to publish somebody.

    Why  a mechanism that publishes each unit with probability delta has this delta: it shows units x delta of them.
    """
    if privacy.units is None or privacy.budget.delta * privacy.units < 1:
        return []
    what = "rows" if privacy.unit == ROW else "people"
    least = Fraction(1)
    while least * privacy.units * 10 >= 1:
        least /= 10
    return [
        f"delta {float(privacy.budget.delta):g} is not below one over the declared {privacy.units:,} {what}: it would allow to publish "
        f"one of them whole; write delta = {float(least):g} or less"
    ]


def _epsilon(privacy: Privacy) -> list[str]:
    if privacy.budget.epsilon <= WIDE:
        return []
    return [
        f"epsilon {exact(privacy.budget.epsilon)} promises hardly anything: how likely something seems of a person may change by "
        f"a factor of e^{exact(privacy.budget.epsilon)}; write epsilon = {WIDE} or less"
    ]


def _analysts(schema: Schema) -> list[str]:
    """Caps of analysts that limit nothing, since the total is less."""
    total = schema.privacy.budget.epsilon
    above = [
        (one.name, one.epsilon) for one in schema.analysts or () if one.epsilon is not None and one.epsilon > total
    ]
    return [
        f"analyst {printable(name)} may spend epsilon {exact(epsilon)}, which limits nothing: the total of all analysts is "
        f"{exact(total)}; write epsilon = {exact(total)} or less, or none"
        for name, epsilon in above
    ]


def _unlimited(schema: Schema) -> list[str]:
    """Tables with several rows a unit and no limit: nothing can be counted in them as they stand."""
    if schema.privacy.unit == ROW:
        return []
    found = [
        t for t in schema.tables if not t.public and t.max_rows_per_unit is None and not schema.one_row_per_unit(t)
    ]
    return [
        f"table {printable(t.name)} may have any number of rows of one person, so COUNT and SUM over its rows are refused; write "
        "max_rows_per_unit = the most that is plausible"
        for t in found
    ]
