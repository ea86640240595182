"""The relational algebra that knows its privacy unit."""
