// Write the three kernels of a linear layer y = x w^T + b. All matrices are row-major:
//   x, dx [n][k]   w, dw [m][k]   b [m]   y, dy [n][m]
//   forward      y = x w^T + b
//   backward_x   dx = dy w
//   backward_w   dw = dy^T x
// A block makes a tile of 16 x 16 results. It reads tiles of both factors row by row, so that
// neighbouring threads read neighbouring elements, and multiplies them in shared memory.
__global__ void forward(const float* x, const float* w, const float* b, float* y, int n, int k,
                        int m) {}

__global__ void backward_x(const float* dy, const float* w, float* dx, int n, int k, int m) {}

__global__ void backward_w(const float* dy, const float* x, float* dw, int n, int k, int m) {}
