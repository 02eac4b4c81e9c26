"""The page and the picture of a ring of ranks."""
