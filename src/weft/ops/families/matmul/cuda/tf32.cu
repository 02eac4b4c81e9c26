// The kernels of pipelined.cu for float: operands are copied as tf32, and results are floats.
#include "k_major.cuh"
#include "pipelined.cu"
