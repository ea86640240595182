"""Dialects: checked statements in the words of engines other than DuckDB."""
