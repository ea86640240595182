"""PostgreSQL's words for types, names, constants, operators and lists."""

from __future__ import annotations

import hashlib

from dpsql.core.sqltypes import SqlType
from dpsql.engines.dialects.words import DialectWords, Side, fits_bigint, is_narrow
from dpsql.engines.postgres.numbers import floating
from dpsql.engines.writing import name as quoted
from dpsql.expressions.known import Known

LONGEST = 60
"""[bytes] of a name; PostgreSQL cuts longer ones off at 63, and two could become one."""
_OTHERS = {
    "BOOLEAN": "boolean",
    "DOUBLE": "double precision",
    "FLOAT": "double precision",
    "VARCHAR": "text",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIME": "time",
}


class PostgresWords(DialectWords):
    """See DialectWords. Whole numbers of up to 64 bits are bigint, wider ones and DECIMAL numeric, which does not overflow."""

    engine = "PostgreSQL"
    secret = '(SELECT "cut" FROM pg_temp."dpsql secret")'
    kept = " MATERIALIZED"

    def stored(self, sqltype: SqlType) -> str:
        if is_narrow(sqltype):
            return "bigint"
        if sqltype.is_integer or sqltype.is_decimal:
            return "numeric"
        if sqltype.name not in _OTHERS:
            raise self.refused(f"a value of type {sqltype}")
        return _OTHERS[sqltype.name]

    def name(self, identifier: str) -> str:
        """An identifier as PostgreSQL is told it: small letters, since names do not depend on case here, and not too long."""
        small = identifier.lower()
        if len(small.encode("utf-8", "backslashreplace")) > LONGEST:
            small = f"dpsql {hashlib.sha256(small.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"
        return quoted(small)

    def text(self, value: str) -> str:
        if "\0" in value:
            raise self.refused("the character NUL", "write a text without it")
        doubled = value.replace("'", "''")
        escaped = "E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in value else f"'{doubled}'"
        return f'({escaped}::text COLLATE "C")'

    def number(self, digits: str, sqltype: SqlType) -> str:
        return f"'{digits}'::{self.stored(sqltype)}" if digits[0] == "-" else f"{digits}::{self.stored(sqltype)}"

    def double(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def cast(self, value: str, sqltype: SqlType) -> str:
        written = self.stored(sqltype)
        return f'(({value})::text COLLATE "C")' if written == "text" else f"({value})::{written}"

    def small(self, value: str) -> str:
        return f"({value})::int"

    def digits(self, value: str, sqltype: SqlType) -> str:
        return value if is_narrow(sqltype) else f"trim_scale({value})"

    def nearest(self, value: str) -> str:
        return f"({value})::bigint"

    def rint(self, value: str) -> str:
        return f"round({value})"

    def rounded(self, value: str, sqltype: SqlType) -> str:
        return f"round(({value})::numeric, {sqltype.scale})"

    def tried(self, value: str, sqltype: SqlType) -> str:
        found, most = self.rounded(value, sqltype), f"1e{sqltype.width - sqltype.scale}::numeric"
        return f"(CASE WHEN abs({found}) < {most} THEN {found} END)"

    def exact(self, operator: str, left: Side, right: Side, known: Known) -> str:
        if is_narrow(known.sqltype) and not fits_bigint(known):
            raise self.refused(f"{operator} of {known.sqltype}")
        held = self.stored(known.sqltype)
        return f"(({left.text})::{held} {operator} ({right.text})::{held})"

    def divided(self, operator: str, left: Side, right: Side, known: Known) -> str:
        """`//` is div, never /, which would give fractions of numeric."""
        if is_narrow(known.sqltype):
            sign = "/" if operator == "//" else "%"
            return f"(({left.text})::bigint {sign} NULLIF(({right.text})::bigint, 0))"
        function = "div" if operator == "//" else "mod"
        return f"{function}(({left.text})::numeric, NULLIF(({right.text})::numeric, 0))"

    def floating(self, operator: str, left: Side, right: Side, result: Known) -> str:
        return floating(self, operator, left, right, result)

    def shifted(self, value: str, places: str) -> str:
        return f"(({value})::bigint >> ({places})::int)"

    def later(self, value: str, part: str, amount: str, sqltype: SqlType) -> str:
        return self.cast(f"{value} + make_interval({part} => ({amount})::int)", sqltype)

    def like(self, value: str, pattern: str, escape: str) -> str:
        """Without ESCAPE the backslash would escape."""
        return f"({value} LIKE {self.text(pattern)} ESCAPE {self.text(escape) if escape else repr('')})"

    def is_finite(self, value: str) -> str:
        return f"isfinite({value})"

    def whole(self, function: str, value: str) -> str:
        return f"{function}({value})"

    def sum(self, value: str, known: Known) -> str:
        return f"sum({value})"

    def ordered(self, values: str) -> str:
        return f"(SELECT array_agg(e ORDER BY e) FROM unnest({values}) AS e)"

    def unnested(self, values: str, sqltype: SqlType) -> str:
        return self.cast(f"unnest({values})", sqltype)

    def counted(self, end: str) -> str:
        return f"ARRAY(SELECT i FROM generate_series(0::bigint, ({end})::bigint - 1) AS i)"

    def picked(self, values: str, place: str) -> str:
        return f"({values})[LEAST({place}, 2147483647)::int]"

    def mapped(self, values: str, name: str, value: str) -> str:
        places = f'unnest({values}) WITH ORDINALITY AS held({name}, "dpsql place")'
        return f'ARRAY(SELECT {value} FROM {places} ORDER BY "dpsql place")'


WORDS = PostgresWords()
