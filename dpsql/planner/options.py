"""Options of one statement: its price or its accuracy, its contribution limits, its mechanism."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot.tokens import Token  # type: ignore[attr-defined]

from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta
from dpsql.plan.resolved import AccuracyTarget
from dpsql.schema.model import Schema, mechanisms
from dpsql.schema.write import exact

NAMES = (
    "epsilon",
    "delta",
    "max_rows",
    "max_groups",
    "max_values",
    "mechanism",
    "error",
    "confidence",
    "weights",
    "groups",
    "cube",
    "buy",
    "jointly",
    "sampling",
    "interval",
)
ALL, PRESENT = "all", "present"
"""Of what is computed over groups: every listed group, or those that do not seem to be empty."""
ON, OFF = "on", "off"
FLAGS = ("fresh",)
"""Options without a value, of one statement."""
LONG_NAMES = {"max_groups_contributed": "max_groups", "max_rows_contributed": "max_rows"}
CONFIDENCE = Fraction(95, 100)
"""Of an error, where none is asked."""
MOST_WEIGHTS = 1000
_NUMBER = re.compile(r"\d{0,20}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?")


@dataclass(frozen=True, slots=True)
class Options:
    """None is "not asked for": the next less local place decides, at last the schema.

    epsilon, delta        the price of the whole statement; delta may be 0, where nothing spends any
    max_rows, max_groups  [rows], [groups] of one unit
    max_values            [values] of one unit in one group, where different values are counted
    error, relative       an accuracy in place of epsilon, in the columns' own unit, or as a share of the declared people
    confidence            [probability] with which it is kept
    weights               in which proportions the aggregates share the price
    cube                  "off": nothing is read off cubes
    buy                   "on": what could be read off what is stored is bought without a question; "off": nothing is bought, what is
                          stored answers, however wide
    groups                "all" or "present": which listed groups take part in what is computed over groups
    jointly               "on": the error bars of all cells of an answer hold together
    sampling              "on": error bars hold the error of a random sample of people beside that of noise
    interval              "off": quantiles are bought without their intervals
    fresh                 whether to ask and pay anew what is stored
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_rows: int | None = None
    max_groups: int | None = None
    mechanism: str | None = None
    max_values: int | None = None
    error: Fraction | None = None
    relative: bool = False
    confidence: Fraction | None = None
    weights: tuple[Fraction, ...] | None = None
    groups: str | None = None
    cube: str | None = None
    buy: str | None = None
    jointly: str | None = None
    sampling: str | None = None
    interval: str | None = None
    fresh: bool = False

    def over(self, base: Options) -> Options:
        """These options, and those of a less local place where they say nothing. A price there gives way to an error here."""
        mine = self.epsilon is not None or self.error is not None
        return Options(
            self.epsilon if mine else base.epsilon,
            self.delta if self.delta is not None else base.delta,
            self.max_rows if self.max_rows is not None else base.max_rows,
            self.max_groups if self.max_groups is not None else base.max_groups,
            self.mechanism or base.mechanism,
            self.max_values if self.max_values is not None else base.max_values,
            self.error if mine else base.error,
            self.relative if mine else base.relative,
            self.confidence if self.confidence is not None else base.confidence,
            self.weights if self.weights is not None else base.weights,
            self.groups or base.groups,
            self.cube or base.cube,
            self.buy or base.buy,
            self.jointly or base.jointly,
            self.sampling or base.sampling,
            self.interval or base.interval,
            self.fresh,
        )

    @property
    def accuracy_target(self) -> AccuracyTarget | None:
        """The accuracy asked for, or None where a price is."""
        if self.error is None:
            return None
        return AccuracyTarget(self.error, self.relative, self.confidence if self.confidence is not None else CONFIDENCE)

    @property
    def reads_cubes(self) -> bool:
        """True if what is asked may be read off cubes."""
        return self.cube != OFF

    @property
    def is_joint(self) -> bool:
        """True if error bars hold together."""
        return self.jointly == ON

    @property
    def is_of_sample(self) -> bool:
        """True if people are taken for a random sample."""
        return self.sampling == ON

    @property
    def has_intervals(self) -> bool:
        """True if quantiles are bought with their intervals."""
        return self.interval != OFF

    def price(self, schema: Schema) -> EpsilonDelta:
        """The price asked for; for an accuracy the most that it may cost.

        Raises 502 where it is above the owner's cap, 503 below the owner's least.
        """
        query, caps = schema.privacy.query, schema.privacy.caps
        epsilon = caps.epsilon if self.error is not None else self.epsilon or query.epsilon
        asked = EpsilonDelta(epsilon, self.delta if self.delta is not None else query.delta)
        for name, value, cap in (("epsilon", asked.epsilon, caps.epsilon), ("delta", asked.delta, caps.delta)):
            if value > cap:
                raise error(
                    502,
                    f"{name} = {float(value):g} is above the owner's cap of {float(cap):g} for one statement",
                    hint=f"write /* dpsql: {name}={float(cap):g} */ or less",
                )
        if asked.epsilon < schema.privacy.floor:
            raise error(
                503,
                f"epsilon = {float(asked.epsilon):g} is below the owner's least of {exact(schema.privacy.floor)} for one statement",
                hint=f"write /* dpsql: epsilon={exact(schema.privacy.floor)} */ or more",
            )
        return asked


def option_named(name: str, *, long_names: bool = False) -> str:
    """The option of a session that a name means. Raises 104 where there is none."""
    known = {**{n: n for n in NAMES}, **(LONG_NAMES if long_names else {})}
    plain = name.strip().lower()
    if plain in FLAGS:
        raise error(104, f"{plain} is of one statement, not of a session", hint=f"write /* dpsql: {plain} */ in it")
    if plain not in known:
        raise _unknown(plain, list(known))
    return known[plain]


def set_option(options: Options, name: str, text: str, *, long_names: bool = False) -> Options:
    """`options` with one of them set from its text. Raises 104 for an unknown name or a value that does not fit."""
    field = option_named(name, long_names=long_names)
    value = text.strip().strip("'\"")
    match field:
        case "delta" if _is_zero(value):
            return replace(options, delta=Fraction(0))
        case "epsilon" | "delta":
            return _priced(replace(options, **{field: _positive(field, value)}))  # type: ignore[arg-type]
        case "error":
            size = _positive(field, value.removesuffix("%").rstrip())
            relative = value.endswith("%")
            return _priced(replace(options, error=size / 100 if relative else size, relative=relative))
        case "confidence":
            return replace(options, confidence=_confidence(value))
        case "weights":
            return replace(options, weights=_weights(value))
        case "groups" | "cube" | "buy" | "jointly" | "sampling" | "interval":
            return replace(options, **{field: _word(field, value.lower())})  # type: ignore[arg-type]
        case "mechanism":
            if value.lower() not in mechanisms():
                hint = f"write mechanism={', mechanism='.join(mechanisms()[:-1])} or mechanism={mechanisms()[-1]}"
                raise error(104, f"mechanism {value[:30]!r} does not exist", hint=hint)
            return replace(options, mechanism=value.lower())
    if not re.fullmatch(r"[1-9]\d{0,6}", value):
        raise error(104, f"{field} must be a whole number from 1 to 9999999", hint=f"write {field}=3")
    return replace(options, **{field: int(value)})  # type: ignore[arg-type]


def _word(name: str, value: str) -> str:
    """A value that is one of two words."""
    words = (ALL, PRESENT) if name == "groups" else (ON, OFF)
    if value not in words:
        raise error(104, f"{name} {value[:30]!r} does not exist", hint=f"write {name}={words[0]} or {name}={words[1]}")
    return value


def _positive(name: str, text: str) -> Fraction:
    number = Fraction(text) if text and _NUMBER.fullmatch(text) and re.search(r"\d", text) else Fraction(0)
    if number <= 0 or (name == "delta" and number >= 1):
        what = "a number from 0 to below 1" if name == "delta" else "a positive number"
        raise error(104, f"{name} must be {what}", hint=f"write {name}={'1e-9' if name == 'delta' else '0.1'}")
    return number


def _is_zero(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and re.search(r"\d", text) is not None and Fraction(text) == 0


def _priced(options: Options) -> Options:
    if options.epsilon is not None and options.error is not None:
        raise error(
            104, "epsilon names a price and error an accuracy, which has its own price", hint="write one of them"
        )
    return options


def _confidence(text: str) -> Fraction:
    number = Fraction(text) if text and _NUMBER.fullmatch(text) and re.search(r"\d", text) else Fraction(0)
    if not Fraction(1, 2) <= number <= Fraction(999, 1000):
        raise error(104, "confidence must be a number from 0.5 to 0.999", hint="write confidence=0.95")
    return number


def _weights(text: str) -> tuple[Fraction, ...]:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) > MOST_WEIGHTS or not all(re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", part) for part in parts):
        raise error(104, "weights must be numbers with colons between them", hint="write weights=2:1:1")
    numbers = tuple(Fraction(part) for part in parts)
    if not all(numbers):
        raise error(104, "a weight of 0 would leave nothing to its aggregate", hint="leave it out of the statement")
    return numbers


def _unknown(name: str, known: list[str]) -> Error:
    near = difflib.get_close_matches(name, [*known, *FLAGS], 1)
    # the long names are others of these
    hint = f"did you mean {near[0]}?" if near else "the options are " + ", ".join([*NAMES, *FLAGS])
    return error(104, f"there is no option {name[:40]!r}", hint=hint)


def read_comment(text: str, options: Options) -> Options:
    """Options from a comment `dpsql: epsilon=0.2, max_groups=3`; other comments change nothing."""
    match = re.match(r"\s*dpsql\s*:(.*)$", text, re.DOTALL | re.IGNORECASE)
    if not match:
        return options
    for piece in match[1].split(","):
        options = read_piece(piece, options)
    return options


def read_piece(piece: str, options: Options, *, long_names: bool = False) -> Options:
    """Options with one more, as it is written: `epsilon=0.2`, or `fresh`. Raises 104."""
    name, equals, value = piece.partition("=")
    if not equals and name.strip().lower() in FLAGS:
        return replace(options, fresh=True)
    if not equals:
        raise error(104, f"the option {piece.strip()[:40]!r} has no value", hint="write epsilon=0.2")
    if name.strip().lower() in FLAGS:
        raise error(104, f"the option {name.strip().lower()} has no value", hint=f"write {name.strip().lower()}")
    return set_option(options, name, value, long_names=long_names)


def lift_clause(tokens: list[Token], options: Options) -> tuple[list[Token], Options]:
    """Take `WITH DIFFERENTIAL_PRIVACY [OPTIONS (...)]` out after each SELECT. Raises 104 where two say different things."""
    words = [t.text.upper() for t in tokens]
    found: list[Options] = []
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        kept.append(tokens[at])
        at += 1
        if words[at - 1 : at + 2] == ["SELECT", "WITH", "DIFFERENTIAL_PRIVACY"]:
            at, local = _clause(tokens, words, at + 2)
            found += [local] if local != Options() else []
    if any(local != found[0] for local in found):
        raise error(
            104,
            "two OPTIONS(...) of one statement differ",
            hint="write the same in both, or only the first: they are of the whole statement",
        )
    return kept, found[0].over(options) if found else options


def _clause(tokens: list[Token], words: list[str], end: int) -> tuple[int, Options]:
    """Read the OPTIONS (...) clause that may begin at `end`: where it ends, and what it sets."""
    local = Options()
    if words[end : end + 2] == ["OPTIONS", "("]:
        close = next((i for i in range(end, len(words)) if words[i] == ")"), None)
        if close is None:
            raise error(101, "OPTIONS( is never closed", hint="write OPTIONS(epsilon=0.2)")
        text = " ".join(t.text for t in tokens[end + 2 : close])
        for piece in filter(None, (p.strip() for p in text.split(","))):
            local = read_piece(piece.replace(" ", ""), local, long_names=True)
        end = close + 1
    return end, local
