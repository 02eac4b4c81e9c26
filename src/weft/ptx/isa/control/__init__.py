"""Comparison and selection, control flow, and exchange between the lanes of a warp."""
