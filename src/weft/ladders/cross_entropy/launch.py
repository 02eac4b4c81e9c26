"""Launches of the rung that chooses a kernel by the length of a row."""

from weft import cdiv
from weft.ops.families.loss.structs import Classes

DEFINES = Classes.define()
"""The struct of the kernels of weft.ops that a rung includes."""


def rung_04_on_chip(rows, n):
    if n % 8:
        yield "ragged", rows, 1024, 131072
    elif n <= 1024:
        yield "of_1024", cdiv(rows, 4), 128, 0
    elif n <= 8192:
        yield "of_8192", rows, 128, 0
    elif n <= 32768:
        yield "of_32768", rows, 512, 0
    else:
        yield "of_131072", rows, 1024, 131072
