"""R1: no constant is compared with an identifier, nothing is grouped by one, and nothing but COUNT is aggregated over one.

R5: no condition on a column that tells people apart, of which nothing says how many people have a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpsql.core.domains import Unbounded
from dpsql.core.errors import Error, error
from dpsql.expressions.scalar import Scalar, goes_with
from dpsql.guard.parts import boolean_parts
from dpsql.plan.releases import BoundedBlock
from dpsql.plan.resolved import Block
from dpsql.sql.duckdb import printed

_COMPARED = ("=", "<>", "<", "<=", ">", ">=")


def check_identifiers(blocks: Iterable[BoundedBlock]) -> list[Error]:
    """R1, for every block of a statement."""
    return [finding for part in blocks for finding in identifiers(part.block)]


def identifiers(block: Block) -> Iterator[Error]:
    """R1: every use of an identifier but COUNT(identifier) and COUNT(DISTINCT identifier)."""
    counted = [a.argument for a in block.aggregates if a.record.only_counts]
    for scalar in block.expressions:
        if scalar in counted and scalar.is_column and not scalar.computes_identifier:
            continue
        found = _identifier(scalar)
        if found is not None:
            yield error(
                601,
                f"rule R1: {_name(found)} is an identifier, and a condition on it can single out one person",
                hint=f"leave {_name(found)} out, and filter by what many people share",
            )


def check_unsized(blocks: Iterable[BoundedBlock]) -> list[Error]:
    """R5: conditions whose number of people nothing says, on columns that the owner wrote down as telling people apart; all but those
    that ask for values as GROUP BY would show them."""
    names = {
        _name(leaf): None
        for part in blocks
        for condition in boolean_parts(part.block)
        if not _asks_for_values(condition.scalar, part.block)
        for leaf in condition.scalar.leaves()
        if leaf.role == "quasi" and isinstance(leaf.domain, Unbounded)
    }
    return [
        error(
            603,
            f"rule R5: nothing says how many people a condition on {name} is about, and {name} can tell people apart",
            hint=f"write {name} = ... or {name} IN (...) joined by AND, GROUP BY {name}, or leave it out; or have the owner declare "
            "its domain or bounds, or role = 'measure'",
        )
        for name in names
    ]


def is_unsized(block: Block) -> bool:
    """True if the number of people of a block depends on a text that no list has, or a value of what tells people apart.

    Why  such a value may be one person's: as GROUP BY would, the statement shows it where the noisy number of people is large enough.
         That number decides alone, with no threshold beside it: that a value is asked for says nothing of the data
    """
    return any(
        isinstance(leaf.domain, Unbounded) and ((leaf.sqltype.element or leaf.sqltype).is_text or leaf.role == "quasi")
        for part in boolean_parts(block)
        for leaf in part.scalar.leaves()
    )


def _asks_for_values(part: Scalar, block: Block) -> bool:
    """True if a part only keeps rows with some values of a column, as a list of groups would."""
    kept = [*block.source.where, *(a.condition for a in block.aggregates if a.condition is not None)]
    alone = any(part.tree == whole.tree for condition in kept for whole in _conjuncts(condition))
    return alone and part.function in ("=", "in") and sum(not arg.is_literal for arg in part.args) == 1


def _conjuncts(condition: Scalar) -> Iterator[Scalar]:
    if condition.function == "and":
        for arg in condition.args:
            yield from _conjuncts(arg)
    else:
        yield condition


def _name(found: Scalar) -> str:
    origin = next((part.origin for part in found.walk() if part.origin), printed(found.tree))
    return origin.rpartition(".")[2].strip('"')


def _identifier(scalar: Scalar, seen: set[int] | None = None) -> Scalar | None:
    """The first identifier that is used; the same private key on both sides of a comparison only says which of somebody's rows go
    together, and IS NULL of one whether there is any, or a join met any: the sample tells for how many."""
    seen = seen if seen is not None else set()
    if not scalar.is_identifying or id(scalar) in seen:
        return None
    seen.add(id(scalar))
    if scalar.function in _COMPARED and goes_with(*scalar.args):
        return None
    if scalar.function == "is null" and (scalar.args[0].is_column or scalar.args[0].held_or_null - scalar.args[0].held):
        return None
    if scalar.role == "identifier":
        return scalar
    return next((found for arg in scalar.args if (found := _identifier(arg, seen)) is not None), None)
