"""refreshing: buys the statements that the owner's `[refresh]` lists of the version that was approved, in their order.

Each is charged and stored as any other, under a name of its own, so that whoever asks the same is answered free. What they cost is said
before the first is bought, and hangs on no row: prices are made of declarations. A cube that is listed takes its name in every version,
and what stands behind it in the list is read off it where it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.cubes import StoredCube
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.core.escaping import harmless
from dpsql.core.wording import counted, listed
from dpsql.dataset.opening import open_dataset, table_versions
from dpsql.mechanisms.prices import nominal
from dpsql.mechanisms.source import NoiseSource
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Analyst, Schema
from dpsql.schema.purchases import BUYER as BUYERS_NAME
from dpsql.schema.purchases import Purchases
from dpsql.session.outdated import Outdated, outdated, text_of_outdated
from dpsql.session.session import Session

BUYER = Analyst(BUYERS_NAME)


@dataclass(frozen=True, slots=True)
class Purchase:
    """A listed statement.

    price    [nats] that it costs in this version: 0 where it is stored
    problem  that keeps it from being bought; None where it is stored or bought, or does not fit
    fits     whether it is bought, or need not be
    cube     that it buys, or names anew
    off      names of listed cubes that it is read off
    """

    statement: str
    price: Fraction
    fits: bool = True
    problem: Error | None = None
    cube: StoredCube | None = None
    off: tuple[str, ...] = ()

    @property
    def is_paid(self) -> bool:
        return self.fits and bool(self.price)

    @property
    def is_held(self) -> bool:
        """True if its answer is stored."""
        return self.fits and self.problem is None

    @property
    def fields(self) -> dict[str, object]:
        state = (
            "refused" if self.problem is not None else "left" if not self.fits else "bought" if self.price else "stored"
        )
        problem = {"problem": str(self.problem)} if self.problem is not None else {}
        cubes = {"cubes": list(self.off)} if self.off else {}
        return {"statement": self.statement, "epsilon": float(self.price), "state": state, **cubes, **problem}


@dataclass(frozen=True, slots=True)
class Followed:
    """Followers of an approval: statements that are stored no longer, and those that are listed.

    sizes  that the guard has from now on: (column, cube)
    """

    outdated: tuple[Outdated, ...] = ()
    purchases: tuple[Purchase, ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()


def buy(
    schema: Schema,
    ledger: Ledger,
    told: Callable[[str], None] = lambda text: None,
    noise: NoiseSource | None = None,
    before: str | None = None,
) -> Followed:
    """Buy what the approved version lacks of the listed statements: each that still fits into what one version may spend. The ledger is
    closed where there is anything to do.

    told    is called with what is stored no longer, and with what will be charged, before it is; not where nothing is
    noise   where randomness comes from; tests alone pass one
    before  the version that was approved before this one, if it is another
    Errors  as open_dataset; what one statement raises stands with it
    """
    if schema.refresh is None and before is None:
        return Followed()
    dataset = open_dataset(schema, ledger, approve=False)
    with closing(Session(dataset, ledger, BUYER, noise)) as session:
        then = table_versions(ledger, before, schema) if before is not None else dataset.versions
        gone = outdated(session, ledger, then, dataset.versions)
        if gone:
            told(text_of_outdated(gone))
        if schema.refresh is None:
            return Followed(gone)
        most = schema.refresh.epsilon

        def left() -> Fraction:
            """Amount that a refresh which was killed, or comes again, or runs beside another one, may still spend."""
            charged = (nominal(e.loss) for e in ledger.history(BUYER.name) if e.version == dataset.version)
            return most - sum(charged, Fraction(0))

        found = planned(session, schema.refresh, left())
        if any(one.is_paid for one in found):
            told(text_of(schema, found))
        made = tuple(_bought(session, one, left) for one in found)
        sized = session.keep_sizes([one.cube.name for one in made if one.is_held and one.cube is not None])
        if sized:
            told(text_of_sizes(sized))
        return Followed(gone, made, sized)


def text_of(schema: Schema, found: tuple[Purchase, ...]) -> str:
    """Text of the charges that are made, and of what is left."""
    wanted = [one for one in found if one.is_paid]
    whole = sum((one.price for one in wanted), Fraction(0))
    cubes = sum(one.cube is not None for one in wanted)
    counts = [counted(n, name) for n, name in ((cubes, "cube"), (len(wanted) - cubes, "statement")) if n]
    lines = [f"{printable(schema.name)}: buys {listed(counts)}, epsilon {float(whole):.6g} together"]
    free = sum(bool(one.off) and not one.price for one in found)
    lines += [f"read off them, free: {counted(free, 'statement')}"] if free else []
    lines += [f"left, epsilon {float(one.price):.6g}: {printable(one.statement)}" for one in found if not one.fits]
    return harmless("\n".join(lines), kept="\n")


def text_of_sizes(found: tuple[tuple[str, str], ...]) -> str:
    """Text of the columns whose sizes the guard knows from now on, and of the cubes that these were read off."""
    names, cubes = ([printable(name) for name in dict.fromkeys(part)] for part in zip(*found, strict=True))
    return harmless(f"sizes for the guard, read off {listed(cubes)}, free: {listed(names)}", kept="\n")


def planned(session: Session, purchases: Purchases, left: Fraction) -> tuple[Purchase, ...]:
    """Each listed statement at its price now; one that does not fit into what is left makes room for those after it."""
    found = list[Purchase]()
    for statement in purchases.statements:
        try:
            asked = session.prospect(statement, [one.cube for one in found if one.fits and one.cube is not None])
        except Error as problem:
            found.append(Purchase(statement, Fraction(0), problem=problem))
            continue
        price = asked.price
        fits = price <= left
        left -= price if fits else 0
        found.append(Purchase(statement, price, fits, cube=asked.cube, off=asked.off))
    return tuple(found)


def _bought(session: Session, one: Purchase, left: Callable[[], Fraction]) -> Purchase:
    """The statement bought at most at the price that was told; what others bought meanwhile is free.

    left  gives what may still be spent of the version, as it is then

    Why   a cube that is stored is asked too: it has its name again where another version had it. Where another refresh spent what was
          left, the ledger refuses it in the transaction of the charge
    """
    if not one.fits or one.problem is not None or not (one.price or one.cube or one.off):
        return one
    try:
        price = nominal(session.price(one.statement)[0].loss)
        if price > one.price:
            return replace(one, price=price, fits=False)
        if one.price or one.cube:
            session.execute(one.statement)
    except Error as problem:
        if problem.code == "DPSQL-501" and one.price > left():
            return replace(one, fits=False)
        return replace(one, problem=problem)
    return one
