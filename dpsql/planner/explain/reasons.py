"""Reasons for which a statement is answered: one line for each decision that could have refused it."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.core.loss import NO_LOSS
from dpsql.core.wording import counted, number
from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Release
from dpsql.plan.resolved import InputTable
from dpsql.planner.explain.released import bounded, made_of
from dpsql.planner.explain.story import equated, is_private_join, is_public_join, meets_once, on_unit, title
from dpsql.planner.explain.words import Words, tree
from dpsql.relations.relations import Made, Relation
from dpsql.schema.model import ROW, Schema


def reasons(compiled: Compiled, words: dict[str, Words], schema: Schema) -> list[str]:
    """Each reason once, in the order in which the stages decide."""
    found: list[str] = []
    for release in compiled.plan.releases:
        found += _relations(release.limited.block.source, words[release.name], schema)
        found += _conditions(release)
    for release in compiled.plan.releases:
        found += [_finite(release), *_groups(release, compiled.bounds, words[release.name])]
        found += bounded(release, words[release.name])
    found += ["the answer is made of released and public values alone", _guard(schema)]
    found += [_price(schema)] if compiled.plan.loss != NO_LOSS else []
    return list(dict.fromkeys(found))


def _relations(source: Relation, words: Words, schema: Schema) -> Iterator[str]:
    for relation in tree(source):
        made = relation.made or Made("public")
        if made.step == "scan" and schema.privacy.unit != ROW:
            yield f"every row of {relation.tables[0].name} belongs to one person, {schema.privacy.unit}, by declared keys"
        if is_private_join(made):
            what = "the privacy unit" if on_unit(made) else "a key that belongs to one person"
            yield f"the join equates {what}: {equated(made, words)}"
        if is_public_join(made):
            met = made.sources[1].met
            often = "as often as is declared" if met is None else f"at most {met:,} times, as its written rows tell"
            once = "by a unique key" if meets_once(made) else often
            yield f"{title(made.sources[1])} is public, and a row meets it {once}"
        if made.step in ("per_unit", "distinct", "windowed"):
            what = "windows" if made.step == "windowed" else "groups"
            yield f"the {what} inside the query are made of one person's rows each"
        if made.step == "unnested":
            yield "a row has no more elements than its list may have, and leaves them with its person"
        if made.step == "union_all":
            yield "UNION ALL leaves every row with its person"


def _conditions(release: Release) -> Iterator[str]:
    parts = [part for scalar in release.limited.block.expressions for part in scalar.walk()]
    if any(part.function == "exists" and (part.args or part.ties) for part in parts):
        yield "EXISTS and IN look at rows of the same person alone"
    if any(_is_public(part) for part in parts):
        yield "what rows are compared with is released before, or public"


def _is_public(part: Scalar) -> bool:
    return part.function in ("released", "in public") or (part.function == "exists" and not part.args and not part.ties)


def _finite(release: Release) -> str:
    owner = release.limited.block.source.unit
    if owner is not None and owner.column is None:
        return "one unit is one row, so what it can change is finite"
    if not release.limited.enforced:
        return "one person has one row, so what one person can change is finite"
    limits = release.limited.limits
    most = f"{counted(limits.rows, 'row')} in {counted(limits.groups, 'group')}"
    return f"what one person can change is finite: at most {most}"


def _groups(release: Release, bounds: tuple[InputTable, ...], words: Words) -> Iterator[str]:
    block = release.limited.block
    lists = {i: found.bound for found in block.lists for i in found.keys}
    for i, key in enumerate(release.keys):
        name = words.expression(key.scalar)
        if i in lists:
            yield f"the groups of {name} are listed by {made_of(lists[i], bounds)}"
        elif key.values is not None:
            yield f"every group is shared by declaration: {name}"
        else:
            yield f"a value of {name} is shown only where many people share it"
    if not release.keys:
        yield "nobody is shown alone: there is one group for all"


def _guard(schema: Schema) -> str:
    match schema.guard.mode:
        case "off":
            return "the guard is off"
        case "warn":
            return "the guard warns, and refuses nothing"
    return "no identifier is compared with a constant"


def _price(schema: Schema) -> str:
    caps = schema.privacy.caps
    return (
        f"the price is within what one statement may spend: epsilon {number(caps.epsilon)}, delta {number(caps.delta)}"
    )
