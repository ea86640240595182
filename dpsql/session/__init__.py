"""One analyst's session over one opened dataset."""
