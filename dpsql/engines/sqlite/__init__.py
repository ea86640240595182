"""SQLite files, whose rows are copied into DuckDB."""
