// A training step with one kernel per operation. Each result is computed by one thread, which reads
// its operands from global memory; the sums of batch norm have a block per channel. Images are
// [image, channel, row, column], filters 3 x 3 with padding 1.

__device__ float block_sum(float mine) {  // of all 256 threads
    __shared__ float shared[256];
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    float sum = shared[0];
    __syncthreads();
    return sum;
}

#define THREAD(count)                              \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= (count)) return;

extern "C" {
// ---- forward ------------------------------------------------------------------------------------
__global__ void convolution(const float* x, const float* w, float* y, int images, int from, int to,
                            int side) {
    THREAD(images * to * side * side)
    int column = i % side, row = i / side % side, filter = i / (side * side) % to,
        image = i / (side * side * to);
    float sum = 0;
    for (int c = 0; c < from; c++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                int r = row + dy, q = column + dx;
                if (r >= 0 && r < side && q >= 0 && q < side)
                    sum += x[((image * from + c) * side + r) * side + q] *
                           w[(filter * from + c) * 9 + (dy + 1) * 3 + dx + 1];
            }
    y[i] = sum;
}

__global__ void statistics(const float* x, float* mean, float* var, float* running_mean,
                           float* running_var, int images, int channels, int size) {
    int channel = blockIdx.x, count = images * size;
    float sum = 0;
    for (int k = threadIdx.x; k < count; k += 256)
        sum += x[(k / size * channels + channel) * size + k % size];
    float middle = block_sum(sum) / count, squares = 0;
    for (int k = threadIdx.x; k < count; k += 256) {
        float apart = x[(k / size * channels + channel) * size + k % size] - middle;
        squares += apart * apart;
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        mean[channel] = middle, var[channel] = squares / count;
        running_mean[channel] += 0.1f * (middle - running_mean[channel]);
        running_var[channel] += 0.1f * (squares / (count - 1) - running_var[channel]);
    }
}

__global__ void normalise(const float* x, const float* mean, const float* var, const float* scale,
                          const float* shift, float* y, int count, int channels, int size) {
    THREAD(count)
    int c = i / size % channels;
    y[i] = (x[i] - mean[c]) * rsqrtf(var[c] + 1e-5f) * scale[c] + shift[c];
}

__global__ void relu(const float* x, float* y, int count) {
    THREAD(count)
    y[i] = fmaxf(x[i], 0);
}

__global__ void max_pool(const float* x, float* y, int count, int side) {  // `side` of the result
    THREAD(count)
    const float* window = x + (i / side * 2) * (2 * side) + i % side * 2;
    y[i] = fmaxf(fmaxf(window[0], window[1]), fmaxf(window[2 * side], window[2 * side + 1]));
}

__global__ void linear(const float* x, const float* w, const float* b, float* y, int images,
                       int from, int to) {
    THREAD(images * to)
    float sum = 0;
    for (int k = 0; k < from; k++) sum += x[i / to * from + k] * w[i % to * from + k];
    y[i] = sum + b[i % to];
}

__global__ void cross_entropy(const float* x, const long long* classes, float* losses, float* dx,
                              int images, int count) {
    THREAD(images)
    const float* row = x + i * count;
    float most = row[0], sum = 0;
    for (int k = 1; k < count; k++) most = fmaxf(most, row[k]);
    for (int k = 0; k < count; k++) sum += expf(row[k] - most);
    losses[i] = logf(sum) + most - row[classes[i]];
    for (int k = 0; k < count; k++)
        dx[i * count + k] = (expf(row[k] - most) / sum - (k == classes[i])) / images;
}

__global__ void mean_loss(const float* losses, float* loss, int images) {
    float sum = 0;
    for (int k = threadIdx.x; k < images; k += 256) sum += losses[k];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *loss = sum / images;
}

// ---- backward -----------------------------------------------------------------------------------
__global__ void linear_input(const float* dy, const float* w, float* dx, int images, int from,
                             int to) {
    THREAD(images * from)
    float sum = 0;
    for (int k = 0; k < to; k++) sum += dy[i / from * to + k] * w[k * from + i % from];
    dx[i] = sum;
}

__global__ void linear_weight(const float* dy, const float* x, float* dw, int images, int from,
                              int to) {
    THREAD(from * to)
    float sum = 0;
    for (int k = 0; k < images; k++) sum += dy[k * to + i / from] * x[k * from + i % from];
    dw[i] = sum;
}

__global__ void linear_bias(const float* dy, float* db, int images, int to) {
    THREAD(to)
    float sum = 0;
    for (int k = 0; k < images; k++) sum += dy[k * to + i];
    db[i] = sum;
}

__global__ void relu_backward(const float* y, const float* dy, float* dx, int count) {
    THREAD(count)
    dx[i] = y[i] > 0 ? dy[i] : 0;
}

__global__ void max_pool_backward(const float* x, const float* dy, float* dx, int count, int side) {
    THREAD(count)  // windows; the first of equal elements has the gradient
    int at = (i / side * 2) * (2 * side) + i % side * 2,
        four[] = {at, at + 1, at + 2 * side, at + 2 * side + 1}, best = 0;
    for (int k = 1; k < 4; k++)
        if (x[four[k]] > x[four[best]]) best = k;
    for (int k = 0; k < 4; k++) dx[four[k]] = k == best ? dy[i] : 0;
}

__global__ void norm_sums(const float* dy, const float* x, const float* mean, const float* var,
                          float* dscale, float* dshift, int images, int channels, int size) {
    int channel = blockIdx.x, count = images * size;
    float plain = 0, weighted = 0, middle = mean[channel], factor = rsqrtf(var[channel] + 1e-5f);
    for (int k = threadIdx.x; k < count; k += 256) {
        int at = (k / size * channels + channel) * size + k % size;
        plain += dy[at], weighted += dy[at] * (x[at] - middle) * factor;
    }
    plain = block_sum(plain), weighted = block_sum(weighted);
    if (threadIdx.x == 0) dshift[channel] = plain, dscale[channel] = weighted;
}

__global__ void norm_input(const float* dy, const float* x, const float* mean, const float* var,
                           const float* scale, const float* dscale, const float* dshift, float* dx,
                           int count, int channels, int size) {
    THREAD(count)
    int c = i / size % channels;
    float n = count / channels, factor = rsqrtf(var[c] + 1e-5f), normal = (x[i] - mean[c]) * factor;
    dx[i] = scale[c] * factor * (dy[i] - dshift[c] / n - normal * dscale[c] / n);
}

__global__ void convolution_input(const float* dy, const float* w, float* dx, int images, int from,
                                  int to, int side) {
    THREAD(images * from * side * side)
    int column = i % side, row = i / side % side, c = i / (side * side) % from,
        image = i / (side * side * from);
    float sum = 0;
    for (int filter = 0; filter < to; filter++)
        for (int dr = -1; dr <= 1; dr++)
            for (int dq = -1; dq <= 1; dq++) {
                int r = row - dr, q = column - dq;
                if (r >= 0 && r < side && q >= 0 && q < side)
                    sum += dy[((image * to + filter) * side + r) * side + q] *
                           w[(filter * from + c) * 9 + (dr + 1) * 3 + dq + 1];
            }
    dx[i] = sum;
}

__global__ void convolution_weight(const float* dy, const float* x, float* dw, int images, int from,
                                   int to, int side) {
    THREAD(to * from * 9)
    int dq = i % 3 - 1, dr = i / 3 % 3 - 1, c = i / 9 % from, filter = i / (9 * from);
    float sum = 0;
    for (int image = 0; image < images; image++)
        for (int r = max(0, -dr); r < min(side, side - dr); r++)
            for (int q = max(0, -dq); q < min(side, side - dq); q++)
                sum += dy[((image * to + filter) * side + r) * side + q] *
                       x[((image * from + c) * side + r + dr) * side + q + dq];
    dw[i] = sum;
}

// ---- update -------------------------------------------------------------------------------------
__global__ void sgd(float* w, const float* dw, float* speed, float rate, float momentum,
                    int count) {
    THREAD(count)
    speed[i] = momentum * speed[i] + dw[i];
    w[i] -= rate * speed[i];
}
}
