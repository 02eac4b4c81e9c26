"""Launches of the rungs that choose a kernel by the length of a row."""

from weft import cdiv


def _in_registers(rows, n):
    """One block per row, with eight vectors of four floats in the registers of each thread."""
    threads = max(32, 1 << (cdiv(n, 32) - 1).bit_length())
    return f"whole<float, {threads}, 8>", rows, threads, 0


def rung_04_registers(rows, n):
    yield "softmax" if n <= 8192 and n % 4 == 0 else "others", rows, 256, 0


def rung_05_split_rows(rows, n, sms):
    if n % 4:
        yield "ragged<float>", rows, 256, 0
    elif n <= 16384:
        yield _in_registers(rows, n)
    else:
        yield "longer", min(rows * cdiv(n, 4096), 7 * sms), 128, 16384


def rung_06_on_chip(rows, n):
    if n % 4:
        yield "ragged<float>", rows, 256, 0
    elif n <= 32768:
        yield _in_registers(rows, n)
    elif n <= 65536:
        yield "of_65536", rows, 1024, 131072
    else:
        yield "longer", rows * cdiv(n, 8192), 128, 16384
