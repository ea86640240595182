"""Ledger, stored answers and data versions of one dataset, in one SQLite file."""

from dpsql.accounting.answers import Answers
from dpsql.accounting.entries import Entry
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.versions import Versions

__all__ = ["Answers", "Entry", "Ledger", "Versions"]
