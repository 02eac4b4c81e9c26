"""Ops of arrays: elementwise, copies, reductions, products, transforms, random numbers."""
