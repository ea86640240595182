"""What several tests need: noise that is not random, small datasets, generated statements, the statement lists."""
