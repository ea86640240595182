"""DuckDB in this process: the default engine, and the sandbox of every engine."""
