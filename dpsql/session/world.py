"""World of a session's statements: the opened dataset, the ledger with its stored answers, the guard, catalog and
sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dpsql.accounting import remembered, spending
from dpsql.accounting.ledger import Ledger
from dpsql.answers.look_up import Stored
from dpsql.answers.recent import Recent
from dpsql.core.errors import error
from dpsql.core.loss import PrivacyLoss
from dpsql.dataset.opening import VERSIONS_TABLE, Dataset, sandbox_memory, versions_table
from dpsql.guard.bought import bought
from dpsql.guard.drawing import people
from dpsql.guard.guarding import GUARD_TABLE, Guarding
from dpsql.guard.sizes import Bought
from dpsql.guard.units import SampleUnits
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.charges import Receipt
from dpsql.plan.releases import Bounded
from dpsql.plan.tables import PublicTable
from dpsql.planner.measure import Identities
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateCube, CreateModel, CreateTable, Query, parse
from dpsql.planner.planning import bound
from dpsql.planner.qualified import in_main
from dpsql.planner.resolve import resolve
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.buying import Buying
from dpsql.schema.model import RESERVED, Analyst
from dpsql.session.commons import Commons
from dpsql.session.result import Answer


class World:
    """One analyst's view of one opened dataset.

    identities  of the declared schema
    settings    what SET has left, by the option's name; the later one decides
    recent      the newest answers
    commons     of all sessions of the thread; its own where nothing is shared
    """

    def __init__(
        self, dataset: Dataset, ledger: Ledger, analyst: Analyst, noise: NoiseSource, commons: Commons | None
    ) -> None:
        self.dataset, self.ledger, self.analyst = dataset, ledger, analyst
        self.schema = dataset.schema
        if analyst.dashboard is not None:
            # what it asks is priced, and refused, as if the owner allowed no statement more
            self.schema = replace(dataset.schema, privacy=dataset.schema.privacy.at_most(analyst.dashboard))
        self.identities = Identities(dataset.schema)
        self.settings: dict[str, Options] = {}
        self.sandbox = Sandbox(sandbox_memory(dataset.schema), dataset.schema.limits.rows)
        self.catalog = DeclaredTables(dataset.schema, sandbox_memory(dataset.schema), dataset.schema.limits.rows)
        self.sandbox.share(dataset.engine, dataset.schema)
        approved = dataset.versions, dataset.moved, dataset.older
        self.versions = repr(approved)
        shared = commons if dataset.schema.privacy.shared_answers else None
        self._own = Commons()
        self.commons = shared if shared is not None else self._own
        self.sample = self._sample()
        self.guard = Guarding(dataset.schema, ledger, analyst, self.sample, self._resolved)
        self.stored = Stored(ledger, self.schema, analyst, self.identities, *approved)
        self.release = Buying(dataset, ledger, analyst, self.stored, noise, self.guard, self.identities.whole)
        # the same text is another question at another usual price
        priced = self.versions, analyst.dashboard
        self.recent: Recent[Answer] = Recent(
            self.stored.charges_of, shared.answers if shared is not None else None, priced
        )

    @property
    def options(self) -> Options:
        """Options that SET left, as one value."""
        found = Options()
        for one in self.settings.values():
            found = one.over(found)
        return found

    @property
    def is_owners(self) -> bool:
        """True if the owner's tools ask: no analyst has such a name."""
        return self.analyst.name.startswith(RESERVED)

    def receipt(self, loss: PrivacyLoss) -> Receipt:
        """Receipt of a statement that is not charged, or not yet, with the remaining budget."""
        return self.release.receipt(loss)

    def spent(self, names: Sequence[str]) -> list[PublicTable]:
        """Some of the tables of what was spent and of what the guard remembers, as this analyst sees them now."""
        own: dict[str, Callable[[], PublicTable]] = {
            GUARD_TABLE: self.guard.table,
            VERSIONS_TABLE: lambda: versions_table(self.dataset, self.ledger),
        }
        others = [name for name in names if name not in own]
        found = spending.tables(others, self.schema, self.ledger, self.analyst)
        return [*found, *(made() for name, made in own.items() if name in names)]

    def _sample(self) -> SampleUnits:
        known = bought(self.schema, remembered.sizes(self.ledger))
        # public tables that are not shown in place are read through the engine, as long as that is open: another one is another key
        public = self.versions, self.dataset.engine
        return self.commons.same(public, sample_units(self.dataset, self.identities.whole, known))

    def _resolved(self, text: str) -> Bounded:
        """A statement of the ledger anew, with what one unit may contribute."""
        statement = parse(text, ())
        query = statement.query if isinstance(statement, CreateCube | CreateModel | CreateTable) else statement
        if not isinstance(query, Query):
            raise error(106, "no question is in the ledger", hint="none")
        asked = in_main(query, self.schema)
        ways = statement.terms.ways if isinstance(statement, CreateCube) else None
        return bound(asked, resolve(asked, self.schema, self.catalog, self.sandbox), self.schema, ways)

    def close(self) -> None:
        self._own.close()
        self.catalog.close()
        self.sandbox.close()
        self.dataset.close()
        self.ledger.close()


def sample_units(dataset: Dataset, identity: str, known: Bought) -> SampleUnits:
    """The sample units of an opened dataset, made when they are first asked.

    known  the released histograms of its columns
    """
    schema, engine = dataset.schema, dataset.engine
    views, files = engine.shared_views, engine.shared_files
    public = [table.name for table in schema.tables if table.public] if not views else []
    return SampleUnits(schema, identity, people(schema), views, files, lambda: map(engine.public_table, public), known)
