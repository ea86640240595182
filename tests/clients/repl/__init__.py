"""The session in a terminal: completion by itself, and whole sessions through a pseudo-terminal."""
