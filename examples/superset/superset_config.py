"""Superset's settings for this example: one process, no other service, everything in one folder."""

import os
from pathlib import Path

import statement_log

from dpsql.clients.superset.parsing import Dpsql

FOLDER = Path(os.environ["SUPERSET_HOME"])

SECRET_KEY = os.environ["SUPERSET_SECRET_KEY"]
SQLALCHEMY_DATABASE_URI = f"sqlite:///{FOLDER / 'superset.db'}"
SQLGLOT_DIALECTS_EXTENSIONS = {"dpsql": Dpsql}
FEATURE_FLAGS = {"ESTIMATE_QUERY_COST": True}
RATELIMIT_ENABLED = False
TALISMAN_ENABLED = False

# dpsql keeps answers itself, and for longer than a cache: a refresh asks again, and costs nothing.
CACHE_CONFIG = DATA_CACHE_CONFIG = {"CACHE_TYPE": "NullCache"}

statement_log.start(FOLDER / "statements.jsonl")
