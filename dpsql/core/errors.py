"""Everything dpsql raises, and what each code means.

    Exception
    |-- Warning
    `-- Error                       code, span, hint
        |-- InterfaceError          8xx  the API was used wrongly (a closed cursor, a parameter of the wrong type)
        `-- DatabaseError
            |-- DataError
            |-- IntegrityError      7xx  the ledger does not hold what it must
            |-- InternalError       9xx  our own invariant failed; nothing was released
            |-- NotSupportedError   1xx-4xx  a construct that dpsql refuses
            |-- ProgrammingError    1xx-4xx  a statement that is wrong; 505 a question back; 6xx a difference query
            |   `-- SchemaError     8xx  the declared schema is wrong
            `-- OperationalError    7xx  execution: constant text, the charge stands
                `-- BudgetError     5xx  the budget does not allow it

A *refusal* is raised before any data is read and costs nothing; its text may quote the user's own statement and the declared
schema. From 7xx on, data may have been touched: the text is a constant of this file.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.core.escaping import harmless
from dpsql.core.spans import Span, caret


class Warning(Exception):
    """PEP 249: an important warning. dpsql raises none; they stand in `messages` of connections and cursors."""


class Error(Exception):
    """The base of all dpsql errors.

    code  `DPSQL-nnn`, never reused
    span  where in the statement, or None
    hint  what to write instead, or None
    """

    def __init__(self, code: int, message: str, *, hint: str | None = None, span: Span | None = None) -> None:
        super().__init__(message)
        self.code = f"DPSQL-{code}"
        self.message = message
        self.hint = hint
        self.span = span
        self._sql: str | None = None

    def located(self, sql: str) -> Error:
        """Remember the statement, so that the message can show the place."""
        if self._sql is None:
            self._sql = sql
        return self

    def __str__(self) -> str:
        line = harmless(f"{self.code}: {self.message}" + (f"; {self.hint}" if self.hint else ""), kept="\n\t")
        if self.span is None or self._sql is None:
            return line
        return f"{line}\n{caret(self._sql, self.span)}"


class InterfaceError(Error):
    """The API was used wrongly."""


class DatabaseError(Error):
    """Anything about the statement, the schema, the budget or the data."""


class DataError(DatabaseError):
    """PEP 249: a problem with processed data. dpsql raises none: such values become NULL."""


class IntegrityError(DatabaseError):
    """The ledger does not hold what it must."""


class InternalError(DatabaseError):
    """An invariant of dpsql itself failed; nothing was released."""


class NotSupportedError(DatabaseError):
    """A construct that dpsql refuses."""


class ProgrammingError(DatabaseError):
    """A statement that is wrong."""


class SchemaError(ProgrammingError):
    """The declared schema is wrong."""


class OperationalError(DatabaseError):
    """Execution failed; the charge, if any, stands."""


class BudgetError(OperationalError):
    """The budget does not allow the statement.

    fits  the largest epsilon that would fit, where one would
    """

    fits: Fraction | None = None


CODES: dict[int, tuple[type[Error], str]] = {
    101: (ProgrammingError, "the text is not one SQL statement that can be read"),
    102: (NotSupportedError, "a construct or function outside the grammar"),
    103: (NotSupportedError, "not a question: the statement would change, load or reveal something"),
    104: (ProgrammingError, "an option that does not exist or has a wrong value"),
    105: (ProgrammingError, "a table or column that is not declared"),
    106: (ProgrammingError, "types that do not fit together"),
    107: (NotSupportedError, "the statement is too long, too deep or too large"),
    108: (ProgrammingError, "parameters that do not fit the placeholders"),
    109: (ProgrammingError, "a missing, nested or misplaced aggregate"),
    110: (NotSupportedError, "planning took longer than the owner's limit; nothing was charged"),
    201: (NotSupportedError, "a sum over values without bounds"),
    202: (NotSupportedError, "arithmetic that could overflow on some data"),
    203: (NotSupportedError, "a choice among values that are not declared"),
    204: (NotSupportedError, "text that could grow too long"),
    301: (NotSupportedError, "rows of people would be the result"),
    302: (NotSupportedError, "a group would be one person"),
    303: (NotSupportedError, "a group key that cannot be listed or selected"),
    304: (NotSupportedError, "too many declared groups"),
    305: (ProgrammingError, "a column that is neither grouped nor aggregated"),
    401: (NotSupportedError, "no limit on the rows or groups of one person"),
    402: (NotSupportedError, "a join or subquery that is not supported"),
    501: (BudgetError, "the budget left does not cover the price"),
    502: (BudgetError, "the price is above the owner's cap for one statement"),
    503: (BudgetError, "the price is below the owner's least for one statement"),
    504: (BudgetError, "the ledger keeps its promise by another accounting than the schema names"),
    505: (
        ProgrammingError,
        "what is stored answers it, with a larger error than what would be bought: nobody said which",
    ),
    601: (NotSupportedError, "the guard: a condition, group or aggregate that singles out identifiers"),
    602: (NotSupportedError, "the guard: an answer that differs from another one by a few people"),
    603: (
        NotSupportedError,
        "the guard: a condition that nobody can say the number of people of, on a column that tells people apart",
    ),
    604: (NotSupportedError, "the guard: an answer that adds up, with those before it, to one about a few people"),
    701: (OperationalError, "the engine failed; the charge stands"),
    702: (OperationalError, "the data changed while the statement ran; the charge stands"),
    703: (OperationalError, "interrupted; the charge stands where one was made"),
    704: (OperationalError, "the ledger cannot be read or written"),
    705: (IntegrityError, "the ledger is damaged or belongs to another dataset"),
    706: (OperationalError, "the released result could not be post-processed; the charge stands"),
    707: (OperationalError, "a data source cannot be read"),
    708: (OperationalError, "the data is not approved"),
    709: (OperationalError, "too many statements failed, and the owner has not looked at them; nothing was charged"),
    710: (OperationalError, "ended at the owner's limit of seconds"),
    711: (OperationalError, "ended at the owner's limit of memory"),
    712: (OperationalError, "ended at the owner's limit of rows"),
    713: (OperationalError, "somebody else works out the same answer, and takes too long"),
    714: (IntegrityError, "the data is bound to another ledger"),
    715: (OperationalError, "the server cannot be reached; what was charged stays charged"),
    801: (SchemaError, "the declared schema has mistakes"),
    802: (InterfaceError, "the connection or cursor was used wrongly"),
    803: (InterfaceError, "the analyst is not declared"),
    804: (SchemaError, "the data does not have the declared structure"),
    901: (InternalError, "an invariant of dpsql failed; nothing was released"),
    902: (InternalError, "the engine's SQL is not known to be total; nothing was charged"),
    903: (InternalError, "what crossed from the engine is not an integer, or no group key; nothing was released"),
}


def error(code: int, message: str, *, hint: str | None = None, span: Span | None = None) -> Error:
    """Build the error of a code; its class comes from CODES."""
    return CODES[code][0](code, message, hint=hint, span=span)


for _kind in (
    Warning, Error, InterfaceError, DatabaseError, DataError, OperationalError, IntegrityError, InternalError, ProgrammingError,
    NotSupportedError, SchemaError, BudgetError,
):  # fmt: skip
    # under the name that callers know them by
    _kind.__module__ = "dpsql"
