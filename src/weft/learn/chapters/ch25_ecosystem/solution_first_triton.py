"""Degrees Celsius to degrees Fahrenheit: 256 numbers for each program."""

import triton
import triton.language as tl


@triton.jit
def convert(celsius, fahrenheit, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < n
    tl.store(fahrenheit + place, 1.8 * tl.load(celsius + place, mask) + 32, mask)


def run(celsius, fahrenheit, n):
    convert[(triton.cdiv(n, 256),)](celsius, fahrenheit, n, BLOCK=256)
