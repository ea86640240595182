"""Proof that printed engine SQL cannot raise on any data, decided from the text itself before it runs (rule 45).

A failure of the engine is an output without noise, so a text runs only where every part of it is known to be total: by its kind, or by
limits that are derived here once more from the declared types and the constants of the text. An operator that is not proved gets a
guard, TRY, in place: it stays where it is evaluated, so nothing moves across the cut of contributions, a join or a filter. A text with
anything else in it is refused.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from dpsql.core.domains import hull
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.known import Known, of_type
from dpsql.plan.checked import Checked
from dpsql.plan.compiled import CompiledRelease, Verified
from dpsql.plan.resolved import InputTable
from dpsql.planner.calls import hidden, restored
from dpsql.planner.total.operators import NAMES
from dpsql.planner.total.proofs import Proof, proved
from dpsql.planner.total.relations import Columns, Relations, Tables
from dpsql.planner.total.shapes import Shapes
from dpsql.planner.total.walk import NotTotalError
from dpsql.planner.walks import lifted
from dpsql.schema.model import UNIT_COLUMN, Column, Schema, Table, bounds_fact, with_unit

_DUCKDB = Dialect.get_or_raise("duckdb")
_DEEPEST = 20_000
"""[frames] Printed text has more parentheses than what was asked."""


def tables_of(schema: Schema, facts: frozenset[str] = frozenset()) -> dict[str, Columns]:
    """The views that the engine shows, with what their columns can be.

    facts  what was verified of the data: then declared bounds are limits
    """
    found: dict[str, Columns] = {}
    for table in schema.tables:
        columns = {c.name.lower(): _column(table, c, facts) for c in table.columns}
        found[table.name.lower()] = columns
        unit = _unit_type(schema)
        if not table.public and unit is not None:
            found[with_unit(table.name).lower()] = {**columns, UNIT_COLUMN.lower(): of_type(unit)}
    return found


def input_table(columns: Sequence[tuple[str, SqlType]]) -> Columns:
    """Known values of the columns of a table of released values."""
    return {name.lower(): of_type(sqltype) for name, sqltype in columns}


def total(text: str, tables: Tables, *, everywhere: bool = False) -> str:
    """The text, with a guard around every operator that is not proved to be total; or around every operator that could fail.

    Raises 902 where a part of it can have no guard, or is not known at all.
    """
    return derived(text, tables, everywhere=everywhere)[0]


def derived(text: str, tables: Tables, *, everywhere: bool = False) -> tuple[str, Columns]:
    """The text as `total` gives it, and what its columns can be. Raises 902."""
    found: list[Columns] = []
    return written(text, tables, lambda checked: checked.text, everywhere=everywhere, told=found.append), found[0]


def written(
    text: str,
    tables: Tables,
    write: Callable[[Checked], str],
    *,
    everywhere: bool = False,
    told: Callable[[Columns], None] = lambda columns: None,
    parse: Callable[[str], exp.Expression] | None = None,
) -> str:
    """The text as a dialect writes what was checked. Raises 902, and what the dialect raises.

    told   is called with what the columns can be
    parse  makes the tree of the text; None: anew
    """
    problem = ""
    with _deep():
        try:
            tree = (parse or _parsed)(text)
            relations = Relations(tables, everywhere=everywhere)
            told(relations.query(tree, None, {}))
            return write(Checked(_printed(tree) if relations.walk.guarded else text, tree, relations.walk.known))
        except NotTotalError as part:
            problem = str(part)
        except (SqlglotError, RecursionError):
            problem = "its form"
    raise error(902, f"the engine's SQL is not known to be total ({problem}); nothing was charged")


def _printed(tree: exp.Expression) -> str:
    """The tree as text; it must read as the same tree."""
    text = tree.sql("duckdb")
    if _parsed(text) != tree:
        raise NotTotalError("its guards")
    return text


def _parsed(text: str) -> exp.Expression:
    trees = _DUCKDB.parser().parse(hidden(_DUCKDB.tokenize(text), NAMES), text)
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
        raise NotTotalError("its form")
    restored(trees[0])
    return trees[0]


def _column(table: Table, column: Column, facts: frozenset[str]) -> Known:
    known = of_type(column.sqltype)
    if known.limits is None or bounds_fact(table.name, column.name) not in facts:
        return known
    return Known(column.sqltype, hull(column.domain) or known.limits)


def _unit_type(schema: Schema) -> SqlType | None:
    owner = schema.table(schema.privacy.unit_table or "")
    column = owner.column(schema.privacy.unit_column or "") if owner is not None else None
    return column.sqltype if column is not None else None


_lock = threading.Lock()
_inside = [0, 0]
"""Number of threads that read a text, and the limit on frames before the first."""


@contextmanager
def _deep() -> Iterator[None]:
    """More frames for the parser, which takes 25 for each parenthesis."""
    with _lock:
        if _inside[0] == 0:
            _inside[1] = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_inside[1], _DEEPEST))
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if _inside[0] == 0:
                sys.setrecursionlimit(_inside[1])


MOST = 512
"""[texts] that are remembered."""
Bounds = tuple[InputTable, ...]


class Texts:
    """Engine SQL for a compiled release, on data of which some facts were verified.

    write     the engine's dialect
    guards    whether it has guards: without them what could fail is refused from the first
    verbatim  whether it writes what needed no guard as it is: then a text may be known by the proof of another one (proofs.py)
    """

    def __init__(
        self,
        schema: Schema,
        facts: frozenset[str],
        write: Callable[[Checked], str],
        guards: bool,
        verbatim: bool,
    ) -> None:
        self._write, self._guards, self._verbatim = write, guards, verbatim
        self._schema = schema
        self._facts = facts
        self._tables = lru_cache(16)(self._tables_with)
        self._checked = lru_cache(MOST)(self._total)
        self._shapes = Shapes(_parsed)
        self._proofs: OrderedDict[_Family, Proof | None] = OrderedDict()

    def check(self, part: CompiledRelease, bounds: Sequence[InputTable], *, everywhere: bool) -> None:
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
        shape, values = lifted(sql) or ("", [])
        family, guarded = (shape, facts, bounds, everywhere), everywhere and self._guards
        proof = self._proofs.get(family)
        if proof is not None and proof.covers(values):
            return sql
        tables = self._tables(facts)
        if bounds:
            tables = {**tables, **{b.name.lower(): input_table(b.columns) for b in bounds}}

        def write(checked: Checked) -> str:
            text, constants = self._write(checked), self._shapes.constants
            if checked.text == sql:
                if self._verbatim and constants and family not in self._proofs:
                    found = proved(checked.tree, constants, lambda wide: Relations(tables, guarded, wide))
                    self._remember(family, found)
                    if found is None:
                        return text
                self._shapes.unchanged()
            return text

        return written(sql, tables, write, everywhere=guarded, parse=self._shapes.tree)

    def _remember(self, family: _Family, proof: Proof | None) -> None:
        self._proofs[family] = proof
        if len(self._proofs) > MOST:
            self._proofs.popitem(last=False)


_Family = tuple[str, frozenset[str], Bounds, bool]
"""Subject of a proof: a shape, and what else is looked at."""
