# mypy: disable-error-code="misc, valid-type, no-any-return"
"""SQL as Superset reads and writes it: Superset parses every statement, sets its LIMIT and sends what sqlglot makes of the tree.

In superset_config.py: SQLGLOT_DIALECTS_EXTENSIONS = {"dpsql": Dpsql}
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.planner.spellings import from_pivot


class Dpsql(DuckDB):
    """DuckDB's SQL, and two things that would not come back as they were written.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...)  the clause
    MODE() WITHIN GROUP (ORDER BY x)                the standard's spelling, in which the order is no argument
    """

    class Parser(DuckDB.Parser):
        def parse(self, raw_tokens: list[Token], sql: str | None = None) -> list[exp.Expression | None]:
            """A PIVOT that is ordered or limited is read as the query from it that dpsql reads it as."""
            is_pivot = bool(raw_tokens) and raw_tokens[0].text.upper() == "PIVOT"
            return super().parse(from_pivot(raw_tokens) if is_pivot else raw_tokens, sql)

        def _parse_hint(self) -> exp.Hint | None:
            """The clause stands where other dialects have hints, and is kept as one, word by word."""
            if not self._match_text_seq("WITH", "DIFFERENTIAL_PRIVACY"):
                return super()._parse_hint()
            first = self._prev
            if self._match_text_seq("OPTIONS", "("):
                while self._curr and not self._match(TokenType.R_PAREN):
                    self._advance()
            clause = self.sql[first.start : self._prev.end + 1]
            return exp.Hint(expressions=[exp.Var(this=f"WITH {clause}")])

    class Generator(DuckDB.Generator):
        def hint_sql(self, expression: exp.Hint) -> str:
            return " " + " ".join(self.sql(part) for part in expression.expressions)

        def withingroup_sql(self, expression: exp.WithinGroup) -> str:
            return f"{self.sql(expression, 'this')} WITHIN GROUP ({self.sql(expression, 'expression').strip()})"
