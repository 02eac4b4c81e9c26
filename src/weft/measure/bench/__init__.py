"""Times kernels with CUDA events, in turns, and monitors clocks and throttling."""
