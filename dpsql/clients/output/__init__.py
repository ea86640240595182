"""Writers of results: tables, bars, plots, streams."""
