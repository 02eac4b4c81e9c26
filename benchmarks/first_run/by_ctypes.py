"""Calls a library that `weft nvcc -shared` has built."""

import ctypes

numbers = (ctypes.c_float * 3)(1, 2, 3)
assert ctypes.CDLL("./scale.so").scale_all(numbers, ctypes.c_float(2), 3) == 0
assert list(numbers) == [2, 4, 6]
