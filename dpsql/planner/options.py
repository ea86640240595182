"""What a caller may ask of one statement: its price, its contribution limits, its mechanism."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.errors import Error, error
from dpsql.loss import PrivacyLoss
from dpsql.schema.model import Schema

NAMES = ("epsilon", "delta", "max_rows", "max_groups", "mechanism")
LONG_NAMES = {"max_groups_contributed": "max_groups", "max_rows_contributed": "max_rows"}
MECHANISMS = ("laplace", "gaussian")
_NUMBER = re.compile(r"\d{0,20}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?")


@dataclass(frozen=True, slots=True)
class Options:
    """None is "not asked for": the next less local place decides, at last the schema.

    epsilon, delta        the price of the whole statement
    max_rows, max_groups  [rows], [groups] of one unit
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_rows: int | None = None
    max_groups: int | None = None
    mechanism: str | None = None

    def over(self, base: Options) -> Options:
        """These options, and those of a less local place where they say nothing."""
        return Options(
            self.epsilon if self.epsilon is not None else base.epsilon,
            self.delta if self.delta is not None else base.delta,
            self.max_rows if self.max_rows is not None else base.max_rows,
            self.max_groups if self.max_groups is not None else base.max_groups,
            self.mechanism or base.mechanism,
        )

    def price(self, schema: Schema) -> PrivacyLoss:
        """The price asked for. Raises 502 where it is above the owner's cap for one statement."""
        query, caps = schema.privacy.query, schema.privacy.caps
        asked = PrivacyLoss(self.epsilon or query.epsilon, self.delta or query.delta)
        for name, value, cap in (("epsilon", asked.epsilon, caps.epsilon), ("delta", asked.delta, caps.delta)):
            if value > cap:
                raise error(
                    502,
                    f"{name} = {float(value):g} is above the owner's cap of {float(cap):g} for one statement",
                    hint=f"write /* dpsql: {name}={float(cap):g} */ or less",
                )
        return asked


def set_option(options: Options, name: str, text: str, *, long_names: bool = False) -> Options:
    """`options` with one of them set from its text. Raises 104 for an unknown name or a value that does not fit."""
    known = {**{n: n for n in NAMES}, **(LONG_NAMES if long_names else {})}
    plain = name.strip().lower()
    if plain not in known:
        raise _unknown(plain, list(known))
    field = known[plain]
    value = text.strip().strip("'\"")
    if field in ("epsilon", "delta"):
        return replace(options, **{field: _positive(field, value)})  # type: ignore[arg-type]
    if field == "mechanism":
        if value.lower() not in MECHANISMS:
            raise error(
                104, f"mechanism {value[:30]!r} does not exist", hint="write mechanism=laplace or mechanism=gaussian"
            )
        return replace(options, mechanism=value.lower())
    if not re.fullmatch(r"[1-9]\d{0,6}", value):
        raise error(104, f"{field} must be a whole number from 1 to 9999999", hint=f"write {field}=3")
    return replace(options, **{field: int(value)})  # type: ignore[arg-type]


def _positive(name: str, text: str) -> Fraction:
    number = Fraction(text) if text and _NUMBER.fullmatch(text) and re.search(r"\d", text) else Fraction(0)
    if number <= 0 or (name == "delta" and number >= 1):
        raise error(104, f"{name} must be a positive number{' below 1' * (name == 'delta')}", hint=f"write {name}=0.1")
    return number


def _unknown(name: str, known: list[str]) -> Error:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else "the options are " + ", ".join(known)
    return error(104, f"there is no option {name[:40]!r}", hint=hint)


def read_comment(text: str, options: Options) -> Options:
    """Options from a comment `dpsql: epsilon=0.2, max_groups=3`; other comments change nothing."""
    match = re.match(r"\s*dpsql\s*:(.*)$", text, re.DOTALL | re.IGNORECASE)
    if not match:
        return options
    for piece in match[1].split(","):
        name, equals, value = piece.partition("=")
        if not equals:
            raise error(104, f"the option {piece.strip()[:40]!r} has no value", hint="write /* dpsql: epsilon=0.2 */")
        options = set_option(options, name, value)
    return options


def from_mapping(values: Mapping[str, str]) -> Options:
    options = Options()
    for name, value in values.items():
        options = set_option(options, name, value)
    return options
