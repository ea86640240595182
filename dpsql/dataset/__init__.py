"""From a declared schema to data that may be asked, and the owner's side of it."""
