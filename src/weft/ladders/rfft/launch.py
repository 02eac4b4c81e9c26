"""Launches of the rungs, whose kernels depend on the length."""

from weft import cdiv
from weft.ops.families.fft.banks import room
from weft.ops.families.fft.lengths import split, stages
from weft.ops.families.fft.passes import room_word, stages_word
from weft.ops.families.fft.structs import Problem

DEFINES = Problem.define()
"""The struct of the kernels of weft.ops that a rung includes."""


def rung_00_radix_2(rows, n):
    """A pass for each factor 2."""
    passes = n.bit_length() - 1
    for i in range(passes):
        words = (str(word).lower() for word in (i == 0, i == passes - 1, i % 2 == 1))
        yield f"pass<{1 << i}, {', '.join(words)}>", cdiv(rows * n, 512), 256, 0


def _passes(rows, n):
    """Columns, then lines: 8 adjacent transforms in a block."""
    a, b = split(n)
    for name, length, count, into in (("columns", a, b, True), ("lines", b, a, False)):
        s = stages(length)[0]
        made = room(s, 8, into, True)
        words = f"{stages_word(s)}, {room_word(made)}"
        yield f"{name}<{words}>", rows * cdiv(count, 8), 8 * s.threads, made.bytes


def rung_01_two_passes(rows, n):
    yield from _passes(rows, n)
    yield "first_half", (rows, min(1024, cdiv(n, 512))), 256, 0


def rung_02_pairs(rows, n):
    yield from _passes(rows, n // 2)
    yield "separate", (rows, min(1024, cdiv(n, 1024))), 256, 0
