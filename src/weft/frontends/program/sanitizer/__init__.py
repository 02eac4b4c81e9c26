"""The sanitizer in whole CUDA programs: order between streams and host, and memory in use."""
