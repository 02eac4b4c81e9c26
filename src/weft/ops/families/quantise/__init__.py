"""Rows and groups of 8-bit elements with scales."""
