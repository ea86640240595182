"""EXPLAIN: what will be released, how one person can change it, what it costs and how exact it will be. Free, and data-free.

words.py     engine SQL as people read it
story.py     the relations, and what one person can change at each step
released.py  group keys, measures and intervals
reasons.py   why the statement is answered
"""

from __future__ import annotations

from dpsql.core.escaping import harmless
from dpsql.core.loss import PrivacyLoss
from dpsql.core.wording import counted, listed, number
from dpsql.mechanisms.calibration import BY_NAME
from dpsql.mechanisms.conversions import together
from dpsql.mechanisms.prices import nominal
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.resolved import InputTable
from dpsql.planner.explain.reasons import reasons
from dpsql.planner.explain.released import chosen, headline, keys, limits, made_of, measure, outputs
from dpsql.planner.explain.story import story
from dpsql.planner.explain.words import Words
from dpsql.planner.partition import in_words
from dpsql.planner.shares import expected
from dpsql.schema.advice import guess
from dpsql.schema.model import Schema
from dpsql.sql.trees import tables


def explain(compiled: Compiled, schema: Schema) -> str:
    """The plan as text, one fact a line, without what a terminal would obey: lines are as many as facts, whatever a constant holds."""
    return "\n".join(map(harmless, _lines(compiled, schema)))


def explain_cube(compiled: Compiled, schema: Schema) -> str:
    """The release of a cube, a model or a randomized table as text, and how one person can change it."""
    (part,) = compiled.releases
    release, words = part.release, Words.of_relation(part.release.limited.block.source)
    lines = [*story(release.limited.block.source, words, schema), limits(release), *keys(release, (), words)]
    lines += [line for one in release.measures for line in measure(one, release, words)]
    lines += [line for one in release.chosen for line in chosen(one, words)]
    lines += [*(f"engine: {text}" for text in part.texts), *price(compiled, schema)]
    return "\n".join(map(harmless, lines))


def _lines(compiled: Compiled, schema: Schema) -> list[str]:
    post_query = compiled.plan.post_query
    if post_query.spent:
        return ["free: answered from the ledger alone, exactly", *(f"note: {note}" for note in post_query.notes)]
    if post_query.empty:
        return ["free: answered from the declared schema alone"]
    if not compiled.releases and post_query.notes:
        return [*(f"free: {note}" for note in post_query.notes), f"sql: {post_query.sql}"]
    if not compiled.releases:
        return ["public: reads no people's rows, so the answer is exact and free", f"sql: {post_query.sql}"]
    words = {r.name: Words.of_relation(r.limited.block.source) for r in compiled.plan.releases}
    lines: list[str] = []
    told: set[str] = set()
    for part in compiled.releases:
        for bound in _needed(part, compiled.bounds, told):
            lines += _bound(bound, compiled, words)
        lines += _release(part, compiled, words[part.release.name], schema)
    for bound in compiled.bounds:
        if bound.name not in told:
            lines += _bound(bound, compiled, words)
    lines += [f"answer: {post_query.sql}", *_computed(compiled), *price(compiled, schema)]
    lines += [*(f"note: {note}" for note in (*post_query.notes, *expected(compiled, schema))), "answered because:"]
    return [*lines, *(f"  {reason}" for reason in reasons(compiled, words, schema))]


def _release(part: CompiledRelease, compiled: Compiled, words: Words, schema: Schema) -> list[str]:
    release = part.release
    lines = [*story(release.limited.block.source, words, schema), limits(release)]
    lines += keys(release, compiled.bounds, words)
    if release.parts:
        lines += mechanism(release)
        lines += [line for m in release.measures for line in measure(m, release, words)]
        lines += [line for c in release.chosen for line in chosen(c, words)]
        lines += [*outputs(release, words, schema), *(f"engine: {text}" for text in part.texts)]
    else:
        lines.append("free: the keys are public, and nothing else is released")
    return [f"{release.name}: {headline(release, words)}", *(f"  {line}" for line in lines)]


# --- input tables -------------------------------------------------------------------------------------------------


def _needed(part: CompiledRelease, bounds: tuple[InputTable, ...], told: set[str]) -> list[InputTable]:
    """The input tables that are made for a release, each after what it reads; they count as told."""
    wanted = set(part.bounds)
    for bound in reversed(bounds):
        if bound.name in wanted:
            wanted |= set(bound.reads)
    found = [b for b in bounds if b.name in wanted and b.name not in told]
    told |= {b.name for b in found}
    return found


def _bound(bound: InputTable, compiled: Compiled, words: dict[str, Words]) -> list[str]:
    what = "one value" if bound.one_row else "a list of group keys" if _lists(bound, compiled) else "a table"
    lines = [f"{bound.name}: {what} made of {made_of(bound.name, compiled.bounds)}", f"  sql: {bound.sql}"]
    lines += [f"  read by {other.name}" for other in compiled.bounds if bound.name in other.reads]
    for part in compiled.releases:
        if bound.name in part.bounds:
            lines.append(f"  read by {part.release.name}{_place(bound, part, words[part.release.name])}")
    return lines


def _lists(bound: InputTable, compiled: Compiled) -> bool:
    return any(found.bound == bound.name for r in compiled.plan.releases for found in r.limited.block.lists)


def _place(bound: InputTable, part: CompiledRelease, words: Words) -> str:
    """Place at which a release reads an input table."""
    block = part.release.limited.block
    places = [f"where {words.expression(c)}" for c in block.source.where if bound.name in tables(c.tree)]
    if any(found.bound == bound.name for found in block.lists):
        places.append("as its group keys")
    if not places and bound.name in tables(block.source.read()):
        places.append("in its joins")
    return f", {listed(places)}" if places else ""


# --- the whole statement ------------------------------------------------------------------------------------------


def _computed(compiled: Compiled) -> list[str]:
    """Columns of the answer that have no interval, because they are not released values as they are."""
    post_query = compiled.plan.post_query
    if not any(r.parts for r in compiled.plan.releases):
        return []
    if post_query.totals:
        return ["  its rows add up released ones: their intervals are those of the sums"]
    if not post_query.traced:
        return ["  its rows are computed from released ones: without intervals"]
    told = post_query.computed or (None,) * len(post_query.direct)
    made = sum(source is None and text is None for source, text in zip(post_query.direct, told, strict=True))
    return [f"  computed from released values, without intervals: {counted(made, 'column')}"] if made else []


def mechanism(release: Release) -> list[str]:
    """Explain which mechanism "auto" took and why; nothing where the caller named one."""
    found = release.compared
    if found is None:
        return []
    name = BY_NAME[found.mechanism].told
    other = next(m.told.removeprefix("discrete ") for m in BY_NAME.values() if m.name != found.mechanism)
    if found.share is None:
        return [f"mechanism: {name}, as {other} noise would be too large at this price"]
    return [f"mechanism: {name}, its {found.what} is {number(float(f'{float(found.share):.2g}'))} of the {other}'s"]


def price(compiled: Compiled, schema: Schema) -> list[str]:
    """The loss of the statement, of each of its releases, and of several people together."""
    plan, household = compiled.plan, schema.privacy.household
    paid = [r for r in plan.releases if r.parts]
    if not paid:
        return ["price: free"]
    lines = [f"price: {_loss(plan.loss)} for the statement; free where the answer is stored"]
    if plan.accuracy_target is not None:
        lines.append(
            f"  for an error of at most {plan.accuracy_target.words}: each column at its least epsilon, in three digits"
        )
    if any(release.raised for release in paid):
        lines.append(
            f"  raised to the owner's least price, epsilon {number(schema.privacy.floor)}: the error is smaller"
        )
    if len(paid) > 1:
        lines += [f"  {release.name}: {_loss(release.loss)}" for release in paid]
    for release in paid:
        if release.entries is not None and schema.privacy.partition is not None:
            column, values = ".".join(schema.privacy.partition), listed(list(in_words(release.entries)))
            lines.append(f"  {release.name} is charged to those whose {column} is {values} alone")
    if household is not None:
        lines.append(f"  a household of {household} together: {_loss_of_several(plan.loss, household)}")
    return [*lines, f"  the total promised: {guess(schema.privacy)}"]


def _loss(loss: PrivacyLoss) -> str:
    found = f"epsilon {number(nominal(loss))}, delta {number(loss.delta)}"
    return (
        found
        if loss.epsilon is not None
        else f"{found} (Gaussian noise: rho {number(loss.rho)}, no epsilon without a delta)"
    )


def _loss_of_several(loss: PrivacyLoss, people: int) -> str:
    """The loss of k units, added or removed one after the other (rule 30)."""
    several = together(loss, people)
    if several.epsilon is None:
        return f"rho {number(several.rho)}"
    return f"epsilon {number(several.epsilon)}, delta {number(several.delta)}"
