"""Pooling: `windows` and views of tensors, and the candidates of its `kernels`."""
