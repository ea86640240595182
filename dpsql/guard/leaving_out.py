"""R3a: a statement that leaves out a few people, or takes a few in, is refused, whoever asks and whatever came before.

Why   total minus all but a few is the individual tracker, and the general one its sum with the opposite. Where nobody may ask a
      question that leaves out a few, no memory of what was asked is needed to keep them from subtracting it, and no wide answer is
      hostage to one. It is the upper bound on query sets of Denning, Denning and Schwartz (1979), for every part of a statement

A part that decides about nobody of the sample is taken for one of few unless void.py proves it of nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dpsql.core.domains import Categories, hull, integers
from dpsql.core.errors import Error, error
from dpsql.expressions.literals import integer_literal
from dpsql.expressions.logic import compare, conjunction, is_null, negation
from dpsql.expressions.scalar import Scalar
from dpsql.guard import words
from dpsql.guard.adding import is_nothing_zero
from dpsql.guard.evaluating import Evaluated, Evaluating
from dpsql.guard.lists import NULL_TESTS, is_shown_by, keeps_whole_groups
from dpsql.guard.parts import MOST, Change, Part, altering_parts, boolean_parts, losing_parts, number_parts
from dpsql.guard.void import Proofs
from dpsql.plan.resolved import Block

MOST_VALUES = 200
"""Values of a column each of which some sample unit has."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of minimum cell sizes: the number of people below which a cell is small.

    k           [units] the fewest people of an answer
    scale       [units] that a sample unit stands for
    source      where numbers of people come from, in words
    suppresses  whether what is about few is suppressed by its noisy number of people (R2)
    """

    k: int
    scale: float
    source: str = "as declared"
    suppresses: bool = True

    def is_few(self, units: int) -> bool:
        """True if sample units stand for fewer than k people; nobody is few to who lets one person be shown."""
        return self.k > 1 and units * self.scale < self.k

    def people(self, units: int) -> int:
        return round(units * self.scale)


def check(evaluating: Evaluating, block: Block, found: Evaluated, policy: Policy) -> Error | None:
    """The first part of a block that decides about few people; a block, or an aggregate by its FILTER or its values, that is itself
    about few is R2's."""
    if policy.is_few(found.whole):
        return None
    block = _of_many(evaluating, block, found, policy)
    parts = boolean_parts(block)
    if len(parts) > MOST:
        return error(
            602, f"rule R3: more than {MOST} conditions cannot be judged", hint=f"write {MOST} or fewer, or IN"
        )
    return (
        _of_few_zeros(evaluating, block, found, policy)
        or _of_parts(evaluating, block, parts, found.whole, policy)
        or _of_numbers(evaluating, block, policy)
        or _of_lost(evaluating, block, policy)
        or _of_looked_up(evaluating, block, found, policy)
    )


def few_values(evaluating: Evaluating, found: Evaluated, policy: Policy) -> dict[str, Scalar]:
    """The aggregates of many whose value is NULL or 0 for all but a few of some group, each with the condition that is met by these: as
    one may write `SUM(x) FILTER (WHERE c)` for `SUM(CASE WHEN c THEN x ELSE 0 END)`; and those that may be, by a released value."""
    few: dict[str, Scalar] = {}
    if not policy.suppresses:
        return few
    reads_release = evaluating.lists.reads_release(found.block)
    for aggregate in found.block.aggregates:
        argument = aggregate.argument
        if (
            argument is None
            or not (reads_release or policy.is_few(found.valued[aggregate.name][2]))
            or not _is_computed(argument, evaluating.proofs(found.block))
        ):
            continue
        known = negation(is_null(argument))
        met = compare("<>", argument, integer_literal(0)) if is_nothing_zero(aggregate) else known
        few[aggregate.name] = met if aggregate.condition is None else conjunction([aggregate.condition, met])
    return few


def is_of_whole_groups(blocks: Iterable[Block]) -> bool:
    """True if it can only be a whole group that is about few people, whatever the data are: no FILTER and no computed value is."""
    return not any(
        aggregate.condition is not None
        or (aggregate.argument is not None and not aggregate.argument.is_column and not aggregate.argument.is_literal)
        for block in blocks
        for aggregate in block.aggregates
    )


def _is_computed(argument: Scalar, proofs: Proofs) -> bool:
    """True if a value is no column of people's rows: a column of rows that the statement wrote down has no origin."""
    return not (argument.is_column and argument.origin) and not proofs.is_constant(argument)


def _of_many(evaluating: Evaluating, block: Block, found: Evaluated, policy: Policy) -> Block:
    """The block without the aggregates that are about few in all by their FILTER or their values: these are suppressed."""
    few = {condition for condition, units in found.met.items() if condition is not None and policy.is_few(units)}
    valued = [name for name in few_values(evaluating, found, policy) if policy.is_few(found.valued[name][1])]
    kept = tuple(
        a for a in block.aggregates if a.name not in valued and (a.condition is None or a.condition.tree not in few)
    )
    return block if len(kept) == len(block.aggregates) else replace(block, aggregates=kept)


def _of_parts(evaluating: Evaluating, block: Block, parts: list[Part], whole: int, policy: Policy) -> Error | None:
    proofs = evaluating.proofs(block)

    def is_close(change: Change) -> bool:
        part = change.part.scalar
        return (
            policy.is_few(change.units)
            and not _is_unknown(part, evaluating)
            and policy.is_few(int(whole * _listed(part)))
            and not keeps_whole_groups(part, block)
            and not evaluating.is_cut(part)
            and not (change.units == 0 and proofs.is_void(part, change.value))
        )

    close = list(filter(is_close, evaluating.changes(block, parts))) if parts else []
    for change in filter(is_close, evaluating.exactly(block, close)):
        kept = change.units == 0 and evaluating.lists.keeps_groups(change.part.scalar, block)
        if not kept and not (change.units == 0 and evaluating.is_void_in_public(block, change)):
            scored = _scored(change.part.scalar, block)
            text = _around(change.part.scalar, block) if scored is None else words.said(scored[1], block.source)
            return _refused(text, policy.people(change.units), policy, scored[0] if scored is not None else "")
    return None


def _around(part: Scalar, block: Block) -> str:
    """The condition that a part stands in, or what is computed with it."""
    holding = (whole for whole in block.expressions if any(inner.tree == part.tree for inner in whole.walk()))
    return words.said(next(holding, part), block.source)


def _is_unknown(part: Scalar, evaluating: Evaluating) -> bool:
    """True if a part asks for the NULLs of a column that may have them, as declared: as many as k people at least, whom GROUP BY shows
    as a cell of their own."""
    return part.function in NULL_TESTS and part.args[0].is_column and evaluating.is_nullable(part.args[0])


def _listed(part: Scalar) -> float:
    """The share, as declared, of the listed values that a part asks for or leaves out; 0 where it is about anything else.

    Why  GROUP BY shows the same cells; that few people have a value, as a released histogram says, keeps nobody from leaving it out
    """
    columns = [arg for arg in part.args if arg.is_column]
    if (
        part.function not in ("=", "<>", "in")
        or len(columns) != 1
        or not all(a.is_literal or a.is_column for a in part.args)
    ):
        return 0.0
    domain = columns[0].domain
    if not isinstance(domain, Categories):
        return 0.0
    asked = sum(value in domain for value in {arg.value for arg in part.args if arg.is_literal})
    return min(asked, len(domain.values) - asked) / len(domain.values)


def _of_numbers(evaluating: Evaluating, block: Block, policy: Policy) -> Error | None:
    """A number that is the same for all but a few; or that is added up or grouped by, and the same for everybody as far as the sample
    tells."""
    asked = set(number_parts(replace(block, source=replace(block.source, where=()))))
    for share in evaluating.shares(block):
        if share.other == share.units or not policy.is_few(share.other):
            continue
        if share.other == 0 and (share.part not in asked or _is_one(share.part.scalar)):
            continue
        every = evaluating.share_of_everybody(block, share.part) if share.other == 0 else share
        if policy.is_few(every.other) and (every.other or not _has_few_values(share.part.scalar)):
            return _refused(words.said(share.part.scalar, block.source), policy.people(share.other), policy)
    return None


def _of_lost(evaluating: Evaluating, block: Block, policy: Policy) -> Error | None:
    """A value that is NULL for a few, or for nobody as far as the sample tells, though none that it is computed of is, or another than
    that which it is made of: what is asked of it leaves these out, or has something else for them. That a number is for nobody is taken
    for true: bounds keep it so."""
    altered = evaluating.met(block, altering_parts(block))
    told = [(part, units) for part, units in altered if units or part.scalar.sqltype.is_text]
    for part, units in (*evaluating.met(block, losing_parts(block)), *told):
        if policy.is_few(units) and (units or not _has_few_values(part.scalar)):
            return _refused(words.said(part.scalar, block.source), policy.people(units), policy)
    return None


def _of_looked_up(evaluating: Evaluating, block: Block, found: Evaluated, policy: Policy) -> Error | None:
    """A table of rows that the statement wrote down, which leaves out a few, or gives a few another value than the rest.

    Why  `JOIN (VALUES ...)` is a list of IN, and a column of it a CASE, without a condition of their own. Where several columns are
         compared, or one of many values, nobody of the sample may have just what is left out. Rows that no constant chooses are the
         owner's: they are looked at for those who are left out as the sample sees it
    """
    seen = (*block.expressions, *(column.scalar for column in block.source.columns))
    leaves = {leaf.tree: leaf for expression in seen for leaf in expression.leaves()}
    for join, compared, is_chosen in evaluating.lists.looked_up(block):
        known = [leaves[column] for column in compared if column in leaves]
        is_listed = len(compared) == len(known) and math.prod(map(_many_values, known)) <= MOST_VALUES
        is_seen = is_listed or not is_chosen
        few = [evaluating.unmatched(block, join)] if join.kind != "LEFT" else []
        few += [
            found.met[a.condition.tree if a.condition is not None else None] - found.valued[a.name][0]
            for a in block.aggregates
            if a.argument is not None and is_shown_by(a.argument, join)
        ]
        if is_chosen and (len(compared) > 1 or not is_listed):
            # of COALESCE(v.n, 'rest'), too: who has no n is with all the rest; numbers that are computed are looked at as such
            texts = (a.argument for a in block.aggregates if a.argument is not None and a.argument.sqltype.is_text)
            told = (*(key.scalar for key in block.keys), *texts)
            shown = {leaf.tree: leaf for value in told for leaf in value.leaves() if is_shown_by(leaf, join)}
            few += [evaluating.fewest(block, leaf) for leaf in shown.values()]
        units = next((units for units in few if policy.is_few(units) and (units or not is_seen)), None)
        if units is not None:
            text = " and ".join(sorted(words.said(one, block.source) for one in known))
            return _refused(f"what is looked up by {text or 'a join'}", policy.people(units), policy)
    return None


def _is_one(number: Scalar) -> bool:
    """True if there is one value for everybody, as declared; or a CASE, whose conditions are looked at."""
    span = hull(number.domain)
    return number.function == "case" or (span is not None and span.lower == span.upper)


def _has_few_values(number: Scalar) -> bool:
    """True if a number is of one column of so few values that some sample unit has each."""
    columns = {leaf.tree: leaf for leaf in number.leaves()}
    return len(columns) == 1 and _many_values(next(iter(columns.values()))) <= MOST_VALUES


def _many_values(column: Scalar) -> float:
    """Number of declared values of a column."""
    listed = integers(column.domain) if column.integral else column.domain
    return len(listed.values) if isinstance(listed, Categories) and column.origin else math.inf


def _of_few_zeros(evaluating: Evaluating, block: Block, found: Evaluated, policy: Policy) -> Error | None:
    """An aggregate of many whose value is 0 for a few alone, where it is computed with a CASE."""
    for aggregate in (a for a in block.aggregates if a.argument is not None):
        argument, (known, unlike, _) = aggregate.argument, found.valued[aggregate.name]
        assert argument is not None
        is_few = known > unlike and policy.is_few(known - unlike)
        if (
            is_few
            and any(p.function == "case" for p in argument.walk())
            and _is_computed(argument, evaluating.proofs(block))
        ):
            return _refused(words.said(argument, block.source), policy.people(known - unlike), policy)
    return None


def _scored(part: Scalar, block: Block) -> tuple[str, Scalar] | None:
    """The first of several values of an aggregate that holds a part, and what each of them is; None where none does."""
    for aggregate in block.aggregates:
        if aggregate.record.each and aggregate.argument is not None:
            for one in aggregate.argument.args:
                if any(inner.tree == part.tree for inner in one.walk()):
                    return aggregate.record.each, one
    return None


def _refused(text: str, people: int, policy: Policy, of: str = "") -> Error:
    """Error with what to write instead.

    of  where it is one of several values of an aggregate, each of them in words
    """
    about = f"about {people}" if people else "less than one person"
    instead = (
        f"leave this one out, or take others that set {policy.k} people or more apart"
        if of
        else f"leave it out, GROUP BY the columns instead, or change it for {policy.k} people or more"
    )
    where = f"{of}, {text}," if of else text
    what = f"rule R3: {where} sets fewer than {policy.k} people apart ({about} {policy.source})"
    return error(602, what, hint=instead)
