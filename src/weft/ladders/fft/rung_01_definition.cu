// rung:   01 definition
// idea:   one thread per result sums n products: n^2 for a row. The roots come from a table, since
//         w^(jk) is periodic
// expect: bytes read per result > 8
// bench:  rows=8192, n=256
// launch: dft<<<(cdiv(n, 128), rows), 128>>>

__global__ void dft(const float* x, const float* w, float* y, int n) {
    const float2* row = (const float2*)x + size_t(blockIdx.y) * n;
    const float2* root = (const float2*)w;
    int k = blockIdx.x * 128 + threadIdx.x;
    if (k >= n) return;
    float2 sum = {0, 0};
    for (int j = 0; j < n; j++) {
        float2 v = row[j], r = root[j * k % n];
        sum.x += v.x * r.x - v.y * r.y;
        sum.y += v.x * r.y + v.y * r.x;
    }
    ((float2*)y)[size_t(blockIdx.y) * n + k] = sum;
}
