"""Climbs ladders: each rung of an operation checked, counted and timed beside its peers."""
