"""Writes a layer of a PyTorch model as a ladder: one module per kind of computation.

A module has `OPERATIONS`, the names of PyTorch's and weft's operations that it takes, and
`describe(operation, operands)`, which returns a `Computation` or raises. A new
module is found by its name.
"""
