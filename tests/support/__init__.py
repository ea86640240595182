"""Common parts of several tests: noise that is not random, small datasets, generated statements, the statement lists."""
