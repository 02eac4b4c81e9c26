"""`weft climb mnist`: one training step in five versions, from NumPy to one graph of fused kernels.

numpy_step.py   array expressions, forward and backward by hand
naive_step.py   one kernel per operation, one thread per result (naive.cu)
rows.py         the five versions, and what each adds
climb.py        runs them, checks each against the one before, and times its parts
"""

NAME = "mnist"
ABOUT = "a training step of MNIST's network in five versions, from NumPy to one graph"
TITLES = ("NumPy", "PyTorch", "naive kernels", "fused kernels", "whole step")
