"""Modules of `cupyx`."""
