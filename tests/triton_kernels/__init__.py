"""Triton kernels as people write them, for the tests and the benchmarks."""
