"""Batch norm with ReLU, and with a residual that is added before it."""
