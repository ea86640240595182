"""Runs that are too long for the tests: `python -m tests.long VERB`, each verb a module of this folder."""
