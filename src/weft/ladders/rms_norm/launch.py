"""Launches of the rung that has a kernel for each length of a row."""

from weft import cdiv

LONGEST = {1024: (32, 4), 4096: (64, 8), 8192: (128, 8)}
"""The length of a row -> threads, and vectors of a thread."""


def rung_03_every_length(rows, n):
    threads, held = next(way for longest, way in LONGEST.items() if n <= longest)
    block = 128 if threads <= 32 else threads
    yield f"rms_norm<{threads}, {held}>", cdiv(rows, block // threads), block, 0
