# mypy: disable-error-code="misc"
"""Engine specification for Superset: its questions about a database."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from sqlalchemy import types
from sqlalchemy.engine import URL
from superset.db_engine_specs.base import BaseEngineSpec
from superset.db_engine_specs.exceptions import SupersetDBAPIDatabaseError
from superset.errors import SupersetErrorType
from superset.sql.parse import SQLGLOT_DIALECTS
from superset.utils.core import GenericDataType

from dpsql.clients.dbapi.connection import Connection
from dpsql.clients.repl.words import AGGREGATES, SCALARS
from dpsql.clients.superset.charts import GRAINS
from dpsql.clients.superset.parsing import Dpsql

LITERALS = {types.Date: "DATE '%Y-%m-%d'", types.DateTime: "TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'"}
LINE = re.compile(r"DPSQL-\d{3}: [^\n]*")
KINDS = {
    "DPSQL-101": SupersetErrorType.SYNTAX_ERROR,
    "DPSQL-105": SupersetErrorType.COLUMN_DOES_NOT_EXIST_ERROR,
    "DPSQL-803": SupersetErrorType.CONNECTION_ACCESS_DENIED_ERROR,
}
"""Of refusals for which Superset has a kind of its own; the others are errors of the engine."""

_running: WeakValueDictionary[str, Connection] = WeakValueDictionary()
"""The connections of SQL Lab's statements, so that another request of this process can stop one."""

# For who has not named the dialect in superset_config.py.
SQLGLOT_DIALECTS.setdefault("dpsql", Dpsql)


class DpsqlEngineSpec(BaseEngineSpec):
    """dpsql for Superset. Nothing here decides on privacy: every statement goes through the connection, which does."""

    engine = "dpsql"
    engine_name = "dpsql"
    default_driver = "dpsql"
    sqlalchemy_uri_placeholder = "dpsql:////path/schema.toml?analyst=NAME"
    supports_file_upload = False
    disable_ssh_tunneling = True
    column_type_mappings = (
        (
            re.compile(r"u?(tiny|small|big|huge)?int(eger)?$", re.IGNORECASE),
            types.BigInteger(),
            GenericDataType.NUMERIC,
        ),
    )
    _time_grain_expressions = {None: "{col}"} | {
        grain: f"DATE_TRUNC('{unit}', {{col}})" for grain, unit in GRAINS.items()
    }
    custom_errors: ClassVar[dict[Any, Any]] = {re.compile(f"^{code}:"): ("", kind, {}) for code, kind in KINDS.items()}

    # --- what a login may ask -----------------------------------------------------------------------------------------

    @classmethod
    def impersonate_user(
        cls, database: Any, username: str | None, user_token: str | None, url: URL, engine_kwargs: dict[str, Any]
    ) -> tuple[URL, dict[str, Any]]:
        """The login is the analyst; dpsql refuses one that is not declared, where the schema declares analysts."""
        if username is None:
            return url, engine_kwargs
        return url.difference_update_query(["analyst"]).set(username=username), engine_kwargs

    @classmethod
    def validate_database_uri(cls, sqlalchemy_uri: URL) -> None:
        """Superset opens a connection for every statement: with a ledger in memory each would have a budget of its own."""
        super().validate_database_uri(sqlalchemy_uri)
        if sqlalchemy_uri.query.get("ledger") == ":memory:":
            raise ValueError("ledger=:memory: would forget what was spent after every statement; leave it out")

    # --- SQL ----------------------------------------------------------------------------------------------------------

    @classmethod
    def convert_dttm(cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None) -> str | None:
        found = cls.get_sqla_column_type(target_type)
        return next((dttm.strftime(form) for kind, form in LITERALS.items() if isinstance(found, kind)), None)

    @classmethod
    def get_column_description_limit_size(cls) -> int:
        """Superset asks a query's columns with a row of it; without one they are as good, and free."""
        return 0

    @classmethod
    def get_function_names(cls, database: Any) -> list[str]:
        return [*AGGREGATES, *SCALARS]

    # --- prices -------------------------------------------------------------------------------------------------------

    @classmethod
    def get_allow_cost_estimate(cls, extra: dict[str, Any]) -> bool:
        return True

    @classmethod
    def estimate_statement_cost(cls, database: Any, statement: str, cursor: Any) -> dict[str, Any]:
        """Estimate the price of a statement now. Free, and nothing is run."""
        price = cursor.connection.price(statement)
        return {"epsilon": float(price.epsilon), "delta": float(price.delta), "left": float(price.remaining)}

    @classmethod
    def query_cost_formatter(cls, raw_cost: list[dict[str, Any]]) -> list[dict[str, str]]:
        return [
            {
                "Price": f"epsilon {cost['epsilon']:g}, delta {cost['delta']:g}",
                "Left before it": f"epsilon {cost['left']:g}",
            }
            for cost in raw_cost
        ]

    # --- errors -------------------------------------------------------------------------------------------------------

    @classmethod
    def parse_error_exception(cls, exception: Exception) -> Exception:
        """Charts show the message of the exception itself: the whole line."""
        line = _line(exception)
        return exception if line is None else SupersetDBAPIDatabaseError(line)

    @classmethod
    def extract_error_message(cls, ex: Exception) -> str:
        return cls._extract_error_message(ex)

    @classmethod
    def _extract_error_message(cls, ex: Exception) -> str:
        return _line(ex) or super()._extract_error_message(ex)

    # --- stopping -----------------------------------------------------------------------------------------------------

    @classmethod
    def get_cancel_query_id(cls, cursor: Any, query: Any) -> str | None:
        name = f"dpsql {query.id}"
        _running[name] = cursor.connection
        return name

    @classmethod
    def cancel_query(cls, cursor: Any, query: Any, cancel_query_id: str) -> bool:
        """Stop a statement that runs in this process; its charge stands."""
        connection = _running.get(cancel_query_id)
        if connection is None:
            return False
        connection.interrupt()
        return True


def _line(ex: object) -> str | None:
    """Find the line that says what is wrong and what to write instead, out of what SQLAlchemy and Superset wrapped
    around it.

    The place in the text is left out: the text is Superset's, which the reader may never have seen.
    """
    found = LINE.search(str(ex))
    return found[0] if found else None
