"""The planning stages in their order, for tests that look at a plan and at nothing else."""

from __future__ import annotations

from dataclasses import replace

from dpsql.plan.compiled import Compiled
from dpsql.plan.resolved import PublicTuples, PublicTypes
from dpsql.planner.measure import Identities
from dpsql.planner.options import Options
from dpsql.planner.parse import Query
from dpsql.planner.planning import bound, calibrate
from dpsql.planner.resolve import resolve
from dpsql.schema.model import Schema
from dpsql.session import answer
from dpsql.session.session import Session


def compile_statement(
    query: Query,
    session: Options,
    schema: Schema,
    types: PublicTypes | None = None,
    lists: PublicTuples | None = None,
    identities: Identities | None = None,
) -> Compiled:
    """A plan without a guard, by the text and the declared schema."""
    query = replace(query, session=session)
    query.settled.price(schema)
    bounded = bound(query, resolve(query, schema, types, lists), schema)
    return calibrate(bounded, query.settled, schema, identities or Identities(schema))


def planned(session: Session, query: Query) -> answer.Planned:
    """A plan as a session makes it, with whom it asks about."""
    return answer.plan(replace(query, session=session._world.options), session._world)


def compiled_by(session: Session, query: Query) -> Compiled:
    """A plan as a session makes it."""
    return planned(session, query).plan
