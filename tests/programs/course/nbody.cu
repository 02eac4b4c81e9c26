// Bodies that attract each other: tiles of positions in shared memory, energy stays about the same.
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

const int N = 256, THREADS = 64;
const float SOFT = 1e-2f, DT = 1e-3f;

__global__ void step(const float4 *in, float4 *out, float3 *velocity) {
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = in[i];
    float3 a = make_float3(0, 0, 0);
    for (int t = 0; t < N; t += blockDim.x) {
        tile[threadIdx.x] = in[t + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < blockDim.x; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + SOFT), s = tile[j].w * r * r * r;
            a.x += dx * s, a.y += dy * s, a.z += dz * s;
        }
        __syncthreads();
    }
    float3 v = velocity[i];
    v.x += a.x * DT, v.y += a.y * DT, v.z += a.z * DT;
    velocity[i] = v;
    out[i] = make_float4(me.x + v.x * DT, me.y + v.y * DT, me.z + v.z * DT, me.w);
}

static double energy(const std::vector<float4> &p, const std::vector<float3> &v) {
    double e = 0;
    for (int i = 0; i < N; i++) {
        e += 0.5 * p[i].w * (v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z);
        for (int j = 0; j < i; j++) {
            double dx = p[i].x - p[j].x, dy = p[i].y - p[j].y, dz = p[i].z - p[j].z;
            e -= p[i].w * p[j].w / sqrt(dx * dx + dy * dy + dz * dz + SOFT);
        }
    }
    return e;
}

int main() {
    std::vector<float4> p(N);
    std::vector<float3> v(N, make_float3(0, 0, 0));
    for (int i = 0; i < N; i++)
        p[i] = make_float4(cosf(i), sinf(2.0f * i), cosf(3.0f * i + 1), 1.0f / N);
    float4 *a, *b;
    float3 *velocity;
    cudaMalloc(&a, N * sizeof(float4));
    cudaMalloc(&b, N * sizeof(float4));
    cudaMalloc(&velocity, N * sizeof(float3));
    cudaMemcpy(a, p.data(), N * sizeof(float4), cudaMemcpyHostToDevice);
    cudaMemcpy(velocity, v.data(), N * sizeof(float3), cudaMemcpyHostToDevice);
    double before = energy(p, v);
    for (int t = 0; t < 50; t++) {
        step<<<N / THREADS, THREADS, THREADS * sizeof(float4)>>>(a, b, velocity);
        std::swap(a, b);
    }
    cudaMemcpy(p.data(), a, N * sizeof(float4), cudaMemcpyDeviceToHost);
    cudaMemcpy(v.data(), velocity, N * sizeof(float3), cudaMemcpyDeviceToHost);
    double drift = fabs(energy(p, v) / before - 1);
    printf("energy is kept: %s\n", drift < 1e-3 ? "yes" : "no");
    return cudaGetLastError();
}
