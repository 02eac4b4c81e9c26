"""Starts programs: their processes, and the file that a linked program begins with."""
