"""SQLAlchemy's own plugin for pytest, told of the suite's dialect. It takes over collection: for a run of its own."""

from __future__ import annotations

from sqlalchemy.dialects import registry
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403

registry.register("dpsql", "dpsql.clients.sqlalchemy", "DpsqlDialect")
registry.register("dpsql.suite", "tests.clients.alchemy.suite.owner", "SuiteDialect")
