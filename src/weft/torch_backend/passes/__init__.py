"""Changes of a traced graph before it is divided into steps.

residuals.py  adds gradients of residual connections in the kernels of norms
dropouts.py   writes out dropout beside elementwise operations as a mask of their kernel
norms.py      writes out norms that autocast surrounds with conversions
"""
