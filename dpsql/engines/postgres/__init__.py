"""PostgreSQL: data that live in a server, which the exact part of a plan is run by. Needs the extra `dpsql[postgres]`."""
