"""Aggregates over people: integer statistics with exact sensitivity, and the estimates that are made of their noisy cells."""
