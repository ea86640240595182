"""How results are written: tables, bars, plots, streams."""
