"""Engines that run SQL: the engine that holds the private data, and the sandbox that holds none."""
