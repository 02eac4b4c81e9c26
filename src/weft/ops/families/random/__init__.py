"""Random numbers: their seed and offset (`start`) and the geometry of their sequence.

start.py     seed and offset of a call, from torch's generators
filled.py    calls that make a new tensor
drawn.py     calls that draw a number for each element of a tensor
threads.py   the numbering of elements: that of torch's kernels
"""
