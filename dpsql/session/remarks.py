"""Notes of an answer: what is to be known of it by its text and the declarations alone (rule 54)."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Release
from dpsql.planner.shares import expected
from dpsql.schema.model import Schema
from dpsql.sql.nodes import Case


def remarks(compiled: Compiled, schema: Schema) -> tuple[str, ...]:
    """Notes of an answer: what is decided by declarations, what can hardly be there, which rows its declared group keys leave out, and
    which of its values are declarations."""
    plan = compiled.plan
    paid = _names([release for release in plan.releases if release.parts], schema)
    free = _names([release for release in plan.releases if not release.parts], schema)
    left_out = (f"rows with other values of {' and '.join(paid)} than those declared are left out",) if paid else ()
    declared = (
        (f"the values of {' and '.join(free)} are those declared, whether the data hold them or not",) if free else ()
    )
    return (*plan.post_query.notes, *expected(compiled, schema), *left_out, *declared)


def _names(releases: list[Release], schema: Schema) -> list[str]:
    """The columns of people that decide whether a row has a key of its list."""
    return list(dict.fromkeys(name for release in releases for name in _deciding(release, schema)))


def _deciding(release: Release, schema: Schema) -> Iterator[str]:
    block = release.limited.block
    for position, key in enumerate(block.keys):
        for leaf in () if block.is_selected(position) else _leaves(key.scalar):
            owner, _, name = leaf.origin.rpartition(".")
            table = schema.table(owner)
            if table is not None and not table.public and not leaf.sqltype.is_boolean:
                yield name


def _leaves(scalar: Scalar) -> Iterator[Scalar]:
    """The columns whose values a key is made of: of CASE those of its branches, since one of them is taken whatever the rest holds."""
    if isinstance(scalar.tree, Case):
        for value in (*scalar.args[1::2], *scalar.args[len(scalar.args) // 2 * 2 :]):
            yield from _leaves(value)
    elif scalar.is_column:
        yield scalar
    else:
        for part in scalar.args:
            yield from _leaves(part)
