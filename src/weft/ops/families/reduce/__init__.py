"""Reductions along any dimensions."""
