"""Spark, through Spark Connect."""
