"""A dialect for SQLAlchemy 1.4 and 2: `create_engine("dpsql:///path/schema.toml?analyst=alice")`.

SQLAlchemy finds it by the entry points `dpsql` and `dpsql.dpsql`; nothing else in dpsql imports it.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("sqlalchemy") is None:
    raise ImportError('the dialect needs SQLAlchemy; write pip install "dpsql[sqlalchemy]"')

from dpsql.clients.sqlalchemy.dialect import DpsqlDialect

__all__ = ["DpsqlDialect"]
