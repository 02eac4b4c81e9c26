"""Checks kernels: inputs, references, tolerances, guards around arrays, and likely causes."""
