"""What the statements of one session meet: the opened dataset, the ledger with its stored answers, the guard, catalog and sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.accounting import spending
from dpsql.accounting.ledger import Ledger
from dpsql.answers.look_up import Stored
from dpsql.answers.recent import Recent
from dpsql.core.loss import PrivacyLoss
from dpsql.dataset.opening import Dataset, sandbox_memory
from dpsql.guard.guarding import GUARD_TABLE, Guarding
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.charges import Receipt
from dpsql.plan.tables import PublicTable
from dpsql.planner.options import Options
from dpsql.planner.planning import schema_identity
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.buying import Buying
from dpsql.schema.model import Analyst, Schema
from dpsql.session.result import Answer


class World:
    """One analyst's view of one opened dataset.

    identity  schema_identity of the declared schema
    settings  what SET has left, by the option's name; the later one decides
    recent    the newest answers
    """

    def __init__(self, dataset: Dataset, ledger: Ledger, analyst: Analyst, noise: NoiseSource) -> None:
        self.dataset, self.ledger, self.analyst = dataset, ledger, analyst
        self.identity = schema_identity(dataset.schema)
        self.settings: dict[str, Options] = {}
        self.sandbox = Sandbox(sandbox_memory(dataset.schema), dataset.schema.limits.rows)
        self.catalog = DeclaredTables(dataset.schema, sandbox_memory(dataset.schema), dataset.schema.limits.rows)
        self.sandbox.share(dataset.engine, dataset.schema)
        self.guard = Guarding(dataset.schema, ledger, analyst, self.sandbox)
        self.stored = Stored(ledger, dataset.schema, analyst, self.identity, dataset.version)
        self.release = Buying(dataset, ledger, analyst, self.stored, noise, self.guard, self.identity)
        self.recent: Recent[Answer] = Recent(self.stored.charges_of)

    @property
    def schema(self) -> Schema:
        return self.dataset.schema

    @property
    def options(self) -> Options:
        """What SET has left, as one."""
        found = Options()
        for one in self.settings.values():
            found = one.over(found)
        return found

    def receipt(self, loss: PrivacyLoss) -> Receipt:
        """What was not charged, or not yet, and what is left."""
        return Receipt(None, loss, self.release.remaining())

    def spent(self, names: Sequence[str]) -> list[PublicTable]:
        """Some of the tables of what was spent and of what the guard remembers, as this analyst sees them now."""
        remembered = [self.guard.table()] if GUARD_TABLE in names else []
        others = [name for name in names if name != GUARD_TABLE]
        return [*spending.tables(others, self.schema, self.ledger, self.analyst), *remembered]

    def close(self) -> None:
        self.catalog.close()
        self.sandbox.close()
        self.dataset.engine.close()
        self.ledger.close()
