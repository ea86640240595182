"""Story of one person's rows, step by step: from the declared tables to the rows that a release counts."""

from __future__ import annotations

from typing import assert_never

from dpsql.planner.explain.words import HIDDEN, Words, subquery
from dpsql.relations.joins import Equality, keyed
from dpsql.relations.relations import Made, Relation
from dpsql.schema.model import ROW, Schema
from dpsql.sql.trees import tables

_JOINS = {"inner_join": "joined", "left_join": "left joined", "full_join": "full joined"}
_SAME = ("projected", "renamed")
"""Steps that change nothing but the columns and their names."""


def story(relation: Relation, words: Words, schema: Schema) -> list[str]:
    """One line a step: what is read, joined, kept, grouped; and how many rows of one person there are after it."""
    made = relation.made or Made("public")
    lines = _steps(relation, made, words, schema)
    told = {condition.tree for source in made.sources for condition in source.where}
    carries = made.step in _JOINS or made.step in _SAME
    return lines + [f"where {words.expression(c)}" for c in relation.where if not (carries and c.tree in told)]


def _steps(relation: Relation, made: Made, words: Words, schema: Schema) -> list[str]:
    before = [line for source in made.sources[:1] for line in story(source, words, schema)]
    match made.step:
        case "scan":
            return [_scan(relation, schema)]
        case "inner_join" | "left_join" | "full_join":
            return before + _join(relation, made, words, schema)
        case "per_unit":
            return [*before, _grouped(relation, made, words)]
        case "distinct":
            return [*before, f"DISTINCT rows of each person: {rows(relation)}"]
        case "windowed":
            return [*before, f"windows over each person's own rows: still {rows(relation)}"]
        case "unnested":
            return [
                *before,
                f"one row for each element of a list, which has at most as many as declared: {rows(relation)}",
            ]
        case "union_all":
            second = story(made.sources[1], words, schema)
            return [*before, *second, f"UNION ALL of these: {rows(relation)}"]
        case "derived" | "projected" | "renamed":
            return before
        case "public":
            return [f"{title(relation)}: public"]
    assert_never(made.step)


def _scan(relation: Relation, schema: Schema) -> str:
    table = relation.tables[0]
    if schema.privacy.unit == ROW:
        return f"{title(relation)}: each row is its own privacy unit"
    if relation.one_row_per_unit:
        why = "its key is the privacy unit"
    else:
        why = "declared" if table.max_rows_per_unit is not None else "no limit is declared"
    path = schema.path_to_unit(table)
    steps = (
        " -> ".join([f"{table.name}.{path[0].name}", *(f"{r.table}.{', '.join(r.targets)}" for r in path)])
        if path
        else ""
    )
    return f"{title(relation)}: {rows(relation)} ({why})" + (f", by {steps}" if len(path) > 1 else "")


def _join(relation: Relation, made: Made, words: Words, schema: Schema) -> list[str]:
    left, right = made.sources
    word = _JOINS[made.step]
    after = ("still " if _most(left) == _most(relation) else "") + rows(relation)
    if not right.is_private:
        where = ", its unique key" if made.pairs and meets_once(made) else ""
        where = f", of whose written rows at most {right.met:,} are met" if right.met is not None else where
        return [f"{word} with {title(right)} (public) on {equated(made, words)}{where}: {after}"]
    unit = "the privacy unit" if on_unit(made) else "a key that belongs to one person"
    told = story(right, words, schema)
    line = f"on {unit}, {equated(made, words)}: {after}"
    if len(told) == 1:
        return [f"{word} with {told[0]}", line]
    return [f"{word} with", *(f"  {step}" for step in told), line]


def equated(made: Made, words: Words) -> str:
    """Conditions that a join equates, each once."""
    texts = [f"{words.expression(a)} = {words.expression(b)}" for a, b in made.pairs]
    nothing = "its conditions" if made.sources[1].met is not None else "nothing: it has one row"
    return " AND ".join(dict.fromkeys(texts)) or nothing


def on_unit(made: Made) -> bool:
    return any(a.is_unit and b.is_unit for a, b in made.pairs)


def is_private_join(made: Made) -> bool:
    return made.step in _JOINS and made.sources[1].is_private


def is_public_join(made: Made) -> bool:
    return made.step in _JOINS and not made.sources[1].is_private


def meets_once(made: Made) -> bool:
    """True if a row of the left side meets at most one of the right."""
    return keyed(made.sources[1], [Equality(*pair) for pair in made.pairs])


def _grouped(relation: Relation, made: Made, words: Words) -> str:
    unit = made.sources[0].unit
    own = unit.column.tree if unit is not None and unit.column is not None else None
    others = [words.expression(k) for k in made.keys if k.tree != own and not k.is_unit]
    return f"grouped by {', '.join(['the privacy unit', *others])}: {rows(relation)}"


def _most(relation: Relation) -> int | None:
    return relation.unit.max_rows if relation.unit is not None else None


def rows(relation: Relation) -> str:
    """Number of rows of one unit at most, in words."""
    most = _most(relation)
    if relation.unit is not None and relation.unit.column is None:
        return "one row of one unit"
    if most is None:
        return "any number of rows of one person"
    return "one row of one person" if most == 1 else f"at most {most:,} rows of one person"


def title(relation: Relation) -> str:
    """A table under its own name, and under the statement's where that is another."""
    source = next(iter(relation.sources()), "")
    declared = relation.tables[0].name if relation.tables else next(iter(tables(relation.source.plain)))
    if HIDDEN.fullmatch(source):
        return f"{subquery(source)} = {declared}"
    return f"{declared} AS {source}" if source and source.lower() != declared.lower() else declared
