// The three products of a linear layer. Tiles are read as they lie in memory; the transposed factor
// is transposed when it is read from shared memory.
const int T = 16;

// A tile of a row-major matrix, with zeros beyond its end. The extra column spreads columns over
// banks.
__device__ void load(float (*tile)[T + 1], const float* a, int row, int column, int rows,
                     int columns) {
    row += threadIdx.y, column += threadIdx.x;
    tile[threadIdx.y][threadIdx.x] =
        row < rows && column < columns ? a[row * columns + column] : 0.0f;
}

__global__ void forward(const float* x, const float* w, const float* b, float* y, int n, int k,
                        int m) {
    __shared__ float left[T][T + 1], right[T][T + 1];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < k; start += T) {
        load(left, x, blockIdx.y * T, start, n, k);
        load(right, w, blockIdx.x * T, start, m, k);
        __syncthreads();
        for (int i = 0; i < T; i++) sum += left[threadIdx.y][i] * right[threadIdx.x][i];
        __syncthreads();
    }
    if (row < n && column < m) y[row * m + column] = sum + b[column];
}

__global__ void backward_x(const float* dy, const float* w, float* dx, int n, int k, int m) {
    __shared__ float left[T][T + 1], right[T][T + 1];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < m; start += T) {
        load(left, dy, blockIdx.y * T, start, n, m);
        load(right, w, start, blockIdx.x * T, m, k);
        __syncthreads();
        for (int i = 0; i < T; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < k) dx[row * k + column] = sum;
}

__global__ void backward_w(const float* dy, const float* x, float* dw, int n, int k, int m) {
    __shared__ float left[T][T + 1], right[T][T + 1];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < n; start += T) {
        load(left, dy, start, blockIdx.y * T, n, m);
        load(right, x, start, blockIdx.x * T, n, k);
        __syncthreads();
        for (int i = 0; i < T; i++) sum += left[i][threadIdx.y] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < k) dw[row * k + column] = sum;
}
