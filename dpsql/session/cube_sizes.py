"""cube_sizes: how often values occur, read off the cubes that `[refresh]` lists and kept for the guard: free, for it was released.

Why these alone  sizes decide what the guard refuses to everybody. What one analyst asked never decides about another (rule 52): with a
                 cube of theirs, at a condition or a price that they chose, it would. What is listed is the owner's choice, whoever was
                 the first to ask for it; and the noise of a cube is nobody's choice
Why once         decisions are not to change from day to day: a column that has sizes keeps them until the owner buys others
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.accounting import remembered
from dpsql.accounting.answers import Answers
from dpsql.accounting.cubes import StoredCube
from dpsql.answers.cube_columns import width_of
from dpsql.answers.cubes import WIDER
from dpsql.core.errors import Error
from dpsql.guard.bought import ColumnHistogram, bought, counted, histograms, listed, written
from dpsql.guard.sizes import from_histogram
from dpsql.planner.parse import Query
from dpsql.planner.planning import calibrate
from dpsql.session import answer, naming
from dpsql.session.world import World


def keep_sizes(world: World, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Keep sizes of the columns that none are kept of and that one of some cubes is by, where a statement would be read off it.

    names   of the cubes
    Output  (column, name of the cube)
    """
    found_by_name = map(world.stored.cubes.names.get, names)
    cubes = [cube for cube in found_by_name if cube is not None]
    known = bought(world.schema, remembered.sizes(world.ledger))
    kept: list[tuple[str, str]] = []
    asked = (one for one in histograms(world.schema) if (one.table, one.column.name) not in known)
    for one in asked if cubes and world.schema.guard.mode != "off" else ():
        for found in (_read(way, world, cubes) for way in listed(one)):
            if found is not None:
                cube, body, charge = found
                remembered.keep_sizes(world.ledger, charge, {one.name: body})
                kept.append((f"{one.table}.{one.column.name}", cube.name))
    return tuple(kept)


def _read(one: ColumnHistogram, world: World, cubes: Sequence[StoredCube]) -> tuple[StoredCube, str, int] | None:
    """A histogram off the first cube that has it, as it is written, and the charge of that; None where none has."""
    query = answer.read(one.sql, (), world)
    assert isinstance(query, Query)
    try:
        compiled = calibrate(naming.bounded(query, world), query.settled, world.schema, world.identities)
    except Error:
        # a column that no statement of this kind may ask about
        return None
    (part,) = compiled.releases
    for cube in cubes:
        found = world.stored.cubes.find(part, WIDER, [cube])
        charge = Answers(world.ledger).charges_of([cube.fingerprint])[0]
        if found is None or charge is None:
            continue
        output = found.part.release.outputs[0]
        width = width_of(found.part.release, output)
        rows = list(zip(*found.table.keys, found.table.cells[output.measure], strict=True))
        cells = counted(one, rows, width[1] if width is not None and not width[0] else 0.0)
        if from_histogram(cells) is not None:
            return cube, written(one.column, cells, f"the cube {cube.name}"), charge
    return None
