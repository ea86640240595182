"""Statements about cubes: CREATE PRIVATE CUBE, REFRESH, DROP, SHOW CUBES, and EXPLAIN of what buys one.

See naming.py; beside these, what is read off cubes that are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from dpsql.accounting.amounts import at_least
from dpsql.accounting.cubes import CUBES, CubeNames, CubeStatistic, StoredCube
from dpsql.answers.cube_columns import width_of
from dpsql.answers.cube_view import marginal_errors
from dpsql.answers.look_up import Held, Missing
from dpsql.answers.questions import RowsKey
from dpsql.answers.reusing import Reused
from dpsql.core.errors import error
from dpsql.core.wording import counted, listed, number
from dpsql.guard.record import Judged
from dpsql.mechanisms.residual import Axes, subsets
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, Release
from dpsql.planner.cube_terms import NamedCube
from dpsql.planner.cubes import CalibratedCube, calibrate_cube, price_of, values_of
from dpsql.planner.explain.released import asked as in_sql
from dpsql.planner.explain.words import Words
from dpsql.planner.options import OFF, Options
from dpsql.planner.parse import CreateCube, Query, parse
from dpsql.planner.planning import calibrate
from dpsql.planner.qualified import in_main
from dpsql.release.buying import Bought
from dpsql.release.staging import Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import naming
from dpsql.session.naming import BoughtKind, Row, UpToNoise
from dpsql.session.planned import Planned
from dpsql.session.world import World

MOST_SHOWN = 64
"""Marginals whose errors are told."""


@dataclass(frozen=True, slots=True)
class PlannedCube(UpToNoise):
    """A cube up to its noise, as the query that it is bought by; selections of values are bought before it.

    selections  of the values of its keys that have no list
    """

    cube: StoredCube
    selections: tuple[Compiled, ...] = ()


class CubeKind(BoughtKind[StoredCube, PlannedCube]):
    """Cubes, as CREATE PRIVATE CUBE makes them."""

    noun, register, table, creates = "cube", CUBES, spent.CUBES, CreateCube
    again, instead = "REFRESH", "/* dpsql: cube=off */ before a statement leaves it alone"

    def names(self, world: World) -> CubeNames:
        return world.stored.cubes.names

    def taken(self, name: str, world: World) -> StoredCube | None:
        return None if world.is_owners else self.names(world).get(name)

    def drops(self, statement: CreateCube | NamedCube) -> bool:
        return isinstance(statement, NamedCube) and statement.verb == "DROP"

    def meant(self, statement: CreateCube | NamedCube, world: World) -> CreateCube:
        if isinstance(statement, CreateCube):
            return statement
        found = parse(self.known(statement.name, world, statement.span).statement)
        if not isinstance(found, CreateCube):
            raise error(901, "a cube was made by another statement")
        return found

    def plan(self, statement: CreateCube, world: World) -> PlannedCube:
        # selections are a cube's own: a list that was read off another one would be gone with that
        own = Options(max_rows=statement.terms.max_rows, cube=OFF)
        query = in_main(replace(statement.query, options=own, session=Options()), world.schema)
        bounded = naming.bounded(query, world, statement.terms.ways)
        post_query = replace(bounded.post_query, written=naming.written(statement.query.sql), traced=False)
        bounded, terms = replace(bounded, post_query=post_query), statement.terms
        from dpsql.planner.cube_keys import selections, unlisted, with_selected

        judged, places = world.guard.judge(bounded), unlisted(bounded)
        whole = price_of(terms, world.schema)
        chosen, left = selections(bounded, places, terms, whole, world.schema, world.identities)
        held = [world.stored.look_up(one, query.settled) for one in chosen]
        # what they show is compared with nothing: no number of theirs is told, and the cube is in the history with the same rows
        apart = replace(judged, asked={})
        first = tuple(Planned(query, apart, one) for one, own in zip(chosen, held, strict=True) if own.missing)
        found = zip(places, chosen, held, strict=True)
        released = {i: own.tables.get(one.releases[0].release.name) for i, one, own in found}
        listed = with_selected(bounded, released, terms.ways, world.schema)
        made = calibrate_cube(listed, terms, left, world.schema, world.identities)
        cube = _cube(statement, made, chosen, world)
        return PlannedCube(Planned(query, judged, made.compiled), cube.fingerprint, cube, chosen, first=first)

    def cube(self, statement: CreateCube | NamedCube, world: World) -> StoredCube | None:
        return None if self.drops(statement) else self.plan(self.meant(statement, world), world).cube

    def answers(self, statement: CreateCube | NamedCube, world: World) -> Columns:
        if isinstance(statement, NamedCube):
            return _errors(self.known(statement.name, world, statement.span))[0]
        return _errors(self.plan(statement, world).cube)[0]

    def made(self, planned: PlannedCube, found: Bought, world: World) -> StoredCube:
        return planned.cube

    def result(self, planned: PlannedCube, one: StoredCube) -> tuple[Columns, list[Row]]:
        return _errors(one)

    def notes(self, one: StoredCube) -> Iterator[str]:
        """On keys whose values were selected; the same whatever is selected."""
        names = listed([name for name, values in zip(one.told, one.selected, strict=False) if values is not None])
        if names:
            yield f"values of {names} that too few people share were not selected: their rows are in totals alone"

    def told(self, planned: PlannedCube, is_stored: bool) -> Iterator[str]:
        cube, is_open = planned.cube, bool(planned.first)
        epsilon, delta, rho = cube.price
        sizes = zip(cube.told, cube.shape, cube.selected or (None,) * len(cube.keys), strict=True)
        keys = listed([f"{name} ({n:,})" if s is None else f"{name} ({_number(len(s))})" for name, n, s in sizes])
        cells = f"{counted(cube.size, 'cell')} " * (not is_open)
        yield f"cube {printable(cube.name)}: {cells}by {keys}"
        yield f"  all groups by at most {cube.ways} of these keys, and what conditions on their values leave of them"
        yield from _selecting(planned)
        if is_stored:
            yield "price: stored already, so it is free"
        else:
            yield (
                f"price: rho {at_least(rho)}, the most that stays within epsilon {number(epsilon)} and delta {number(delta)}; it has "
                "no epsilon of its own, so sums of epsilons alone end with it"
            )
        # an axis of ever more values makes the variance of every group at most twice as large as one of a single value
        wider = 2 ** (sum(values is not None for values in cube.selected) / 2) if is_open else 1.0
        for axes in _marginals(cube):
            told = listed([cube.told[axis] for axis in sorted(axes)]) if axes else "nothing"
            widths = zip(numbers_of(cube), marginal_errors(cube, axes), strict=True)
            errors = (f"{name} {'at most ' * is_open}+-{wider * width:.3g}" for name, width in widths)
            groups = f", {counted(prod(cube.shape[axis] for axis in axes), 'group')}" * (not is_open)
            yield f"  by {told}{groups}: {', '.join(errors)}"

    def row(self, one: StoredCube) -> Row:
        worst = max(marginal_errors(one, axes)[0] for axes in _marginals(one))
        numbers, price = ", ".join(numbers_of(one)), map(float, one.price)
        return (one.name, ", ".join(one.told), numbers, one.ways, one.size, *price, worst)


KIND = CubeKind()


# --- what a statement is read off -----------------------------------------------------------------------------------------


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


# --- what a cube is -----------------------------------------------------------------------------------------------------


def _cube(statement: CreateCube, made: CalibratedCube, chosen: Sequence[Compiled], world: World) -> StoredCube:
    part = made.compiled.releases[0]
    release = part.release
    rows = world.stored.questions.rows(release)
    block, words = release.limited.block, Words.of_relation(release.limited.block.source)
    price = made.compiled.plan.price
    return StoredCube(
        statement.name,
        world.analyst.name,
        naming.written(statement.query.sql),
        world.stored.fingerprint(part),
        rows.question,
        tuple(rows.key(key) for key in block.keys),
        tuple(words.expression(key.scalar) for key in block.keys),
        release.limited.limits.rows,
        min(len(block.keys), statement.terms.ways or len(block.keys)),
        (price.epsilon, price.delta + _delta(chosen), release.loss.rho + sum(one.plan.loss.rho for one in chosen)),
        tuple(_statistics(made, words, rows)),
        selected=tuple(key.selected for key in block.keys) if chosen else (),
    )


def _delta(chosen: Sequence[Compiled]) -> Fraction:
    """[probability] The most that selections may spend."""
    return sum((one.plan.price.delta for one in chosen), Fraction(0))


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


def _errors(cube: StoredCube) -> tuple[Columns, list[Row]]:
    """Each marginal, and the 95 % errors of its numbers of rows and of its sums."""
    rows: list[Row] = []
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


def _number(selected: int) -> str:
    return f"{selected:,} and others" if selected else "selected privately"


def _selecting(planned: PlannedCube) -> Iterator[str]:
    """Lines on how values of keys are selected."""
    from dpsql.planner.cube_keys import tau_of

    for one in planned.selections:
        part, loss = one.releases[0], one.plan.loss
        key, words = part.release.keys[0], Words.of_relation(part.release.limited.block.source)
        yield (
            f"  {words.expression(key.scalar)}: its values are selected before, each from {tau_of(part):,} people on by their noisy "
            f"number, for rho {at_least(loss.rho)} and delta {number(loss.delta)} of the price; rows of others are in totals alone"
        )
