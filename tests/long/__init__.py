"""What takes too long for each change: `python -m tests.long`."""
