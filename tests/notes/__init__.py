"""Runs grammar_notes: every fence on every page is executed and compared."""
