"""The fused block of convolution, batch norm, ReLU and max pooling: its `shape` and its `tiles`."""
