"""Launches of the rung that has other kernels for an odd number of columns."""

from weft import cdiv
from weft.ops.families.pool.structs import PoolShape

DEFINES = PoolShape.define()
"""The struct of the kernels of weft.ops that a rung includes."""


def rung_02_vectors(planes, rows, columns):
    suffix, results = ("_odd", 1) if columns % 2 else ("", 2)  # of each thread
    blocks = cdiv(planes * rows * columns, 256 * results)
    for kernel in ("forward", "backward"):
        yield kernel + suffix, blocks, 256, 0
