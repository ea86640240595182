"""PEP 249: connections, cursors, and what they give."""
