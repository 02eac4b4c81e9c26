// rung:   02 radix 2
// idea:   a transform of n elements is two of n / 2 and n / 2 butterflies (Cooley and Tukey): log2
//         n passes instead of n terms. Stockham's order needs no bit reversal: a pass reads
//         elements j and j + n / 2 and writes neighbours of its block, from one array to another
// expect: load sectors per request <= 9
// scratch: a:f32[2*rows*n] b:f32[2*rows*n]
// bench:  rows=8192, n=4096

// Butterfly j of a pass after blocks of P elements.
__device__ void butterfly(const float2* x, const float2* root, float2* y, int rows, int n, int P) {
    int half = n / 2;
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= (long long)rows * half) return;
    long long row = i / half * n;
    int j = i % half, k = j % P;
    float2 a = x[row + j], v = x[row + j + half], r = root[k * (half / P)];
    float2 b = {v.x * r.x - v.y * r.y, v.x * r.y + v.y * r.x};
    y += row + j / P * 2 * P + k;
    y[0] = {a.x + b.x, a.y + b.y};
    y[P] = {a.x - b.x, a.y - b.y};
}

// Passes read x first and write y last; those between alternate between the scratch arrays.
template <int P, bool FIRST, bool LAST, bool FROM_A>
__global__ void pass(const float* x, const float* w, float* a, float* b, float* y, int rows,
                     int n) {
    const float* from = FIRST ? x : FROM_A ? a : b;
    float* to = LAST ? y : FROM_A && !FIRST ? b : a;
    butterfly((const float2*)from, (const float2*)w, (float2*)to, rows, n, P);
}
