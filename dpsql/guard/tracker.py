"""The guard's rules.

R1  no constant is compared with an identifier, and nothing but COUNT is aggregated over one
R3  no answer is given that differs from an earlier one by fewer than k people: then subtracting them would be about those few
R5  no condition that says nothing about how many people it is about is put on a quasi column

R0 is the stored answer (answers/look_up.py), R2 the noisy number of people that a small cell is suppressed by (planner/measure.py), and
R4, of mode "audit", the combinations of more than two answers (audit.py).

Why  everything here reads the plan, the declared schema, public tables and what was released before: the decision is the same on
     every database of people, so a refusal says nothing about them
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.expressions.scalar import Scalar, goes_with
from dpsql.guard import words
from dpsql.guard.history import Earlier, History, Past, common_to_all, together
from dpsql.guard.questions import Question
from dpsql.guard.regions import (
    MOST_DIFFERENCE,
    Box,
    Region,
    Tangled,
    apparent,
    both,
    but_not,
    common,
    extent,
    is_everybody,
    is_unknown,
    meet,
    or_nothing,
    share,
    without_void,
)
from dpsql.guard.texts import said
from dpsql.guard.values import Ranged
from dpsql.plan.limited import Limited
from dpsql.plan.resolved import Block
from dpsql.schema.model import Guard

READABLE = 10
"""Times what one person can move it: a difference whose noise deviates by less can be read."""
SIGMA = 10
"""Times k: a number of people that is known less exactly than this is not exposed."""
MOST_STATEMENT = 160
"""Letters of an earlier statement that a message shows."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the owner set: the mode, the fewest people of an answer, and how many people there are."""

    guard: Guard
    people: float

    @property
    def least(self) -> float:
        """Of the people, the smallest share that is not narrow."""
        return self.guard.k / self.people

    @property
    def exposed(self) -> float:
        """A deviation above which a number of people is not exposed [units]."""
        return float(SIGMA * self.guard.k)

    def count(self, part: float) -> int:
        return round(part * self.people)


def blocks(guard: Guard) -> bool:
    return guard.mode in ("block", "audit")


# --- R1 ---------------------------------------------------------------------------------------------------------------


def check_identifiers(blocks: Iterable[Limited]) -> list[Error]:
    """R1, for every block of a statement."""
    return [finding for part in blocks for finding in identifiers(part.block)]


def identifiers(block: Block) -> Iterator[Error]:
    """R1: every use of an identifier but COUNT(identifier) and COUNT(DISTINCT identifier)."""
    counted = [a.argument for a in block.aggregates if a.function in ("count", "distinct")]
    for scalar in block.expressions:
        if scalar in counted and scalar.is_column and not scalar.computes_identifier:
            continue
        found = _identifier(scalar)
        if found is not None:
            yield error(
                601,
                f"rule R1: {_name(found)} is an identifier, and a condition on it can single out one person",
                hint=f"leave {_name(found)} out, and filter by what many people share",
            )


def _name(found: Scalar) -> str:
    origin = next((part.origin for part in found.walk() if part.origin), said(found))
    return origin.rpartition(".")[2].strip('"')


def _identifier(scalar: Scalar, seen: set[int] | None = None) -> Scalar | None:
    """The first identifier that is used; the same private key on both sides of `=` only says whose rows they are."""
    seen = seen if seen is not None else set()
    if not scalar.is_identifying or id(scalar) in seen:
        return None
    seen.add(id(scalar))
    if scalar.function == "=" and goes_with(*scalar.args):
        return None
    if scalar.role == "identifier":
        return scalar
    return next((found for arg in scalar.args if (found := _identifier(arg, seen)) is not None), None)


# --- R5 ---------------------------------------------------------------------------------------------------------------


def check_unsized(questions: Iterable[Question]) -> list[Error]:
    """R5: conditions whose number of people nothing says, on columns that tell people apart."""
    names = dict.fromkeys(_name(column) for question in questions for column in question.unsized)
    return [
        error(
            603,
            f"rule R5: nothing says how many people a condition on {name} is about, and {name} can tell people apart",
            hint=f"compare {name} alone with constants, or leave it out; or have the owner declare its domain or bounds, or "
            "role = 'measure'",
        )
        for name in names
    ]


# --- R3 ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two questions that a few people make the difference of.

    difference  of what they differ by, one box
    alike       what both of them say of everybody in them
    people      how many they differ by, as declared
    unknown     whether nothing says how many
    earlier     None for another part of the same statement
    shared      whether they are what two halves of a UNION have in common
    """

    difference: Box
    alike: Box
    people: int
    unknown: bool
    earlier: Past | None
    shared: bool = False


def check_pairs(questions: Sequence[Question], history: History, policy: Policy, analyst: str) -> Conflict | None:
    """R3: the first earlier question, or other part of the statement, that differs from a part of it by fewer than k people.

    Why  regions a = R minus h and b = h minus R. Where one is empty and the other is not, the answers differ by it: the individual
         tracker, and total minus one. Where both are a few people, they are two nearly equal sets: the general and the double
         tracker. What is only void (regions.py) is nobody. Regions that have nothing in common cannot be subtracted. Cells
         of one last band of a histogram are compared as if everybody was in it

    analyst  who asks
    """
    parts = [question.parts() for question in questions]
    for question in questions:
        found = _twice(question, policy)
        if found is not None:
            return found
    for question, cells in zip(questions, parts, strict=True):
        compared = _Compared(question, history, policy, analyst)
        for region in (*question.whole(), *cells):
            check()
            found = compared.with_history(region)
            if found is not None:
                return found
        found = compared.with_many_cells()
        if found is not None:
            return found
    here = History(policy.least)
    # what is compared with an answer of the statement itself is not known when it is written
    nowhere = Past(0, analyst, "", ())
    for question, cells in zip(questions, parts, strict=True):
        compared = _Compared(replace(question, plain=False), here, policy, analyst)
        for region in cells or question.whole():
            check()
            found = compared.with_history(region)
            if found is not None and not any(v.axis.released for v in found.difference.values()):
                return replace(found, earlier=None)
            here.add_region(question.tables, region, nowhere, question.spread)
    return None


@dataclass(frozen=True, slots=True)
class _Compared:
    """A question that is compared with others.

    history  of what was asked before
    analyst  who asks
    """

    question: Question
    history: History
    policy: Policy
    analyst: str

    def with_history(self, region: Region) -> Conflict | None:
        """One region of the question with all that it could be subtracted from."""
        tables, spread = self.question.tables, self._spread(region)
        for earlier in self.history.near(tables, region, self.policy.least):
            if self._matters(earlier) and self._refuses(found := _pair(region, earlier, self.policy), spread, earlier):
                return found
        return self._with_total(region, spread)

    def with_many_cells(self) -> Conflict | None:
        """The cells of breakdowns into too many that earlier regions are in."""
        for shape in self.question.shapes:
            for cell, earlier in self.history.inside(self.question.tables, shape, self.policy.least):
                if self._matters(earlier):
                    found = _pair(cell, earlier, self.policy)
                    if self._refuses(found, self._spread(cell), earlier):
                        return found
        return None

    def _with_total(self, region: Region, spread: float) -> Conflict | None:
        """The general tracker: two questions that together are about everybody, and have a few people in common; their sum minus the
        total is those few. So an answer is compared with what an earlier one leaves of everybody too, once the total is known."""
        tables, least = self.question.tables, self.policy.least
        if is_everybody(region):
            for one, other in self.history.around_all(tables):
                if self._matters(one) and self._matters(other):
                    found = _met(one.region, other, self.policy)
                    if self._refuses(found, one.spread, other):
                        return found
            return None
        if self.history.knows_total(tables):
            for other in self.history.completing(tables, region, least):
                if self._matters(other) and self._refuses(found := _met(region, other, self.policy), spread, other):
                    return found
        return None

    def _spread(self, region: Region) -> float:
        """The noise of all answers to a region that the analyst will have."""
        return together(self.question.spread, self.history.spread(self.question.tables, region, self.analyst))

    def _matters(self, earlier: Earlier) -> bool:
        """Rule 52: what somebody else asked takes no plain answer."""
        return not self.question.plain or earlier.past.analyst == self.analyst

    def _refuses(self, found: Conflict | None, spread: float, earlier: Earlier) -> bool:
        """Whether two answers that differ by a few people, or by a number that nobody knows, may not both be had.

        Why  the few are refused wherever their number could be told at all, as in mode "audit"; what may as well be many, what
             somebody else asked, and what a plain answer is beside, only where the difference can be read
        """
        if found is None:
            return False
        lenient = found.unknown or self.question.plain or earlier.past.analyst != self.analyst
        return math.hypot(spread, earlier.spread) < (READABLE if lenient else self.policy.exposed)


def _twice(question: Question, policy: Policy) -> Conflict | None:
    """The halves of a UNION that have a few people in common: their sum minus what they are together is those few."""
    for one, other in combinations((shape.base for shape in question.shapes), 2):
        few = without_void(or_nothing(both, one, other, MOST_DIFFERENCE))
        if few and share(few) < policy.least and not is_unknown(few):
            return Conflict(few[0], {}, policy.count(share(few)), False, None, shared=True)
    return None


def _met(region: Region, earlier: Earlier, policy: Policy) -> Conflict | None:
    """What two regions have in common, where that is a few people and nobody is in neither."""
    few = common_to_all(region, earlier.region, policy.least)
    if not few:
        return None
    return Conflict(few[0], {}, policy.count(share(few)), _unsure(few, policy), earlier.past)


def _pair(region: Region, earlier: Earlier, policy: Policy) -> Conflict | None:
    other = earlier.region
    if not meet(region, other):
        return None
    try:
        shared = both(region, other, MOST_DIFFERENCE)
        if not without_void(shared):
            return None
        known = not (is_unknown(region) or is_unknown(other))
        size = _size(region, other, policy) if known else share
        if known and max(size(region), size(other)) - size(shared) >= policy.least:
            # one of them has many people that the other has not
            return None
        a = without_void(but_not(region, other, MOST_DIFFERENCE))
        b = without_void(but_not(other, region, MOST_DIFFERENCE))
        narrow_a, narrow_b = bool(a) and size(a) < policy.least, bool(b) and size(b) < policy.least
        apart = narrow_a and narrow_b and not _nearly_equal(region, other, a, b, policy.least)
    except Tangled:
        # nothing says that they differ by many
        return Conflict({}, {}, 0, True, earlier.past)
    if not apart and ((narrow_b and (not a or narrow_a)) or (narrow_a and not b)):
        few = b if narrow_b else a
        unknown = _unsure(a, policy) or _unsure(b, policy)
        return Conflict(few[0], _alike(region, other), policy.count(share(few)), unknown, earlier.past)
    return None


def _unsure(few: Region, policy: Policy) -> bool:
    """Whether a part that is narrow as far as it is known may be of many people."""
    return bool(few) and share(apparent(few)) >= policy.least


def _size(region: Region, other: Region, policy: Policy) -> Callable[[Region], float]:
    """How large a part of a pair is, of all people.

    The last band of a histogram may hold nothing but a bound, at which nobody is expected: the same band of some people and of all is
    compared as if everybody was in it.
    """
    if max(share(region), share(other)) >= policy.least:
        return share
    ends = {key for key, values in _alike(region, other).items() if isinstance(values, Ranged) and values.is_end}
    if not ends:
        return share
    return lambda part: share(tuple({key: box[key] for key in box if key not in ends} for box in part))


def _alike(one: Region, other: Region) -> Box:
    """The values of columns that are the same in all boxes of two regions."""
    first, *boxes = (*one, *other)
    return {key: values for key, values in first.items() if all(box.get(key) == values for box in boxes)}


def _nearly_equal(region: Region, other: Region, a: Region, b: Region, least: float) -> bool:
    """Whether two regions that differ by a few people on both sides have more in common than apart: two small groups that overlap
    are no pair to subtract."""
    if is_unknown(a) or is_unknown(b):
        # they differ in nothing but that, as far as it is known
        region, other = apparent(region), apparent(other)
        a, b = (without_void(but_not(*sides, MOST_DIFFERENCE)) for sides in ((region, other), (other, region)))
        if max(share(a), share(b)) >= least:
            return False
    met, apart = share(both(region, other, MOST_DIFFERENCE)), share(a) + share(b)
    return met >= apart if met or apart else common(region, other) >= extent(a) + extent(b)


def problem(conflict: Conflict, analyst: str, policy: Policy) -> Error:
    """R3 in words: the caller's own earlier statement, and of anybody else's nothing but that there is one."""
    past = conflict.earlier
    own = past is None or past.analyst == analyst
    if past is None:
        what = "two parts of this statement"
    elif own:
        what = f"this and your statement {past.charge} ({shortened(past.statement)})"
    else:
        what = "this and an earlier statement of somebody else"
    by = ""
    if own and conflict.difference:
        by = f": {words.of_box(conflict.difference, conflict.alike)}"
    if conflict.unknown:
        text = f"rule R3: {what} differ by a condition that nobody can say how many people meet{by}"
    else:
        few = "less than one person" if conflict.people == 0 else f"about {conflict.people}"
        counted = f" ({few} as declared)" if own else ""
        differ = "have in common" if conflict.shared else "differ by"
        text = f"rule R3: {what} {differ} fewer than {policy.guard.k} people{counted}{by}"
    return error(
        602,
        text,
        hint="use the answer that is released, GROUP BY the columns instead, or change the condition for "
        f"{policy.guard.k} people or more",
    )


def shortened(statement: str) -> str:
    """A statement in one line of a message."""
    line = " ".join(statement.split())
    return line if len(line) <= MOST_STATEMENT else line[: MOST_STATEMENT - 3] + "..."
