"""Floating-point arithmetic of every width, and the approximate functions."""
