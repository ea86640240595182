"""The plan of a statement as a tree of relations: what is read, joined, cut, released with which noise, and post-processed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.core.wording import counted
from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Release
from dpsql.plan.resolved import GroupKey
from dpsql.relations.relations import Made, Relation
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Column, Node
from dpsql.sql.trees import rewritten
from tests.support.trees import told

_QUOTED = re.compile(r'"([a-z_][a-z0-9_]*)"')
_ROW = re.compile(r", (?:release_\d+\.release_row|LIST\(grouped\.release_row\)) AS release_row|, release_row(?=\))")
_CLAMP = re.compile(r" in (\[-?\d+, -?\d+\]) \* ([\d/]+)")
_DOUBLE = re.compile(r"CAST\((-?[\d.]+) AS DOUBLE\)")
_POWER = re.compile(r" \^ (\d+)")
_SAME = ("projected", "renamed")


def relational(compiled: Compiled) -> str:
    """One step a line, each above what it is made of; names are without quotes where they need none."""
    lines: list[str] = []
    done: set[str] = set()
    for release in compiled.plan.releases:
        lines += _inputs(compiled, done)
        of = _Told(release, dict(_passed(release.limited.block.source)))
        lines += [release.name, *(f"  {line}" for line in of.lines())]
        done.add(release.name)
    lines += [*_inputs(compiled, done), f"answer: {compiled.plan.post_query.sql}"]
    return "\n".join(_ROW.sub("", _QUOTED.sub(r"\1", _DOUBLE.sub(r"\1", line))) for line in lines)


def _inputs(compiled: Compiled, done: set[str]) -> Iterator[str]:
    """The input tables that can be made by now, and were not yet."""
    for bound in compiled.bounds:
        if bound.name not in done and done.issuperset(bound.reads):
            done.add(bound.name)
            yield f"{bound.name}: {bound.sql}"


def _passed(relation: Relation) -> Iterator[tuple[Node, Node]]:
    """Columns that a derived table hands on, with what they are; the innermost first."""
    made = relation.made or Made("public")
    for source in made.sources:
        yield from _passed(source)
    yield from ((new, old) for new, old in made.computed if isinstance(old, Column))


@dataclass(frozen=True, slots=True)
class _Told:
    """A release in words; `passed` are columns that stand for others."""

    release: Release
    passed: dict[Node, Node]

    def lines(self) -> Iterator[str]:
        release, block, limits = self.release, self.release.limited.block, self.release.limited.limits
        yield from self.relation(block.source)
        yield from (f"group by {self.key(place, key)}" for place, key in enumerate(block.keys))
        values = "" if limits.values is None else f", {counted(limits.values, 'value')} in a group"
        most = f"cut to {counted(limits.rows, 'row')} in {counted(limits.groups, 'group')} of a unit{values}"
        yield most if release.limited.enforced else "nothing to cut"
        for measure in release.measures:
            what = told(measure.statistic.identity).replace("; ;", ";").replace("; )", ")").replace("()", "")
            yield f"release {_POWER.sub(_powers, _CLAMP.sub(_clamped, what))}"
            yield f"  by {measure.describe()}"
        for part in release.chosen:
            yield f"release {part.over_histogram.told(self.text)}"
            yield f"  by {part.describe()}"
        if release.selection is not None:
            yield f"show groups of at least {release.selection.tau} units by their noisy number"

    def text(self, scalar: Scalar) -> str:
        return self.node(scalar.tree)

    def node(self, tree: Node) -> str:
        while (seen := rewritten(tree, self.passed)) != tree:
            tree = seen
        return _bare(printed(tree))

    def key(self, place: int, key: GroupKey) -> str:
        listed = next((found.bound for found in self.release.limited.block.lists if place in found.keys), None)
        if listed is not None:
            return f"{self.text(key.scalar)}: listed by {listed}"
        if key.values is None:
            return f"{self.text(key.scalar)}: selected privately"
        values = [value for value in key.values if value is not None]
        return f"{self.text(key.scalar)}: {counted(len(values), 'declared value')}{' and NULL' * (None in key.values)}"

    def relation(self, relation: Relation, depth: int = 0) -> Iterator[str]:
        """The step that made it, its conditions, and below them what it is made of."""
        made, edge = relation.made or Made("public"), "  " * depth
        known = {condition.tree for source in made.sources for condition in source.where}
        where = [f"where {self.text(one)}" for one in relation.where if one.tree not in known]
        if made.step in _SAME:
            yield from (edge + line for line in where)
            yield from self.relation(made.sources[0], depth)
            return
        on = " AND ".join(f"{self.text(left)} = {self.text(right)}" for left, right in made.pairs)
        yield f"{edge}{_step(relation, made)}{' on ' * bool(on)}{on}{_rows(relation)}"
        inside = [f"by {self.text(key)}" for key in made.keys]
        inside += [f"{printed(new)} is {self.node(old)}" for new, old in made.computed if not isinstance(old, Column)]
        yield from (f"{edge}  {line}" for line in (*where, *inside))
        for source in made.sources:
            yield from self.relation(source, depth + 1)


def _bare(text: str) -> str:
    """Text without parentheses around all of it."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 and text.startswith("(") else text
    return text


def _clamped(found: re.Match[str]) -> str:
    step = "" if found[2] == "1" else f" steps of {found[2]}"
    return f" clamped to {found[1]}{step}"


def _powers(found: re.Match[str]) -> str:
    return "" if found[1] == "1" else f" in powers up to {found[1]}"


def _step(relation: Relation, made: Made) -> str:
    """The step's name; a table with the name that it has in the statement."""
    step = made.step.replace("_", " ")
    match made.step:
        case "public":
            return f"public {printed(relation.read(unit=False))}"
        case "scan":
            named = re.fullmatch(r'"(.*)" AS "(.*)"', printed(relation.read()))
            assert named is not None
            name, alias = named.groups()
            return f"{step} {name}" if alias == name else f"{step} {name} AS {alias}"
    return step


def _rows(relation: Relation) -> str:
    """The rows that one unit can have in it."""
    match relation.unit:
        case None:
            return ""
        case unit if unit.column is None:
            return ": a row is a unit"
        case unit:
            return f": {'any number of rows' if unit.max_rows is None else counted(unit.max_rows, 'row')} of a unit"
