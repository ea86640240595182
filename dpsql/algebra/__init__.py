"""A small relational algebra that carries privacy facts: total scalars with domains, and relations that know their unit."""
