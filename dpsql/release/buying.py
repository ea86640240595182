"""buying: Held -> Bought. What is missing is charged together, run, and stored: all that touches people's rows goes through it.

Everything above `_run` reads only the plan, the ledger and stored answers. Everything below has touched data: its errors are constant
text, and the charge stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from dpsql.accounting import claims, failing
from dpsql.accounting.budget import receipt
from dpsql.accounting.charging import budget_of, certificate, request_of
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean
from dpsql.answers.look_up import Held, Missing, Stored
from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.core.loss import NO_LOSS, PrivacyLoss
from dpsql.dataset.opening import Dataset
from dpsql.engines.base import ExactTable, RaisedError, Sieve
from dpsql.guard.guarding import Guarding
from dpsql.guard.history import BlockQuestion
from dpsql.guard.record import Judged
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.charges import Receipt
from dpsql.plan.compiled import Compiled, CompiledRelease, Verified
from dpsql.plan.resolved import InputTable
from dpsql.plan.tables import NoisyTable, PublicTable
from dpsql.planner.total import Texts
from dpsql.release.fitting import fitted
from dpsql.release.noisy import KeyTables, release, sieve
from dpsql.release.staging import Staged
from dpsql.schema.model import Analyst

Sums = tuple[ExactTable | None, list[ExactTable], list[ExactTable]]
"""Of the measures, the histograms and the matchings of a release."""
CHARGED = "; what was charged stays charged"
PAUSE_SECONDS = 0.01
"""Between two looks for an answer that somebody else is working out."""


@dataclass(frozen=True, slots=True)
class ReadTables:
    """The tables of released values that a release reads: as they are declared, and what they hold."""

    bounds: tuple[InputTable, ...]
    tables: tuple[PublicTable, ...]


@dataclass(frozen=True, slots=True)
class Bought:
    """Every release of a statement, and what was paid for them.

    staged  the released tables, in the sandbox
    notes   what the guard warns of, then what was noticed of stored answers
    """

    held: Held
    staged: Staged
    receipt: Receipt
    notes: tuple[str, ...] = ()


def _findings(held: Held, judged: Judged) -> list[Error]:
    return [one for one in judged.findings if not (held.is_off_cubes and one.code == "DPSQL-602")]


class Patience:
    """Time that one statement waits for others who work out the same answer.

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


class Buying:
    """Charges and runs what is missing of one analyst's statements on one dataset.

    stored  where answers are kept
    """

    def __init__(
        self,
        dataset: Dataset,
        ledger: Ledger,
        analyst: Analyst,
        stored: Stored,
        noise: NoiseSource,
        guarding: Guarding,
        identity: str,
    ) -> None:
        self._guarding = guarding
        self._dataset = dataset
        self._ledger = ledger
        self._analyst = analyst
        self._stored = stored
        self._noise = noise
        self._identity = identity
        self._budget = budget_of(dataset.schema, analyst)
        # what is left of it is reckoned again where something was spent
        self._left: tuple[Sequence[object], Receipt] | None = None
        dialect = dataset.engine.dialect
        self._texts = Texts(dataset.schema, dataset.facts, dialect.write, dialect.guards, dialect.verbatim)

    def buy(self, held: Held, judged: Judged, staged: Staged, fresh: bool, key: str = "") -> Bought | None:
        """Every release of a statement: what is missing is charged in one transaction, and run.

        key  of the request, charged once at most; "" where it has none

        None where somebody else works one of them out: nothing was charged, and their answer is to be waited for.

        Raises 50x where it does not fit the budget, 60x where the guard refuses, 7xx from the charge on
        """
        with cancellation.current().planning():
            self._guarding.settled(_findings(held, judged))
            staged.bind_public()
            judged = self._with_released(held, judged, staged)
            warned = self._guarding.settled(_findings(held, judged))
            asked = self._questions(held, judged)
            narrow = self._guarding.asked(judged.asked, held.narrow)
            compared = self._guarding.compare([*asked, *narrow]) if not warned else ()
        notes = (*map(str, warned), *held.notes, *map(str, compared))
        if not held.missing:
            return Bought(held, staged, self.receipt(NO_LOSS), notes)
        with cancellation.current().planning():
            guarded = self._ledger.guarded
            for one in held.missing:
                self._texts.check(one.part, held.plan.bounds, everywhere=guarded)
        receipt, later = self._paid(held, staged, fresh, judged, key)
        return Bought(held, staged, receipt, tuple(dict.fromkeys((*notes, *later)))) if receipt is not None else None

    def require_fits(self, plans: Sequence[Compiled]) -> None:
        """Raises 501 where what is bought one after the other does not fit as a whole; nothing is charged."""
        parts = [part for plan in plans for part in plan.releases]
        request = request_of(plans[0], parts, (), self._analyst, self._dataset.version, (), False, "", "")
        self._ledger.require_fits(request, self._budget)

    def is_claimed(self, held: Held) -> bool:
        """True if somebody works out one of the missing releases."""
        return self._ledger.is_claimed([one.fingerprint for one in held.missing])

    def _with_released(self, held: Held, judged: Judged, staged: Staged) -> Judged:
        """Whom what is missing asks about, by the released values that it reads, as far as these are known."""
        read = dict.fromkeys(name for one in held.missing for name in one.part.bounds)
        return self._guarding.with_released(judged, staged.released(read))

    def _questions(self, held: Held, judged: Judged) -> Sequence[BlockQuestion]:
        return self._guarding.asked(judged.asked, [one.part.release for one in held.missing])

    def _paid(
        self, held: Held, staged: Staged, fresh: bool, judged: Judged, key: str
    ) -> tuple[Receipt | None, Sequence[str]]:
        """Charge what is missing and run it, with what the guard warns of meanwhile; None where somebody else works one of them out:
        nothing was charged."""
        holder, warned = claims.new_holder(), list[str]()
        with claims.released(holder):
            try:
                receipt = self._charged(held, holder, fresh, self._questions(held, judged), key)
                if receipt is not None:
                    staged.charged = True
                    with failing.counted(self._ledger, receipt.id, self._analyst):
                        for one in held.missing:
                            warned += map(str, self._look_again(one, receipt, staged, held, judged))
                            staged.add(one.name, self._run(one, receipt, staged, held, fresh))
                return receipt, warned
            except BaseException:
                # nobody is to wait for what failed
                with suppress(Error):
                    self._ledger.drop(holder)
                raise

    def _charged(
        self, held: Held, holder: str, fresh: bool, asked: Sequence[BlockQuestion], key: str
    ) -> Receipt | None:
        """The charge; from here on the end of the statement says that it stands."""
        statement, receipt = cancellation.current(), None
        statement.check()
        try:
            receipt = self._charge(held, holder, fresh, asked, key)
            statement.charged = receipt is not None
        except KeyboardInterrupt:
            # a program's own handler of SIGINT raised it somewhere: before the charge was durable, or after
            statement.charged = self._ledger.holds(holder)
            statement.cancel()
        statement.check()
        return receipt

    def _charge(self, held: Held, holder: str, fresh: bool, asked: Sequence[BlockQuestion], key: str) -> Receipt | None:
        """One durable transaction before the engine is called; nothing below gives it back. See Ledger.charge."""
        failing.require_few(self._ledger, self._dataset.schema, self._analyst)
        if not self._dataset.engine.unchanged():
            raise error(708, "the data files changed since the connection was opened", hint="open a new connection")
        missing = [one.part for one in held.missing]
        names = [one.fingerprint for one in held.missing]
        certified = [
            certificate(part.release, name, held.plan, self._dataset.schema, self._identity)
            for part, name in zip(missing, names, strict=True)
        ]
        text = self._guarding.written(asked)
        request = request_of(
            held.plan, missing, names, self._analyst, self._dataset.version, certified, fresh, text, key
        )
        return self._ledger.charge(
            request,
            self._budget,
            holder,
            seconds=float(self._dataset.schema.limits.seconds) + claims.MARGIN_SECONDS,
            decide=(lambda: self._decide(asked)) if asked else None,
        )

    def _decide(self, asked: Sequence[BlockQuestion]) -> None:
        with cancellation.current().planning():
            self._guarding.decide(asked)

    def receipt(self, loss: PrivacyLoss) -> Receipt:
        """Receipt of a statement that is not charged, or not yet, with what is left."""
        name, budget = clean(self._analyst.name), self._budget
        limits, promise = self._ledger.look(budget, lambda books: (books.limits(budget, name), books.promise))
        spent = [limit.spent for limit in limits]
        if self._left is None or self._left[0] != spent:
            self._left = spent, receipt(limits, promise, budget, loss)
        return replace(self._left[1], loss=loss)

    # --- below the charge ---------------------------------------------------------------------------------------------

    def _look_again(
        self, one: Missing, receipt: Receipt, staged: Staged, held: Held, judged: Judged
    ) -> Sequence[Error]:
        """Raise the guard's finding by values that were released a moment ago, before what reads them reaches the engine; in
        "warn" those that there are.

        Why  what is asked of people by a value may be decided by nothing but that value. It is released: the decision is of public
             values, as one before the charge is
        """
        known = staged.released(one.part.bounds)
        for name in one.part.bounds:
            staged.bound(name)
        if receipt.id is None or len(staged.released(one.part.bounds)) == len(known):
            return ()
        with cancellation.current().planning():
            found = self._with_released(held, judged, staged)
            asked = self._questions(held, found)
            try:
                said = self._guarding.settled(_findings(held, found))
                return [*said, *self._guarding.correct(receipt.id, asked)]
            except Error as problem:
                problem.message += CHARGED
                raise

    def _run(self, one: Missing, receipt: Receipt, staged: Staged, held: Held, fresh: bool) -> NoisyTable:
        """Exact sums, noise, and the answer stored: in that order."""
        if receipt.id is None:
            raise error(901, "a release reached the engine without a charge")
        part = one.part
        bound = ReadTables(
            tuple(b for b in held.plan.bounds if b.name in part.bounds),
            tuple(staged.bound(name) for name in part.bounds),
        )
        lists, fit = staged.lists(part), part.release.fit

        def asked(one: CompiledRelease) -> NoisyTable:
            exact, histograms, matchings = self._sums(one, bound)
            return self._noisy(one, exact, lists, histograms, matchings)

        noisy = fitted(part.release, fit, asked) if fit is not None else asked(part)
        return self._stored.put(receipt.id, one, noisy, fresh=fresh)

    def _sums(self, part: CompiledRelease, read: ReadTables) -> Sums:
        """Sums that the engine gives for a release.

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

    def _asked(self, part: CompiledRelease, read: ReadTables, *, everywhere: bool) -> Sums:
        def exact(
            sql: str, verified: Sequence[Verified], keys: int, sums: int, left: Sieve | None = None
        ) -> ExactTable:
            text = self._texts.printed(sql, verified, read.bounds, everywhere=everywhere)
            return self._dataset.engine.exact(text, keys, sums, read.tables, self._ledger.secret.hex(), left)

        keys = part.key_columns
        return (
            exact(part.sql, part.verified, keys, part.sum_columns, sieve(part, self._noise)) if part.sql else None,
            [exact(t.sql, t.verified, keys + t.valued, t.sums) for t in part.histograms],
            [exact(m.sql, m.verified, keys, 3) for m in part.matchings],
        )

    def _noisy(
        self,
        part: CompiledRelease,
        exact: ExactTable | None,
        lists: KeyTables,
        histograms: Sequence[ExactTable],
        matchings: Sequence[ExactTable],
    ) -> NoisyTable:
        """The release stage; what goes wrong in it is raised anew, without the frames that hold exact sums."""
        try:
            return release(part, exact, self._noise, lists, histograms, matchings)
        except KeyboardInterrupt:
            problem = cancellation.current().ended(cancellation.INTERRUPTED)
        except Exception:
            problem = cancellation.current().problem() or error(
                901, "the noise could not be added; nothing was released and what was charged stays charged"
            )
        raise problem
