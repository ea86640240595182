"""workload: statements that come again and again -> cubes that answer them, their price and errors beside those of each alone.

Reads the text, the declarations and the names of stored cubes: nothing is run, charged or read of the data. A statement goes to a
cube by what is left of it without its conditions on declared values: those of one FROM, one WHERE and one limit on a person's rows
share one. The cube has the keys of all of them and the values that they add up, and each is then tried on it, as it would be read
off: what is told is the noise that its answers would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from math import prod

from sqlglot import exp

from dpsql.answers.cube_columns import width_of
from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta, total
from dpsql.mechanisms.residual import MOST_AXES
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Output, Release
from dpsql.planner.cubes import rho_of
from dpsql.planner.explain.released import asked as in_sql
from dpsql.planner.explain.words import Words
from dpsql.planner.parse import CreateCube, Query, parse
from dpsql.planner.shares import people_in_a_group
from dpsql.planner.slices import Slice, every_slice
from dpsql.session import answer, cubes
from dpsql.session.proposal import ColumnErrors, ProposedCube, StatementOfWorkload, WorkloadReport
from dpsql.session.world import World

MOST_STATEMENTS = 1_000
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class _Member:
    """Needs of one statement of a group.

    keys    by what they are, in words; each with the number of its values
    plain   whether all of them are columns
    values  that are added up, in words
    """

    keys: dict[str, int]
    plain: bool
    values: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Statements of the same rows: of one FROM, one WHERE and one limit.

    sources  how they say FROM, each with WHERE in its words
    """

    max_rows: int | None
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    members: dict[int, _Member] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, int]:
        return {name: size for one in self.members.values() for name, size in one.keys.items()}

    @property
    def values(self) -> dict[str, None]:
        return {name: None for one in self.members.values() for name in one.values}

    @property
    def ways(self) -> int:
        """The most keys that one statement needs together."""
        return max((len(one.keys) for one in self.members.values()), default=1)

    def without(self, key: str) -> _Group:
        """Those that do not need a key."""
        return replace(self, members={i: one for i, one in self.members.items() if key not in one.keys})

    def split(self) -> list[_Group]:
        """Those whose keys are columns together, and the others by their keys; nothing where they are so already.

        Why  keys that are made of one column have a list together, which no cube has
        """
        parts: dict[tuple[str, ...], dict[int, _Member]] = {}
        for i, one in self.members.items():
            parts.setdefault(() if one.plain else tuple(one.keys), {})[i] = one
        found = [_Group(self.max_rows, self.sources, members) for members in parts.values()]
        return [group for group in found if group.keys] if len(found) > 1 else []

    def sql(self, name: str, source: str, epsilon: Fraction | None) -> str:
        keys = ", ".join(self.keys)
        options = [
            *([f"epsilon = {float(epsilon):g}"] if epsilon is not None else []),
            *([f"ways = {self.ways}"] if self.ways < len(self.keys) else []),
            *([f"max_rows = {self.max_rows}"] if self.max_rows is not None else []),
        ]
        terms = f" OPTIONS ({', '.join(options)})" if options else ""
        numbers = ", ".join(["COUNT(*)", *(f"SUM({value})" for value in self.values)])
        where = "".join(f" {'AND' if i else 'WHERE'} ({one})" for i, one in enumerate(self.sources[source]))
        return (
            f"CREATE PRIVATE CUBE {name}{terms} AS SELECT {keys}, {numbers} FROM {source}{where} GROUP BY CUBE ({keys})"
        )


_Proposal = tuple[ProposedCube | None, dict[int, StatementOfWorkload], Error | None]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A statement up to its noise, alone."""

    query: Query
    plan: Compiled

    @property
    def parts(self) -> tuple[CompiledRelease, ...]:
        return tuple(part for part in self.plan.releases if part.release.parts)


def propose(statements: Sequence[str], epsilon: Fraction | None, world: World) -> WorkloadReport:
    """The cubes that answer some statements, and how exactly. Raises 802 where there is no statement, or too many.

    epsilon  of all cubes together; None: each may cost what the owner lets one cost
    """
    if not statements or len(statements) > MOST_STATEMENTS:
        what = "there is no statement to find cubes for" if not statements else "there are too many statements"
        raise error(802, what, hint=f"write them into a file, at most {MOST_STATEMENTS:,}, and name it behind -f")
    reasons: dict[int, str] = {}
    planned: dict[int, _Planned] = {}
    for i, sql in enumerate(statements):
        with cancellation.current().planning():
            try:
                planned[i] = _planned(sql, world)
            except Error as raised:
                reasons[i] = f"refused: {raised.message}"
    groups = _groups(planned, reasons, world)
    whole = sum(len(group.members) for group in groups)
    found: dict[int, StatementOfWorkload] = {}
    proposed: list[ProposedCube] = []
    for group in groups:
        # what is split stands behind
        share = None if epsilon is None else _share(epsilon, Fraction(len(group.members), whole), world)
        taken = [*(cube.name for cube in proposed), *(c.name for c in world.stored.cubes.names.all())]
        find = partial(_found, share=share, taken=taken, planned=planned, statements=statements, world=world)
        (cube, read, problem), left = _fewer_keys(group, find)
        crowded = "left out: with its keys the cube would answer fewer of the others"
        reasons |= dict.fromkeys(group.members.keys() - left.members.keys(), crowded)
        parts = group.split() if problem is not None else []
        groups += parts
        if problem is not None and not parts:
            reasons |= dict.fromkeys(group.members, f"no cube: {problem.message}")
        found |= read
        proposed += [cube] if cube is not None else []
    return WorkloadReport(
        tuple(proposed),
        tuple(found.get(i) or _alone(sql, planned.get(i), reasons.get(i, "")) for i, sql in enumerate(statements)),
    )


def _planned(sql: str, world: World) -> _Planned:
    statement = answer.read(sql, (), world)
    if not isinstance(statement, Query):
        raise error(103, "it is no question", hint="write SELECT ...")
    return _Planned(statement, answer.plan(statement, world).plan)


def _groups(planned: dict[int, _Planned], reasons: dict[int, str], world: World) -> list[_Group]:
    """Statements by their rows; the others get a reason."""
    found: dict[tuple[object, ...], _Group] = {}
    for i, one in planned.items():
        reason = _why_not(one)
        if reason:
            reasons[i] = reason
            continue
        release = one.parts[0].release
        part = next(chain(every_slice(release), [Slice(release, ())]))
        words = Words.of_relation(part.release.limited.block.source)
        where = tuple(sorted(words.expression(condition) for condition in part.release.limited.block.source.where))
        rows = one.query.settled.max_rows
        group = found.setdefault((world.stored.questions.rows(part.release).question,), _Group(rows))
        keys = {words.expression(key.scalar): len(key.values or ()) for key in part.release.keys}
        keys |= {words.expression(s.key.scalar): len(s.key.values or ()) for s in part.subjects}
        merged = group.keys | keys
        plain = all(key.scalar.is_column for key in (*part.release.keys, *(s.key for s in part.subjects)))
        if len(merged) > MOST_AXES or prod(merged.values()) > world.schema.privacy.max_cells:
            reasons[i] = "no cube: with its keys it would have too many cells"
            continue
        group.sources.setdefault(_source(one.query), where)
        values = [
            words.expression(a.argument)
            for a in release.limited.block.aggregates
            if a.argument is not None and "centred" in (a.record.of_cube or ((),))[0]
        ]
        group.members[i] = _Member(keys, plain, tuple(values))
    return [group for group in found.values() if group.members and group.keys]


def _why_not(one: _Planned) -> str:
    """The reason for which no cube could answer a statement; "" where one may."""
    if not one.parts:
        return "free"
    if len(one.parts) > 1 or one.parts[0].bounds:
        return "no cube: it is made of several releases"
    release = one.parts[0].release
    words = Words.of_relation(release.limited.block.source)
    for aggregate in release.limited.block.aggregates:
        of_person = aggregate.argument is not None and aggregate.argument.unit_bounds is not None
        if aggregate.record.of_cube is None or aggregate.condition is not None or of_person:
            return f"no cube: none holds {in_sql(aggregate, words)}{' within bounds of a person' * of_person}"
    if release.selection is not None or any(key.values is None for key in release.keys):
        return "left out: its keys are not declared, and a cube selects their values when it is bought"
    return ""


def _source(query: Query) -> str:
    """FROM as it was written."""
    select = query.tree.find(exp.Select)
    parts = (
        [] if select is None else [select.args.get("from_") or select.args.get("from"), *select.args.get("joins", [])]
    )
    text = " ".join(part.sql(dialect="duckdb") for part in parts if part is not None)
    return text.removeprefix("FROM ").strip()


def _share(epsilon: Fraction, part: Fraction, world: World) -> Fraction:
    """The largest epsilon that one cube may cost, to three digits behind the point, and no more than a part of the rho of another."""
    privacy = world.schema.privacy
    delta = (privacy.cube or privacy.caps).delta
    most = part * rho_of(EpsilonDelta(epsilon, delta))
    low, high = 1, int(min(epsilon, (privacy.cube or privacy.caps).epsilon) * _THOUSAND) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = rho_of(EpsilonDelta(Fraction(middle, _THOUSAND), delta)) <= most
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low, _THOUSAND)


def _name(source: str, taken: Sequence[str]) -> str:
    word = source.split()[0].split(".")[-1].strip('"').lower()
    first = "rows" if word.startswith("(") else "".join(c if c.isalnum() else "_" for c in word) or "rows"
    names = (f"{first}_cube{i if i > 1 else ''}" for i in range(1, len(taken) + 2))
    return next(name for name in names if name not in [one.lower() for one in taken])


def _fewer_keys(group: _Group, find: Callable[[_Group], _Proposal]) -> tuple[_Proposal, _Group]:
    """The cube of a group without the keys that keep it from answering more of its statements, and those that are left.

    Why  each key widens the errors of all groups: one after the other is left out, that without which the most statements are read off,
         as long as these are more
    """
    best, left = find(group), group
    while best[2] is None and _count(best) < len(left.members):
        smaller = [fewer for fewer in map(left.without, left.keys) if fewer.keys and len(fewer.members) > _count(best)]
        tried = [(find(fewer), fewer) for fewer in smaller]
        found, fewer = max(tried, key=lambda each: _count(each[0]), default=(best, left))
        if _count(found) <= _count(best):
            break
        best, left = found, fewer
    return best, left


def _count(proposal: _Proposal) -> int:
    return proposal[0].count if proposal[0] is not None else 0


def _found(
    group: _Group,
    share: Fraction | None,
    taken: Sequence[str],
    planned: dict[int, _Planned],
    statements: Sequence[str],
    world: World,
) -> _Proposal:
    """The cube of a group, if it has one that any of its statements is read off, and these statements; or what refuses all of them.

    Why  a FROM that names what one statement alone defines, such as a query of its WITH, says nothing in another: the next one is tried
    """
    problem: Error | None = None
    read: dict[int, StatementOfWorkload] = {}
    for source in sorted(group.sources, key=len):
        with cancellation.current().planning():
            try:
                cube, read = _tried(group, group.sql(_name(source, taken), source, share), planned, statements, world)
            except Error as raised:
                problem = problem or raised
                continue
        if cube.count:
            return cube, read, None
    return None, read, problem if not read else None


def _tried(
    group: _Group, sql: str, planned: dict[int, _Planned], statements: Sequence[str], world: World
) -> tuple[ProposedCube, dict[int, StatementOfWorkload]]:
    """The cube of a group, and its statements read off it. Raises what refuses the cube."""
    statement = parse(sql)
    if not isinstance(statement, CreateCube):
        raise error(901, "a cube was proposed by another statement")
    made = cubes.KIND.plan(statement, world)
    world.guard.settled(made.planned.judged.findings)
    found: dict[int, StatementOfWorkload] = {}
    for i in group.members:
        part = planned[i].parts[0]
        read = world.stored.cubes.would_be_read(part, made.cube)
        if read is None:
            found[i] = _alone(statements[i], planned[i], "no cube: it could not be read off one")
            continue
        rows = people_in_a_group(part.release.limited, world.schema.privacy.units)
        columns = tuple(_errors(part.release, output, read, rows) for output in part.release.outputs)
        near = not world.stored.unanswered(planned[i].plan, [made.cube])[0].releases
        found[i] = StatementOfWorkload(
            statements[i], part.release.loss, columns, made.cube.name if near else "", made.cube.name
        )
    count = sum(bool(one.cube) for one in found.values())
    cells = made.cube.size
    return ProposedCube(made.cube.name, sql, made.plan.plan.loss.rho, cells, count), found


def _errors(alone: Release, output: Output, read: Release | None, rows: Fraction | None) -> ColumnErrors:
    aggregate = next(a for a in alone.limited.block.aggregates if a.name == output.name)
    own = width_of(alone, output)
    other = None
    if read is not None:
        other = next((width_of(read, one) for one in read.outputs if one.name == output.name), None)
    name = in_sql(aggregate, Words.of_relation(alone.limited.block.source))
    widths = [None if width is None else float(f"{width[1]:.3g}") for width in (own, other)]
    return ColumnErrors(name, widths[0], widths[1], bool(own and own[0]), rows)


def _alone(sql: str, planned: _Planned | None, reason: str) -> StatementOfWorkload:
    loss = total(part.release.loss for part in planned.parts) if planned is not None else total(())
    return StatementOfWorkload(sql, loss, (), reason=reason)
