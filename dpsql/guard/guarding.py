"""guarding: what the guard is told of a statement, and what its history is read from. Reads the plan, the schema and the ledger alone.

A decision never sees the data: conditions are evaluated by the sandbox at declared values (guard/reading.py), and whom earlier
statements asked about is written in the ledger beside their charge, in the same transaction that decides.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpsql.accounting.ledger import Asked, Ledger
from dpsql.accounting.store import clean
from dpsql.core.errors import Error
from dpsql.expressions.scalar import Scalar
from dpsql.guard import record, tracker, words
from dpsql.guard.audit import Audit
from dpsql.guard.history import History, Past
from dpsql.guard.questions import Asking, Question, people
from dpsql.guard.reading import Reader
from dpsql.guard.regions import is_unknown, share
from dpsql.guard.texts import asked, canonical, said
from dpsql.guard.tracker import Policy
from dpsql.plan.limited import Bounded, Limited, Small
from dpsql.plan.releases import Release
from dpsql.plan.resolved import Block, Bound
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.sandbox import Sandbox
from dpsql.schema import spent
from dpsql.schema.model import Analyst, Schema
from dpsql.sql.duckdb import printed

_MIDDLES = (np.arange(1_000) + 0.5) / 1_000
"""Probabilities at which the quantiles of a distribution tell its deviation; without the last of its tails, so a little too small."""
GUARD_TABLE = "guard"


class Guarding:
    """The guard of one analyst's statements.

    last  the last charge that the history holds
    """

    def __init__(self, schema: Schema, ledger: Ledger, analyst: Analyst, sandbox: Sandbox) -> None:
        self._schema, self._ledger, self._analyst = schema, ledger, analyst
        self._sandbox = sandbox
        self.policy = Policy(schema.guard, people(schema))
        self._reader = Reader(schema, self._evaluate)
        self._asking = Asking(schema, self._reader)
        self._history = History(self.policy.least)
        self._audit = Audit(self.policy)
        self._last = 0

    def _evaluate(self, sql: str, public: Sequence[str]) -> list[tuple[object, ...]]:
        self._sandbox.need(public)
        return self._sandbox.rows(sql)

    # --- one statement ------------------------------------------------------------------------------------------------

    def judge(self, bounded: Bounded) -> Judged:
        """Whom a statement asks about, and what R1, R2 and R5 find, which look at it alone."""
        if self._schema.guard.mode == "off":
            return Judged(bounded)
        # a condition that looks into a public table counts its rows, whether or not anything has read it before
        self._sandbox.need(name for bound in bounded.bounds for name in bound.public)
        questions = self.questions(bounded.blocks, bounded.bounds)
        small = {name: self.small(question) for name, question in questions.items()}
        findings = tracker.check_identifiers(bounded.blocks) or tracker.check_unsized(questions.values())
        return Judged(bounded, questions, small, tuple(findings))

    def questions(self, limited: Sequence[Limited], bounds: Sequence[Bound]) -> dict[str, Question]:
        """Whom the blocks of a statement ask about, by their names; none where the guard is off."""
        if self._schema.guard.mode == "off":
            return {}
        texts = {part.block.name: _text(part.block) for part in limited}
        found: dict[str, Question] = {}
        middles: dict[tuple[str, str], str] = {}
        for block in (part.block for part in limited if part.block.aggregates):
            found[block.name] = self._asking.question(block, bounds, texts, middles)
            middles |= self._asking.middles(block, found[block.name])
        return found

    def small(self, question: Question) -> tuple[Small, ...]:
        """R2: for which aggregates the noisy number of people, with a row that they are about, decides whether they are shown."""
        if not tracker.blocks(self._schema.guard):
            return ()
        found: dict[str, tuple[Scalar | None, list[str]]] = {}
        for name, condition in question.restricted:
            found.setdefault(said(condition) if condition is not None else "", (condition, []))[1].append(name)
        return tuple(
            Small(condition, tuple(names))
            for text, (condition, names) in found.items()
            if question.smallest(text) < self.policy.least
        )

    @staticmethod
    def asked(questions: Mapping[str, Question], releases: Sequence[Release]) -> list[Question]:
        """The questions of releases, with the noise that their answers will have."""
        return [replace(questions[r.name], spread=_spread(r)) for r in releases if r.name in questions]

    def compare(self, questions: Sequence[Question]) -> Sequence[Error]:
        """R3, and in mode "audit" R4, against everything that was charged so far: in mode "warn" what R3 finds; else the first is
        raised (602, 604)."""
        if not questions:
            return []
        self._load(self._ledger.asked(self._last))
        return self.settled(self._problems(questions))

    def decide(self, questions: Sequence[Question], rows: list[Asked]) -> None:
        """The same once more in the transaction of the charge, where others were charged meanwhile."""
        if rows:
            self._load(rows)
            self.settled(self._problems(questions))

    @property
    def last(self) -> int:
        return self._last

    def _problems(self, questions: Sequence[Question]) -> list[Error]:
        conflict = tracker.check_pairs(questions, self._history, self.policy, clean(self._analyst.name))
        if conflict is not None:
            return [tracker.problem(conflict, clean(self._analyst.name), self.policy)]
        if self._schema.guard.mode == "audit":
            return self._audit.check(questions, self._analyst.name)
        return []

    def settled(self, findings: Sequence[Error]) -> Sequence[Error]:
        """The findings, in mode "warn"; else the first is raised."""
        if findings and tracker.blocks(self._schema.guard):
            raise findings[0]
        return findings

    # --- what was asked before ----------------------------------------------------------------------------------------

    def _load(self, rows: Sequence[Asked]) -> None:
        for row in rows:
            past = self._past(row)
            self._history.add(past)
            if self._schema.guard.mode == "audit":
                self._audit.add(past)
            self._last = max(self._last, row.charge)

    def _past(self, row: Asked) -> Past:
        try:
            questions = record.read(row.asked, self._reader.declared_axes())
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError):
            raise self._ledger.store.damaged() from None
        return Past(row.charge, row.analyst, row.statement, tuple(questions))

    # --- to look at ---------------------------------------------------------------------------------------------------

    def lines(self, judged: Judged, releases: Sequence[Release]) -> list[str]:
        """What EXPLAIN says of a statement: whom it asks about, and whether it would be refused. Raises 601, 603."""
        if self._schema.guard.mode == "off":
            return []
        warned = [f"guard: warns of {finding.message}" for finding in self.settled(judged.findings)]
        lines = [
            f"guard: {name} asks about {self._about(question)}: {self._counted(question)}"
            for name, question in judged.questions.items()
        ]
        try:
            findings = self.compare(self.asked(judged.questions, releases))
        except Error as raised:
            if raised.code not in ("DPSQL-602", "DPSQL-604"):
                raise
            return [*lines, f"guard: refused by {raised.message}"]
        return [*lines, *warned, *(f"guard: warns of {finding.message}" for finding in findings)]

    def _about(self, question: Question) -> str:
        texts = [words.of_region(shape.base) for shape in question.shapes]
        shown = " and ".join(dict.fromkeys(texts))
        cells = sum(shape.cells for shape in question.shapes)
        return shown + (f", in {cells:,} groups" if cells > len(question.shapes) else "")

    def table(self) -> PublicTable:
        """The caller's own statements that the guard remembers, each release with whom it is about: dpsql.guard."""
        rows: list[tuple[object, ...]] = []
        for row in self._ledger.asked():
            if row.analyst == clean(self._analyst.name):
                for question in self._past(row).questions:
                    rows.append((row.charge, self._count(question), self._about(question), row.statement))
        columns = spent.TABLES[GUARD_TABLE]
        return PublicTable(GUARD_TABLE, columns, tuple([row[i] for row in rows] for i in range(len(columns))))

    def _counted(self, question: Question) -> str:
        count = self._count(question)
        return "of how many people nobody can say" if count is None else f"{count:,} people as declared"

    def _count(self, question: Question) -> int | None:
        """How many people it is about, as declared; None where a condition says nothing about that."""
        if any(is_unknown(shape.base) for shape in question.shapes):
            return None
        return self.policy.count(sum(share(shape.base) for shape in question.shapes))


@dataclass(frozen=True, slots=True)
class Judged:
    """A bounded statement with whom it asks about.

    questions  by block; none where the guard is off
    small      by block, the aggregates that are in some group about fewer people than the owner lets be shown
    findings   what R1 and R5 say against it
    """

    bounded: Bounded
    questions: Mapping[str, Question] = field(default_factory=dict)
    small: Mapping[str, tuple[Small, ...]] = field(default_factory=dict)
    findings: tuple[Error, ...] = ()


def _spread(release: Release) -> float:
    """The smallest standard deviation of a measure's noise, over the most that one person can move one cell."""
    found = [float(np.sqrt((m.noise.at(_MIDDLES) ** 2).mean())) / m.sensitivity.linf for m in release.measures]
    found += [1 / float(c.terms.epsilon) for c in release.chosen]
    return min(found, default=math.inf)


def _text(block: Block) -> str:
    """What a block releases, as text: two blocks with equal text are the same question."""
    parts = [
        printed(block.source.read()),
        *sorted(said(c) for c in block.source.where),
        *(said(key.scalar) for key in block.keys),
        *(asked(aggregate) for aggregate in block.aggregates),
    ]
    return hashlib.sha256(canonical("\n".join(parts)).encode("utf-8", "backslashreplace")).hexdigest()
