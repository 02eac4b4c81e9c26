"""Launches of the rung that has a kernel for large results and one for small ones."""

from weft import cdiv


def rung_04_swizzle(M, N):
    if M * N >= 1048576:
        yield "large", cdiv(M, 128) * cdiv(N, 256), 256, 147456
    else:
        yield "small", cdiv(M, 64) * cdiv(N, 64), 128, 65536
