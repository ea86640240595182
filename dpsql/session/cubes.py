"""Statements about cubes: CREATE PRIVATE CUBE, REFRESH, DROP, SHOW CUBES, and EXPLAIN of what buys one.

A cube is bought as any release is: judged, charged, run and stored, and what is stored is given again free. Only then it has its name:
whoever is stopped before that asks the same again, and has it for the one charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from dpsql.accounting.amounts import at_least
from dpsql.accounting.cubes import CubeStatistic, StoredCube
from dpsql.answers.cube_columns import width_of
from dpsql.answers.cube_view import marginal_errors
from dpsql.answers.look_up import Held, Missing
from dpsql.answers.questions import RowsKey
from dpsql.answers.reusing import Reused
from dpsql.core import cancellation
from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.core.wording import counted, listed, number
from dpsql.guard.guarding import Judged
from dpsql.mechanisms.residual import Axes, subsets
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Bounded, Release
from dpsql.plan.tables import PublicTable
from dpsql.planner.cube_terms import NamedCube
from dpsql.planner.cubes import CalibratedCube, calibrate_cube, values_of
from dpsql.planner.explain import explain_cube
from dpsql.planner.explain.released import asked as in_sql
from dpsql.planner.explain.words import Words
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateCube, Query, parse
from dpsql.planner.planning import calibrate
from dpsql.planner.qualified import in_main
from dpsql.release.buying import Bought
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import naming
from dpsql.session.planned import Planned
from dpsql.session.result import Answer
from dpsql.session.world import World

_LEFT_ALONE = "/* dpsql: cube=off */ before a statement leaves it alone"
MOST_SHOWN = 64
"""Marginals whose errors are told."""


def asked(statement: CreateCube | NamedCube, world: World) -> PlannedCube | Answer:
    """A cube up to its noise; of DROP the answer."""
    with cancellation.current().planning():
        if isinstance(statement, CreateCube):
            planned = plan(statement, world)
            other = None if world.is_owners else world.stored.cubes.names.get(statement.name)
            naming.require_free(other, planned.cube.fingerprint, "cube", "REFRESH")
            return planned
        named = _known(statement, world)
        if statement.verb == "DROP":
            return naming.dropped(world.stored.cubes.names, named, "cube", _LEFT_ALONE, world)
        return plan(_again(named), world)


def explain(statement: CreateCube | NamedCube, world: World) -> str:
    """The plan of a cube that is to be bought. Raises 103 for DROP."""
    if isinstance(statement, NamedCube) and statement.verb == "DROP":
        raise naming.not_bought("cube")
    planned = plan(meant(statement, world), world)
    cube = planned.cube
    is_stored = not world.stored.look_up(planned.plan, Options()).missing
    lines = list(_told(cube, is_stored))
    guarded = map(harmless, world.guard.lines(planned.planned.judged, planned.plan.plan.releases))
    return "\n".join([*map(harmless, lines), explain_cube(planned.plan, world.schema), *guarded])


def missing(statement: CreateCube | NamedCube, world: World) -> tuple[Missing, ...]:
    """The releases of a cube that would be bought now; none for DROP."""
    if isinstance(statement, NamedCube):
        known = _known(statement, world)
        if statement.verb == "DROP":
            return ()
        statement = _again(known)
    return world.stored.look_up(plan(statement, world).plan, Options()).missing


def prospect(statement: CreateCube | NamedCube, world: World) -> StoredCube | None:
    """The cube that a statement would name; None for DROP."""
    is_drop = isinstance(statement, NamedCube) and statement.verb == "DROP"
    return None if is_drop else plan(meant(statement, world), world).cube


def meant(statement: CreateCube | NamedCube, world: World) -> CreateCube:
    """The statement that a cube of this name is made by. Raises 105."""
    return statement if isinstance(statement, CreateCube) else _again(_known(statement, world))


def columns(statement: CreateCube | NamedCube, world: World) -> Columns:
    """The columns of the answer, free."""
    if isinstance(statement, NamedCube):
        known = _known(statement, world)
        return naming.DROPPED if statement.verb == "DROP" else _errors(known)[0]
    return _errors(plan(statement, world).cube)[0]


@dataclass(frozen=True, slots=True)
class ReadAtOnce:
    """A statement that is read off cubes, up to its answer."""

    planned: Planned
    held: Held


def at_once(query: Query, bounded: Bounded, world: World) -> ReadAtOnce | None:
    """A statement that is read off cubes before it is looked whom it asks about; None where that takes part.

    Why  R3 is not asked of what is read off with enough noise (rule 69). R2 hides a group by its noisy number of rows: where all have
         enough of them it hides none, whichever groups are expected to be small. So the answer is that of the whole way
    """
    if query.options.fresh or not query.settled.reads_cubes:
        return None
    people = world.guard.people_shown(bounded)
    if people is None:
        return None
    compiled = calibrate(bounded, query.settled, world.schema, world.identities)
    held = world.stored.look_up(compiled, query.settled)
    if not held.is_off_cubes or any(held.rows[name] < people * _rows(compiled, name) for name in held.cubes):
        return None
    return ReadAtOnce(Planned(query, Judged(bounded), compiled), held)


def _rows(compiled: Compiled, name: str) -> int:
    """[rows] of one unit in a release, at most."""
    return next(p.release.limited.limits.rows for p in compiled.releases if p.release.name == name)


def read_off(planned: Planned, world: World) -> list[str]:
    """Lines of EXPLAIN where a statement is read off cubes, or is bought although it could be read off what is stored."""
    options = planned.query.settled
    lines: list[str] = []
    for part in planned.plan.releases if not options.fresh else ():
        found = world.stored.found(part, planned.plan, options) if part.release.parts else None
        if isinstance(found, Missing):
            lines += [f"{part.release.name}: {found.offer.note}"] if found.offer is not None else []
        elif found is not None and found.cube:
            lines += _read(part.release, found)
    return lines


def _read(asked: Release, found: Reused) -> Iterator[str]:
    """Lines on how exact it is, and how exact it would be if it were bought."""
    yield f"{asked.name}: read off the cube {printable(found.cube)}, free; /* dpsql: cube=off */ buys it as above"
    words = Words.of_relation(asked.limited.block.source)
    aggregates = {a.name: a for a in asked.limited.block.aggregates}
    bought = {output.name: width_of(asked, output) for output in asked.outputs}
    for output in found.part.release.outputs:
        own, other = width_of(found.part.release, output), bought[output.name]
        if own is not None and other is not None:
            over = " / n" if own[0] else ""
            name = in_sql(aggregates[output.name], words)
            yield f"  {name}: 95 % half-width {number(own[1])}{over}, bought {number(other[1])}{over}"


@dataclass(frozen=True, slots=True)
class PlannedCube:
    """A cube up to its noise, as the query that it is bought by."""

    planned: Planned
    cube: StoredCube

    @property
    def plan(self) -> Compiled:
        return self.planned.plan

    @property
    def part(self) -> CompiledRelease:
        return self.planned.plan.releases[0]


def plan(statement: CreateCube, world: World) -> PlannedCube:
    """A cube up to its noise."""
    asked = replace(statement.query, options=Options(max_rows=statement.terms.max_rows), session=Options())
    query = in_main(asked, world.schema)
    bounded = naming.bounded(query, world, statement.terms.ways)
    judged = world.guard.judge(bounded)
    made = calibrate_cube(bounded, statement.terms, naming.written(statement.query), world.schema, world.identities)
    return PlannedCube(Planned(query, judged, made.compiled), _cube(statement, made, world))


def _again(cube: StoredCube) -> CreateCube:
    found = parse(cube.statement)
    if not isinstance(found, CreateCube):
        raise error(901, "a cube was made by another statement")
    return found


def _known(statement: NamedCube, world: World) -> StoredCube:
    """Raises 105."""
    return naming.known(world.stored.cubes.names, statement.name, "cube", statement.span)


# --- buying -------------------------------------------------------------------------------------------------------------


def named(planned: PlannedCube, found: Bought, world: World) -> Answer:
    """A cube that was bought, or was stored already, under its name from now on."""
    cube, count = planned.cube, len(found.held.missing)
    naming.keep(world.stored.cubes.names, cube)
    columns, rows = _errors(cube)
    accuracy = Accuracies.nothing(len(columns), len(rows))
    free = () if count else ("it is stored already: nothing was charged",)
    return Answer(columns, rows, accuracy, found.receipt, not count, count, (*found.notes, *free), (cube.fingerprint,))


# --- what a cube is -----------------------------------------------------------------------------------------------------


def _cube(statement: CreateCube, made: CalibratedCube, world: World) -> StoredCube:
    part = made.compiled.releases[0]
    release = part.release
    rows = world.stored.questions.rows(release)
    block, words = release.limited.block, Words.of_relation(release.limited.block.source)
    price = made.compiled.plan.price
    return StoredCube(
        statement.name,
        world.analyst.name,
        naming.written(statement.query),
        world.stored.fingerprint(part),
        rows.question,
        tuple(rows.key(key) for key in block.keys),
        tuple(words.expression(key.scalar) for key in block.keys),
        release.limited.limits.rows,
        min(len(block.keys), statement.terms.ways or len(block.keys)),
        (price.epsilon, price.delta, release.loss.rho),
        tuple(_statistics(made, words, rows)),
    )


def _statistics(made: CalibratedCube, words: Words, rows: RowsKey) -> Iterator[CubeStatistic]:
    release = made.compiled.releases[0].release
    yield CubeStatistic("", "", made.noise[0].weights, made.noise[0].residual)
    of_values = zip(release.measures[1:], made.noise[1:], strict=True)
    values = [a.argument for a in values_of(release.limited.block).values() if a.argument is not None]
    for value, (measure, noise) in zip(values, of_values, strict=True):
        term = measure.statistic.terms[0]
        middle = Fraction(term.lower + term.upper, 2) * term.quantum
        missing = value.nullable or value.sqltype.is_float
        told, question = words.expression(value), rows.value(value)
        yield CubeStatistic(question, told, noise.weights, noise.residual, middle, term.quantum, missing)


def _marginals(cube: StoredCube) -> list[Axes]:
    return [axes for axes, _ in zip(subsets(len(cube.keys), cube.ways), range(MOST_SHOWN), strict=False)]


def _errors(cube: StoredCube) -> tuple[tuple[tuple[str, str], ...], list[tuple[object, ...]]]:
    """Each marginal, and the 95 % errors of its numbers of rows and of its sums."""
    rows: list[tuple[object, ...]] = []
    for axes in _marginals(cube):
        keys = ", ".join(cube.told[axis] for axis in sorted(axes))
        rows.append((keys, prod(cube.shape[axis] for axis in axes), *marginal_errors(cube, axes)))
    columns = [
        ("keys", "VARCHAR"),
        ("groups", "BIGINT"),
        *((f"error of {name}", "DOUBLE") for name in numbers_of(cube)),
    ]
    return tuple(columns), rows


def numbers_of(cube: StoredCube) -> list[str]:
    """The numbers that a cube holds of each group, in words."""
    return ["COUNT(*)", *(f"SUM({one.told})" for one in cube.statistics[1:])]


def _told(cube: StoredCube, is_stored: bool) -> Iterator[str]:
    """Lines of EXPLAIN."""
    epsilon, delta, rho = cube.price
    keys = listed([f"{name} ({n:,})" for name, n in zip(cube.told, cube.shape, strict=True)])
    yield f"cube {printable(cube.name)}: {counted(cube.size, 'cell')} by {keys}"
    yield f"  all groups by at most {cube.ways} of these keys, and what conditions on their values leave of them"
    if is_stored:
        yield "price: stored already, so it is free"
    else:
        yield (
            f"price: rho {at_least(rho)}, the most that stays within epsilon {number(epsilon)} and delta {number(delta)}; it has "
            "no epsilon of its own, so sums of epsilons alone end with it"
        )
    for axes in _marginals(cube):
        told = listed([cube.told[axis] for axis in sorted(axes)]) if axes else "nothing"
        errors = (
            f"{name} +-{width:.3g}" for name, width in zip(numbers_of(cube), marginal_errors(cube, axes), strict=True)
        )
        yield f"  by {told}, {counted(prod(cube.shape[axis] for axis in axes), 'group')}: {', '.join(errors)}"


def table(world: World) -> PublicTable:
    """dpsql.cubes."""
    return naming.shown(spent.CUBES, [_row(cube, world) for cube in world.stored.cubes.names.all()])


def _row(cube: StoredCube, world: World) -> tuple[object, ...]:
    epsilon, delta, rho = (float(amount) for amount in cube.price)
    worst = max(marginal_errors(cube, axes)[0] for axes in _marginals(cube))
    numbers = ", ".join(numbers_of(cube))
    moment = cube.time.partition("+")[0]
    sizes = (cube.ways, cube.size)
    current = naming.is_current(cube.fingerprint, lambda: world.stored.fingerprint(plan(_again(cube), world).part))
    return (cube.name, ", ".join(cube.told), numbers, *sizes, epsilon, delta, rho, worst, moment, current)
