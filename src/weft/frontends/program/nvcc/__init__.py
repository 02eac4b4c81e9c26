"""`weft nvcc`: nvcc's command line, its steps, and a folder like that of a CUDA toolkit."""
