"""Names of cubes, models, randomized and synthetic tables: what is the same of all that is made, told and dropped under one.

What is bought is bought as any release is: judged, charged whole, run and stored, and what is stored is given again free. Only then it
has its name: whoever is stopped before that asks the same again, and has it for the one charge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from dpsql.accounting.cubes import StoredCube
from dpsql.accounting.named import HasName, Names, Register
from dpsql.answers.look_up import Missing
from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless
from dpsql.core.loss import NO_LOSS, total
from dpsql.core.spans import Span
from dpsql.core.sqltypes import BOOLEAN
from dpsql.guard.identifiers import is_unsized
from dpsql.guard.record import Judged
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, Release
from dpsql.plan.tables import PublicTable
from dpsql.planner.explain import explain_cube
from dpsql.planner.model_terms import summed
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.planner.planning import bound
from dpsql.planner.resolve import resolve
from dpsql.release.buying import Bought
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session.planned import Planned, Prospect
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
    few = [name for name in sized if found.small.get(name)]
    problem = error(
        602,
        f"rule R2: it is about fewer than {k} people, or one of its columns is, and what is released as a whole can hide nothing",
        hint=f"take a condition, and columns, that are true of {k} people or more",
    )
    return replace(found, bounded=asked, findings=(*found.findings, *([problem] if few else ())))


def written(sql: str) -> str:
    """The statement, for the history."""
    return sql.strip().rstrip(";").strip()


def under_its_text(compiled: Compiled, query: Query) -> Compiled:
    """The plan of a statement that is in the history by its own text, and whose cells no final query reads."""
    post_query = replace(compiled.plan.post_query, written=written(query.sql), traced=False)
    return replace(compiled, plan=replace(compiled.plan, post_query=post_query))


class Owned(HasName, Protocol):
    """Object that is kept under a name, by who made it when by what statement, of a stored answer."""

    @property
    def analyst(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def statement(self) -> str: ...

    @property
    def time(self) -> str: ...


One = TypeVar("One", bound=Owned)
Row = tuple[object, ...]
Buy = Callable[[Planned, str], Bought]
"""Buys what is planned, at a request of that key."""


class NamedKind(ABC, Generic[One]):
    """One kind of what is kept under a name.

    noun      of one, in messages
    register  where the ledger keeps them
    table     of dpsql, which shows them
    creates   the statement that makes one
    again     word of the statement that takes a name for another one
    instead   hint for whoever cannot drop one that others read
    """

    noun: ClassVar[str]
    register: Register[One]
    table: ClassVar[str]
    creates: ClassVar[type[Any]]
    again: ClassVar[str] = "DROP"
    instead: ClassVar[str] = "make one under another name"

    # --- what each says of itself

    @abstractmethod
    def plan(self, statement: Any, world: World) -> Any:
        """One up to what is drawn of it."""

    @abstractmethod
    def create(self, statement: Any, world: World, buy: Buy, key: str) -> Answer:
        """The answer to a statement that drops nothing. Raises 105 where its name stands for another."""

    @abstractmethod
    def answers(self, statement: Any, world: World) -> Columns:
        """The columns of what a statement that drops nothing answers with, free."""

    @abstractmethod
    def story(self, statement: Any, world: World) -> Iterable[str]:
        """Texts of EXPLAIN."""

    @abstractmethod
    def row(self, one: One) -> Row:
        """One in the table, up to when it was made."""

    # --- what is the same of all, or of what is free

    def missing(self, statement: Any, world: World) -> tuple[Missing, ...]:
        """The releases that would be bought now."""
        return ()

    def compiled(self, statement: Any, world: World) -> Compiled | None:
        """The plan of what buys it; None for what buys nothing."""
        return None

    def cube(self, statement: Any, world: World) -> StoredCube | None:
        """The cube that a statement would name; None for any other."""
        return None

    def prospect(self, statement: Any, world: World) -> Prospect:
        losses = tuple(one.part.release.loss for one in self.missing(statement, world))
        return Prospect(losses, self.cube(statement, world))

    def names(self, world: World) -> Names[One]:
        return world.stored.names(self.register)

    def known(self, name: str, world: World, span: Span | None = None) -> One:
        """The one of a name. Raises 105."""
        names = self.names(world)
        found = names.get(name)
        if found is None:
            every = [printable(one.name) for one in names.all()]
            listed = f"the {self.noun}s are {', '.join(every)}"
            hint = listed if every else f"SHOW {self.noun.upper()}S lists those there are"
            raise error(105, f"there is no {self.noun} {printable(name)}", hint=hint, span=span)
        return found

    def drops(self, statement: Any) -> bool:
        return not isinstance(statement, self.creates)

    def answer(self, statement: Any, world: World, buy: Buy, key: str) -> Answer:
        """The answer to a statement; key  of the request, see Session.execute"""
        if not self.drops(statement):
            return self.create(statement, world, buy, key)
        with cancellation.current().planning():
            return self._dropped(self.known(statement.name, world, statement.span), world)

    def columns(self, statement: Any, world: World) -> Columns:
        """The columns of the answer, free."""
        return DROPPED if self.drops(statement) else self.answers(statement, world)

    def explain(self, statement: Any, world: World) -> str:
        """The plan of what is to be made. Raises 103 for DROP."""
        if self.drops(statement):
            word = f"DROP {self.noun.upper()}"
            raise error(103, f"{word} is free, and gives nothing back", hint=f"write {word} and its name")
        return "\n".join(harmless(line) for text in self.story(statement, world) for line in text.splitlines())

    def shown(self, world: World) -> PublicTable:
        """The table that shows all of them."""
        columns, rows = spent.TABLES[self.table], [self._row(one, world) for one in self.names(world).all()]
        return PublicTable(self.table, columns, tuple([row[i] for row in rows] for i in range(len(columns))))

    def _row(self, one: One, world: World) -> Row:
        """One of them; its last column is NULL where its statement can no longer be read."""
        current: bool | None = None
        try:
            statement = parse(one.statement)
            current = isinstance(statement, self.creates) and self.plan(statement, world).fingerprint == one.fingerprint
        except Error:
            pass
        return (*self.row(one), one.time.partition("+")[0], current)

    def require_free(self, other: Owned | None, fingerprint: str) -> None:
        """Raises 105 where a name stands for another."""
        if other is not None and other.fingerprint != fingerprint:
            what = f"there is a {self.noun} {printable(other.name)} already, of another question or version of the data"
            word = f"{self.again} {self.noun.upper()} {other.name}{' before' * (self.again == 'DROP')}"
            raise error(105, what, hint=f"write {word}, or another name")

    def _dropped(self, one: One, world: World) -> Answer:
        """Raises 105 where somebody else made it: what one analyst asks may not take plain answers from others (rule 52)."""
        if one.analyst != world.analyst.name:
            what = f"the {self.noun} {printable(one.name)} was made by another analyst, and others read it"
            raise error(105, what, hint=self.instead)
        self.names(world).drop(one.name)
        notes = ("what was charged for it stays charged; made again by the same statement on the same data it is free",)
        return Answer(DROPPED, [(one.name,)], Accuracies.nothing(1, 1), world.receipt(NO_LOSS), notes=notes)


@dataclass(frozen=True, slots=True)
class UpToNoise:
    """Something to be bought under a name, up to its noise, as the query that it is bought by.

    fingerprint  of its stored answer
    first        what has to be bought before, since more of it is known only then
    paid         what was
    """

    planned: Planned
    fingerprint: str
    first: tuple[Planned, ...] = field(default=(), kw_only=True)
    paid: tuple[Bought, ...] = field(default=(), kw_only=True)

    @property
    def plan(self) -> Compiled:
        return self.planned.plan

    @property
    def release(self) -> Release:
        return self.planned.plan.releases[0].release


Up = TypeVar("Up", bound=UpToNoise)


class BoughtKind(NamedKind[One], Generic[One, Up]):
    """One kind of what is bought under a name."""

    @abstractmethod
    def plan(self, statement: Any, world: World) -> Up: ...

    @abstractmethod
    def told(self, planned: Up, is_stored: bool) -> Iterator[str]:
        """Its own lines of EXPLAIN."""

    @abstractmethod
    def made(self, planned: Up, found: Bought, world: World) -> One:
        """The one that was bought, or was stored already."""

    @abstractmethod
    def result(self, planned: Up, one: One) -> tuple[Columns, Sequence[Row]]:
        """Columns and rows of what it answers with."""

    def in_short(self, planned: Up) -> Compiled:
        """The plan, as EXPLAIN tells it."""
        return planned.plan

    def notes(self, one: One) -> Iterable[str]:
        return ()

    def meant(self, statement: Any, world: World) -> Any:
        """The statement that makes what another one means. Raises 105."""
        return statement

    def create(self, statement: Any, world: World, buy: Buy, key: str) -> Answer:
        """Buy it, and what has to be known before. Nothing of it is bought before all of the price is seen to fit."""
        with cancellation.current().planning():
            planned = self._free(statement, world)
        if planned.first:
            world.release.require_fits([one.plan for one in (*planned.first, planned.planned)])
            paid = [buy(one, "") for one in planned.first]
            with cancellation.current().planning():
                planned = replace(self._free(statement, world), paid=tuple(paid))
            if planned.first:
                raise error(901, f"what a {self.noun} is made of was bought, and is not stored")
        return self._named(planned, buy(planned.planned, key), world)

    def _free(self, statement: Any, world: World) -> Up:
        """It up to its noise. Raises 105 where its name stands for another."""
        planned = self.plan(self.meant(statement, world), world)
        if isinstance(statement, self.creates):
            self.require_free(self.taken(statement.name, world), planned.fingerprint)
        return planned

    def taken(self, name: str, world: World) -> Owned | None:
        """The one that has a name, and keeps it."""
        return self.names(world).get(name)

    def compiled(self, statement: Any, world: World) -> Compiled | None:
        return None if self.drops(statement) else self.plan(self.meant(statement, world), world).plan

    def missing(self, statement: Any, world: World) -> tuple[Missing, ...]:
        if self.drops(statement):
            return ()
        planned = self.plan(self.meant(statement, world), world)
        parts = (*planned.first, planned.planned)
        return tuple(one for part in parts for one in world.stored.look_up(part.plan, part.query.settled).missing)

    def story(self, statement: Any, world: World) -> Iterable[str]:
        planned = self.plan(self.meant(statement, world), world)
        is_stored = not planned.first and not world.stored.look_up(planned.plan, Options()).missing
        guarded = world.guard.lines(planned.planned.judged, planned.plan.plan.releases)
        return [*self.told(planned, is_stored), explain_cube(self.in_short(planned), world.schema), *guarded]

    def _named(self, planned: Up, found: Bought, world: World) -> Answer:
        """Give what was bought, or was stored already, under its name from now on."""
        one = self.made(planned, found, world)
        names, parts = self.names(world), (*planned.paid, found)
        other = names.get(one.name)
        if other is None or other.fingerprint != one.fingerprint:
            names.keep(one)
        count = sum(len(part.held.missing) for part in parts)
        columns, rows = self.result(planned, one)
        free = () if count else ("it is stored already: nothing was charged",)
        return Answer(
            columns,
            rows,
            Accuracies.nothing(len(columns), len(rows)),
            replace(found.receipt, loss=total(part.receipt.loss for part in parts)),
            not count,
            count,
            (*found.notes, *self.notes(one), *free),
            (one.fingerprint,),
        )
