"""The session in a terminal: `dpsql SCHEMA`."""

from dpsql.clients.repl.loop import run

__all__ = ["run"]
