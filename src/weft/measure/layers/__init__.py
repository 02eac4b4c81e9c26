"""A PyTorch script by steps and layers: what takes the time and the memory, and what to change."""
