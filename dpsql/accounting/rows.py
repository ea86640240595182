"""What the row of one charge holds, how it is tied to the charge before it, and what it adds to which total."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from dpsql.accounting import chain
from dpsql.accounting.totals import loss_of, loss_texts
from dpsql.core.loss import PrivacyLoss, total
from dpsql.plan.charges import Portion

FORM = 4
"""How the rows that are written now are tied: by the layout that brought their fields."""
TIED = (
    *(
        "id",
        "time",
        "analyst",
        "role",
        "version",
        "statement",
        "fingerprints",
        "mechanisms",
        "portions",
        "certificates",
    ),
    *("asked", "events"),
)
"""The fields that are tied, in the order in which layouts brought them."""
FIELDS = ", ".join((*TIED, "form"))
_FIELDS_OF = {2: 10, 3: 11, 4: 12}
_ABSENT = {"asked": "", "events": "[]"}
"""What a row holds in fields that came after it was tied."""
EVERYBODY = ""
"""The name of the dataset's total: what was charged to every value of the partition column."""


def link(secret: bytes, before: bytes, row: Sequence[object]) -> bytes | None:
    """The link of a row of FIELDS; None where it cannot have one: a field holds something that was not there to be tied.

    Why  links stand in certificates and in the head: a row of an earlier layout keeps the one that it was given
    """
    *fields, form = row
    count = _FIELDS_OF.get(form) if isinstance(form, int) else None
    if count is None or any(value != _ABSENT[name] for name, value in list(zip(TIED, fields, strict=True))[count:]):
        return None
    return chain.link(secret, before, fields[:count])


def holds(secret: bytes, before: object, row: Sequence[object], tied: object) -> bool:
    """Whether a row is what was tied to the link before it."""
    return isinstance(before, bytes) and isinstance(tied, bytes) and link(secret, before, row) == tied


def written(portions: Sequence[Portion]) -> str:
    """Portions as a row keeps them."""
    return json.dumps([[loss_texts(portion.loss), portion.entries] for portion in portions])


def portions(text: object) -> list[Portion] | None:
    """The portions that were written; None if the text is anything else."""
    pairs = read(text)
    found = [_portion(pair) for pair in pairs] if isinstance(pairs, list) else [None]
    known = [portion for portion in found if portion is not None]
    return known if len(known) == len(found) else None


def read(text: object) -> object:
    """What is written in JSON; None where it is none."""
    try:
        return json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return None


def scopes(analyst: str, role: str | None, portions: Sequence[Portion]) -> Iterator[tuple[str, str, PrivacyLoss]]:
    """What a charge adds to which total. The dataset's counts every charge."""
    yield "dataset", EVERYBODY, total(portion.loss for portion in portions if portion.entries is None)
    for name in sorted({name for portion in portions for name in portion.entries or ()}):
        yield "entry", name, total(p.loss for p in portions if p.entries is not None and name in p.entries)
    whole = total(portion.loss for portion in portions)
    yield "analyst", analyst, whole
    if role is not None:
        yield "role", role, whole


def _portion(pair: object) -> Portion | None:
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    loss, entries = loss_of(pair[0]), pair[1]
    if loss is None or not (entries is None or isinstance(entries, list)):
        return None
    return Portion(loss, None if entries is None else tuple(map(str, entries)))
