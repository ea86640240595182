"""What there is of a statement before it is charged: answers that are stored, and what is missing of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpsql.answers.topping_up import TopUp
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.tables import NoisyTable


@dataclass(frozen=True, slots=True)
class Missing:
    """A release that is to be bought.

    part         what is bought of it: where a stored answer is sharpened, the difference
    asked        the release as it was asked, with the noise that is in it at the end
    fingerprint  under which it is stored
    top_up       the stored answer that is sharpened, or None
    """

    part: CompiledRelease
    asked: CompiledRelease
    fingerprint: str
    top_up: TopUp | None = None

    @property
    def name(self) -> str:
        return self.part.release.name

    @property
    def rho(self) -> Fraction:
        return self.part.release.loss.rho


@dataclass(frozen=True, slots=True)
class Held:
    """What there is of a statement before it is charged.

    plan          with the noise that is really in what is read off stored answers
    tables        of the releases that are stored, by name
    missing       what is to be bought
    fingerprints  of the answers that are read or bought
    notes         what the reader of the answer has to know
    """

    plan: Compiled
    tables: Mapping[str, NoisyTable]
    missing: tuple[Missing, ...]
    fingerprints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
