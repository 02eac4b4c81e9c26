"""Write the kernel in Numba, and launch it in `run`: fahrenheit = 1.8 celsius + 32."""

from numba import cuda


@cuda.jit
def convert(celsius, fahrenheit):
    pass


def run(celsius, fahrenheit, n):
    pass
