"""Write the kernel in Triton, and launch it in `run`: fahrenheit = 1.8 celsius + 32."""

import triton
import triton.language as tl


@triton.jit
def convert(celsius, fahrenheit, n, BLOCK: tl.constexpr):
    pass


def run(celsius, fahrenheit, n):
    pass
