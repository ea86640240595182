"""One statement from text to answer.

Everything above the charge reads only the text and the declared schema, so its errors may speak freely and cost nothing. Everything
below has touched data: its errors are constant text, and the charge stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpsql.accounting.answers import Answers
from dpsql.accounting.ledger import Ledger
from dpsql.engines.base import ExactTable
from dpsql.engines.sandbox import Sandbox
from dpsql.errors import Error, error
from dpsql.estimating import empty
from dpsql.guard.tracker import check
from dpsql.loss import NO_LOSS, PrivacyLoss, total
from dpsql.mechanisms.source import NoiseSource, SystemNoise
from dpsql.opening import Dataset
from dpsql.plan import (
    Accuracy,
    Budget,
    ChargeRequest,
    Compiled,
    CompiledRelease,
    NoisyTable,
    PublicTable,
    Receipt,
    Verified,
)
from dpsql.planner.explain import explain
from dpsql.planner.lower import with_secret
from dpsql.planner.options import Options
from dpsql.planner.parse import Parsed, parse
from dpsql.planner.planning import compile_statement, schema_identity
from dpsql.planner.resolve.free import catalog_text
from dpsql.release import KeyTables, release
from dpsql.schema.model import Analyst, Schema
from dpsql.sqltypes import SqlType, parse_type
from dpsql.staging import Accuracies, Staged, key_types, read_beside

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
    """

    columns: tuple[tuple[str, str], ...]
    rows: list[tuple[object, ...]]
    accuracy: Sequence[tuple[Accuracy | None, ...]]
    receipt: Receipt
    cached: bool = False
    releases: int = 0
    notes: tuple[str, ...] = ()


class Session:
    """A dataset, an analyst and their options; statements run one at a time."""

    def __init__(self, dataset: Dataset, ledger: Ledger, analyst: Analyst, noise: NoiseSource | None = None) -> None:
        self._dataset = dataset
        self._ledger = ledger
        self._answers = Answers(ledger)
        self._analyst = analyst
        self._noise = noise if noise is not None else SystemNoise()
        self._identity = schema_identity(dataset.schema)
        self.sandbox = Sandbox()
        self.sandbox.define(dataset.schema)
        self.sandbox.share(dataset.engine, dataset.schema)
        self._options: dict[str, Options] = {}

    def execute(self, sql: str, parameters: Parameters = ()) -> Answer:
        """Answer one statement, or raise an Error that says why not."""
        return self._guarded(sql, lambda: self._execute(sql, parameters))

    def explain(self, sql: str, parameters: Parameters = ()) -> str:
        """The plan of a statement, without running or charging it."""

        def planned() -> str:
            parsed = parse(sql, parameters)
            if parsed.kind == "catalog":
                return f"free: {catalog_text(parsed, self.schema)} of the declared schema"
            return "" if parsed.tree is None else self._explain(parsed)

        return self._guarded(sql, planned)

    @staticmethod
    def _guarded(sql: str, work: Callable[[], Result]) -> Result:
        """Errors show the place; an exception that nobody foresaw is a constant text, without its chain: it may hold values."""
        problem: Error
        try:
            return work()
        except Error as raised:
            problem = raised
        except Exception:
            problem = error(
                901, "an invariant of dpsql failed; nothing was released, and what was charged stays charged"
            )
        # Without the frames below: their variables may hold exact values.
        raise problem.located(sql).with_traceback(None)

    def _execute(self, sql: str, parameters: Parameters) -> Answer:
        parsed = parse(sql, parameters)
        if parsed.kind == "catalog":
            return self._free(*self.sandbox.catalog(catalog_text(parsed, self.schema)))
        if parsed.tree is None:
            return self._set(parsed)
        self.sandbox.forget()
        if parsed.kind == "explain":
            return self._free((("plan", "VARCHAR"),), [(line,) for line in self._explain(parsed).splitlines()])
        compiled = self._compile(parsed)
        columns = self._describe(compiled, parsed.plain)
        if compiled.plan.shell.empty:
            return self._free(columns, self.sandbox.catalog(compiled.plan.shell.sql)[1])
        findings = check((part.release for part in compiled.releases), self._dataset.schema.guard)
        paid = [part for part in compiled.releases if part.release.parts]
        stored = {part.release.name: self._answers.get(self._fingerprint(part)) for part in paid}
        missing = [part for part in paid if stored[part.release.name] is None]
        known = {name: table for name, table in stored.items() if table}
        most = self._dataset.schema.privacy.max_cells
        staged = Staged(compiled, known, columns, self.sandbox, self.need, most)
        staged.bind_public()
        receipt = self._charge(compiled, missing)
        staged.charged = bool(missing)
        for part in missing:
            staged.noisy[part.release.name] = self._run(part, receipt, staged)
        rows, accuracy = self._finish(compiled, staged, columns)
        return Answer(
            columns, rows, accuracy, receipt, bool(paid) and not missing, len(missing), tuple(str(f) for f in findings)
        )

    # --- above the charge ---------------------------------------------------------------------------------------------

    def _options_now(self) -> Options:
        options = Options()
        for one in self._options.values():
            options = one.over(options)
        return options

    def _compile(self, parsed: Parsed) -> Compiled:
        return compile_statement(parsed, self._options_now(), self._dataset.schema, self._identity, self)

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

    def _receipt(self, loss: PrivacyLoss) -> Receipt:
        return Receipt(None, loss, self._ledger.remaining(self._budget(), self._analyst.name))

    def _budget(self) -> Budget:
        return Budget(self._dataset.schema.privacy.budget, self._analyst.epsilon, self._analyst.delta)

    def _explain(self, parsed: Parsed) -> str:
        compiled = self._compile(parsed)
        self._describe(compiled, parsed.plain)
        check((part.release for part in compiled.releases), self._dataset.schema.guard)
        return explain(compiled, self._dataset.schema)

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
        for part in compiled.releases:
            types = key_types(compiled, part, named)
            self.sandbox.load(empty(part.release, types))
            for table in read_beside(compiled, part.release, types):
                self.sandbox.load(table.empty)
        shown = self.sandbox.describe(shell.sql)
        return tuple((name, sqltype) for (name, _), (_, sqltype) in zip(named, shown, strict=False))

    def _named(self, plain: str) -> tuple[tuple[str, str], ...]:
        """The columns of the statement as it was written; none where DuckDB does not read it as the parser did."""
        try:
            return self.sandbox.names(plain)
        except Error:
            return ()

    def _fingerprint(self, part: CompiledRelease) -> str:
        return f"{part.release.fingerprint}:{self._dataset.version}"

    def _charge(self, compiled: Compiled, missing: list[CompiledRelease]) -> Receipt:
        """One durable transaction before the engine is called; nothing below gives it back."""
        loss = total(part.release.loss for part in missing)
        if not missing:
            return self._receipt(loss)
        if not self._dataset.engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")
        request = ChargeRequest(
            self._analyst.name,
            self._dataset.version,
            compiled.plan.shell.plain_sql or compiled.plan.shell.sql,
            tuple(self._fingerprint(part) for part in missing),
            tuple(part.describe() for release in missing for part in release.release.parts),
            loss,
        )
        return self._ledger.charge(request, self._budget())

    # --- below the charge ---------------------------------------------------------------------------------------------

    def _run(self, part: CompiledRelease, receipt: Receipt, staged: Staged) -> NoisyTable:
        """Exact sums, noise, and the answer stored: in that order."""
        if receipt.id is None:
            raise error(901, "a release reached the engine without a charge")
        bound = [staged.bound(name) for name in part.bounds]
        keys = part.key_columns
        exact = self._exact(part.sql, part.verified, keys, part.sum_columns, bound) if part.sql else None
        tallies = [self._exact(t.sql, t.verified, keys + 1, 1 + t.tally.summed, bound) for t in part.tallies]
        matchings = [self._exact(m.sql, m.verified, keys, 3, bound) for m in part.matchings]
        noisy = self._released(part, exact, staged.lists(part), tallies, matchings)
        return self._answers.put(receipt.id, self._fingerprint(part), noisy)

    def _exact(
        self, sql: str, verified: Sequence[Verified], keys: int, sums: int, bound: Sequence[PublicTable]
    ) -> ExactTable:
        """The engine's answer, by shorter SQL where the data was verified for it."""
        text = next((v.sql for v in verified if v.facts <= self._dataset.facts), sql)
        return self._dataset.engine.exact(with_secret(text, self._ledger.secret.hex()), keys, sums, bound)

    def _released(
        self,
        part: CompiledRelease,
        exact: ExactTable | None,
        lists: KeyTables,
        tallies: Sequence[ExactTable],
        matchings: Sequence[ExactTable],
    ) -> NoisyTable:
        """The release stage; what goes wrong in it is raised anew, without the frames that hold exact sums."""
        code, text = 901, "the noise could not be added"
        try:
            return release(part, exact, self._noise, lists, tallies, matchings)
        except KeyboardInterrupt:
            code, text = 703, "interrupted"
        except Exception:
            pass
        raise error(code, f"{text}; nothing was released and what was charged stays charged")

    def _finish(
        self, compiled: Compiled, staged: Staged, columns: tuple[tuple[str, str], ...]
    ) -> tuple[list[tuple[object, ...]], Sequence[tuple[Accuracy | None, ...]]]:
        """The shell over released and public tables."""
        shell = compiled.plan.shell
        self.need(shell.public)
        tables = {part.release.name: staged.estimated(part) for part in compiled.releases}
        _, rows = self.sandbox.run(shell.sql)
        self._still_there(shell.public)
        if not shell.traced:
            return rows, Accuracies({}, (None,) * len(columns), [0] * len(rows))
        positions = [row[-1] for row in rows]
        return [row[:-1] for row in rows], Accuracies(
            tables, shell.direct, positions, staged.computed(shell, [sqltype for _, sqltype in columns])
        )

    def need(self, public: Sequence[str]) -> None:
        """See that the sandbox can read these public tables, as they were when the connection was opened."""
        if public:
            self._still_there(public)
            self.sandbox.need(public)

    def _still_there(self, public: Sequence[str]) -> None:
        """A public table is read in place: if its file was written meanwhile, what was read may be of two versions."""
        if public and not self._dataset.engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")

    @property
    def schema(self) -> Schema:
        return self._dataset.schema

    def interrupt(self) -> None:
        self._dataset.engine.interrupt()
        self.sandbox.interrupt()

    def close(self) -> None:
        self.sandbox.close()
        self._dataset.engine.close()
        self._ledger.close()
