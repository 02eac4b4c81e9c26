"""The gradients of attention: their kernels, and which one a call takes."""
