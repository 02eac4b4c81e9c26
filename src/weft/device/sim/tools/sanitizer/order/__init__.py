"""Happens-before: vector clocks, and the synchronisation that joins them."""
