"""Profiles launches: counters per line and array, the roofline, floors, advice."""
