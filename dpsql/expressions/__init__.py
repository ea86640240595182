"""Expressions over rows: total scalars with their domains, by family."""
