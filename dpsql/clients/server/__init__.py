"""The server: PostgreSQL's protocol in front of confined processes that hold the data."""
