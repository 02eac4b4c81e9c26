"""Normalisation: what its families share."""
