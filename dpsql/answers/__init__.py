"""The answer cache of stored answers: what of a release can be read off them, free or for the difference in price."""
