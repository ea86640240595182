"""look_up: Compiled -> Held. What of a statement is stored, or can be read off what is; and what is to be bought of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, TypeVar

from dpsql.accounting.answers import Answers
from dpsql.accounting.cubes import CUBES, StoredCube
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.named import HasName, Names, Register
from dpsql.accounting.vectors import Vector, Vectors
from dpsql.accounting.versions import TableVersions
from dpsql.answers.cubes import WIDER, Cubes
from dpsql.answers.questions import AnswerScope, Questions
from dpsql.answers.refining import Refinement, dearer, refine
from dpsql.answers.reusing import WIDER as WIDER_SUM
from dpsql.answers.reusing import Reused, Reusing, Tolerance
from dpsql.core.errors import error
from dpsql.core.loss import total
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.tables import NoisyTable
from dpsql.planner.measure import Identities
from dpsql.planner.options import OFF, ON, Options
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Analyst, Schema

if TYPE_CHECKING:
    from dpsql.answers.offering import Offer

Named = TypeVar("Named", bound=HasName)


@dataclass(frozen=True, slots=True)
class Missing:
    """A release that is to be bought.

    part         what is bought of it: where a stored answer is sharpened, the difference
    asked        the release as it was asked, with the noise that is in it at the end
    fingerprint  under which it is stored
    refine       the stored answer that is sharpened, or None
    offer        what is stored that answers it too, with a larger error; or None
    """

    part: CompiledRelease
    asked: CompiledRelease
    fingerprint: str
    refine: Refinement | None = None
    offer: Offer | None = None

    @property
    def name(self) -> str:
        return self.part.release.name

    @property
    def rho(self) -> Fraction:
        return self.part.release.loss.rho


@dataclass(frozen=True, slots=True)
class Held:
    """Releases of a statement that are stored already, and those still to buy.

    plan          with the noise that is really in what is read off stored answers
    tables        of the releases that are stored, by name
    missing       what is to be bought
    fingerprints  of the answers that are read or bought
    notes         what the reader of the answer has to know
    as_of         the approval of the version that it is of, where a table changed since; else ""
    cubes         by release, the cube that it is read off
    rows          of each of them, the fewest rows that a group has by the noisy number
    narrow        the releases that are read off cubes with so little noise that they are compared like what is bought
    """

    plan: Compiled
    tables: Mapping[str, NoisyTable]
    missing: tuple[Missing, ...]
    fingerprints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    as_of: str = ""
    cubes: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    narrow: tuple[Release, ...] = ()

    @property
    def is_off_cubes(self) -> bool:
        """True if all of it is read off cubes, with so much noise that no difference of answers can be read (rule 69)."""
        return not self.missing and len(self.cubes) == len(self.tables) > 0 and not self.narrow


class Stored:
    """The stored answers that one analyst's statements are read off.

    identities  of the declared schema
    versions    of the data
    moved       tables that changed since and cannot be read, and when their versions were approved
    older       such that are read as they were approved
    """

    def __init__(
        self,
        ledger: Ledger,
        schema: Schema,
        analyst: Analyst,
        identities: Identities,
        versions: TableVersions,
        moved: Mapping[str, str],
        older: Mapping[str, str],
    ) -> None:
        self._ledger, self._schema, self._moved, self._older = ledger, schema, moved, older
        self._answers, self._analyst = Answers(ledger), analyst.name
        alone = "" if schema.privacy.shared_answers else f":{analyst.name}"
        self.questions = Questions(self._answers, Vectors(ledger), identities, AnswerScope(versions, alone))
        self._whose = "" if schema.privacy.shared_answers else analyst.name
        self.cubes = Cubes(self.questions, self.names(CUBES), schema.guard.readable)

    def names(self, kind: Register[Named]) -> Names[Named]:
        """Everything of one kind that is kept under names, as far as this analyst sees it."""
        return Names(self._ledger, kind, self._whose)

    def look_up(self, plan: Compiled, options: Options) -> Held:
        """Look up the releases of a statement that are stored, and list those still to buy; with `fresh` nothing is
        read. Raises 708 where one that is to be bought reads a table that changed."""
        parts = [part for part in plan.releases if part.release.parts]
        # at one moment for all releases of a statement
        found = self._ledger.store.moment(lambda _: [self.found(part, plan, options) for part in parts])
        self._require_approved([one.part.release for one in found if isinstance(one, Missing)])
        reused = {one.part.release.name: one for one in found if isinstance(one, Reused)}
        missing, notes = self._at_least([one for one in found if isinstance(one, Missing)])
        now = {one.name: one.asked for one in missing} | {name: one.part for name, one in reused.items()}
        names = [
            name
            for one in found
            for name in (one.fingerprints if isinstance(one, Reused) else _names(one))
        ]  # fmt: skip
        told = [one.note for one in reused.values() if one.note is not None]
        changed = self._changed([one.part.release for one in found])
        return Held(
            replace(plan, releases=tuple(now.get(part.release.name, part) for part in plan.releases)),
            {name: one.table for name, one in reused.items()},
            missing,
            tuple(names),
            (*_dated(changed), *told, *notes, *(one.offer.note for one in missing if one.offer is not None)),
            min(map(_minute, changed.values()), default=""),
            {name: one.cube for name, one in reused.items() if one.cube},
            {name: one.fewest for name, one in reused.items() if one.cube},
            tuple(one.part.release for one in reused.values() if one.narrow),
        )

    def _require_approved(self, releases: Sequence[Release]) -> None:
        moved = [printable(name) for name in self._moved if any(name in release.tables for release in releases)]
        if moved:
            what = f"{' and '.join(moved)} changed, and that is not approved yet; other tables, and what is stored, are answered"
            raise error(
                708, what, hint="its owner must run `dpsql refresh` with this schema; then open a new connection"
            )

    def as_of(self, releases: Sequence[Release]) -> tuple[str, ...]:
        """Notes of answers about tables that changed since: of those what is stored is given, or what was approved is read."""
        return _dated(self._changed(releases))

    def _changed(self, releases: Sequence[Release]) -> dict[str, str]:
        """The tables that some releases depend on and that changed, and when their versions were approved."""
        since = {**self._moved, **self._older}
        return {name: time for name, time in since.items() if any(name in release.tables for release in releases)}

    def found(self, part: CompiledRelease, plan: Compiled, options: Options) -> Reused | Missing:
        """A release as it is read off what is stored, or as it is bought.

        Why  at one moment: what another process stores after the first look would be found by the last as something else, and whoever
             waits for it would be asked whether that will do
        """
        return self._ledger.store.moment(lambda _: self._found(part, plan, options))

    def _found(self, part: CompiledRelease, plan: Compiled, options: Options) -> Reused | Missing:
        fingerprint = self.fingerprint(part)
        if options.fresh:
            return Missing(part, part, fingerprint)
        table = self._answers.get(fingerprint)
        if table is not None:
            return Reused(self.questions.own(part, fingerprint), table, (fingerprint,))
        if part.release.stands_alone:
            return Missing(part, part, fingerprint)
        exact = plan.plan.accuracy_target is not None
        read = self._read(part, options, self._wider(plan), Tolerance(1 if exact else WIDER_SUM))
        if read is None and options.buy == OFF:
            read = self._read(part, options, inf, Tolerance(inf, cheaper=True))
        if read is not None:
            return read
        topped = refine(self.questions, part)
        offer = self._offer(part, plan, options, is_sharpened=topped is not None)
        return Missing(topped.part if topped is not None else part, part, fingerprint, topped, offer)

    def _read(self, part: CompiledRelease, options: Options, wider: float, within: Tolerance) -> Reused | None:
        """A release that is read off a cube, or off stored answers."""
        viewed = self.cubes.find(part, wider) if options.reads_cubes else None
        return viewed if viewed is not None else Reusing(self.questions).find(part, within)

    def _offer(self, part: CompiledRelease, plan: Compiled, options: Options, *, is_sharpened: bool) -> Offer | None:
        """A stored answer of a release that is to be bought, where it is worth a question.

        Why  of the same cells that cost less only where the statement names no price: who writes a higher one means it. What is
             sharpened is charged for the difference, so that nothing is bought again
        """
        is_usual = self._wider(plan) > 1
        viewed = self.cubes.widest(part) if options.reads_cubes else None
        names: tuple[str, ...]
        if viewed is not None:
            source, release, names = f"the cube {printable(viewed[0].name)}", viewed[1], (viewed[0].fingerprint,)
        else:
            stored = Reusing(self.questions).find(part, Tolerance(inf, cheaper=is_usual)) if not is_sharpened else None
            if stored is None:
                return None
            source, release, names = "what is stored", stored.part.release, stored.fingerprints
        from dpsql.answers.offering import offered

        exact = plan.plan.accuracy_target is not None
        offer = offered(source, release, part.release, self._schema.privacy.units, exact=exact)
        return None if offer is None else replace(offer, own=self._answers.are_of(self._analyst, names))

    def require_agreed(self, held: Held, options: Options) -> None:
        """Raises 505 where a statement is to be bought that could be read off what is stored, and nobody said that it is to be; and
        where nothing is to be bought."""
        if not held.missing or (options.buy != OFF and (options.fresh or options.buy == ON)):
            return
        asks = not self._schema.privacy.buy_again and all(
            one.offer is not None and one.offer.own for one in held.missing
        )
        if options.buy == OFF or asks:
            from dpsql.answers.offering import not_bought, refusal

            loss = total(one.part.release.loss for one in held.missing)
            if options.buy == OFF:
                raise not_bought(loss, is_fresh=options.fresh)
            raise refusal([one.offer for one in held.missing if one.offer], loss)

    def unanswered(self, plan: Compiled, cubes: Sequence[StoredCube]) -> tuple[Compiled, tuple[str, ...]]:
        """A statement without the releases that are read off some cubes as soon as these are bought, and the names of those."""
        found = {
            part.release.name: self.cubes.would_answer(part, self._wider(plan), cubes)
            for part in plan.releases
            if part.release.parts and not part.release.stands_alone
        }
        left = tuple(part for part in plan.releases if not found.get(part.release.name))
        return replace(plan, releases=left), tuple(dict.fromkeys(filter(None, found.values())))

    def _wider(self, plan: Compiled) -> int:
        """The most that what is read off a cube may err, in errors of what would be bought: more only where nothing was asked."""
        default = plan.plan.price.epsilon == self._schema.privacy.query.epsilon
        return WIDER if default and plan.plan.accuracy_target is None else 1

    def _at_least(self, missing: list[Missing]) -> tuple[tuple[Missing, ...], tuple[str, ...]]:
        """Differences to what was bought before are made up to the owner's least price of a statement (rule 74); and what is told."""
        least = self._schema.privacy.floor
        short = rho_at_most(least) - sum(one.rho for one in missing)
        sharpened = sum(one.rho for one in missing if one.refine is not None)
        if sharpened > 0 and short > 0:
            missing = [self._dearer(one, 1 + short / sharpened) for one in missing]
        if not any(one.part.release.raised for one in missing):
            return tuple(missing), ()
        note = f"raised to the owner's least price, epsilon {float(least):g}: the error is smaller than asked"
        return tuple(missing), (note,)

    def _dearer(self, one: Missing, factor: Fraction) -> Missing:
        if one.refine is None:
            return one
        asked, topped = dearer(one.asked, one.refine, factor)
        return replace(one, part=topped.part, asked=asked, refine=topped)

    def fingerprint(self, part: CompiledRelease) -> str:
        """Under which an answer is stored: of these versions of what it depends on, where the owner says so for this analyst alone."""
        return f"{part.release.fingerprint}:{self.questions.scope.of(part.release)}"

    def is_charged(self, key: str) -> bool:
        """True if this analyst's request with the key was charged; False where it has no key."""
        return self._answers.is_charged(self._analyst, key)

    def charges_of(self, fingerprints: Sequence[str]) -> list[int | None]:
        """The charges that bought stored answers; None for one that is not stored."""
        return self._answers.charges_of(fingerprints)

    def certificates(self, fingerprints: Sequence[str]) -> list[dict[str, object]]:
        """Certificates of stored releases."""
        found = []
        for fingerprint, charge in zip(fingerprints, self.charges_of(fingerprints), strict=True):
            known = self._ledger.certificates(charge) if charge is not None else []
            found += [each for each in known if each.get("release") == fingerprint.partition(":")[0]]
        return found

    def put(self, charge: int, bought: Missing, noisy: NoisyTable, *, fresh: bool) -> NoisyTable:
        """Store what was bought, added to what it sharpens; what is stored under its name is what counts."""
        whole = bought.refine.combined(noisy) if bought.refine is not None else noisy
        kept: list[Vector] = self.questions.kept(bought.asked) if bought.asked.release.fit is None else []
        return self._answers.put(charge, bought.fingerprint, whole, fresh=fresh, of=kept)


def _dated(changed: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"as of {_minute(time)}: {printable(name)} changed since, and that is not approved yet"
        for name, time in changed.items()
    )


def _minute(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC"


def _names(bought: Missing) -> tuple[str, ...]:
    return (bought.fingerprint, *(bought.refine.names if bought.refine is not None else ()))
