"""releasing: the releases of one statement, read off stored answers or charged and run. All that touches people's rows goes through it.

Everything above `_run` reads only the plan, the ledger and stored answers. Everything below has touched data: its errors are constant
text, and the charge stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from dpsql.accounting import claims, failing
from dpsql.accounting.answers import Answers
from dpsql.accounting.charging import budget_of, certificate, request_of
from dpsql.accounting.ledger import Asked, Ledger
from dpsql.accounting.vectors import Vectors
from dpsql.answers.reusing import Reusing, TopUp
from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.core.loss import NO_LOSS, EpsilonDelta
from dpsql.dataset.opening import Dataset
from dpsql.engines.base import ExactTable, RaisedError
from dpsql.guard import record
from dpsql.guard.guarding import Guarding
from dpsql.guard.questions import Question
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.charges import Receipt
from dpsql.plan.compiled import Compiled, CompiledRelease, Verified
from dpsql.plan.resolved import Bound
from dpsql.plan.tables import NoisyTable, PublicTable
from dpsql.planner.total.texts import Texts
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.noisy import KeyTables, release
from dpsql.release.staging import Staged
from dpsql.schema.model import Analyst

Sums = tuple[ExactTable | None, list[ExactTable], list[ExactTable]]
"""Of the measures, the tallies and the matchings of a release."""
PAUSE_SECONDS = 0.01
"""Between two looks for an answer that somebody else is working out."""


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

    def exchange(self, part: CompiledRelease, topped: TopUp) -> None:
        """Buy more of a release that is topped up: the part has the noise that is then in it."""
        name = part.release.name
        self.asked[name], self.topped[name] = part, topped
        self.missing = [topped.part if one.release.name == name else one for one in self.missing]
        parts = tuple(part if one.release.name == name else one for one in self.compiled.releases)
        self.compiled = replace(self.compiled, releases=parts)

    def buy(self, part: CompiledRelease, fingerprint: str, topped: TopUp | None) -> None:
        self.asked[part.release.name] = part
        self.fingerprints += (fingerprint, *(topped.names if topped is not None else ()))
        self.missing.append(part if topped is None else topped.part)
        if topped is not None:
            self.topped[part.release.name] = topped


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables of released values that a release reads: as they are declared, and what they hold."""

    bounds: tuple[Bound, ...]
    tables: tuple[PublicTable, ...]


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


class Patience:
    """How long one statement waits for others who work out the same answer.

    seconds  [s] the most that the engine may take for a statement: who waited for two that were stopped waits for no third
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + 2 * (seconds + claims.MARGIN_SECONDS)

    def wait(self, is_claimed: Callable[[], bool]) -> None:
        """Until nobody holds the claim. Raises 703 where the statement is interrupted, 713 where it waits too long."""
        while True:
            cancellation.check()
            time.sleep(PAUSE_SECONDS)
            if not is_claimed():
                return
            if time.monotonic() > self._until:
                what = "somebody else works out the same answer, and takes too long; nothing was charged"
                raise error(713, what, hint="ask again later")


class Releasing:
    """The releases of one analyst's statements on one dataset.

    identity  schema_identity of the declared schema
    """

    def __init__(
        self,
        dataset: Dataset,
        ledger: Ledger,
        analyst: Analyst,
        identity: str,
        sandbox: Sandbox,
        noise: NoiseSource,
        guarding: Guarding,
    ) -> None:
        self._guarding = guarding
        self._dataset = dataset
        self._ledger = ledger
        self._answers = Answers(ledger)
        self._analyst = analyst
        self._identity = identity
        self._sandbox = sandbox
        self._noise = noise
        self._budget = budget_of(dataset.schema, analyst)
        self._texts = Texts(dataset.schema, dataset.facts)
        self._reusing = Reusing(self._answers, Vectors(ledger), identity, self._whose)

    def release(
        self,
        compiled: Compiled,
        paid: Sequence[CompiledRelease],
        columns: tuple[tuple[str, str], ...],
        fresh: bool,
        questions: Mapping[str, Question],
    ) -> Released:
        """Every release of a statement: read off stored answers, and the missing ones charged together and run.

        While somebody else works one of them out, their answer is waited for; where they fail, or take longer than they may, it is
        charged here.
        """
        statement = cancellation.current()
        limits = self._dataset.schema.limits
        patience = Patience(float(limits.seconds))
        while True:
            with statement.planning():
                found = self._found(compiled, paid, fresh)
                asked = self._guarding.asked(questions, [part.release for part in found.missing])
                found.notes += tuple(str(finding) for finding in self._guarding.compare(asked))
            most = (self._dataset.schema.privacy.max_cells, limits.rows)
            staged = Staged(found.compiled, dict(found.tables), columns, self._sandbox, self.need, *most)
            staged.bind_public()
            if not found.missing:
                return Released(found, staged, Receipt(None, NO_LOSS, self.remaining()))
            with statement.planning():
                guarded = self._ledger.guarded
                for part in found.missing:
                    self._texts.check(part, compiled.bounds, everywhere=guarded)
            receipt = self._bought(found, staged, fresh, asked)
            if receipt is not None:
                return Released(found, staged, receipt)
            names = [self.fingerprint(part) for part in found.missing]
            patience.wait(partial(self._ledger.is_claimed, names))

    def _bought(self, found: Found, staged: Staged, fresh: bool, asked: Sequence[Question]) -> Receipt | None:
        """Charge what is missing and run it; None where somebody else works one of them out: nothing was charged."""
        holder = claims.new_holder()
        with claims.released(holder):
            try:
                receipt = self._charged(found, holder, fresh, asked)
                if receipt is not None:
                    staged.charged = True
                    with failing.counted(self._ledger, receipt.id, self._analyst):
                        for part in found.missing:
                            staged.noisy[part.release.name] = self._run(part, receipt, staged, found, fresh)
                return receipt
            except BaseException:
                # nobody is to wait for what failed
                with suppress(Error):
                    self._ledger.drop(holder)
                raise

    def _charged(self, found: Found, holder: str, fresh: bool, asked: Sequence[Question]) -> Receipt | None:
        """The charge; from here on the end of the statement says that it stands."""
        statement, receipt = cancellation.current(), None
        statement.check()
        try:
            receipt = self._charge(found, holder, fresh, asked)
            statement.charged = receipt is not None
        except KeyboardInterrupt:
            # a program's own handler of SIGINT raised it somewhere: before the charge was durable, or after
            statement.charged = self._ledger.holds(holder)
            statement.cancel()
        statement.check()
        return receipt

    def missing(self, compiled: Compiled, fresh: bool) -> list[CompiledRelease]:
        """What would have to be bought of a statement now."""
        paid = [part for part in compiled.releases if part.release.parts]
        return self._found(compiled, paid, fresh).missing

    def _found(self, compiled: Compiled, paid: Sequence[CompiledRelease], fresh: bool) -> Found:
        """What of a statement is stored, or can be read off what is; and what is to be bought of the rest."""
        found = Found(compiled)
        for part in paid:
            name, fingerprint = part.release.name, self.fingerprint(part)
            table = None if fresh else self._answers.get(fingerprint)
            reused = None if fresh or table is not None else self._reusing.find(part, compiled.plan.goal is not None)
            if table is not None:
                found.add(name, table, (fingerprint,), self._reusing.own(part, fingerprint))
            elif reused is not None:
                found.add(name, reused.table, reused.fingerprints, reused.part, reused.note)
            else:
                found.buy(part, fingerprint, None if fresh else self._reusing.top_up(part))
        self._pay_the_least(found)
        return found

    def _pay_the_least(self, found: Found) -> None:
        """Differences to what was bought before are made up to the owner's least price of a statement (rule 74)."""
        least = self._dataset.schema.privacy.floor
        short = rho_at_most(least) - sum(part.release.loss.rho for part in found.missing)
        if found.topped and short > 0:
            bought = sum((topped.part.release.loss.rho for topped in found.topped.values()), Fraction(0))
            for name, topped in tuple(found.topped.items()):
                found.exchange(*self._reusing.dearer(found.asked[name], topped, 1 + short / bought))
        if any(part.release.raised for part in found.missing):
            found.notes += (
                f"raised to the owner's least price, epsilon {float(least):g}: the error is smaller than asked",
            )

    @property
    def _whose(self) -> str:
        """The data version, and the analyst where answers are not shared."""
        alone = "" if self._dataset.schema.privacy.shared_answers else f":{self._analyst.name}"
        return f"{self._dataset.version}{alone}"

    def _charge(self, found: Found, holder: str, fresh: bool, asked: Sequence[Question]) -> Receipt | None:
        """One durable transaction before the engine is called; nothing below gives it back. See Ledger.charge."""
        failing.require_few(self._ledger, self._dataset.schema, self._analyst)
        if not self._dataset.engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")
        names = [self.fingerprint(part) for part in found.missing]
        certified = [
            certificate(part.release, name, found.compiled, self._dataset.schema, self._identity)
            for part, name in zip(found.missing, names, strict=True)
        ]
        text = record.written(asked) if asked else ""
        request = request_of(
            found.compiled, found.missing, names, self._analyst, self._dataset.version, certified, fresh, text
        )
        return self._ledger.charge(
            request,
            self._budget,
            holder,
            seconds=float(self._dataset.schema.limits.seconds) + claims.MARGIN_SECONDS,
            since=self._guarding.last,
            decide=(lambda rows: self._decide(asked, rows)) if asked else None,
        )

    def _decide(self, asked: Sequence[Question], rows: list[Asked]) -> None:
        with cancellation.current().planning():
            self._guarding.decide(asked, rows)

    def certificates(self, fingerprints: Sequence[str]) -> list[dict[str, object]]:
        """What was certified of stored releases."""
        found = []
        for fingerprint, charge in zip(fingerprints, self.charges_of(fingerprints), strict=True):
            known = self._ledger.certificates(charge) if charge is not None else []
            found += [each for each in known if each.get("release") == fingerprint.partition(":")[0]]
        return found

    def charges_of(self, fingerprints: Sequence[str]) -> list[int | None]:
        """The charges that bought stored answers; None for one that is not stored."""
        return self._answers.charges_of(fingerprints)

    def fingerprint(self, part: CompiledRelease) -> str:
        """Under which an answer is stored: of this data version, and, where the owner says so, for this analyst alone."""
        return f"{part.release.fingerprint}:{self._whose}"

    def remaining(self) -> EpsilonDelta:
        """The largest epsilon and delta that one more statement may cost."""
        return self._ledger.remaining(self._budget, self._analyst.name)

    def need(self, public: Sequence[str]) -> None:
        """See that the sandbox can read these public tables, as they were when the connection was opened."""
        if public:
            self.still_there(public)
            self._sandbox.need(public)

    def still_there(self, public: Sequence[str]) -> None:
        """A public table is read in place: if its file was written meanwhile, what was read may be of two versions."""
        if public and not self._dataset.engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")

    # --- below the charge ---------------------------------------------------------------------------------------------

    def _run(self, part: CompiledRelease, receipt: Receipt, staged: Staged, found: Found, fresh: bool) -> NoisyTable:
        """Exact sums, noise, and the answer stored: in that order."""
        if receipt.id is None:
            raise error(901, "a release reached the engine without a charge")
        bound = Reading(
            tuple(b for b in found.compiled.bounds if b.name in part.bounds),
            tuple(staged.bound(name) for name in part.bounds),
        )
        exact, tallies, matchings = self._sums(part, bound)
        noisy = self._noisy(part, exact, staged.lists(part), tallies, matchings)
        topped = found.topped.get(part.release.name)
        if topped is not None:
            noisy = topped.combined(noisy)
        kept = self._reusing.vectors(found.asked[part.release.name])
        return self._answers.put(receipt.id, self.fingerprint(part), noisy, fresh=fresh, of=kept)

    def _sums(self, part: CompiledRelease, read: Reading) -> Sums:
        """What the engine gives for a release.

        Why  that the engine raises may be one person's value. The same text with guards is another function, since an engine leaves out
             what nobody reads, so it is no way to repair one statement: by "with guards or without" the next could ask again. From the
             first failure on every statement of the dataset has them, for good: one bit, once (rule 45)
        """
        guarded = self._ledger.guarded
        try:
            return self._asked(part, read, everywhere=guarded)
        except RaisedError:
            if guarded:
                raise
        self._ledger.guard()
        return self._asked(part, read, everywhere=True)

    def _asked(self, part: CompiledRelease, read: Reading, *, everywhere: bool) -> Sums:
        def exact(sql: str, verified: Sequence[Verified], keys: int, sums: int) -> ExactTable:
            text = self._texts.printed(sql, verified, read.bounds, everywhere=everywhere)
            return self._dataset.engine.exact(text, keys, sums, read.tables, self._ledger.secret.hex())

        keys = part.key_columns
        return (
            exact(part.sql, part.verified, keys, part.sum_columns) if part.sql else None,
            [exact(t.sql, t.verified, keys + 1, 1 + t.tally.summed) for t in part.tallies],
            [exact(m.sql, m.verified, keys, 3) for m in part.matchings],
        )

    def _noisy(
        self,
        part: CompiledRelease,
        exact: ExactTable | None,
        lists: KeyTables,
        tallies: Sequence[ExactTable],
        matchings: Sequence[ExactTable],
    ) -> NoisyTable:
        """The release stage; what goes wrong in it is raised anew, without the frames that hold exact sums."""
        try:
            return release(part, exact, self._noise, lists, tallies, matchings)
        except KeyboardInterrupt:
            problem = cancellation.current().ended(cancellation.INTERRUPTED)
        except Exception:
            problem = cancellation.current().problem() or error(
                901, "the noise could not be added; nothing was released and what was charged stays charged"
            )
        raise problem
