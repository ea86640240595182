"""Statements about what is kept under a name, cubes, models, randomized and synthetic tables: the kind that each is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpsql.core.errors import Error
from dpsql.plan.tables import PublicTable
from dpsql.planner.cube_terms import CreateSynthetic, DropSynthetic
from dpsql.planner.model_terms import DropModel
from dpsql.planner.parse import Catalog, CreateModel, CreateTable, Explain, Kept, Parsed, Query, parse
from dpsql.planner.table_terms import DropTable
from dpsql.schema import spent
from dpsql.session import cubes, models, randomized
from dpsql.session.expanding import expanded
from dpsql.session.naming import NamedKind
from dpsql.session.world import World


def kind_of(statement: Kept) -> NamedKind[Any]:
    match statement:
        case CreateSynthetic() | DropSynthetic():
            from dpsql.session import synthetic

            return synthetic.KIND
        case CreateModel() | DropModel():
            return models.KIND
        case CreateTable() | DropTable():
            return randomized.KIND
    return cubes.KIND


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

    return synthetic.KIND.shown(world)


TABLES: Mapping[str, Callable[[World], PublicTable]] = {
    spent.CUBES: cubes.KIND.shown,
    spent.MODELS: models.KIND.shown,
    spent.RANDOMIZED: randomized.KIND.shown,
    spent.SYNTHETIC: _synthetic_tables,
}
"""The tables of dpsql that show what is kept, by their names."""
