"""Reading [roles], [analysts] and [reservations]: who may ask, and what part of the total is theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from dpsql.accountants.registry import just_adds_up
from dpsql.schema.mistakes import Mistakes, printable, suggestion
from dpsql.schema.model import RESERVED, Analyst, Privacy, Reservation, Role, Schema
from dpsql.schema.section import Section
from dpsql.schema.write import exact, name

ROLE = {"epsilon": "1.0", "delta": "1e-7"}
ANALYST = ROLE | {"role": '"interns"', "dashboard": "0.05"}
RESERVATION = {"analyst": '"bi"', "refreshes": "12", "epsilon": "0.1", "delta": "1e-9"}
EXAMPLES = {
    "role": "{ epsilon = 1.0 }",
    "analyst": "{ epsilon = 1.0 }",
    "reservation": '{ analyst = "bi", refreshes = 12, epsilon = 0.1 }',
}
STAND_IN = Fraction(1)  # for a price that could not be read; never used, since that was reported


def read_roles(top: Section) -> tuple[Role, ...]:
    """The declared roles."""
    return tuple(Role(n, s.positive("epsilon"), s.probability("delta")) for n, s in _named(top, "role", ROLE))


def read_analysts(top: Section) -> tuple[Analyst, ...] | None:
    """The declared analysts; () lets nobody ask, None lets everybody."""
    found = tuple(
        Analyst(n, s.positive("epsilon"), s.probability("delta"), s.text("role"), s.positive("dashboard"))
        for n, s in _named(top, "analyst", ANALYST)
    )
    return found if isinstance(top.values.get("analysts"), dict) else None


def read_reservations(top: Section) -> tuple[Reservation, ...]:
    """The declared reservations."""
    return tuple(_reservation(n, s) for n, s in _named(top, "reservation", RESERVATION))


def _reservation(called: str, section: Section) -> Reservation:
    """One reservation; its analyst is "" where none can be read (reported)."""
    section.require("analyst", "refreshes", "epsilon")
    analyst, refreshes = section.text("analyst") or "", section.count("refreshes") or 1
    epsilon, delta = section.positive("epsilon") or STAND_IN, section.probability("delta") or Fraction(0)
    return Reservation(called, analyst, refreshes, epsilon, delta)


def _named(top: Section, kind: str, examples: Mapping[str, str]) -> Iterator[tuple[str, Section]]:
    """The sections [kinds.NAME] by name, without what is no section (reported)."""
    section = top.free(f"{kind}s", f"[{kind}s]", EXAMPLES[kind])
    if section is None:
        return
    section.refuse_bad_names(kind)
    for each in section.values:
        found = section.inner(each, examples, f"{kind} {printable(each)}")
        if found is not None:
            yield each, found


# --- what can be wrong between them -------------------------------------------------------------------------------


def check_people(schema: Schema, mistakes: Mistakes) -> None:
    """Add every mistake between analysts, roles, reservations and the total."""
    for analyst in schema.analysts or ():
        _check_role(schema.roles, analyst, mistakes)
        if not mistakes.at("[privacy]"):
            _check_dashboard(schema.privacy, analyst, mistakes)
        if analyst.name.startswith(RESERVED):
            what = "has a name that dpsql keeps for itself"
            mistakes.add(f"analyst {printable(analyst.name)}", what, "give them another name")
    if schema.refresh is not None and not schema.privacy.shared_answers:
        mistakes.add(
            "[refresh]", "buys answers for nobody: shared_answers is false", "remove [refresh], or shared_answers"
        )
    first: dict[str, str] = {}
    for reservation in schema.reservations:
        _check_analyst(schema.analysts, reservation, first, mistakes)
    if not mistakes.at("[privacy]"):
        _check_amounts(schema.privacy, schema.reservations, mistakes)


def _at(reservation: Reservation) -> str:
    return f"reservation {printable(reservation.name)}"


def _check_role(roles: tuple[Role, ...], analyst: Analyst, mistakes: Mistakes) -> None:
    """A role that does not exist would be a cap that nobody keeps to."""
    names = [r.name for r in roles]
    if analyst.role is None or analyst.role in names or mistakes.at("[roles]"):
        return
    remedy = suggestion(analyst.role, names) if names else f"write [roles.{name(analyst.role)}] with epsilon = 1.0"
    mistakes.add(f"analyst {printable(analyst.name)}", f"role {printable(analyst.role)} is not declared", remedy)


def _check_analyst(
    analysts: tuple[Analyst, ...] | None, reservation: Reservation, first: dict[str, str], mistakes: Mistakes
) -> None:
    """Report amounts that are kept for nobody, and so lost to everybody. `first` is the reservation of each analyst so
    far."""
    analyst = reservation.analyst
    names = None if analysts is None or mistakes.at("[analysts]") else [a.name for a in analysts]
    if analyst and names is not None and analyst not in names:
        mistakes.add(_at(reservation), f"analyst {printable(analyst)} is not declared", suggestion(analyst, names))
    earlier = first.setdefault(analyst, reservation.name)
    if analyst and earlier != reservation.name:
        what = f"analyst {printable(analyst)} has reservation {printable(earlier)} already"
        mistakes.add(_at(reservation), what, "write one reservation an analyst")


def _check_dashboard(privacy: Privacy, analyst: Analyst, mistakes: Mistakes) -> None:
    """Report a price that nothing could have, or that the owner allows nobody."""
    price, least, most = analyst.dashboard, privacy.floor, privacy.caps.epsilon
    if price is not None and not least <= price <= most:
        what = "dashboard is below the least of a statement" if price < least else "dashboard is above caps"
        mistakes.add(f"analyst {printable(analyst.name)}", what, f"write a price from {exact(least)} to {exact(most)}")


def _check_amounts(privacy: Privacy, reservations: tuple[Reservation, ...], mistakes: Mistakes) -> None:
    """A refresh is a statement, so caps hold for it; where losses just add up, all of them fit in the total."""
    for reservation in reservations:
        for key, price, most in (
            ("epsilon", reservation.epsilon, privacy.caps.epsilon),
            ("delta", reservation.delta, privacy.caps.delta),
        ):
            if price > most and not mistakes.at(_at(reservation)):
                remedy = f"write {key} = {exact(most)}, or raise caps"
                mistakes.add(_at(reservation), f"one refresh has more {key} than caps", remedy)
        if reservation.epsilon < privacy.floor and not mistakes.at(_at(reservation)):
            remedy = f"write epsilon = {exact(privacy.floor)}, or lower least"
            mistakes.add(_at(reservation), "one refresh has less epsilon than the least of a statement", remedy)
    if not just_adds_up(privacy.accounting) or any(mistakes.at(_at(r)) for r in reservations):
        return
    for key, kept, total in (
        ("epsilon", sum(r.refreshes * r.epsilon for r in reservations), privacy.budget.epsilon),
        ("delta", sum(r.refreshes * r.delta for r in reservations), privacy.budget.delta),
    ):
        if kept > total:
            what = f"together keep more {key} than the dataset's total"
            mistakes.add("[reservations]", what, f"write fewer refreshes, or less {key} of one")
