"""The ledger: what was spent, decided and written in one durable transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from dpsql.accountants.filters import Promise
from dpsql.accounting import budget as budgets
from dpsql.accounting import chain, claims, failures, layout, problems, ran, reckoning, rows, switches
from dpsql.accounting.books import Books, promise_for_good, promise_of, promised
from dpsql.accounting.chain import NO_HEAD, Head
from dpsql.accounting.entries import Decide, Entry, GuardEntry
from dpsql.accounting.failures import Failure
from dpsql.accounting.recount import agrees
from dpsql.accounting.rows import EVERYBODY, Charged, scopes
from dpsql.accounting.store import Store, clean
from dpsql.accounting.totals import Spent
from dpsql.core.errors import Error, error
from dpsql.core.loss import NO_LOSS, EpsilonDelta, PrivacyLoss, total
from dpsql.plan.charges import Budget, ChargeRequest, Receipt

_PLACES = ", ".join("?" * len((*rows.TIED, "form", "link")))
_APPEND = f"INSERT INTO charge ({rows.FIELDS}, link) VALUES ({_PLACES})"
_LAST = f"SELECT {rows.FIELDS}, link FROM charge ORDER BY id DESC LIMIT ?"
_COUNTED = "SELECT charges FROM total WHERE scope = 'dataset' AND name = ?"
_LINK = "SELECT link FROM charge WHERE id = ?"
_HISTORY = "SELECT id, time, analyst, role, statement, portions, version FROM charge"
_ASKED = """SELECT id, analyst, statement, coalesce((SELECT asked FROM evaluated WHERE charge = id), asked) FROM charge
WHERE id > ? AND asked <> '' AND id NOT IN (SELECT charge FROM forgotten) ORDER BY id"""
_CERTIFICATES = "SELECT id, certificates, link FROM charge WHERE id = ?"

TAIL = 64
"""Number of the newest charges that are checked at opening."""

T = TypeVar("T")


class Ledger:
    """Spending on one dataset, in a file that several threads and processes share.

    A charge is decided on exact fractions, written and made durable in one transaction, and never given back. Charges are only ever
    appended, each tied to those before it (chain.py).

    Errors  704 the file cannot be reached, read or written; 705 it is damaged, removed, older than it was, or another dataset's; 802
            it is closed
    Source  filters.py (losses may be chosen adaptively)

    >>> ledger = Ledger.open(":memory:", "example")
    >>> ledger.spent().epsilon
    Fraction(0, 1)
    """

    def __init__(self, store: Store, keeps_head: bool = True) -> None:
        self.store, self._head = store, NO_HEAD
        self._head_file = None if store.file is None or not keeps_head else chain.head_file(store.file)

    @staticmethod
    def open(path: str | Path, identity: str, *, keeps_head: bool = True) -> Ledger:
        """Open the ledger of the dataset that `identity` names, or make it; ":memory:" ends with the process.

        keeps_head  False: another process looks after the file of the head, which this one may not reach
        """
        ledger = Ledger(Store.open(path, identity), keeps_head)
        try:
            ledger.store.moment(ledger._check)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @property
    def id(self) -> str:
        """A random id, made with the ledger: it names this ledger and says nothing of what is in it."""
        return self.store.read(layout.ledger_of)

    @property
    def secret(self) -> bytes:
        """32 random bytes, made with the ledger: the key of content hashes, of contribution cuts and of the chain."""
        return self.store.secret

    # --- charging -----------------------------------------------------------------------------------------------------

    def charge(
        self,
        request: ChargeRequest,
        budget: Budget,
        holder: str = "",
        *,
        seconds: float | None = None,
        decide: Decide | None = None,
    ) -> Receipt | None:
        """Charge one statement, or refuse it and change nothing.

        holder  whose claim on its releases it becomes, for as long as they are worked out (claims.py)
        seconds [s] the longest that the claim may last; None: no end
        decide  sees what was charged until now, while nobody else can charge; what it raises refuses the statement
        Output  None: one of its releases is stored meanwhile, or worked out, or the request was charged before; nothing was charged

        Errors  501 it does not fit; 504 the ledger counts by another accounting; 901 it costs nothing, so it must not come here, or
                what runs loses something else than it costs
        """
        if request.loss == NO_LOSS:
            raise error(901, "a charge of nothing reached the ledger")

        def work(connection: sqlite3.Connection) -> tuple[Receipt, Head] | None:
            if decide is not None:
                decide()
            return self._charge(connection, request, budget, holder, seconds)

        done = self.store.write(work)
        if done is None:
            return None
        self._keep(done[1])
        return done[0]

    def require_fits(self, request: ChargeRequest, budget: Budget) -> None:
        """Raises 501 where a request would be refused now; nothing is charged."""

        def fits(books: Books) -> None:
            portions = ran.charged(request.portions, request.mechanisms, books.promise)
            if portions is not None:
                books.fitting(request, portions, budget)

        self.look(budget, fits)

    def remember(self) -> None:
        """Write the newest charge beside the ledger, for processes that may write the ledger and no other file. Raises 704, 705."""
        newest = self.store.moment(self._newest)
        if newest != self._head:
            self._keep(newest)

    def _keep(self, head: Head) -> None:
        self._head = head
        if self._head_file is not None:
            chain.write_head(self._head_file, head)

    def drop(self, holder: str) -> None:
        """Let go of a holder's claims: what they were for is stored, or failed."""
        self.store.write(lambda connection: claims.drop(connection, holder))

    def is_claimed(self, fingerprints: Sequence[str]) -> bool:
        """True if somebody is working one of these releases out."""
        names = [clean(fingerprint) for fingerprint in fingerprints]
        return self.store.read(lambda c: any(claims.is_taken(c, name, layout.now()) for name in names))

    def holds(self, holder: str) -> bool:
        """True if a holder claims something: then it was charged."""
        return self.store.read(lambda connection: claims.holds(connection, holder))

    def _charge(
        self,
        connection: sqlite3.Connection,
        request: ChargeRequest,
        allowed: Budget,
        holder: str,
        seconds: float | None,
    ) -> tuple[Receipt, Head] | None:
        last, now = self._newest(connection), layout.now()
        names = [clean(fingerprint) for fingerprint in request.fingerprints]
        if holder and claims.is_elsewhere(connection, names, now, stored=not request.fresh):
            return None
        if switches.is_charged(connection, request.analyst, request.key):
            return None
        analyst = clean(request.analyst)
        role = None if request.role is None else clean(request.role)
        promise = self._promised(connection, allowed)
        portions = ran.charged(request.portions, request.mechanisms, promise)
        if portions is None:
            raise error(901, "what runs loses something else than what is charged")
        promise_for_good(connection, self.store, promise)
        books = Books(self.store, connection, now, promise)
        limits = books.fitting(request, portions, allowed)
        head = self._append(connection, request, portions, last, (now, analyst, role))
        for scope, name, sums in scopes(analyst, role, portions, promise.nothing):
            books.add(scope, name, sums)
        if holder:
            claims.take(connection, names, holder, now, claims.until(now, seconds))
        switches.charge(connection, request.analyst, request.key, now)
        return budgets.receipt([limit.after for limit in limits], promise, allowed, request.loss, head.charge), head

    def _append(
        self,
        connection: sqlite3.Connection,
        request: ChargeRequest,
        portions: Sequence[Charged],
        last: Head,
        who: tuple[str, str, str | None],
    ) -> Head:
        words = (*who, clean(request.data_version), clean(request.statement))
        lists = [json.dumps(each) for each in (request.fingerprints, request.mechanisms)]
        more = (rows.written(portions), json.dumps(request.certificates), request.asked, ran.written(request.portions))
        row = (last.charge + 1, *words, *lists, *more, rows.FORM)
        tied = rows.link(self.secret, bytes.fromhex(last.link), row)
        if tied is None:
            raise error(901, "a charge has no link")
        connection.execute(_APPEND, (*row, tied))
        return Head(last.charge + 1, tied.hex())

    # --- what the engine did ------------------------------------------------------------------------------------------

    @property
    def guarded(self) -> bool:
        """True if every row expression is printed with a guard, for good; as it is now, whichever process decided it."""
        return self.store.read(lambda connection: switches.thrown(connection, switches.GUARDED)) is not None

    def guard(self) -> None:
        """Switch to guarded printing for good; it is durable before this returns."""
        self.store.write(lambda connection: switches.throw(connection, switches.GUARDED, layout.now()))

    def failed(self, charge: int, analyst: str, kind: str) -> None:
        """Write that the statement of a charge failed, in one of failures.KINDS; for the owner. Raises 901 for another kind."""
        if kind not in failures.KINDS:
            raise error(901, "a failure of no known kind reached the ledger")
        self.store.write(lambda connection: failures.record(connection, charge, clean(analyst), layout.now(), kind))

    def failures(self, analyst: str | None = None) -> list[Failure]:
        """Every failure, or those of one analyst, oldest first; those that the owner has seen too."""
        name = None if analyst is None else clean(analyst)
        return self.store.read(lambda connection: failures.found(connection, name))

    def unseen_failures(self, analyst: str | None = None) -> int:
        """Number of failures that the owner has not seen: of one analyst, or of all."""
        name = None if analyst is None else clean(analyst)
        return self.store.read(lambda connection: failures.unseen(connection, name))

    def clear_failures(self, last: int) -> None:
        """Write that the owner has seen the failures up to this one."""
        self.store.write(lambda connection: failures.clear(connection, last, layout.now()))

    # --- reading ------------------------------------------------------------------------------------------------------

    def remaining(self, budget: Budget, analyst: str) -> EpsilonDelta:
        """The largest epsilon and delta that one more statement of this analyst may cost, never below 0."""
        return budgets.remaining(self.limits(budget, analyst))

    def limits(self, budget: Budget, analyst: str) -> tuple[budgets.Limit, ...]:
        """Every total that applies to this analyst, and what is spent of it. Raises 504 as a charge does."""
        return self.look(budget, lambda books: books.limits(budget, clean(analyst)))

    def look(self, budget: Budget, work: Callable[[Books], T]) -> T:
        """Read the totals that charges under this budget are added to. Raises 504 as a charge does."""
        return self.store.read(
            lambda connection: work(Books(self.store, connection, layout.now(), self._promised(connection, budget)))
        )

    def reckon(self, budget: Budget, work: Callable[[Books], T]) -> T:
        """The same for the owner: where the ledger counts by another accounting, what that of the budget says of all that ran."""

        def reckoned(connection: sqlite3.Connection) -> T:
            promise = promise_of(connection, self.store, budget)
            if isinstance(promise, Error):
                return work(reckoning.as_if(self.store, connection, budget))
            return work(Books(self.store, connection, layout.now(), promise))

        return self.store.read(reckoned)

    @property
    def accounting(self) -> str | None:
        """By which accounting the ledger keeps its promise, as the schema named it then; None before the first charge."""
        found = self.store.read(lambda connection: promised(connection, self.store))
        return found.accounting if found is not None else None

    def spent(self, analyst: str | None = None) -> PrivacyLoss:
        """Loss that was ever charged to one analyst; or to all together, on those whom most was charged to."""

        def work(connection: sqlite3.Connection) -> PrivacyLoss:
            books = self._books(connection)
            return (books.most() if analyst is None else books.spent("analyst", clean(analyst)).ever).loss

        return self.store.read(work)

    def scope(self, scope: str, name: str) -> Spent:
        """Amounts that one scope spent: an "analyst", a "role", an "entry" of the partition beside the "dataset"."""
        return self.store.read(lambda connection: self._books(connection).spent(scope, clean(name)))

    def entries(self) -> dict[str, PrivacyLoss]:
        """Losses charged in all on units with each value of the partition column that was ever charged alone."""

        found = self.store.read(lambda connection: self._books(connection).groups())
        return {name: spent.ever.loss for name, spent in found if name is not None}

    def history(self, analyst: str | None = None) -> list[Entry]:
        """Every charge, or every charge of one analyst, oldest first."""
        where, values = ("", ()) if analyst is None else (" WHERE analyst = ?", (clean(analyst),))
        return [
            Entry(number, time, who, role, total(p.loss for p in bought), len(bought), statement, version)
            for number, time, who, role, statement, text, version in self.store.rows(
                f"{_HISTORY}{where} ORDER BY id", *values
            )
            for bought in [self._portions(text)]
        ]

    def asked(self, since: int = 0) -> list[GuardEntry]:
        """Whom the statements after a charge were about, oldest first; not those that were charged with the guard off, or that the
        owner lets the guard forget."""
        return [GuardEntry(*row) for row in self.store.rows(_ASKED, since)]

    def certificates(self, charge: int) -> list[dict[str, object]]:
        """Certificates of the releases of a charge, each with its place in the ledger; [] where there is no such
        charge."""
        row = self.store.rows(_CERTIFICATES, charge)
        if not row:
            return []
        number, texts, tied = row[0]
        found = rows.read(texts)
        if not isinstance(found, list) or not isinstance(tied, bytes):
            raise self.store.damaged()
        place = {"ledger": {"charge": number, "link": tied.hex()}}
        return [{**each, **place} for each in map(rows.read, found) if isinstance(each, dict)]

    def require(self, head: Head) -> None:
        """See that a charge is here that is known from elsewhere, from a certificate say. Raises 705."""
        self.store.moment(lambda connection: self._require(connection, head))

    # --- what holds it together ---------------------------------------------------------------------------------------

    def verify(self) -> int:
        """Check every charge against the chain, and every total against the charges. Output: how many charges there are.

        Errors  705 what was written is not what is there
        """

        def work(connection: sqlite3.Connection) -> int:
            before, totals, books = chain.FIRST, dict[tuple[str, str], Spent](), self._books(connection)
            count = 0
            for count, (*row, tied) in enumerate(connection.execute(reckoning.CHARGES), 1):
                if row[0] != count or not rows.holds(self.secret, before, row, tied) or ran.of_row(row) is None:
                    raise problems.edited(self.store.path, count)
                before = tied
                reckoning.count(self.store, totals, row, self._portions(row[8]), books.promise)
            if books.all() != totals:
                raise problems.edited(self.store.path, count)
            self._check_head(connection)
            return count

        return self.store.write(work)

    def _check(self, connection: sqlite3.Connection) -> None:
        """The newest charges, all totals and the head that is remembered: this first, since the moment that `connection` sees begins
        with its first SELECT, and a head that was read later could be newer."""
        newest = self._newest(connection)
        last = connection.execute(_LAST, (TAIL + 1,)).fetchall()
        first = [] if len(last) > TAIL else [chain.FIRST]
        for (*row, tied), before in zip(last, [*(each[-1] for each in last[1:]), *first], strict=False):
            if not rows.holds(self.secret, before, row, tied):
                raise problems.edited(self.store.path, row[0])
        if not agrees(connection, self._books(connection).all()):
            raise problems.edited(self.store.path, newest.charge)

    def _newest(self, connection: sqlite3.Connection) -> Head:
        """The last charge, as far as it agrees with the totals and with the newest head that is known."""
        self._check_head(connection)
        row = connection.execute("SELECT id, link FROM charge ORDER BY id DESC LIMIT 1").fetchone()
        if row is None:
            if connection.execute("SELECT 1 FROM total").fetchone():
                raise self.store.damaged()
            return NO_HEAD
        counted = connection.execute(_COUNTED, (EVERYBODY,)).fetchone()
        if counted is None or counted[0] != row[0] or not isinstance(row[1], bytes):
            raise self.store.damaged()
        return Head(row[0], row[1].hex())

    def _check_head(self, connection: sqlite3.Connection) -> None:
        """Raise 705 where a newer head is known than the ledger has, or another one. (The head is written after the charge.)"""
        for head in {reckoning.remembered(self._head_file), self._head}:
            if head.charge:
                self._require(connection, head)

    def _require(self, connection: sqlite3.Connection, head: Head) -> None:
        row = connection.execute(_LINK, (head.charge,)).fetchone()
        if row is None or row[0] != bytes.fromhex(head.link):
            raise problems.older(self.store.path, head.charge)

    def _promised(self, connection: sqlite3.Connection, budget: Budget) -> Promise:
        found = promise_of(connection, self.store, budget)
        if isinstance(found, Error):
            raise found
        return found

    def _books(self, connection: sqlite3.Connection) -> Books:
        """The totals as they are kept, whatever the schema names."""
        named = promised(connection, self.store)
        return Books(self.store, connection, layout.now(), named if named is not None else Promise(""))

    def _portions(self, text: object) -> list[Charged]:
        found = rows.portions(text)
        if found is None:
            raise self.store.damaged()
        return found

    def close(self) -> None:
        """Close the file; what was charged stays charged."""
        self.store.close()
