"""The declared schema as JSON, exactly, for a client that has no file of it: names, types, bounds and lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path

from dpsql.clients.dbapi.packed import Json
from dpsql.core import domains, loss, sqltypes
from dpsql.core.errors import error
from dpsql.schema import model
from dpsql.schema.model import Schema

_BY_NAME: Mapping[str, type] = {
    name: one
    for module in (model, domains, loss, sqltypes)
    for name, one in vars(module).items()
    if isinstance(one, type) and is_dataclass(one)
}
"""The classes that a schema is made of."""
_CLASS, _FRACTION = "is", "of"


def shown_to(schema: Schema, analyst: str) -> Schema:
    """A schema as one analyst's client has it: without files, without other analysts, and without what is the guard's alone."""
    own = tuple(one for one in schema.analysts or () if one.name == analyst)
    roles = tuple(role for role in schema.roles if any(one.role == role.name for one in own))
    tables = tuple(
        replace(table, source=table.name, columns=tuple(replace(column, usual=()) for column in table.columns))
        for table in schema.tables
    )
    return replace(
        schema, source=".", ledger=None, tables=tables, analysts=own, roles=roles, reservations=(), folder=Path("."), refresh=None
    )  # fmt: skip


def pack_schema(schema: Schema) -> Json:
    """A schema as JSON: objects by the names of their classes, fractions as text. Its folder stays behind."""
    return _packed(replace(schema, folder=Path("."), reservations=(), refresh=None))


def read_schema(packed: Json) -> Schema:
    """Raises 901 for what was not packed so."""
    try:
        found = _read(packed)
        if isinstance(found, Schema):
            return found
    except (ValueError, TypeError, KeyError, ZeroDivisionError, RecursionError):
        pass
    raise error(901, "an answer of the server cannot be read")


def _packed(value: object) -> Json:
    match value:
        case None | bool() | int() | str():
            return value
        case Fraction():
            return {_FRACTION: str(value)}
        case tuple():
            return [_packed(one) for one in value]
        case Path():
            return None
    name = type(value).__name__
    kept = {one.name: _packed(getattr(value, one.name)) for one in fields(_BY_NAME[name]) if one.init}
    return {_CLASS: name, **{field: given for field, given in kept.items() if field != "folder"}}


def _read(packed: Json) -> object:
    if isinstance(packed, list):
        return tuple(map(_read, packed))
    if not isinstance(packed, dict):
        return packed
    if _FRACTION in packed:
        return Fraction(str(packed[_FRACTION]))
    given = {name: _read(value) for name, value in packed.items() if name != _CLASS}
    return _BY_NAME[str(packed[_CLASS])](**given)
