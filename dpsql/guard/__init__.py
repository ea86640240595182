"""The difference-query guard: a pure function of the statement, the declared schema, the public tables and what
was released before.

It holds no engine, runs before the charge, and a refusal costs nothing. It never lowers noise or price: the accountant is the proof.
"""
