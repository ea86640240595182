"""PEP 249: cursors. A cursor holds one released result, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar

from dpsql.clients.dbapi.types import read_type
from dpsql.clients.output.prices import StatementPrice, priced
from dpsql.core import errors
from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.plan.tables import Accuracy
from dpsql.session.result import Answer

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from dpsql.clients.dbapi.connection import Connection

Parameters = Sequence[object] | Mapping[str, object]
Row = tuple[object, ...]
Columns = Sequence[tuple[str, str]]
Made = TypeVar("Made")
Description = tuple[str, str, None, None, int | None, int | None, None]
"""Name, type code, display size, internal size, precision, scale, null_ok."""


class Cursor:
    """Executes statements and hands out their rows.

    arraysize  how many rows fetchmany() gives where it is not told
    messages   what the guard warned of in the last statement: (dpsql.Warning, dpsql.Warning(text))
    lastrowid  None: rows have no ids
    """

    arraysize: int = 1
    lastrowid: None = None

    def __init__(self, connection: Connection) -> None:
        self.messages: list[tuple[type[errors.Warning], errors.Warning]] = []
        self._connection = connection
        self._answer: Answer | None = None
        self._asked: tuple[str, Parameters, int] | None = None
        self._position = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<dpsql.Cursor {'closed' if self._closed else 'open'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a cursor cannot be copied or pickled")

    @property
    def connection(self) -> Connection:
        """The connection that this cursor belongs to."""
        return self._connection

    # --- statements ---------------------------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Run one statement. Parameters: a sequence for `?` and `$1`, a mapping for `:name`.

        Raises dpsql.Error; a refusal (1xx to 6xx) cost nothing, from 7xx on the charge stands.
        """
        self._check_open()
        self._forget()
        given = _checked(parameters)
        return self._hold(self._connection._execute(sql, given), sql, given)

    def executemany(self, sql: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Run a statement once for each of some parameters; its result is the rows of all of them, in their order, and
        `privacy` the price of all of them together.

        Each is planned before the first is charged, so what would be refused costs nothing. Where a later one fails all the same, the
        earlier ones stay charged, and stored: they are free when they are asked again. Raises 802 for a question without parameters.
        """
        self._check_open()
        self._forget()
        each = [_checked(parameters) for parameters in seq_of_parameters]
        if not self._connection._has_result(sql, each[0] if each else ()):
            for parameters in each:
                self.execute(sql, parameters)
            return self
        if not each:
            raise error(802, "executemany was given no parameters", hint="give a list of them, or call execute")
        for parameters in each:
            self._connection.price(sql, parameters)
        answers = [self._connection._execute(sql, parameters) for parameters in each]
        from dpsql.session.together import together

        return self._hold(together(answers), sql, each[-1])

    def _hold(self, answer: Answer, sql: str, parameters: Parameters) -> Cursor:
        self._answer, self._asked = answer, (sql, parameters, self._connection._settings)
        self.messages = [(errors.Warning, errors.Warning(note)) for note in answer.notes]
        return self

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing (PEP 249 allows that)."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing (PEP 249 allows that)."""
        self._check_open()

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def description(self) -> list[Description] | None:
        """Seven fields a column: name, type, and of DECIMAL its precision and scale; the others are None.

        None before execute, and after a statement without a result, such as SET.
        """
        if self._answer is None or not self._answer.columns:
            return None
        types = [(name, text, read_type(text)) for name, text in self._answer.columns]
        return [(name, text, None, None, kind.precision, kind.scale, None) for name, text, kind in types]

    @property
    def rowcount(self) -> int:
        """Rows of the result; -1 where there is none."""
        return len(self._answer.rows) if self._answer is not None and self._answer.columns else -1

    @property
    def rownumber(self) -> int | None:
        """The index of the next row; None where there is no result."""
        return self._position if self._answer is not None and self._answer.columns else None

    @property
    def privacy(self) -> StatementPrice:
        """Price of the last statement, and what is left."""
        answer = self._executed()
        return priced(answer.receipt, answer.cached, answer.releases, answer.as_of)

    @property
    def certificates(self) -> list[dict[str, object]]:
        """One for each release of the last statement: what was asked, the mechanisms and their noise, the loss in every accountant's
        measure, and the place in the ledger. A stored answer has those of the charge that bought it."""
        return self._connection._open().certificates(self._executed().fingerprints)

    @property
    def accuracy(self) -> list[tuple[Accuracy | None, ...]]:
        """Parallel to the rows: per cell an interval that holds the exact value with its level, or None."""
        return self._intervals()

    @property
    def errors(self) -> list[float | None]:
        """Of each column the largest 95 % error of its values, as the line under a result says it; None where none has one."""
        return self._executed().errors()

    def with_ends(self) -> Cursor:
        """The same result from here on, where `x_low` and `x_high` follow each column x that may have errors."""
        found = Cursor(self._connection)
        found._answer, found._asked, found._position = self._result().with_ends(), self._asked, self._position
        return found

    @property
    def plan(self) -> str | None:
        """Plan as EXPLAIN gives it for the last statement, free. None before execute, for SET and RESET, and where
        these changed the options meanwhile: it would be another plan."""
        if self._asked is None:
            return None
        sql, parameters, settings = self._asked
        if settings != self._connection._settings:
            return None
        return self._connection.explain(sql, parameters) or None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the answer, a line each: warnings of the guard, and facts that follow from the statement alone."""
        answer = self._executed()
        return tuple(map(harmless, (*answer.notes, *answer.remarks)))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        rows, place = self._result().rows, self._position
        if place >= len(rows):
            return None
        self._position = place + 1
        return rows[place]

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows: `size`, or `arraysize`, or as many as there are."""
        rows = self._result().rows
        wanted = self.arraysize if size is None else size
        if not isinstance(wanted, int) or wanted < 0:
            raise error(802, "a number of rows is 0 or more", hint="write fetchmany(10)")
        start = self._position
        self._position = min(len(rows), start + wanted)
        return list(rows[start : self._position])

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        return self.fetchmany(len(self._result().rows))

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Go to another row: so many further, or with mode "absolute" to that index. IndexError where there is none."""
        rows = self._result().rows
        if mode not in ("relative", "absolute"):
            raise error(802, f"{mode!r} is no way to scroll", hint='write "relative" or "absolute"')
        to = value + (self._position if mode == "relative" else 0)
        if not 0 <= to <= len(rows):
            raise IndexError("the result has no such row")
        self._position = to

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # --- data frames --------------------------------------------------------------------------------------------------

    def fetch_arrow_table(self, *, accuracy: bool = False) -> pyarrow.Table:
        """All rows that are left as an Arrow table; needs pyarrow. With `accuracy` as of `with_ends`."""
        from dpsql.clients.dbapi.frames import arrow_table

        return self._all_as(arrow_table, accuracy)

    def fetch_df(self, *, accuracy: bool = False) -> pandas.DataFrame:
        """All rows that are left as a pandas frame; needs pandas. With `accuracy` as of `with_ends`.

        `frame.attrs["dpsql"]` says what it cost and how exact it is, in values that every writer of frames takes along.
        """
        from dpsql.clients.dbapi.frames import pandas_frame

        answer, privacy = self._result(), self.privacy
        frame = self._all_as(pandas_frame, accuracy)
        names = [name for name, _ in answer.columns]
        frame.attrs["dpsql"] = {
            "epsilon": float(privacy.epsilon),
            "delta": float(privacy.delta),
            "cached": privacy.cached,
            "error": {name: e for name, e in zip(names, answer.errors(), strict=True) if e is not None},
            "notes": list(self.notes),
        }
        return frame

    def fetch_polars(self, *, accuracy: bool = False) -> polars.DataFrame:
        """All rows that are left as a polars frame; needs polars. With `accuracy` as of `with_ends`."""
        from dpsql.clients.dbapi.frames import polars_frame

        return self._all_as(polars_frame, accuracy)

    df, pl, arrow = fetch_df, fetch_polars, fetch_arrow_table
    """The same, as DuckDB's users write it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows that are left, for any library that reads Arrow's PyCapsule interface; needs pyarrow."""
        return self.fetch_arrow_table().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str | None:
        """The result as a notebook shows it; nothing is fetched."""
        from dpsql.clients.output.notebook import html

        return html(self._answer, self.privacy) if self._answer is not None and self._is_shown else None

    def __str__(self) -> str:
        """The result as print() shows it; nothing is fetched."""
        from dpsql.clients.output.notebook import plain

        return plain(self._answer, self.privacy) if self._answer is not None and self._is_shown else repr(self)

    @property
    def _is_shown(self) -> bool:
        """True if there is a result that can be looked at."""
        return bool(self._answer and self._answer.columns) and not self._closed and self._connection._is_open

    # --- open and closed ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close; everything else raises afterwards. Closing twice is fine."""
        self._closed = True
        self._forget()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise error(802, "the cursor is closed", hint="make a new one with connection.cursor()")
        self._connection._open()

    def _forget(self) -> None:
        self._answer, self._asked, self._position = None, None, 0
        self.messages = []

    def _intervals(self, start: int = 0, stop: int | None = None) -> list[tuple[Accuracy | None, ...]]:
        """The accuracy of some rows: those of all rows take long where there are many."""
        return self._executed().accuracy[start:stop]

    def _executed(self) -> Answer:
        self._check_open()
        if self._answer is None:
            raise error(802, "nothing has been executed", hint="call execute first")
        return self._answer

    def _result(self) -> Answer:
        answer = self._executed()
        if not answer.columns:
            # JupySQL looks for these words, and shows a setting as done
            raise error(802, "there are no results to fetch", hint="execute a SELECT, SHOW, DESCRIBE or EXPLAIN first")
        return answer

    def _all_as(self, make: Callable[[Columns, Sequence[Row]], Made], accuracy: bool) -> Made:
        """All that is left, as another library's own; nothing is left once it is made."""
        answer = self._result()
        if accuracy:
            answer = answer.with_ends()
        made = make(answer.columns, answer.rows[self._position :])
        self._position = len(answer.rows)
        return made


def _checked(parameters: Parameters | None) -> Parameters:
    if parameters is None:
        return ()
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        raise error(802, "parameters are a list or a dictionary", hint="write execute(sql, [value])")
    return parameters
