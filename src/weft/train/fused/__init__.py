"""The whole training step of the network for MNIST as seven kernels.

kernels.py  the kernels: their sizes, and how many blocks each has
step.py     a step over fixed memory
"""
