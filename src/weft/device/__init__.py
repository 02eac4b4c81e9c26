"""Stage 3 of 5: a place to run PTX: `sim`, the simulated GPU, and `gpu`, the real one.

Shared by both: the models of GPUs, and arguments checked against a kernel's signature.
"""
