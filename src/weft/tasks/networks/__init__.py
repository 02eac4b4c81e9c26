"""The tasks of `weft bench networks` and `weft train gpt`."""
