"""Statements about what is kept under a name, cubes, models, randomized and synthetic tables: each is told to its own module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dpsql.accounting.cubes import StoredCube
from dpsql.answers.look_up import Missing
from dpsql.core.errors import Error
from dpsql.plan.compiled import Compiled
from dpsql.plan.tables import PublicTable
from dpsql.planner.cube_terms import CreateSynthetic, DropSynthetic, NamedCube
from dpsql.planner.model_terms import DropModel
from dpsql.planner.parse import Catalog, CreateCube, CreateModel, CreateTable, Explain, Kept, Parsed, Query, parse
from dpsql.planner.table_terms import DropTable
from dpsql.release.buying import Bought
from dpsql.release.staging import Columns
from dpsql.schema import spent
from dpsql.session import cubes, models, randomized
from dpsql.session.cubes import PlannedCube
from dpsql.session.expanding import expanded
from dpsql.session.models import PlannedModel
from dpsql.session.planned import Planned as PlannedQuery
from dpsql.session.randomized import PlannedTable
from dpsql.session.result import Answer
from dpsql.session.world import World

Planned = PlannedCube | PlannedModel | PlannedTable


def asked(statement: Kept, world: World, buy: Callable[[PlannedQuery], Bought]) -> Planned | Answer:
    """Plan what is to be bought, up to its noise; of DROP the answer. buy  buys what has to be known before"""
    match statement:
        case CreateSynthetic() | DropSynthetic():
            from dpsql.session import synthetic

            return synthetic.asked(statement, world)
        case CreateModel() | DropModel():
            return models.asked(statement, world)
        case CreateTable() | DropTable():
            return randomized.asked(statement, world)
    return cubes.asked(statement, world, buy)


def named(planned: Planned, found: Bought, world: World) -> Answer:
    """Give what was bought, or was stored already, under its name from now on."""
    match planned:
        case PlannedModel():
            return models.named(planned, found, world)
        case PlannedTable():
            return randomized.named(planned, found, world)
    return cubes.named(planned, found, world)


def explain(statement: Kept, world: World) -> str:
    """The plan of what is to be bought. Raises 103 for DROP."""
    match statement:
        case CreateSynthetic() | DropSynthetic():
            from dpsql.session import synthetic

            return synthetic.explain(statement, world)
        case CreateModel() | DropModel():
            return models.explain(statement, world)
        case CreateTable() | DropTable():
            return randomized.explain(statement, world)
    return cubes.explain(statement, world)


def missing(statement: Kept, world: World) -> tuple[Missing, ...]:
    """The releases that would be bought now; none for DROP, and for what is free."""
    match statement:
        case CreateSynthetic() | DropSynthetic():
            return ()
        case CreateModel() | DropModel():
            return models.missing(statement, world)
        case CreateTable() | DropTable():
            return randomized.missing(statement, world)
    return cubes.missing(statement, world)


def columns(statement: Kept, world: World) -> Columns:
    """The columns of the answer, free."""
    match statement:
        case CreateSynthetic() | DropSynthetic():
            from dpsql.session import synthetic

            return synthetic.columns(statement)
        case CreateModel() | DropModel():
            return models.columns(statement)
        case CreateTable() | DropTable():
            return randomized.columns(statement, world)
    return cubes.columns(statement, world)


def prospect(statement: Kept, world: World) -> StoredCube | None:
    """The cube that a statement would name; None for any other."""
    return cubes.prospect(statement, world) if isinstance(statement, CreateCube | NamedCube) else None


def compiled(statement: Kept, world: World) -> Compiled | None:
    """The plan of what buys it; None for what buys nothing."""
    match statement:
        case CreateModel():
            return models.plan(statement, world).plan
        case CreateTable():
            return randomized.plan(statement, world).plan
        case DropModel() | DropTable() | CreateSynthetic() | DropSynthetic():
            return None
    return cubes.plan(cubes.meant(statement, world), world).plan


def parsed(text: str, parameters: Sequence[object] | Mapping[str, object], world: World) -> Parsed:
    """The statement, with SQL in place of names; then its errors name no place, which would be of that text."""
    try:
        return parse(expanded(text, world), parameters)
    except Error as raised:
        problem = raised
    problem.span = None
    raise problem.with_traceback(None)


def load_synthetic(statement: Parsed, world: World) -> None:
    """Put the rows of the synthetic tables that a statement reads where it is answered. Raises 105."""
    asked = statement.query if isinstance(statement, Explain) else statement
    if isinstance(asked, Query | Catalog):
        from dpsql.session import synthetic

        synthetic.load(asked, world)


def _synthetic_tables(world: World) -> PublicTable:
    from dpsql.session import synthetic

    return synthetic.table(world)


TABLES: Mapping[str, Callable[[World], PublicTable]] = {
    spent.CUBES: cubes.table,
    spent.MODELS: models.table,
    spent.RANDOMIZED: randomized.table,
    spent.SYNTHETIC: _synthetic_tables,
}
"""The tables of dpsql that show what is kept, by their names."""
