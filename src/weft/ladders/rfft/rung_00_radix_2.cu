// rung:   00 radix 2
// idea:   a complex transform whose imaginary parts are 0: log2 n passes over memory, each of which
//         reads and writes every element. The last one writes half of the results
// expect: bytes read per result > 50
// scratch: a:f32[2*rows*n] b:f32[2*rows*n]
// bench:  rows=64, n=1048576

// Passes read x first and write y last; those between alternate between the scratch arrays.
template <int P, bool FIRST, bool LAST, bool FROM_A>
__global__ void pass(const float* x, float* a, float* b, float* y, int rows, int n) {
    const float2* from = (const float2*)(FROM_A ? a : b);
    float2* to = (float2*)(LAST ? y : FROM_A && !FIRST ? b : a);
    int half = n / 2;
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= (long long)rows * half) return;
    long long row = i / half;
    int j = i % half, k = j % P;
    auto element = [&](int e) { return FIRST ? float2{x[row * n + e], 0} : from[row * n + e]; };
    float2 u = element(j), v = element(j + half), r;
    sincospif(-float(k) / P, &r.y, &r.x);
    float2 w = {v.x * r.x - v.y * r.y, v.x * r.y + v.y * r.x};
    int at = j / P * 2 * P + k;
    to += row * (LAST ? half + 1 : n);
    to[at] = {u.x + w.x, u.y + w.y};
    if (!LAST || at + P <= half) to[at + P] = {u.x - w.x, u.y - w.y};
}
