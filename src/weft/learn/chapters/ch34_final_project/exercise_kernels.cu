// Write the four kernels of a training step, for n images of k numbers, h hidden units, 10 classes.
// The parameters are one array: w1 [k][h], b1 [h], w2 [h][10], b2 [10], one after the other.
//   hidden   a [n][h] = tanh(x w1 + b1)
//   output   losses [n], and d [n][10]: the derivatives of the mean loss with respect to
//            z = a w2 + b2
//   back     e [n][h]: those with respect to x w1 + b1
//   update   g: those with respect to all parameters, one thread for each, and q = p - 0.5 g
__global__ void hidden(const float* x, const float* p, float* a, int n, int k, int h) {}

__global__ void output(const float* a, const int* t, const float* p, float* losses, float* d, int n,
                       int k, int h) {}

__global__ void back(const float* a, const float* d, const float* p, float* e, int n, int k,
                     int h) {}

__global__ void update(const float* x, const float* a, const float* d, const float* e,
                       const float* p, float* g, float* q, int n, int k, int h) {}
