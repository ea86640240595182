"""One statement from text to answer.

Everything above the charge reads only the text and the declared schema, so its errors may speak freely and cost nothing. Everything
below has touched data: its errors are constant text, and the charge stands.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from dpsql.accounting import spending
from dpsql.accounting.amounts import at_most
from dpsql.accounting.ledger import Ledger
from dpsql.answers.recent import MOST_ROWS, Recent, asked_for, is_plain
from dpsql.core import cancellation
from dpsql.core.cancellation import Cancellation
from dpsql.core.errors import BudgetError, Error, error
from dpsql.core.escaping import harmless
from dpsql.core.loss import NO_LOSS, PrivacyLoss, total
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.dataset.opening import Dataset, sandbox_memory
from dpsql.engines.locked import require_process
from dpsql.guard.guarding import GUARD_TABLE, Guarding
from dpsql.guard.questions import Question
from dpsql.mechanisms.source import NoiseSource, SystemNoise
from dpsql.plan.charges import Receipt
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.tables import Accuracy, PublicTable
from dpsql.planner.accurate import name_of
from dpsql.planner.explain import explain
from dpsql.planner.explain.words import number
from dpsql.planner.options import Options
from dpsql.planner.parse import Parsed, parse
from dpsql.planner.planning import compile_statement, schema_identity
from dpsql.planner.qualified import in_main
from dpsql.planner.resolve.free import catalog_text
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.estimating import empty, typical
from dpsql.release.releasing import Releasing
from dpsql.release.staging import LEVEL, Accuracies, Staged, key_types, read_beside
from dpsql.schema.model import Analyst, Schema

Result = TypeVar("Result")
Parameters = Sequence[object] | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement gave.

    columns   (name, DuckDB type)
    rows      in the order of the statement
    accuracy  parallel to the rows: one Accuracy or None per cell, made when it is read
    receipt   what it cost and what is left
    cached    True only where everything came from stored answers
    releases  how many releases were charged
    notes     what the guard warns of, in mode "warn"
    fingerprints  of the paid releases, under which they are stored
    """

    columns: tuple[tuple[str, str], ...]
    rows: list[tuple[object, ...]]
    accuracy: Sequence[tuple[Accuracy | None, ...]]
    receipt: Receipt
    cached: bool = False
    releases: int = 0
    notes: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that is given again, and the public tables that it was made of."""

    answer: Answer
    public: tuple[str, ...]


class Session:
    """A dataset, an analyst and their options; statements run one at a time."""

    def __init__(self, dataset: Dataset, ledger: Ledger, analyst: Analyst, noise: NoiseSource | None = None) -> None:
        self._dataset = dataset
        self._ledger = ledger
        self._analyst = analyst
        self._identity = schema_identity(dataset.schema)
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._running: Cancellation | None = None
        self.sandbox = Sandbox(sandbox_memory(dataset.schema), dataset.schema.limits.rows)
        self.sandbox.define(dataset.schema)
        self.sandbox.share(dataset.engine, dataset.schema)
        self._options: dict[str, Options] = {}
        self._guarding = Guarding(dataset.schema, ledger, analyst, self.sandbox)
        self._releasing = Releasing(
            dataset, ledger, analyst, self._identity, self.sandbox, noise or SystemNoise(), self._guarding
        )
        self._recent: Recent[Kept] = Recent(self._releasing.charges_of)

    def execute(self, sql: str, parameters: Parameters = ()) -> Answer:
        """Answer one statement, or raise an Error that says why not."""
        return self._guarded(sql, lambda: self._execute(sql, parameters))

    def explain(self, sql: str, parameters: Parameters = ()) -> str:
        """The plan of a statement, without running or charging it."""

        def planned() -> str:
            with cancellation.current().planning():
                parsed = self._parse(sql, parameters)
                if parsed.kind == "catalog":
                    return f"free: {catalog_text(parsed, self.schema)} of the declared schema"
                return "" if parsed.tree is None else self._explain(parsed)

        return self._guarded(sql, planned)

    def price(self, sql: str, parameters: Parameters = ()) -> tuple[Receipt, int]:
        """What a statement would cost now and how many releases it would buy, without running or charging it; nothing where it is free
        or stored."""

        def priced() -> tuple[Receipt, int]:
            asked = asked_for(sql, parameters, self._options)
            if asked is not None and self._recent.get(asked) is not None:
                return self._receipt(NO_LOSS), 0
            with cancellation.current().planning():
                parsed = self._parse(sql, parameters)
                if parsed.kind != "query":
                    return self._receipt(NO_LOSS), 0
                compiled = self._compile(parsed)
                missing = self._releasing.missing(compiled, parsed.options.fresh)
            return self._receipt(total(part.release.loss for part in missing)), len(missing)

        return self._guarded(sql, priced)

    def _guarded(self, sql: str, work: Callable[[], Result]) -> Result:
        """Errors show the place; an exception that nobody foresaw is a constant text, without its chain: it may hold values.

        Raises 802 in a fork of the process that opened the session, and where a statement is running; 703, 710 and 110 where it
        is ended
        """
        limits = self.schema.limits
        statement = Cancellation(float(limits.seconds), float(limits.plan_seconds))
        problem: Error
        try:
            require_process(self._process)
            with cancellation.under(statement), self._alone(statement):
                result = work()
                statement.check()
            return result
        except Error as raised:
            problem = statement.told(raised)
        except KeyboardInterrupt:
            problem = statement.ended(cancellation.INTERRUPTED)
        except Exception:
            problem = error(
                901, "an invariant of dpsql failed; nothing was released, and what was charged stays charged"
            )
        if problem.code in cancellation.ENDED:
            problem.span = None
        # Without the frames below: their variables may hold exact values.
        raise problem.located(sql).with_traceback(None)

    @contextmanager
    def _alone(self, statement: Cancellation) -> Iterator[None]:
        """One statement at a time: it is the one that `interrupt` ends. Raises 802 where another is running."""
        if not self._turn.acquire(blocking=False):
            raise error(802, "another statement is running on this connection", hint="open one connection per thread")
        try:
            self._running = statement
            yield
        finally:
            self._running = None
            self._turn.release()

    def _execute(self, sql: str, parameters: Parameters) -> Answer:
        """The newest answer to the same text, or a new one."""
        asked = asked_for(sql, parameters, self._options)
        kept = self._recent.get(asked) if asked is not None else None
        if kept is None:
            return self._answered(sql, parameters, asked)
        self._releasing.still_there(kept.public)
        answer = kept.answer
        return replace(answer, rows=list(answer.rows), receipt=self._receipt(NO_LOSS), cached=True, releases=0)

    def _answered(self, sql: str, parameters: Parameters, asked: Hashable | None) -> Answer:
        with cancellation.current().planning():
            parsed = self._parse(sql, parameters)
        if parsed.kind == "catalog":
            return self._free(*self.sandbox.catalog(catalog_text(parsed, self.schema)))
        if parsed.tree is None:
            return self._set(parsed)
        self.sandbox.forget()
        if parsed.kind == "explain":
            with cancellation.current().planning():
                return self._free((("plan", "VARCHAR"),), [(line,) for line in self._explain(parsed).splitlines()])
        with cancellation.current().planning():
            compiled, questions = self._compile_with_questions(parsed)
            columns = self._describe(compiled, parsed.plain)
            findings = self._guarding.check(compiled, questions)
        if compiled.plan.shell.spent:
            self.sandbox.spent(self._spent(compiled.plan.shell.spent))
        if compiled.plan.shell.empty:
            return self._free(columns, self.sandbox.catalog(compiled.plan.shell.sql)[1])
        paid = [part for part in compiled.releases if part.release.parts]
        done = self._with_prospect(
            parsed, lambda: self._releasing.release(compiled, paid, columns, parsed.options.fresh, questions)
        )
        rows, accuracy = self._finish(done.compiled, done.staged, columns)
        answer = Answer(
            columns,
            rows,
            accuracy,
            done.receipt,
            bool(paid) and not done.bought,
            done.bought,
            (*(str(finding) for finding in findings), *done.notes),
            done.fingerprints,
        )
        if asked is not None and paid and not parsed.timed and not parsed.options.fresh:
            self._keep(asked, answer, compiled, paid)
        return answer

    def _keep(self, asked: Hashable, answer: Answer, compiled: Compiled, paid: Sequence[CompiledRelease]) -> None:
        """Keep an answer for who asks the same text again."""
        if len(answer.rows) > MOST_ROWS or not is_plain(answer.columns):
            return
        own = [self._releasing.fingerprint(part) for part in paid]
        public = {*compiled.plan.shell.public, *(name for bound in compiled.bounds for name in bound.public)}
        kept = Kept(replace(answer, rows=list(answer.rows)), tuple(sorted(public)))
        self._recent.put(asked, kept, tuple(dict.fromkeys([*answer.fingerprints, *own])))

    def _with_prospect(self, parsed: Parsed, work: Callable[[], Result]) -> Result:
        """A statement that does not fit says how exact it would be at the price that fits."""
        try:
            return work()
        except BudgetError as raised:
            refused = raised
        if refused.fits is not None:
            width = self._error_at(parsed, refused.fits)
            if width is not None:
                refused.hint = f"{refused.hint}; at epsilon={at_most(refused.fits)} the 95 % error of {width}"
        raise refused.with_traceback(None)

    def _error_at(self, parsed: Parsed, epsilon: Fraction) -> str | None:
        """The half-width of the first column that has one before it is released, in words."""
        cheaper = replace(parsed.options, epsilon=epsilon, error=None, relative=False, confidence=None)
        try:
            with cancellation.current().planning():
                plan = self._compile(replace(parsed, options=cheaper)).plan
        except Error:
            return None
        for one in plan.releases:
            for output in one.outputs:
                width = output.estimate.half_width(one.measures[output.measure].noise, LEVEL)
                if width is not None:
                    aggregate = next(a for a in one.limited.block.aggregates if a.name == output.name)
                    return f"{name_of(aggregate)} would be +-{number(float(f'{width:.3g}'))}"
        return None

    # --- above the charge ---------------------------------------------------------------------------------------------

    def _parse(self, sql: str, parameters: Parameters) -> Parsed:
        return in_main(parse(sql, parameters), self._dataset.schema)

    def _options_now(self) -> Options:
        options = Options()
        for one in self._options.values():
            options = one.over(options)
        return options

    def _compile(self, parsed: Parsed) -> Compiled:
        return self._compile_with_questions(parsed)[0]

    def _compile_with_questions(self, parsed: Parsed) -> tuple[Compiled, dict[str, Question]]:
        """A statement, and whom its blocks ask about."""
        view = self._guarding.view_of_blocks()
        compiled = compile_statement(parsed, self._options_now(), self._dataset.schema, self._identity, self, view)
        return compiled, view.questions

    def describe_public(
        self, sql: str, empty: Sequence[PublicTable], public: Sequence[str]
    ) -> tuple[tuple[str, SqlType], ...]:
        """See PublicTypes."""
        self.sandbox.need(public)
        for table in empty:
            self.sandbox.load(table)
        described = [(name, parse_type(text)) for name, text in self.sandbox.describe(sql)]
        unknown = next((name for name, sqltype in described if sqltype is None), None)
        if unknown is not None:
            raise error(106, f"{unknown} has a type that cannot be used beside people's rows", hint="cast it")
        return tuple((name, sqltype) for name, sqltype in described if sqltype is not None)

    def _set(self, parsed: Parsed) -> Answer:
        """SET and RESET change this session's options; a price above the owner's cap is refused at once."""
        name = parsed.names[0]
        if parsed.kind == "reset":
            self._options.pop(name, None)
        else:
            parsed.options.price(self._dataset.schema)
            # the later one decides, where a price and an accuracy are set
            self._options.pop(name, None)
            self._options[name] = parsed.options
        return self._free((), [])

    def _free(self, columns: Sequence[tuple[str, str]], rows: list[tuple[object, ...]]) -> Answer:
        return Answer(
            tuple(columns), rows, Accuracies({}, (None,) * len(columns), [0] * len(rows)), self._receipt(NO_LOSS)
        )

    def _spent(self, names: Sequence[str]) -> list[PublicTable]:
        """Some of the tables of what was spent and of what the guard remembers, as this analyst sees them now."""
        remembered = [self._guarding.table()] if GUARD_TABLE in names else []
        others = [name for name in names if name != GUARD_TABLE]
        return [*spending.tables(others, self.schema, self._ledger, self._analyst), *remembered]

    def _receipt(self, loss: PrivacyLoss) -> Receipt:
        return Receipt(None, loss, self._releasing.remaining())

    def _explain(self, parsed: Parsed) -> str:
        compiled, questions = self._compile_with_questions(parsed)
        self._describe(compiled, parsed.plain)
        guarded = map(harmless, self._guarding.lines(compiled, questions))
        return "\n".join([explain(compiled, self._dataset.schema), *guarded])

    def _describe(self, compiled: Compiled, plain: str | None) -> tuple[tuple[str, str], ...]:
        """Names and types of the result, from tables that are empty; a shell that could not run is refused before the charge.

        plain  the query as it was written, which DuckDB names columns after: POW(x, 2) is not POWER(x, 2)
        """
        shell = compiled.plan.shell
        if shell.plain_sql is None:
            return self.sandbox.describe(shell.sql)
        named = self.sandbox.names(shell.plain_sql)
        written = self._named(plain) if plain is not None else ()
        if len(written) == len(named):
            named = tuple((name, sqltype) for (name, _), (_, sqltype) in zip(written, named, strict=True))
        if not compiled.releases:
            return named
        self.sandbox.need(shell.public)
        tables: list[PublicTable] = []
        for part in compiled.releases:
            types = key_types(compiled, part, named)
            tables += [
                empty(part.release, types),
                *(table.empty for table in read_beside(compiled, part.release, types)),
            ]
        if not shell.public:
            # what binds may still fail on its values, as a text where a list is asked for; a public table may be large
            self._load(map(typical, tables))
            self.sandbox.try_out(shell.sql)
        self._load(tables)
        shown = self.sandbox.describe(shell.sql)
        return tuple((name, sqltype) for (name, _), (_, sqltype) in zip(named, shown, strict=False))

    def _load(self, tables: Iterable[PublicTable]) -> None:
        for table in tables:
            self.sandbox.load(table)

    def _named(self, plain: str) -> tuple[tuple[str, str], ...]:
        """The columns of the statement as it was written; none where DuckDB does not read it as the parser did."""
        try:
            return self.sandbox.names(plain)
        except Error:
            return ()

    def _finish(
        self, compiled: Compiled, staged: Staged, columns: tuple[tuple[str, str], ...]
    ) -> tuple[list[tuple[object, ...]], Sequence[tuple[Accuracy | None, ...]]]:
        """The shell over released and public tables."""
        shell = compiled.plan.shell
        self._releasing.need(shell.public)
        tables = {part.release.name: staged.estimated(part) for part in compiled.releases}
        _, rows = self.sandbox.run(shell.sql)
        self._releasing.still_there(shell.public)
        if not shell.traced:
            return rows, Accuracies({}, (None,) * len(columns), [0] * len(rows))
        positions = [row[-1] for row in rows]
        return [row[:-1] for row in rows], Accuracies(
            tables, shell.direct, positions, staged.computed(shell, [sqltype for _, sqltype in columns])
        )

    @property
    def told(self) -> tuple[str, ...]:
        """What was noticed of the ledger when the data was opened."""
        return self._dataset.notes

    @property
    def in_memory(self) -> bool:
        """Whether the ledger is forgotten with the connection."""
        return self._ledger.store.file is None

    def certificates(self, fingerprints: Sequence[str]) -> list[dict[str, object]]:
        """What was certified of stored releases."""
        return self._releasing.certificates(fingerprints)

    @property
    def schema(self) -> Schema:
        return self._dataset.schema

    def interrupt(self) -> None:
        """End the statement that is running, from any thread; nothing where none is."""
        statement = self._running
        if statement is not None:
            statement.cancel()

    def close(self) -> None:
        self.sandbox.close()
        self._dataset.engine.close()
        self._ledger.close()
