"""Sorts."""

CASES: tuple[object, ...] = ()
