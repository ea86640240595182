"""guarding: what the guard is told of a statement, and what its history is read from. Reads the plan, the schema and the ledger alone.

A decision never sees the data: a statement is evaluated on sample units, which are drawn from the declarations (units.py), and whom
earlier statements asked about is written in the ledger beside their charge, in the same transaction that decides.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from dpsql.accounting import remembered
from dpsql.accounting.entries import GuardEntry as Row
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean
from dpsql.core.cancellation import ENDED
from dpsql.core.errors import Error, error
from dpsql.expressions.scalar import Scalar
from dpsql.guard import leaving_out, record, words
from dpsql.guard.adding import identity
from dpsql.guard.audit import Audit
from dpsql.guard.evaluating import Evaluated, Evaluating
from dpsql.guard.history import BlockQuestion, Conflict, History
from dpsql.guard.identifiers import check_identifiers, check_unsized, is_unsized
from dpsql.guard.leaving_out import Policy
from dpsql.guard.lists import Lists
from dpsql.guard.memory import LATE, Memory, Packs
from dpsql.guard.record import Judged
from dpsql.guard.units import SampleUnits
from dpsql.plan.releases import Bounded, Release, SmallCell
from dpsql.plan.resolved import Block
from dpsql.plan.tables import PublicTable
from dpsql.schema import spent
from dpsql.schema.model import Analyst, Guard, Schema
from dpsql.sql.nodes import Node

_MIDDLES = (np.arange(1_000) + 0.5) / 1_000
"""Probabilities at which the quantiles of a distribution tell its deviation; without the last of its tails, so a little too small."""
GUARD_TABLE = "guard"
MOST_KNOWN = 64
"""Statements that pass by themselves, of which it is known whom they are about: dashboards ask the same again."""
Resolve = Callable[[str], Bounded]
"""A statement of the ledger, resolved anew. Raises Error where that cannot be."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A release that was charged and is compared with what comes.

    people   [units] that it is about, as declared
    about    these in words
    is_read  whether it is compared: not where its statement can no longer be read
    """

    charge: int
    analyst: str
    statement: str
    people: int = 0
    about: str = ""
    is_read: bool = True


class Guarding:
    """The guard of one analyst's statements.

    sample   made when the first statement is judged
    resolve  reads a statement of the ledger anew, where its record is of other sample units
    """

    def __init__(self, schema: Schema, ledger: Ledger, analyst: Analyst, sample: SampleUnits, resolve: Resolve) -> None:
        self._schema, self._ledger, self._analyst = schema, ledger, clean(analyst.name)
        self._sample, self._resolve = sample, resolve
        self._memory = Memory(ledger, sample.identity, self._anew)
        self._history: History | None = None
        self._audit: Audit | None = None
        self._packs: Packs | None = None
        self._last = self._late = 0
        # what was forgotten and corrected, as the history was begun
        self._changed = (0, 0)
        self._known_to_pass: OrderedDict[Hashable, Judged] = sample.passed

    @cached_property
    def policy(self) -> Policy:
        return Policy(self._schema.guard.k, self._sample.scale, self._sample.source, blocks(self._schema.guard))

    @property
    def _is_off(self) -> bool:
        return self._schema.guard.mode == "off"

    # --- one statement ------------------------------------------------------------------------------------------------

    def judge(self, bounded: Bounded) -> Judged:
        """Whom a statement asks about, and what R1, R2, R3a and R5 find, which look at it alone."""
        if self._is_off:
            return Judged(bounded)
        name = identity(bounded)
        known = self._known_to_pass.pop(name, None)
        found = replace(known, bounded=bounded) if known is not None else self._judged(bounded)
        if not found.findings:
            self._known_to_pass[name] = found
            if len(self._known_to_pass) > MOST_KNOWN:
                self._known_to_pass.popitem(last=False)
        return found

    def with_released(self, judged: Judged, tables: Mapping[str, PublicTable]) -> Judged:
        """The same, with values that were released in place of those that the sample units would release.

        Why  a condition may leave out many with these, and one person with those: `ABS(age - 62) > (SELECT COUNT(*) ...) - 1629`. Whom
             the statement leaves out is known once its subqueries are answered
        """
        if self._is_off or not tables:
            return judged
        bounded = judged.bounded
        lists = Lists([part.block for part in bounded.blocks], bounded.bounds)
        # no sample unit has what a list has that is selected privately; a single value is no list
        single = {one.name for one in bounded.bounds if one.one_row}
        tables = {name: table for name, table in tables.items() if name in single or not lists.selected_in(name)}
        return self._judged(bounded, tables) if tables else judged

    def people_shown(self, bounded: Bounded) -> int | None:
        """The number of people from which a group of a statement is shown, whoever they are; None where more is to be looked at.

        Why  R1 and R5 go by the text; where nothing but whole groups can be about few, R2 hides none of so many people
        """
        if self._is_off:
            return 0
        if (
            identity(bounded) in self._known_to_pass
            or check_identifiers(bounded.blocks)
            or check_unsized(bounded.blocks)
        ):
            return None
        return self._schema.guard.k if leaving_out.is_of_whole_groups(part.block for part in bounded.blocks) else None

    def _judged(self, bounded: Bounded, released: Mapping[str, PublicTable] = MappingProxyType({})) -> Judged:
        findings = check_identifiers(bounded.blocks) or check_unsized(bounded.blocks)
        asked: dict[str, BlockQuestion] = {}
        small: dict[str, tuple[SmallCell, ...]] = {}
        every = [part.block for part in bounded.blocks]
        evaluating = Evaluating(self._sample, every, bounded.bounds, released)
        for block in (block for block in every if block.aggregates):
            found = evaluating.block(block)
            asked[block.name] = BlockQuestion(
                found.cells, 0.0, self.policy.people(found.whole), max(found.groups, 1), _about(block)
            )
            small[block.name] = self._small(evaluating, found)
            few = leaving_out.check(evaluating, block, found, self.policy) if not findings else None
            findings = [few] if few is not None else findings
        return Judged(bounded, asked, small, tuple(findings))

    def _small(self, evaluating: Evaluating, found: Evaluated) -> tuple[SmallCell, ...]:
        """R2: for which aggregates the noisy number of people, with a row that they are about, decides whether they are shown."""
        if not blocks(self._schema.guard) or self._schema.guard.k == 1:
            return ()
        lists = evaluating.lists
        absent = found.groups < _groups(found) or is_unsized(found.block) or lists.reads_release(found.block)
        valued = leaving_out.few_values(evaluating, found, self.policy)
        outputs: dict[Node | None, tuple[Scalar | None, list[str]]] = {}
        for aggregate in found.block.aggregates:
            condition = valued.get(aggregate.name, aggregate.condition)
            if aggregate.name in valued or absent or self.policy.is_few(found.smallest[_tree(condition)]):
                outputs.setdefault(_tree(condition), (condition, []))[1].append(aggregate.name)
        return tuple(SmallCell(condition, tuple(names)) for condition, names in outputs.values())

    @staticmethod
    def asked(asked: Mapping[str, BlockQuestion], releases: Sequence[Release]) -> list[BlockQuestion]:
        """Questions of releases, with the noise that their answers will have."""
        return [replace(asked[r.name], spread=_spread(r)) for r in releases if r.name in asked]

    def compare(self, asked: Sequence[BlockQuestion]) -> Sequence[Error]:
        """R3b, and in mode "audit" R4, against everything that was charged so far: in mode "warn" what R3b finds; else the first is
        raised (602, 604)."""
        if not asked:
            return []
        try:
            self._catch_up()
        finally:
            # what was evaluated anew until the statement was ended is so for the next one
            self._memory.keep()
        if self._packs is not None and self._late >= LATE:
            self._packs.pack(self._last)
            self._late = 0
        return self.settled(self._problems(asked))

    def decide(self, asked: Sequence[BlockQuestion]) -> None:
        """The same once more in the transaction of the charge, where others were charged meanwhile."""
        if self._catch_up():
            self.settled(self._problems(asked))

    def correct(self, charge: int, asked: Sequence[BlockQuestion]) -> Sequence[Error]:
        """Compare a charged statement once more, now that the values that it reads are known, and remember it by these: in one
        transaction, so that of two statements that are answered at once the later one sees the other."""

        def work(_: object) -> Sequence[Error]:
            self._catch_up(charge)
            found = self.settled(self._problems(asked))
            remembered.correct(self._ledger, charge, self.written(asked))
            return found

        return self._ledger.store.write(work) if asked else []

    def written(self, asked: Sequence[BlockQuestion]) -> str:
        """Text of a statement as the ledger keeps it."""
        return record.written(asked, self._sample.identity) if asked else ""

    def _problems(self, asked: Sequence[BlockQuestion]) -> list[Error]:
        history, audit = self._known()
        conflict = history.conflict(asked)
        if conflict is not None:
            return [self._problem(conflict)]
        return audit.check(asked) if self._schema.guard.mode == "audit" else []

    def settled(self, findings: Sequence[Error]) -> Sequence[Error]:
        """The findings, in mode "warn"; else the first is raised."""
        if findings and blocks(self._schema.guard):
            raise findings[0]
        return findings

    def _problem(self, conflict: Conflict) -> Error:
        """R3b in words: the caller's own earlier statement."""
        past, k = conflict.earlier, self.policy.k
        statement = "" if past is None else words.shortened(self._memory.statement(past))
        what = "two parts of this statement" if past is None else f"this and your statement {past} ({statement})"
        few = "less than one person" if conflict.people == 0 else f"about {conflict.people}"
        instead = "leave one of them out" if past is None else "use the answer that is released"
        return error(
            602,
            f"rule R3: {what} differ by fewer than {k} people ({few} {self.policy.source})",
            hint=f"{instead}, GROUP BY the columns instead, or change the condition for {k} people or more",
        )

    # --- what was asked before ----------------------------------------------------------------------------------------

    def _known(self) -> tuple[History, Audit]:
        if self._history is None or self._audit is None:
            readable = float(self._schema.guard.readable)
            self._history, self._audit = History(self.policy, readable, self._memory.keys), Audit(self.policy)
            self._packs, self._late = None, 0
        return self._history, self._audit

    def _catch_up(self, own: int = 0) -> bool:
        """Read what was charged since, all but a charge of one's own; everything where some was told anew. True if there was any.

        Why  parts are packed of what is compared with; an audit compares all keys, which are not packed
        """
        changed = remembered.changed(self._ledger)
        is_new = changed != self._changed
        if is_new:
            self._begin_anew()
            self._changed = changed
        history, _ = self._known()
        if self._packs is None and self._schema.guard.mode != "audit":
            whose = "" if self._schema.analysts is None else self._analyst
            depends = (
                self._sample.identity,
                self._schema.analysts is None,
                self.policy.k,
                self.policy.scale,
                changed[0],
            )
            packs = Packs(self._ledger, history, whose, depends, self._last, changed)
            with self._whole():
                self._last = self._last or packs.recall(own)
            self._packs = packs
        rows = [row for row in self._ledger.asked(self._last) if row.charge != own]
        self._load(rows)
        return is_new or bool(rows)

    def _load(self, rows: Sequence[Row]) -> None:
        history, audit = self._known()
        is_audited = self._schema.guard.mode == "audit"
        pasts = [self._memory.past(row) for row in rows if is_audited or self._is_own(row.analyst)]
        with self._whole():
            for past in (past for past in pasts if self._is_own(past.analyst)):
                history.remember(past.asked, past.charge)
            for one in (one for past in pasts if is_audited for one in past.asked):
                audit.add(one)
            self._late += len(pasts)
            self._last = max([self._last, *(row.charge for row in rows)])

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A change of the history; where that is interrupted, the next statement reads it anew: it holds no half."""
        try:
            yield
        except BaseException:
            self._begin_anew()
            raise

    def _begin_anew(self) -> None:
        self._history, self._audit, self._last = None, None, 0

    def _is_own(self, analyst: str) -> bool:
        return self._schema.analysts is None or analyst == self._analyst

    def _anew(self, statement: str) -> Sequence[BlockQuestion]:
        """Whom a statement of the ledger asks about; nobody where it cannot be read any more."""
        try:
            return tuple(self.judge(self._resolve(statement)).asked.values())
        except Error as problem:
            if problem.code in ENDED:
                raise
            return ()

    # --- to look at ---------------------------------------------------------------------------------------------------

    def lines(self, judged: Judged, releases: Sequence[Release]) -> list[str]:
        """Lines of EXPLAIN about the guard's view of a statement: whom it asks about, and whether it would be refused.
        Raises 601, 603."""
        if self._is_off:
            return []
        refused = next((f for f in judged.findings if blocks(self._schema.guard) and f.code == "DPSQL-602"), None)
        warned = [] if refused else [f"guard: warns of {one.message}" for one in self.settled(judged.findings)]
        source = self._sample.source
        lines = [f"guard: {name} asks about {_counted(one)} {source}" for name, one in judged.asked.items()]
        if refused is not None:
            return [*lines, f"guard: refused by {refused.message}"]
        try:
            findings = self.compare(self.asked(judged.asked, releases))
        except Error as raised:
            if raised.code not in ("DPSQL-602", "DPSQL-604"):
                raise
            return [*lines, f"guard: refused by {raised.message}"]
        return [*lines, *warned, *(f"guard: warns of {finding.message}" for finding in findings)]

    def remembered(self) -> list[Remembered]:
        """Every release of everybody's that is not forgotten."""
        found: list[Remembered] = []
        for row in self._ledger.asked():
            whose = (row.charge, row.analyst, row.statement)
            read = [Remembered(*whose, _rounded(one.people), one.about) for one in self._memory.past(row).asked]
            found += read or [Remembered(*whose, is_read=False)]
            self._memory.keep()
        return found

    def table(self) -> PublicTable:
        """The caller's own statements that the guard remembers, each release with whom it is about: dpsql.guard."""
        own = (one for one in self.remembered() if one.analyst == self._analyst and one.is_read)
        rows = [(one.charge, one.people, one.about, one.statement) for one in own]
        columns = spent.TABLES[GUARD_TABLE]
        return PublicTable(GUARD_TABLE, columns, tuple([row[i] for row in rows] for i in range(len(columns))))


def blocks(guard: Guard) -> bool:
    return guard.mode in ("block", "audit")


def _tree(condition: Scalar | None) -> Node | None:
    return condition.tree if condition is not None else None


def _groups(found: Evaluated) -> int:
    """Number of groups that a block declares; those of keys that are selected privately are not known yet."""
    block = found.block
    listed = [len(key.values) for key in block.keys if key.values is not None]
    return math.prod([*listed, *(one.groups or 1 for one in block.lists)])


def _about(block: Block) -> str:
    """The rows of a block in words."""
    return " and ".join(dict.fromkeys(words.said(c, block.source) for c in block.source.predicates)) or "everybody"


def _counted(asked: BlockQuestion) -> str:
    groups = f", in {asked.groups:,} groups" if asked.groups > 1 else ""
    return f"{asked.about}{groups}: {_rounded(asked.people):,} people"


def _rounded(people: int) -> int:
    """[units] to two digits: more of them say nothing that the sample knows."""
    return int(float(f"{people:.2g}"))


def _spread(release: Release) -> float:
    """The smallest standard deviation of a measure's noise, over the most that one person can move one cell; of a model that of all
    its passes together."""
    if release.fit is not None:
        return 1 / math.sqrt(2 * release.loss.rho)
    found = [float(np.sqrt((m.noise.at(_MIDDLES) ** 2).mean())) / m.sensitivity.linf for m in release.measures]
    found += [1 / float(c.terms.epsilon) for c in release.chosen]
    return min(found, default=math.inf)
