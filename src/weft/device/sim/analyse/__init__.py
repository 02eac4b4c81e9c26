"""Analyses of a kernel before its code is emitted: operands, lane forms, divergence, waits."""
