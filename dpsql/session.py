"""One statement from text to answer.

Everything above the charge reads only the text and the declared schema, so its errors may speak freely and cost nothing. Everything
below has touched data: its errors are constant text, and the charge stands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dpsql import spending
from dpsql.accounting import claims
from dpsql.accounting.answers import Answers
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.vectors import Vectors
from dpsql.charging import budget_of, certificate, request_of
from dpsql.engines.base import ExactTable
from dpsql.engines.sandbox import Sandbox
from dpsql.errors import Error, error
from dpsql.estimating import empty
from dpsql.guard.tracker import check
from dpsql.loss import NO_LOSS, PrivacyLoss
from dpsql.mechanisms.source import NoiseSource, SystemNoise
from dpsql.opening import Dataset
from dpsql.plan import (
    Accuracy,
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
from dpsql.reusing import Reusing, TopUp
from dpsql.schema.model import Analyst, Schema
from dpsql.sqltypes import SqlType, parse_type
from dpsql.staging import Accuracies, Staged, key_types, read_beside

PAUSE_SECONDS = 0.01
"""Between two looks for an answer that somebody else is working out."""
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


@dataclass(slots=True)
class Found:
    """What there is of a statement before it is charged.

    compiled      with the noise that is really in what is read off stored answers
    tables        of the releases that are stored
    missing       what is to be bought: where a release is sharpened, the difference
    asked         the missing releases as they were asked, by name
    topped        what the missing ones are added to, by name
    fingerprints  of the answers that are read or bought
    """

    compiled: Compiled
    tables: dict[str, NoisyTable] = field(default_factory=dict)
    missing: list[CompiledRelease] = field(default_factory=list)
    asked: dict[str, CompiledRelease] = field(default_factory=dict)
    topped: dict[str, TopUp] = field(default_factory=dict)
    fingerprints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def add(
        self,
        name: str,
        table: NoisyTable,
        fingerprints: tuple[str, ...],
        part: CompiledRelease | None = None,
        note: str | None = None,
    ) -> None:
        self.tables[name] = table
        self.fingerprints += fingerprints
        self.notes += (note,) if note is not None else ()
        if part is not None:
            parts = tuple(part if one.release.name == name else one for one in self.compiled.releases)
            self.compiled = replace(self.compiled, releases=parts)

    def buy(self, part: CompiledRelease, fingerprint: str, topped: TopUp | None) -> None:
        self.asked[part.release.name] = part
        self.fingerprints += (fingerprint,)
        self.missing.append(part if topped is None else topped.part)
        if topped is not None:
            self.topped[part.release.name] = topped


@dataclass(frozen=True, slots=True)
class Released:
    """Every release of a statement, and what was paid for them."""

    found: Found
    staged: Staged
    receipt: Receipt

    @property
    def compiled(self) -> Compiled:
        return self.found.compiled

    @property
    def bought(self) -> int:
        return len(self.found.missing)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.found.notes

    @property
    def fingerprints(self) -> tuple[str, ...]:
        return self.found.fingerprints


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
        self._budget = budget_of(dataset.schema, analyst)
        self._reusing = Reusing(self._answers, Vectors(ledger), self._identity, self._whose)
        self._stopped = threading.Event()

    def execute(self, sql: str, parameters: Parameters = ()) -> Answer:
        """Answer one statement, or raise an Error that says why not."""
        self._stopped.clear()
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
        if compiled.plan.shell.spent:
            self.sandbox.spent(spending.tables(compiled.plan.shell.spent, self.schema, self._ledger, self._analyst))
        if compiled.plan.shell.empty:
            return self._free(columns, self.sandbox.catalog(compiled.plan.shell.sql)[1])
        findings = check((part.release for part in compiled.releases), self._dataset.schema.guard)
        paid = [part for part in compiled.releases if part.release.parts]
        done = self._released(compiled, paid, columns, parsed.options)
        rows, accuracy = self._finish(done.compiled, done.staged, columns)
        return Answer(
            columns,
            rows,
            accuracy,
            done.receipt,
            bool(paid) and not done.bought,
            done.bought,
            (*(str(finding) for finding in findings), *done.notes),
            done.fingerprints,
        )

    def _released(
        self,
        compiled: Compiled,
        paid: Sequence[CompiledRelease],
        columns: tuple[tuple[str, str], ...],
        options: Options,
    ) -> Released:
        """Every release of a statement: read off stored answers, and the missing ones charged together and run.

        While somebody else works one of them out, their answer is waited for; where they fail, it is charged here.
        """
        holder = claims.new_holder()
        with claims.released(holder):
            while True:
                found = self._found(compiled, paid, options.fresh)
                most = self._dataset.schema.privacy.max_cells
                staged = Staged(found.compiled, dict(found.tables), columns, self.sandbox, self.need, most)
                staged.bind_public()
                if not found.missing:
                    return Released(found, staged, self._receipt(NO_LOSS))
                receipt = self._charge(compiled, found, holder, options.fresh)
                if receipt is not None:
                    break
                self._wait()
            staged.charged = True
            try:
                for part in found.missing:
                    staged.noisy[part.release.name] = self._run(part, receipt, staged, found, options.fresh)
            except BaseException:
                with suppress(Error):
                    self._ledger.drop(holder)
                raise
            return Released(found, staged, receipt)

    def _found(self, compiled: Compiled, paid: Sequence[CompiledRelease], fresh: bool) -> Found:
        """What of a statement is stored, or can be read off what is; and what is to be bought of the rest."""
        found = Found(compiled)
        for part in paid:
            name, fingerprint = part.release.name, self._fingerprint(part)
            table = None if fresh else self._answers.get(fingerprint)
            reused = None if fresh or table is not None else self._reusing.find(part, compiled.plan.goal is not None)
            if table is not None:
                found.add(name, table, (fingerprint,))
            elif reused is not None:
                found.add(name, reused.table, reused.fingerprints, reused.part, reused.note)
            else:
                found.buy(part, fingerprint, None if fresh else self._reusing.top_up(part))
        return found

    def _wait(self) -> None:
        """For somebody else's answer, a moment. Raises 703."""
        if self._stopped.wait(PAUSE_SECONDS):
            raise error(703, "interrupted; nothing was charged")

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
        return Receipt(None, loss, self._ledger.remaining(self._budget, self._analyst.name))

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
        """Under which an answer is stored: of this data version, and, where the owner says so, for this analyst alone."""
        return f"{part.release.fingerprint}:{self._whose}"

    @property
    def _whose(self) -> str:
        """The data version, and the analyst where answers are not shared."""
        alone = "" if self.schema.privacy.shared_answers else f":{self._analyst.name}"
        return f"{self._dataset.version}{alone}"

    def _charge(self, compiled: Compiled, found: Found, holder: str, fresh: bool) -> Receipt | None:
        """One durable transaction before the engine is called; nothing below gives it back. See Ledger.charge."""
        if not self._dataset.engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")
        names = [self._fingerprint(part) for part in found.missing]
        certified = [
            certificate(part.release, name, compiled, self.schema, self._identity)
            for part, name in zip(found.missing, names, strict=True)
        ]
        request = request_of(compiled, found.missing, names, self._analyst, self._dataset.version, certified, fresh)
        return self._ledger.charge(request, self._budget, holder)

    def certificates(self, fingerprints: Sequence[str]) -> list[dict[str, object]]:
        """What was certified of stored releases."""
        found = []
        for fingerprint in fingerprints:
            charge = self._answers.charge_of(fingerprint)
            known = self._ledger.certificates(charge) if charge is not None else []
            found += [each for each in known if each.get("release") == fingerprint.partition(":")[0]]
        return found

    # --- below the charge ---------------------------------------------------------------------------------------------

    def _run(self, part: CompiledRelease, receipt: Receipt, staged: Staged, found: Found, fresh: bool) -> NoisyTable:
        """Exact sums, noise, and the answer stored: in that order."""
        if receipt.id is None:
            raise error(901, "a release reached the engine without a charge")
        bound = [staged.bound(name) for name in part.bounds]
        keys = part.key_columns
        exact = self._exact(part.sql, part.verified, keys, part.sum_columns, bound) if part.sql else None
        tallies = [self._exact(t.sql, t.verified, keys + 1, 1 + t.tally.summed, bound) for t in part.tallies]
        matchings = [self._exact(m.sql, m.verified, keys, 3, bound) for m in part.matchings]
        noisy = self._noisy(part, exact, staged.lists(part), tallies, matchings)
        topped = found.topped.get(part.release.name)
        if topped is not None:
            noisy = topped.combined(noisy)
        kept = self._reusing.vectors(found.asked[part.release.name])
        return self._answers.put(receipt.id, self._fingerprint(part), noisy, fresh=fresh, of=kept)

    def _exact(
        self, sql: str, verified: Sequence[Verified], keys: int, sums: int, bound: Sequence[PublicTable]
    ) -> ExactTable:
        """The engine's answer, by shorter SQL where the data was verified for it."""
        text = next((v.sql for v in verified if v.facts <= self._dataset.facts), sql)
        return self._dataset.engine.exact(with_secret(text, self._ledger.secret.hex()), keys, sums, bound)

    def _noisy(
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
        self._stopped.set()
        self._dataset.engine.interrupt()
        self.sandbox.interrupt()

    def close(self) -> None:
        self.sandbox.close()
        self._dataset.engine.close()
        self._ledger.close()
