// rung:   00 passes
// idea:   a kernel for each operation, as a framework runs them one by one. Each reads its operands
//         from memory and writes its result
// expect: bytes read per result >= 36
// scratch: root:f32[t*n]
// launch: decayed<<<cdiv(t * n, 256), 256>>>
// launch: mean<<<cdiv(t * n, 256), 256>>>
// launch: variance<<<cdiv(t * n, 256), 256>>>
// launch: rooted<<<cdiv(t * n, 256), 256>>>
// launch: moved<<<cdiv(t * n, 256), 256>>>

__device__ size_t element() { return size_t(blockIdx.x) * 256 + threadIdx.x; }

__global__ void decayed(const float* p, float* p2, size_t t, size_t n) {
    if (size_t i = element(); i < t * n) p2[i] = p[i] * (1 - 1e-3f * 1e-2f);
}
__global__ void mean(const float* g, const float* m, float* m2, size_t t, size_t n) {
    if (size_t i = element(); i < t * n) m2[i] = m[i] + 0.1f * (g[i] - m[i]);
}
__global__ void variance(const float* g, const float* v, float* v2, size_t t, size_t n) {
    if (size_t i = element(); i < t * n) v2[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
}
__global__ void rooted(const float* v2, float* root, size_t t, size_t n) {
    double correction = sqrt(1 - pow(0.999, 10.0));
    if (size_t i = element(); i < t * n) root[i] = sqrtf(v2[i]) / float(correction) + 1e-8f;
}
__global__ void moved(float* p2, const float* m2, const float* root, size_t t, size_t n) {
    double rate = 1e-3 / (1 - pow(0.9, 10.0));
    if (size_t i = element(); i < t * n) p2[i] -= float(rate) * m2[i] / root[i];
}
