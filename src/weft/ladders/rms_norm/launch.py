"""Launches of the rungs that choose a kernel by the length of a row."""

from weft import cdiv

LONGEST = {1024: (32, 4), 4096: (64, 8), 8192: (128, 8)}
"""The length of a row -> threads, and vectors of a thread."""


def rung_02_registers(rows, n):
    if n <= 4096 and n % 8 == 0:
        yield "rms_norm", rows, 64, 0
    else:
        yield "others", rows, 256, 0


def rung_03_every_length(rows, n):
    threads, vectors = next(sizes for longest, sizes in LONGEST.items() if n <= longest)
    block = 128 if threads <= 32 else threads
    yield f"rms_norm<{threads}, {vectors}>", cdiv(rows, block // threads), block, 0
