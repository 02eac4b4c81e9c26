// rung:   01 shared
// idea:   one block per row: adjacent threads read adjacent elements, and trees in shared memory
//         compute the maximum and the sum
// expect: load sectors per request <= 4.1
// launch: softmax<<<rows, 256>>>

__device__ float larger(float a, float b) { return a > b || a != a ? a : b; }

__global__ void softmax(const float* x, float* y, int n) {
    __shared__ float part[256];
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) most = larger(x[i], most);
    part[threadIdx.x] = most;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) part[threadIdx.x] = larger(part[threadIdx.x], part[threadIdx.x + d]);
    }
    __syncthreads();
    most = part[0];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) sum += expf(x[i] - most);
    part[threadIdx.x] = sum;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
    }
    __syncthreads();
    sum = part[0];
    for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(x[i] - most) / sum;
}
