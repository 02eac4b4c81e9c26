"""Profiles of some blocks of a launch."""
