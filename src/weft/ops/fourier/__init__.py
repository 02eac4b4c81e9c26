"""Fourier transforms: lengths and their stages, tables, passes, and convolution by transforms."""
