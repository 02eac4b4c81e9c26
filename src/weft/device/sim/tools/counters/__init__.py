"""Counting: an observer that records how often code runs and the cost of its memory accesses."""
