"""Layouts of a work on several GPUs: each has a formula and the work that it divides."""
