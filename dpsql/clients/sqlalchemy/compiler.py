# mypy: disable-error-code="misc"
"""Expressions as SQL that dpsql reads: DuckDB's, where it differs from what SQLAlchemy writes for any database."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.exc import CompileError
from sqlalchemy.sql import compiler
from sqlalchemy.sql.sqltypes import STRINGTYPE
from sqlalchemy.types import TypeEngine

RESERVED = frozenset({
    "alter", "anti", "asof", "at", "by", "collation", "columns", "concurrently", "connect_by_root", "cube",
    "current_catalog", "describe", "drop", "fetch", "force", "generated", "glob", "if", "insert", "install", "interval",
    "lambda", "lateral", "lock", "map", "out", "partitioned_by", "pivot", "pivot_longer", "pivot_wider", "positional",
    "qualify", "recursive", "regexp", "returning", "revoke", "rlike", "rollback", "rollup", "semi", "show", "struct",
    "summarize", "tablesample", "try_cast", "tuple", "uncache", "unpack", "unpivot", "values", "variadic", "window", "with",
    "xor",
})  # fmt: skip
"""Names that need quotes besides those that SQLAlchemy quotes anyway, in any supported version of the parser and the engine."""


class DpsqlIdentifiers(compiler.IdentifierPreparer):
    """Names, in double quotes where they need them."""

    reserved_words = compiler.RESERVED_WORDS | RESERVED
    legal_characters = re.compile(r"[A-Za-z0-9_]+$")


class DpsqlCompiler(compiler.SQLCompiler):
    """Statements."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        return self._page(select._limit_clause, select._offset_clause, **kw)

    def fetch_clause(self, select: Any, **kw: Any) -> str:
        """FETCH FIRST, which dpsql calls LIMIT."""
        if any(select._fetch_clause_options.values()):
            raise CompileError("dpsql has no FETCH with PERCENT or TIES; write limit(...), or a condition on rank()")
        return self._page(select._fetch_clause, select._offset_clause, **kw)

    def _page(self, limit: Any, offset: Any, **kw: Any) -> str:
        """SQLAlchemy's own writes LIMIT -1 where only an offset is asked."""
        parts = (("LIMIT", limit), ("OFFSET", offset))
        return "".join(f"\n {word} {self.process(number, **kw)}" for word, number in parts if number is not None)

    def visit_try_cast(self, element: Any, **kw: Any) -> str:
        return f"TRY_{self.visit_cast(element, **kw)}"

    def visit_ilike_case_insensitive_operand(self, element: Any, **kw: Any) -> str:
        """ILIKE needs no lower() on either side."""
        return str(element.element._compiler_dispatch(self, **kw))

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._like("ILIKE", binary, **kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._like("NOT ILIKE", binary, **kw)

    def _like(self, word: str, binary: Any, **kw: Any) -> str:
        escape = binary.modifiers.get("escape")
        left, right = (side._compiler_dispatch(self, **kw) for side in (binary.left, binary.right))
        ending = f" ESCAPE {self.render_literal_value(escape, STRINGTYPE)}" if escape is not None else ""
        return f"{left} {word} {right}{ending}"


class DpsqlTypes(compiler.GenericTypeCompiler):
    """Names of types. SQLAlchemy's Float is a number of Python, which is a DOUBLE."""

    def visit_FLOAT(self, type_: TypeEngine, **kw: Any) -> str:
        return "DOUBLE"

    visit_DOUBLE = visit_DOUBLE_PRECISION = visit_FLOAT

    def visit_REAL(self, type_: TypeEngine, **kw: Any) -> str:
        return "FLOAT"

    def visit_DATETIME(self, type_: TypeEngine, **kw: Any) -> str:
        return "TIMESTAMP"

    visit_TIMESTAMP = visit_DATETIME

    def visit_VARCHAR(self, type_: TypeEngine, **kw: Any) -> str:
        """Without a length, which would cut nothing."""
        return "VARCHAR"

    visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_TEXT = visit_CLOB = visit_VARCHAR

    def visit_sized_integer(self, type_: TypeEngine, **kw: Any) -> str:
        """One of the integers that SQLAlchemy has no name for."""
        return type(type_).__name__
