"""Climbs ladders: checks, profiles and times the rungs of an operation."""
