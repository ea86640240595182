"""The declared schema: what the owner says about the data, and what dpsql enforces of it."""

from dpsql.schema.model import Analyst, Column, Guard, Privacy, Reference, Reservation, Role, Schema, Table
from dpsql.schema.toml import read_schema, to_toml

__all__ = [
    "Analyst",
    "Column",
    "Guard",
    "Privacy",
    "Reference",
    "Reservation",
    "Role",
    "Schema",
    "Table",
    "read_schema",
    "to_toml",
]
