// An array of structs on the host, a struct of arrays on the device.
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Body {
    float x, v;
    char name[24];
};

struct Bodies {
    float *x, *v;
    int count;
};

__global__ void step(const Bodies* bodies) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < bodies->count) bodies->x[i] += bodies->v[i];
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]), steps = atoi(arguments[2]);
    std::vector<Body> body(n);
    for (int i = 0; i < n; i++) body[i].x = i % 10, body[i].v = i % 3;

    std::vector<float> x(n), v(n);
    for (int i = 0; i < n; i++) x[i] = body[i].x, v[i] = body[i].v;
    size_t bytes = n * sizeof(float);
    Bodies bodies = {nullptr, nullptr, n}, *d_bodies;
    cudaMalloc(&bodies.x, bytes);
    cudaMalloc(&bodies.v, bytes);
    cudaMalloc(&d_bodies, sizeof bodies);
    cudaMemcpy(bodies.x, x.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(bodies.v, v.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_bodies, &bodies, sizeof bodies, cudaMemcpyHostToDevice);
    for (int s = 0; s < steps; s++) step<<<(n + 255) / 256, 256>>>(d_bodies);
    cudaMemcpy(x.data(), bodies.x, bytes, cudaMemcpyDeviceToHost);

    double sum = 0;
    for (int i = 0; i < n; i++) sum += body[i].x = x[i];
    printf("%g\n", sum);
    cudaFree(bodies.x);
    cudaFree(bodies.v);
    cudaFree(d_bodies);
}
