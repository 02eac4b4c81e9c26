"""The verbs of `weft`, one a file; see `weft.cli`."""
