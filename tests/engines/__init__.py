"""Conformance of engines: what each must keep, asked of all of them."""
