// Write the kernel. GPU i computes peak[i] operations and moves bandwidth[i] bytes in a unit of
// time; work k has work[k] operations and moves moved[k] bytes. corner[i] is the number of
// operations for each byte at which GPU i is limited by both; seconds[i * n + k] is the least time
// of work k on it.
__global__ void roofline(const float* peak, const float* bandwidth, const float* work,
                         const float* moved, float* corner, float* seconds, int g, int n) {}
