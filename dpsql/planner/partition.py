"""partition: whom a release is about, where the owner declares a column that never changes for a unit (rule 32).

A release whose rows are selected by a top-level condition on that column is the same for two databases that differ in a unit with
another value. So it costs only the units with the values that are let through; NULL and what is not declared are one more value.
Anything that is not a comparison of that very column with constants lets everything through.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from dpsql.core import domains
from dpsql.core.domains import Categories, Value
from dpsql.expressions.logic import conjuncts
from dpsql.expressions.scalar import Scalar
from dpsql.relations.relations import Relation
from dpsql.schema.model import Column, Schema

OTHER = "other"
_ORDERED = ("<", "<=", ">", ">=")


def entries(source: Relation, schema: Schema) -> tuple[str, ...] | None:
    """The values of the partition column that a relation's rows can have, each under a name for the ledger; None: any.

    Why  the column is the unit's own (its table has one row a unit), and `constant` says that it still is one value in all rows
         of a unit here: not after a join that may leave it NULL. A name holds the declared list: with another list it is another
         partition, and the ledger adds what was charged under the old one
    """
    column = _partition(schema)
    if column is None or schema.privacy.partition is None:
        return None
    origin = ".".join(schema.privacy.partition)
    values = _values(column)
    left: list[Value | None] = [*values, None]
    for part in (part for condition in source.where for part in conjuncts(condition)):
        left = [value for value in left if _lets_through(part, origin, value, values)]
    if not left or len(left) > len(values):
        return None
    digest = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
    return tuple(json.dumps([f"{origin} {digest}", OTHER if value is None else shown(value)]) for value in left)


def shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _partition(schema: Schema) -> Column | None:
    if schema.privacy.partition is None:
        return None
    table = schema.table(schema.privacy.partition[0])
    return table.column(schema.privacy.partition[1]) if table is not None else None


def _values(column: Column) -> tuple[Value, ...]:
    """The declared values but NULL."""
    if isinstance(column.domain, Categories):
        return column.domain.values
    listed = domains.integers(column.domain)
    return listed.values if listed is not None else ()


def _lets_through(part: Scalar, origin: str, value: Value | None, declared: tuple[Value, ...]) -> bool:
    """True if a condition can be true where the column has a declared value, or, as None, NULL or any other."""
    if _is_it(part, origin):
        return value is not False
    if part.function == "not" and _is_it(part.args[0], origin):
        return value is not True
    constants = [arg.value for arg in part.args[1:] if arg.is_literal and arg.value is not None]
    if not part.args or not _is_it(part.args[0], origin) or len(constants) < len(part.args) - 1 or not constants:
        return True
    if part.function in ("=", "in"):
        return any(c not in declared for c in constants) if value is None else value in constants
    if part.function in _ORDERED and value is not None:
        return not all(_fails(part.function, value, c) for c in constants)
    return True


def _is_it(scalar: Scalar, origin: str) -> bool:
    return scalar.is_column and scalar.constant and scalar.origin == origin


def _fails(operator: str, value: Value, constant: Value) -> bool:
    """True if `value operator constant` is false for sure."""
    if isinstance(value, str) or isinstance(constant, str):
        return False
    match operator:
        case "<":
            return value >= constant
        case "<=":
            return value > constant
        case ">":
            return value <= constant
    return value < constant


def in_words(names: tuple[str, ...]) -> Iterator[str]:
    """The values of the partition column, as people read them."""
    for name in names:
        yield json.loads(name)[1]


def in_full(name: str) -> str:
    """One value with its column, as people read it.

    >>> in_full('["person.site 3f", "3"]')
    'person.site = 3'
    """
    column, value = json.loads(name)
    return f"{column.rpartition(' ')[0]} = {value}"
