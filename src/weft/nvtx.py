"""Stands in for the package `nvtx` in scripts that `weft run` and `weft profile` run without it."""

from weft.frontends.nvtx.ranges import annotate, end_range, mark, pop_range, push_range, start_range

__all__ = ["annotate", "end_range", "mark", "pop_range", "push_range", "start_range"]
