"""Every public name has a docstring: what `dpsql` exports, and the public methods, properties and fields of its classes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType

import dpsql
from dpsql.clients.dbapi import types


def bare(package: ModuleType) -> Iterator[str]:
    """The public names of a package without a docstring."""
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) and value.__module__.startswith(package.__name__):
            yield from (name for told in [value.__doc__] if not told)
            yield from (f"{name}.{member}" for member in _bare_members(value))
        elif inspect.isfunction(value):
            yield from (name for told in [value.__doc__] if not told)
        elif name not in _told_constants():
            yield name


def _bare_members(kind: type) -> Iterator[str]:
    """Public members of a class without a docstring; a field is told in the class's."""
    for name, value in vars(kind).items():
        if name.startswith("_") or inspect.isclass(value):
            continue
        documented = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if callable(documented) or isinstance(documented, property):
            if not documented.__doc__:
                yield name
        elif not re.search(rf"\b{name}\b", kind.__doc__ or ""):
            yield name


def _told_constants() -> set[str]:
    """Constants of the package, and of the module that it has some from, with a docstring below them."""
    found: set[str] = set()
    for module in (dpsql, types):
        tree = ast.parse(inspect.getsource(module))
        for assigned, told in pairwise(tree.body):
            if isinstance(assigned, ast.Assign) and isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant):
                found |= {target.id for target in assigned.targets if isinstance(target, ast.Name)}
    return found


def test_every_public_name_has_a_docstring() -> None:
    assert list(bare(dpsql)) == []


class Told:
    """A class.

    width  of it
    """

    width = 1
    height = 2

    def area(self) -> int:
        return self.width * self.height


def test_one_without_is_found() -> None:
    assert sorted(_bare_members(Told)) == ["area", "height"]
    assert {"apilevel", "NUMBER"} <= _told_constants() and "_DECIMAL" not in _told_constants()
