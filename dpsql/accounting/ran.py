"""Events of each portion of a charge, as its row keeps them.

A row of an earlier layout has none: where one mechanism was charged, they are read off the words and the loss that it keeps; else a
portion is one event of its loss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from dpsql.accountants.filters import Promise
from dpsql.accounting.rows import TIED, Charged, read
from dpsql.accounting.rows import portions as portions_of
from dpsql.core.events import Event
from dpsql.core.events import read as read_event
from dpsql.core.loss import PrivacyLoss, total
from dpsql.mechanisms import conversions, gaussian, laplace, truncated
from dpsql.mechanisms.events import KINDS, of_loss
from dpsql.plan.charges import Portion

Events = tuple[Event, ...]


def written(portions: Sequence[Portion]) -> str:
    """The events of each portion of a charge, as a row keeps them."""
    if not any(portion.events for portion in portions):
        return "[]"
    found = enumerate(portion.events for portion in portions)
    return json.dumps([json.dumps({"portion": place, "ran": [e.fields for e in events]}) for place, events in found])


def charged(portions: Sequence[Portion], words: Sequence[str], promise: Promise) -> list[Charged] | None:
    """The amounts that a charge adds to the totals of a ledger; None where what runs loses something else than what is charged."""
    known = any(portion.events for portion in portions)
    if known and any(total(event.loss for event in each.events) != each.loss for each in portions):
        return None
    events = [each.events for each in portions] if known else _of_losses([each.loss for each in portions], words)
    return [Charged(promise.sums(each.loss, ran), each.entries) for each, ran in zip(portions, events, strict=True)]


def recharged(row: Sequence[object], promise: Promise) -> list[Charged] | None:
    """The amounts that a row would add to the totals of a ledger with another promise; None where it is damaged."""
    events, portions = of_row(row), portions_of(dict(zip(TIED, row, strict=False))["portions"])
    if events is None or portions is None:
        return None
    return [Charged(promise.sums(p.loss, ran), p.entries) for p, ran in zip(portions, events, strict=True)]


def of_row(row: Sequence[object]) -> list[Events] | None:
    """Of each portion of a charge what ran; None where its row is damaged, or says more than was charged.

    row  its fields in the order of rows.TIED
    """
    fields = dict(zip(TIED, row, strict=False))
    charged, texts, words = portions_of(fields["portions"]), read(fields["events"]), read(fields["mechanisms"])
    if charged is None or not isinstance(texts, list) or not isinstance(words, list):
        return None
    return _of_texts(charged, texts, words)


def _of_texts(portions: Sequence[Charged], texts: Sequence[object], words: Sequence[object]) -> list[Events] | None:
    if not texts:
        return _of_losses([portion.loss for portion in portions], words)
    found = [_of_portion(read(text), place) for place, text in enumerate(texts)]
    known = [each for each in found if each is not None]
    if len(known) != len(portions) or len(known) != len(found):
        return None
    fits = all(total(e.loss for e in each).within(portion.loss) for each, portion in zip(known, portions, strict=True))
    return known if fits else None


def _of_portion(fields: object, place: int) -> Events | None:
    if not isinstance(fields, dict) or fields.get("portion") != place or not isinstance(fields.get("ran"), list):
        return None
    found = [read_event(each, KINDS) for each in fields["ran"]]
    known = tuple(event for event in found if event is not None)
    return known if len(known) == len(found) else None


# --- rows of earlier layouts --------------------------------------------------------------------------------------


def _of_losses(losses: Sequence[PrivacyLoss], words: Sequence[object]) -> list[Events]:
    said = str(words[0]) if len(losses) == len(words) == 1 else ""
    return [_of_words(said, loss) for loss in losses]


def _laplace(loss: PrivacyLoss, words: str) -> Event:
    epsilon, l1 = _scaled(loss, words)
    return laplace.EVENT.event(l1, l1 / epsilon)


def _truncated(loss: PrivacyLoss, words: str) -> Event:
    epsilon, l1 = _scaled(loss, words)
    most = re.search(r"at most (\d+)", words)
    return truncated.EVENT.event(l1, l1 / epsilon, int(most[1]) if most else 0, loss.delta)


def _scaled(loss: PrivacyLoss, words: str) -> tuple[Fraction, Fraction]:
    """epsilon, and the whole sensitivity that the shown digits of the scale mean."""
    scale = re.search(r"scale ([\d.,e+-]+)", words)
    if scale is None or not loss.epsilon:
        raise ValueError(words)
    return loss.epsilon, Fraction(round(loss.epsilon * Fraction(scale[1].rstrip(",").replace(",", ""))))


_READ: Mapping[str, Callable[[PrivacyLoss, str], Event]] = {
    "discrete Laplace": _laplace,
    "truncated Laplace": _truncated,
    "discrete Gaussian": lambda loss, _: gaussian.event_of(loss),
    "permute-and-flip": lambda loss, _: conversions.PURE.event(loss.epsilon or 0),
    "exponential mechanism": lambda loss, _: conversions.CHOICE.event(loss.epsilon or 0),
}
"""First words of a mechanism's description, and the event that they and its loss say."""


def _of_words(words: str, loss: PrivacyLoss) -> Events:
    event = next((made for name, made in _READ.items() if words.startswith(name)), None)
    try:
        found = event(loss, words) if event is not None else None
        if found is not None and found.loss == loss:
            return (found,)
    except (ValueError, ZeroDivisionError):
        pass
    return (of_loss(loss),)
