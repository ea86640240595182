"""An engine specification for Apache Superset 6.1: `pip install "dpsql[superset]"` beside Superset, and a database `dpsql:////path/schema.toml`.

Superset finds it by its entry point, and connects through the dialect for SQLAlchemy.

engine_spec  what Superset asks of a database: grains, literals, errors, prices, whose analyst a login is
parsing      SQL as Superset reads and writes it, with what only dpsql knows
exported     dashboards out of a zip of Superset's, which itself is not needed
charts       their statements, for `dpsql workload`
"""
