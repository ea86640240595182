"""Ways by which people and programs reach a session: the Python DB-API and the command line."""
