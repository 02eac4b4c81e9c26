// Causal attention of a sequence on four GPUs; keys and values go round (Liu et al., 2023).
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <utility>
#include <vector>

const int GPUS = 4, WIDTH = 8;

// The queries of a GPU and what they have got so far. kv has keys, then values; `next` comes.
struct Shard {
    float *q, *kv, *next, *out, *most, *sum;
};

__global__ void start(Shard x, int rows) {
    int r = threadIdx.x;
    if (r >= rows) return;
    x.most[r] = -INFINITY;
    x.sum[r] = 0;
    for (int c = 0; c < WIDTH; c++) x.out[r * WIDTH + c] = 0;
}
__global__ void step(Shard x, int rows, int first_query, int first_key) {
    int r = threadIdx.x;
    if (r >= rows) return;
    const float *k = x.kv, *v = x.kv + rows * WIDTH;
    float most = x.most[r], sum = x.sum[r];
    for (int j = 0; j < rows && first_key + j <= first_query + r; j++) {
        float score = 0;
        for (int c = 0; c < WIDTH; c++) score += x.q[r * WIDTH + c] * k[j * WIDTH + c];
        score *= rsqrtf(WIDTH);
        float larger = fmaxf(most, score), scale = expf(most - larger), p = expf(score - larger);
        sum = sum * scale + p;
        for (int c = 0; c < WIDTH; c++)
            x.out[r * WIDTH + c] = x.out[r * WIDTH + c] * scale + p * v[j * WIDTH + c];
        most = larger;
    }
    x.most[r] = most;
    x.sum[r] = sum;
}
__global__ void finish(Shard x, int rows) {
    int r = threadIdx.x;
    if (r < rows)
        for (int c = 0; c < WIDTH; c++) x.out[r * WIDTH + c] /= x.sum[r];
}

int main(int count, char** arguments) {
    int rows = count > 1 ? atoi(arguments[1]) : 8, n = rows * WIDTH;
    ncclComm_t comms[GPUS];
    cudaStream_t streams[GPUS];
    Shard shards[GPUS];
    ncclCommInitAll(comms, GPUS, nullptr);
    std::vector<float> h_q(n), h_kv(2 * n);
    for (int g = 0; g < GPUS; g++) {
        for (int e = 0; e < n; e++) {
            int i = g * rows + e / WIDTH, c = e % WIDTH;
            h_q[e] = ((i * 7 + c * 3) % 11 - 5) / 4.f;
            h_kv[e] = ((i * 5 + c * 2) % 9 - 4) / 4.f;
            h_kv[n + e] = (i * 3 + c) % 10 / 10.f;
        }
        Shard& x = shards[g];
        cudaSetDevice(g);
        cudaStreamCreate(&streams[g]);
        cudaMalloc(&x.q, n * sizeof(float));
        cudaMalloc(&x.kv, 2 * n * sizeof(float));
        cudaMalloc(&x.next, 2 * n * sizeof(float));
        cudaMalloc(&x.out, n * sizeof(float));
        cudaMalloc(&x.most, rows * sizeof(float));
        cudaMalloc(&x.sum, rows * sizeof(float));
        cudaMemcpy(x.q, h_q.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(x.kv, h_kv.data(), 2 * n * sizeof(float), cudaMemcpyHostToDevice);
        start<<<1, 32, 0, streams[g]>>>(x, rows);
    }

    for (int s = 0; s < GPUS; s++) {
        for (int g = 0; g < GPUS; g++) {
            int from = (g + GPUS - s) % GPUS;
            cudaSetDevice(g);
            if (from <= g) step<<<1, 32, 0, streams[g]>>>(shards[g], rows, g * rows, from * rows);
        }
        if (s == GPUS - 1) break;
        ncclGroupStart();
        for (int g = 0; g < GPUS; g++) {
            Shard& x = shards[g];
            ncclSend(x.kv, 2 * n, ncclFloat, (g + 1) % GPUS, comms[g], streams[g]);
            ncclRecv(x.next, 2 * n, ncclFloat, (g + GPUS - 1) % GPUS, comms[g], streams[g]);
        }
        ncclGroupEnd();
        for (Shard& x : shards) std::swap(x.kv, x.next);
    }

    double sum = 0;
    for (int g = 0; g < GPUS; g++) {
        Shard& x = shards[g];
        cudaSetDevice(g);
        finish<<<1, 32, 0, streams[g]>>>(x, rows);
        cudaStreamSynchronize(streams[g]);
        cudaMemcpy(h_q.data(), x.out, n * sizeof(float), cudaMemcpyDeviceToHost);
        for (int e = 0; e < n; e++) sum += ((g * n + e) % 7 + 1) * h_q[e];
        for (float* each : {x.q, x.kv, x.next, x.out, x.most, x.sum}) cudaFree(each);
        cudaStreamDestroy(streams[g]);
        ncclCommDestroy(comms[g]);
    }
    printf("%.9g\n", sum);
}
