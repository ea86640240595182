"""The nodes of Python sources, parsed once for all tests that read them."""

from __future__ import annotations

import ast
from functools import cache


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """Every node of a module's text, each level before the next."""
    return tuple(ast.walk(ast.parse(text)))
