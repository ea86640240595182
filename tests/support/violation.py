"""The error that a check of sensitivities raises."""

from __future__ import annotations


class Violation(AssertionError):
    """One person changed more than was claimed."""
