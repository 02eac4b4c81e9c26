"""Launches of the rung that chooses a kernel by the length of a row."""

from weft import cdiv


def rung_01_on_chip(rows, n):
    if n % 8:
        yield "ragged<__nv_bfloat16>", rows, 256, 0
    elif n <= 32768:  # in registers: up to eight vectors of eight elements per thread
        threads = max(32, 1 << (cdiv(n, 64) - 1).bit_length())
        yield f"whole<__nv_bfloat16, {threads}, {4 if n <= 1024 else 8}>", rows, threads, 0
    elif n <= 65536:
        yield "of_65536", rows, 512, 65536
    else:
        yield "longer", rows * cdiv(n, 16384), 128, 16384
