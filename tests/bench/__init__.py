"""dpsql beside plain DuckDB: `python -m tests.bench`. Prints times beside their aims and asserts nothing."""
