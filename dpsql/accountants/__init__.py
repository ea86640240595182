"""Accountants: what each adds up of the events that ran, and how much of it keeps a promise of (epsilon, delta).

pure, advanced, zcdp, gdp, rdp   an accountant each
record                           what an accountant is
registry                         all of them, and those that the schema's `accounting` joins
filters                          whether sums keep a promise
"""
