// The sum of the arrays of four GPUs on each of them, by a ring of messages.
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

const int GPUS = 4;

__global__ void add(float* x, const float* more, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += more[i];
}

int main(int count, char** arguments) {
    int part = count > 1 ? atoi(arguments[1]) : 100, n = GPUS * part;
    ncclComm_t comms[GPUS];
    cudaStream_t streams[GPUS];
    float *x[GPUS], *arrived[GPUS];
    std::vector<float> h_x(n);
    ncclCommInitAll(comms, GPUS, nullptr);
    for (int g = 0; g < GPUS; g++) {
        cudaSetDevice(g);
        cudaStreamCreate(&streams[g]);
        cudaMalloc(&x[g], n * sizeof(float));
        cudaMalloc(&arrived[g], part * sizeof(float));
        for (int i = 0; i < n; i++) h_x[i] = i % 13 + g * (i % 3);
        cudaMemcpy(x[g], h_x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    }

    // After GPUS - 1 steps GPU g has the whole sum of part g + 1; as many steps pass the sums on.
    for (int step = 0; step < 2 * (GPUS - 1); step++) {
        bool adds = step < GPUS - 1;
        ncclGroupStart();
        for (int g = 0; g < GPUS; g++) {
            int sent = (g + 2 * GPUS - step) % GPUS, got = (sent + GPUS - 1) % GPUS;
            float* to = adds ? arrived[g] : x[g] + got * part;
            ncclSend(x[g] + sent * part, part, ncclFloat, (g + 1) % GPUS, comms[g], streams[g]);
            ncclRecv(to, part, ncclFloat, (g + GPUS - 1) % GPUS, comms[g], streams[g]);
        }
        ncclGroupEnd();
        for (int g = 0; adds && g < GPUS; g++) {
            int got = (g + 2 * GPUS - step - 1) % GPUS;
            cudaSetDevice(g);
            add<<<(part + 127) / 128, 128, 0, streams[g]>>>(x[g] + got * part, arrived[g], part);
        }
    }

    double sum = 0;
    for (int g = 0; g < GPUS; g++) {
        cudaSetDevice(g);
        cudaStreamSynchronize(streams[g]);
        cudaMemcpy(h_x.data(), x[g], n * sizeof(float), cudaMemcpyDeviceToHost);
        for (int i = 0; i < n; i++) sum += (g + 1) * (i % 7 + 1) * h_x[i];
        cudaFree(x[g]);
        cudaFree(arrived[g]);
        cudaStreamDestroy(streams[g]);
        ncclCommDestroy(comms[g]);
    }
    printf("%.9g\n", sum);
}
