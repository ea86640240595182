"""The proposal of cubes for a workload (workload.py), and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.amounts import at_least
from dpsql.answers.offering import said
from dpsql.core.loss import PrivacyLoss
from dpsql.core.wording import counted, number
from dpsql.mechanisms.prices import nominal

_LONGEST_TEXT = 100


@dataclass(frozen=True, slots=True)
class ColumnErrors:
    """95 % half-widths of one column [its own unit; of an average, that times the number of rows].

    alone  bought by its statement
    read   off the cube; None where it is not
    rows   that a group is expected to have; None where nothing says so
    """

    name: str
    alone: float | None
    read: float | None
    over_rows: bool
    rows: Fraction | None

    def said(self, width: float) -> str:
        return said(width, self.rows, over_rows=self.over_rows)


@dataclass(frozen=True, slots=True)
class StatementOfWorkload:
    """A statement and what becomes of it.

    loss    bought alone
    cube    the name of the cube that it would be read off; "" where there is none
    tried   the name of the cube that it was tried on
    reason  why there is none
    """

    sql: str
    loss: PrivacyLoss
    columns: tuple[ColumnErrors, ...]
    cube: str = ""
    tried: str = ""
    reason: str = ""

    def lines(self) -> Iterator[str]:
        text = " ".join(self.sql.split())
        yield text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
        if self.reason:
            yield f"  {self.reason}"
            return
        for one in self.columns:
            alone = f"{one.said(one.alone)} alone" if one.alone is not None else "no error known alone"
            off = f", {one.said(one.read)} off {self.tried}" if one.read is not None else ""
            yield f"  {one.name}: {alone}{off}{', free' * bool(self.cube)}"
        if not self.cube:
            yield "  the cube errs more than twice as much: it would be bought, or read off it with buy=off"


@dataclass(frozen=True, slots=True)
class ProposedCube:
    """A cube that answers several statements.

    sql    that buys it
    count  of the statements that are read off it
    """

    name: str
    sql: str
    rho: Fraction
    cells: int
    count: int


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """Proposal for a set of statements; str() is the text for whoever buys."""

    cubes: tuple[ProposedCube, ...]
    statements: tuple[StatementOfWorkload, ...]

    @property
    def alone(self) -> Fraction:
        """[nats] of all statements that the cubes answer, bought one by one."""
        return sum((nominal(one.loss) for one in self.statements if one.cube), Fraction(0))

    def __str__(self) -> str:
        parts = ["\n".join(one.lines()) for one in self.statements]
        read = sum(bool(one.cube) for one in self.statements)
        for cube in self.cubes:
            told = f"{counted(cube.cells, 'cell')}, rho {at_least(cube.rho)}, {counted(cube.count, 'statement')} read off it"
            parts.append(f"{cube.name}: {told}\n{cube.sql};")
        if self.cubes:
            rho = at_least(sum((cube.rho for cube in self.cubes), Fraction(0)))
            parts.append(
                f"together: rho {rho} once, for {read:,} of {counted(len(self.statements), 'statement')} and all that follow; "
                f"one by one, each once, they cost epsilon {number(self.alone)}"
            )
        return "\n\n".join(parts or ["no cube answers any of them"])
