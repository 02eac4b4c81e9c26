"""The simulated GPU: PTX compiled by LLVM for the CPU at hand, a warp as a vector.

A launch goes prepare -> emit -> compile -> launch; docs/simulator.md follows that order.
"""
