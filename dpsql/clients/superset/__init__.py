"""An engine specification for Apache Superset 6.1: `pip install "dpsql[superset]"` beside Superset, and a database `dpsql:////path/schema.toml`.

Superset finds it by its entry point, and connects through the dialect for SQLAlchemy.
"""
