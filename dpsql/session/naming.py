"""Names of cubes, models, randomized and synthetic tables: looked up, taken once, and dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from dpsql.accounting.named import HasName, Names
from dpsql.core.errors import Error, error
from dpsql.core.loss import NO_LOSS
from dpsql.core.spans import Span
from dpsql.core.sqltypes import BOOLEAN
from dpsql.guard.identifiers import is_unsized
from dpsql.guard.record import Judged, outputs
from dpsql.plan.releases import Bounded
from dpsql.plan.tables import PublicTable
from dpsql.planner.model_terms import summed
from dpsql.planner.parse import Query
from dpsql.planner.planning import bound
from dpsql.planner.resolve import resolve
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session.result import Answer
from dpsql.session.world import World

DROPPED: Columns = (("dropped", "VARCHAR"),)


def bounded(query: Query, world: World, ways: int | None = None) -> Bounded:
    """The question of what is kept, up to its limits.

    ways  how many keys of a cube are asked at a time; None: all
    """
    return bound(query, resolve(query, world.schema, world.catalog, world.sandbox), world.schema, ways)


def judged(query: Query, asked: Bounded, world: World) -> Judged:
    """A question that counts its columns as the guard judges it: of its rows and its values.

    Why  what is released as a whole has no cells that could be hidden (R2): where it is about few it is refused
    """
    values = [one.argument for one in asked.blocks[0].block.aggregates]
    places = [i for i, value in enumerate(values) if value is not None and value.sqltype == BOOLEAN]
    about = replace(query, tree=summed(query.tree, places))
    found, k = world.guard.judge(bounded(about, world)), world.guard.policy.k
    sized = [part.block.name for part in found.bounded.blocks if not is_unsized(part.block)]
    few = [name for name in sized if outputs(found.small.get(name, ()))]
    problem = error(
        602,
        f"rule R2: it is about fewer than {k} people, or one of its columns is, and what is released as a whole can hide nothing",
        hint=f"take a condition, and columns, that are true of {k} people or more",
    )
    return replace(found, bounded=asked, findings=(*found.findings, *([problem] if few else ())))


def written(query: Query) -> str:
    """The statement, for the history."""
    return query.sql.strip().rstrip(";").strip()


class Owned(HasName, Protocol):
    """Object that is kept under a name, by who made it, of a stored answer."""

    @property
    def analyst(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


One = TypeVar("One", bound=Owned)


def known(names: Names[One], name: str, noun: str, span: Span | None = None) -> One:
    """The one of a name. Raises 105."""
    found = names.get(name)
    if found is None:
        every = [printable(one.name) for one in names.all()]
        hint = f"the {noun}s are {', '.join(every)}" if every else f"SHOW {noun.upper()}S lists those there are"
        raise error(105, f"there is no {noun} {printable(name)}", hint=hint, span=span)
    return found


def require_free(other: Owned | None, fingerprint: str, noun: str, verb: str) -> None:
    """Raises 105 where a name stands for another."""
    if other is not None and other.fingerprint != fingerprint:
        what = f"there is a {noun} {printable(other.name)} already, of another question or version of the data"
        raise error(
            105, what, hint=f"write {verb} {noun.upper()} {other.name}{' before' * (verb == 'DROP')}, or another name"
        )


def keep(names: Names[One], one: One) -> None:
    """Keep one under its name, unless it is there already."""
    other = names.get(one.name)
    if other is None or other.fingerprint != one.fingerprint:
        names.keep(one)


def dropped(names: Names[One], one: One, noun: str, hint: str, world: World) -> Answer:
    """Raises 105 where somebody else made it: what one analyst asks may not take plain answers from others (rule 52)."""
    if one.analyst != world.analyst.name:
        what = f"the {noun} {printable(one.name)} was made by another analyst, and others read it"
        raise error(105, what, hint=hint)
    names.drop(one.name)
    rows: list[tuple[object, ...]] = [(one.name,)]
    notes = ("what was charged for it stays charged; made again by the same statement on the same data it is free",)
    return Answer(DROPPED, rows, Accuracies.nothing(1, 1), world.receipt(NO_LOSS), notes=notes)


def not_bought(noun: str) -> Error:
    """103 for EXPLAIN of DROP."""
    word = f"DROP {noun.upper()}"
    return error(103, f"{word} is free, and gives nothing back", hint=f"write {word} and its name")


def shown(name: str, rows: list[tuple[object, ...]]) -> PublicTable:
    """A table of what is kept, by its rows."""
    columns = spent.TABLES[name]
    return PublicTable(name, columns, tuple([row[i] for row in rows] for i in range(len(columns))))


def is_current(fingerprint: str, again: Callable[[], str | None]) -> bool | None:
    """True if it is of the data and declarations as they are; None where its statement can no longer be read.

    again  the fingerprint that its statement has now; None where it is another one
    """
    try:
        return again() == fingerprint
    except Error:
        return None
