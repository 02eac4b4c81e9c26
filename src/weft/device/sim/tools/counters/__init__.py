"""Counting: an observer that notes how often code runs and what its memory accesses cost."""
