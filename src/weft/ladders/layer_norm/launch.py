"""Launches of the rungs that choose a kernel by the length of a row."""

from weft import cdiv

LONGEST = {
    1024: (32, 4, 0), 4096: (64, 8, 0), 8192: (128, 8, 0), 16384: (256, 8, 0), 32768: (512, 8, 0),
    65536: (512, 8, 8), 131072: (1024, 8, 8),
}  # fmt: skip
"""The length of a row -> threads, vectors of a thread in registers, and in shared memory."""


def rung_03_registers(rows, n):
    yield "layer_norm" if n <= 16384 and n % 8 == 0 else "others", rows, 256, 0


def rung_04_every_length(rows, n, sms):
    if n % 8:  # blocks stay, and keep the weights, which no vector holds
        cycle = 8  # rows that begin at the same place of a vector are so far apart
        blocks = 8 * sms - 8 * sms % cycle
        yield "ragged", min(cdiv(rows, 4), blocks), 128, 0
        return
    threads, registers, shared = next(sizes for longest, sizes in LONGEST.items() if n <= longest)
    block = 128 if threads <= 32 else threads
    grid = cdiv(rows, block // threads)
    yield f"whole<{threads}, {registers}, {shared}>", grid, block, shared * threads * 16
