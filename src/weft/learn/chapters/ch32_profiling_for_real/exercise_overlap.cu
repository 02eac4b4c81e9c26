// The array is processed in parts: each is copied to the device, settled, and copied back. Nothing
// runs at the same time: weft profile exercise_overlap.cu --args 4 --trace trace.json
// Its argument is the number of parts, 4 to 6.
#include <cstdio>
#include <cstdlib>

const int PART = 8192;

__global__ void settle(float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < 4000; k++) v = v / 2 + 1;
    x[i] = v;
}

int main(int count, char** arguments) {
    int parts = atoi(arguments[1]);
    float *h_x = static_cast<float*>(malloc(parts * PART * sizeof(float))), *d_x;
    for (int i = 0; i < parts * PART; i++) h_x[i] = i % 7;
    cudaMalloc(&d_x, PART * sizeof(float));
    for (int part = 0; part < parts; part++) {
        float* at = h_x + part * PART;
        cudaMemcpy(d_x, at, PART * sizeof(float), cudaMemcpyHostToDevice);
        settle<<<PART / 256, 256>>>(d_x);
        cudaMemcpy(at, d_x, PART * sizeof(float), cudaMemcpyDeviceToHost);
    }
    double sum = 0;
    for (int i = 0; i < parts * PART; i++) sum += h_x[i];
    printf("%.9g\n", sum);
    cudaFree(d_x);
    free(h_x);
}
