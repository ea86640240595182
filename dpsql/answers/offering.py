"""offering: a release that would be bought -> what is stored of it, with a larger error than is given without a word.

Nothing is bought again silently: whoever asks is told what is there, and says whether that will do (`buy=off`) or not (`buy=on`). A
question costs its reader too, so it is asked where what is stored still says something of what was asked:

1. it errs at most ten times as much as what would be bought, so that one digit is lost; or
2. where no accuracy was asked, its error is at most a tenth of what the declarations expect of each number, so that the first digit
   stands. A total off groups by many keys errs many times as much as one that is bought, and is a good number all the same

A refusal is no weapon (rule 52): of what another analyst bought there is a note, never a question.

All of it is declared or released: the errors of both are closed forms of their noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.amounts import at_least
from dpsql.answers.cube_columns import error_in, width_of
from dpsql.core.errors import Error, error
from dpsql.core.loss import PrivacyLoss
from dpsql.core.wording import counted, listed, number
from dpsql.mechanisms.prices import nominal
from dpsql.plan.releases import Release
from dpsql.planner.shares import people_in_a_group, sizes

LEVEL = Fraction(95, 100)
DIGIT = 10


@dataclass(frozen=True, slots=True)
class Offer:
    """Stored answers of a release.

    source  what it is
    errors  95 % half-widths of the columns; "" where none is known
    own     whether whoever asks bought it
    """

    source: str
    errors: str
    own: bool = True

    @property
    def told(self) -> str:
        return f"{self.source} answers it free{f', at a 95 % error of {self.errors}' if self.errors else ''}"

    @property
    def note(self) -> str:
        return f"bought although {self.told}; write /* dpsql: buy=off */ to read it off"


def offered(source: str, found: Release, asked: Release, units: int | None, *, exact: bool) -> Offer | None:
    """Build an offer, where it is worth a question.

    found  the release with the noise that is in what is stored
    units  as the owner declared them
    exact  whether an accuracy was asked
    """
    if error_in(found, asked) > DIGIT and (exact or not _has_a_digit(found, asked, units)):
        return None
    widths = [width_of(found, output) for output in found.outputs]
    rows = people_in_a_group(asked.limited, units)
    return Offer(source, ", ".join(said(width[1], rows, over_rows=width[0]) for width in widths if width is not None))


def said(width: float, rows: Fraction | None, *, over_rows: bool) -> str:
    """An error, in words.

    rows       that a group is expected to have by the declarations; None where these do not say
    over_rows  whether the error is the width over the number of rows, as of an average
    """
    if over_rows and rows is not None and rows >= 1:
        return f"+-{_short(width / round(rows))} in a group of {counted(round(rows), 'row')}"
    return f"+-{_short(width)}{' over the number of rows' * over_rows}"


def _short(width: float) -> str:
    return number(float(f"{width:.3g}"))


def _has_a_digit(found: Release, asked: Release, units: int | None) -> bool:
    """True if every number is expected to be ten times its error."""
    expected = sizes(found.measures, asked.limited.limits, people_in_a_group(asked.limited, units))
    if not expected:
        return False
    return all(DIGIT * m.noise.half_width(LEVEL) <= size for m, size in zip(found.measures, expected, strict=True))


def refusal(offers: Sequence[Offer], loss: PrivacyLoss) -> Error:
    """Error 505: what is stored, what it would cost to buy, and how to say which."""
    told = listed(list(dict.fromkeys(one.told for one in offers)))
    hint = "write /* dpsql: buy=off */ to read it off, or /* dpsql: buy=on */ to buy it"
    return error(505, f"{told}, and bought it costs {_price(loss)}", hint=hint)


def not_bought(loss: PrivacyLoss, *, is_fresh: bool) -> Error:
    """Error 505 of what is not stored, or is asked anew, where nothing is to be bought."""
    there = "what is asked anew is bought" if is_fresh else "nothing that is stored answers this"
    what = f"nothing is to be bought (buy=off), and {there}"
    return error(505, what, hint=f"leave buy=off out: it costs {_price(loss)}")


def _price(loss: PrivacyLoss) -> str:
    return f"epsilon {at_least(nominal(loss))}"
