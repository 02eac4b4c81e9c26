"""Plan convolutions: geometry.py describes one; the other modules are kinds of kernels."""
