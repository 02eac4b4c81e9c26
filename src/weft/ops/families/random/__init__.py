"""Random numbers: where they begin (`start`) and the geometry that their sequence has.

start.py     seed and offset of a call, from torch's generators
filled.py    calls that make a new tensor
drawn.py     calls that draw a number for each element of a tensor
threads.py   how elements are numbered: as torch's kernels number them
"""
