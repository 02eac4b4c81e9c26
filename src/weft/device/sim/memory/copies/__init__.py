"""Asynchronous copies of single threads (cp.async), and the ring of those under way."""
