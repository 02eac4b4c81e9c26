"""The hardware judges the simulator: forms, programs, functions, tiles and kernels on both."""
