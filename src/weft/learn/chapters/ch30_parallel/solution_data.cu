// Steps of gradient descent on two GPUs; each has half of the batch and all weights.
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

const int GPUS = 2, WIDTH = 4;

// grad[c] is the part that these rows contribute to the gradient of the mean over `all` rows.
__global__ void gradient(const float* x, const float* t, const float* w, float* grad, int rows,
                         int all) {
    int c = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < rows; i++) {
        float error = -t[i];
        for (int k = 0; k < WIDTH; k++) error += x[i * WIDTH + k] * w[k];
        sum += 2 * error * x[i * WIDTH + c] / all;
    }
    grad[c] = sum;
}
__global__ void update(float* w, const float* grad) { w[threadIdx.x] -= 0.25f * grad[threadIdx.x]; }

int main(int count, char** arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 64, steps = count > 2 ? atoi(arguments[2]) : 3;
    ncclComm_t comms[GPUS];
    cudaStream_t streams[GPUS];
    float *x[GPUS], *t[GPUS], *w[GPUS], *grad[GPUS];
    int rows[GPUS];
    ncclCommInitAll(comms, GPUS, nullptr);
    for (int g = 0; g < GPUS; g++) {
        int first = g * n / GPUS;
        rows[g] = (g + 1) * n / GPUS - first;
        std::vector<float> h_x(rows[g] * WIDTH), h_t(rows[g]);
        for (int r = 0; r < rows[g]; r++) {
            int i = first + r;
            for (int c = 0; c < WIDTH; c++) h_x[r * WIDTH + c] = i * (c + 2) % 7 / 7.f;
            h_t[r] = i % 5;
        }
        cudaSetDevice(g);
        cudaStreamCreate(&streams[g]);
        cudaMalloc(&x[g], h_x.size() * sizeof(float));
        cudaMalloc(&t[g], h_t.size() * sizeof(float));
        cudaMalloc(&w[g], WIDTH * sizeof(float));
        cudaMalloc(&grad[g], WIDTH * sizeof(float));
        cudaMemcpy(x[g], h_x.data(), h_x.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(t[g], h_t.data(), h_t.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemsetAsync(w[g], 0, WIDTH * sizeof(float), streams[g]);
    }

    for (int step = 0; step < steps; step++) {
        for (int g = 0; g < GPUS; g++) {
            cudaSetDevice(g);
            gradient<<<1, WIDTH, 0, streams[g]>>>(x[g], t[g], w[g], grad[g], rows[g], n);
        }
        ncclGroupStart();
        for (int g = 0; g < GPUS; g++)
            ncclAllReduce(grad[g], grad[g], WIDTH, ncclFloat, ncclSum, comms[g], streams[g]);
        ncclGroupEnd();
        for (int g = 0; g < GPUS; g++) {
            cudaSetDevice(g);
            update<<<1, WIDTH, 0, streams[g]>>>(w[g], grad[g]);
        }
    }

    double sum = 0;
    for (int g = 0; g < GPUS; g++) {
        float h_w[WIDTH];
        cudaSetDevice(g);
        cudaStreamSynchronize(streams[g]);
        cudaMemcpy(h_w, w[g], sizeof h_w, cudaMemcpyDeviceToHost);
        for (int c = 0; c < WIDTH; c++) sum += (g + 1) * (c + 1) * h_w[c];
        for (float* each : {x[g], t[g], w[g], grad[g]}) cudaFree(each);
        cudaStreamDestroy(streams[g]);
        ncclCommDestroy(comms[g]);
    }
    printf("%.9g\n", sum);
}
