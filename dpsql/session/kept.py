"""Statements about what is kept under a name, cubes and models: each is told to its own module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.accounting.cubes import StoredCube
from dpsql.answers.look_up import Missing
from dpsql.core.errors import Error
from dpsql.plan.compiled import Compiled
from dpsql.planner.model_terms import DropModel
from dpsql.planner.parse import CreateModel, Kept, Parsed, parse
from dpsql.release.buying import Bought
from dpsql.release.staging import Columns
from dpsql.session import cubes, models
from dpsql.session.cubes import PlannedCube
from dpsql.session.models import PlannedModel
from dpsql.session.predicting import expanded
from dpsql.session.result import Answer
from dpsql.session.world import World


def asked(statement: Kept, world: World) -> PlannedCube | PlannedModel | Answer:
    """Plan what is to be bought, up to its noise; of DROP the answer."""
    if isinstance(statement, CreateModel | DropModel):
        return models.asked(statement, world)
    return cubes.asked(statement, world)


def named(planned: PlannedCube | PlannedModel, found: Bought, world: World) -> Answer:
    """Give what was bought, or was stored already, under its name from now on."""
    if isinstance(planned, PlannedModel):
        return models.named(planned, found, world)
    return cubes.named(planned, found, world)


def explain(statement: Kept, world: World) -> str:
    """The plan of what is to be bought. Raises 103 for DROP."""
    if isinstance(statement, CreateModel | DropModel):
        return models.explain(statement, world)
    return cubes.explain(statement, world)


def missing(statement: Kept, world: World) -> tuple[Missing, ...]:
    """The releases that would be bought now; none for DROP."""
    if isinstance(statement, CreateModel | DropModel):
        return models.missing(statement, world)
    return cubes.missing(statement, world)


def columns(statement: Kept, world: World) -> Columns:
    """The columns of the answer, free."""
    if isinstance(statement, CreateModel | DropModel):
        return models.columns(statement)
    return cubes.columns(statement, world)


def prospect(statement: Kept, world: World) -> StoredCube | None:
    """The cube that a statement would name; None for any other."""
    return None if isinstance(statement, CreateModel | DropModel) else cubes.prospect(statement, world)


def compiled(statement: Kept, world: World) -> Compiled | None:
    """The plan of what buys it; None for DROP MODEL, which has none."""
    if isinstance(statement, CreateModel):
        return models.plan(statement, world).plan
    return None if isinstance(statement, DropModel) else cubes.plan(cubes.meant(statement, world), world).plan


def parsed(text: str, parameters: Sequence[object] | Mapping[str, object], world: World) -> Parsed:
    """The statement, with SQL in place of what it asks of models; then its errors name no place, which would be of that text."""
    try:
        return parse(expanded(text, lambda name: models.known(name, world)), parameters)
    except Error as raised:
        problem = raised
    problem.span = None
    raise problem.with_traceback(None)
