"""A dialect for SQLAlchemy 1.4 and 2: `create_engine("dpsql:///path/schema.toml?analyst=alice")`.

SQLAlchemy finds it by the entry points `dpsql` and `dpsql.dpsql`; nothing else in dpsql imports it.

url         what an engine's URL says
dialect     how SQLAlchemy connects and asks
reflection  tables, columns and keys, from the declared schema alone
types       declared types as SQLAlchemy's
compiler    expressions as SQL that dpsql reads
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("sqlalchemy") is None:
    raise ImportError('the dialect needs SQLAlchemy; write pip install "dpsql[sqlalchemy]"')

from dpsql.clients.sqlalchemy.dialect import DpsqlDialect

__all__ = ["DpsqlDialect"]
