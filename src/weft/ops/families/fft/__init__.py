"""Fourier transforms: lengths and their stages, tables and passes."""
