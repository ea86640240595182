"""Row of one charge: its columns, its tie to the charge before it, and what it adds to which total."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsql.accounting import chain
from dpsql.accounting.totals import sums_of, texts
from dpsql.core.loss import LOSS, PrivacyLoss, Sums, whole

FORM = 4
"""The tie of the rows that are written now: by the layout that brought their fields."""
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
"""Values of fields that came after a row was tied."""
EVERYBODY = ""
"""The name of the dataset's total: what was charged to every value of the partition column."""


@dataclass(frozen=True, slots=True)
class Charged:
    """The amounts of one release, and whose totals they are added to: as Portion."""

    sums: Sums
    entries: tuple[str, ...] | None = None

    @property
    def loss(self) -> PrivacyLoss:
        return self.sums.loss


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
    """True if a row is what was tied to the link before it."""
    return isinstance(before, bytes) and isinstance(tied, bytes) and link(secret, before, row) == tied


def written(portions: Sequence[Charged]) -> str:
    """Portions as a row keeps them: a loss, the entries, and what else is added up, by its name, where there is something."""
    return json.dumps([_written(portion) for portion in portions])


def _written(portion: Charged) -> list[object]:
    found = texts(portion.sums)
    more = dict(zip(portion.sums.names[len(LOSS) :], found[len(LOSS) :], strict=True))
    return [found[: len(LOSS)], portion.entries, *([more] if more else [])]


def portions(text: object) -> list[Charged] | None:
    """The portions that were written; None if the text is anything else."""
    pairs = read(text)
    found = [_portion(pair) for pair in pairs] if isinstance(pairs, list) else [None]
    known = [portion for portion in found if portion is not None]
    return known if len(known) == len(found) else None


def read(text: object) -> object:
    """Read a value written in JSON; None where it is none."""
    try:
        return json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return None


def scopes(
    analyst: str, role: str | None, portions: Sequence[Charged], nothing: Sums
) -> Iterator[tuple[str, str, Sums]]:
    """Amounts that a charge adds to each total. The dataset's counts every charge.

    nothing  what the ledger adds up, of no charge
    """
    yield "dataset", EVERYBODY, whole((p.sums for p in portions if p.entries is None), nothing)
    for name in sorted({name for portion in portions for name in portion.entries or ()}):
        yield "entry", name, whole((p.sums for p in portions if p.entries is not None and name in p.entries), nothing)
    everything = whole((p.sums for p in portions), nothing)
    yield "analyst", analyst, everything
    if role is not None:
        yield "role", role, everything


def _portion(parts: object) -> Charged | None:
    if not isinstance(parts, list) or len(parts) not in (2, 3):
        return None
    amounts, entries, *rest = parts
    more = rest[0] if rest else {}
    if not isinstance(more, dict) or not isinstance(amounts, list) or len(amounts) != len(LOSS):
        return None
    sums = sums_of([*LOSS, *more], [*amounts, *more.values()])
    if sums is None or not (entries is None or isinstance(entries, list)):
        return None
    return Charged(sums, None if entries is None else tuple(map(str, entries)))
