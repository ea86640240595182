"""The texts of one opened dataset that run: the shorter ones where the data was verified for them, each checked once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dpsql.plan.compiled import CompiledRelease, Verified
from dpsql.plan.resolved import Bound
from dpsql.planner.total import bound_table, tables_of, total
from dpsql.planner.total.relations import Tables
from dpsql.schema.model import Schema

MOST = 512
"""[texts] that are remembered."""
Bounds = tuple[Bound, ...]


class Texts:
    """Which engine SQL runs for a compiled one, on data of which some facts were verified."""

    def __init__(self, schema: Schema, facts: frozenset[str]) -> None:
        self._schema = schema
        self._facts = facts
        self._tables = lru_cache(16)(self._tables_with)
        self._checked = lru_cache(MOST)(self._total)

    def check(self, part: CompiledRelease, bounds: Sequence[Bound], *, everywhere: bool) -> None:
        """See that all SQL of a release is total, before anything is charged. Raises 902."""
        read = tuple(b for b in bounds if b.name in part.bounds)
        for sql, verified in part.sources:
            self.printed(sql, verified, read, everywhere=everywhere)

    def printed(self, sql: str, verified: Sequence[Verified], bounds: Bounds, *, everywhere: bool) -> str:
        """The text that runs. Raises 902.

        bounds      tables of released values that it reads
        everywhere  whether every operator that could fail gets a guard, proved or not
        """
        chosen = next((v for v in verified if v.facts <= self._facts), None)
        if chosen is None:
            return self._checked(sql, frozenset(), bounds, everywhere)
        return self._checked(chosen.sql, chosen.facts, bounds, everywhere)

    def _tables_with(self, facts: frozenset[str]) -> Tables:
        return tables_of(self._schema, facts)

    def _total(self, sql: str, facts: frozenset[str], bounds: Bounds, everywhere: bool) -> str:
        tables = self._tables(facts)
        if bounds:
            tables = {**tables, **{b.name.lower(): bound_table(b.columns) for b in bounds}}
        return total(sql, tables, everywhere=everywhere)
