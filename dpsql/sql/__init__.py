"""SQL as trees: what the planner builds, compares and rewrites, and the one place that writes it as DuckDB's text."""
