"""How a rule of the checker ends: the value that an operator gives, and why the engine cannot raise on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpsql.planner.total.known import Known


@dataclass(frozen=True, slots=True)
class Ruled:
    """What an operator gives.

    by  "always": it raises on no value of these types; "proof": the limits of each operand and of the result say so; "nothing":
        it may raise on some value, and then a guard makes NULL of it
    """

    known: Known
    by: Literal["always", "proof", "nothing"]


def always(known: Known) -> Ruled:
    return Ruled(known, "always")


def proved(known: Known) -> Ruled:
    return Ruled(known, "proof")


def nothing(known: Known) -> Ruled:
    return Ruled(known, "nothing")


def decided(known: Known, proof: bool) -> Ruled:
    return Ruled(known, "proof" if proof else "nothing")
