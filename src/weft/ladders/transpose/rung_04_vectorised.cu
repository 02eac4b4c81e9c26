// rung:   04 vectorised
// idea:   tiles of 64 x 64, 16 bytes per thread on both sides: four times the bytes in flight per
//         instruction, and rows of the result in pieces of 256 bytes. Eight lanes read a row, and a
//         warp reads four rows; with one word of padding, all 32 scalars are in different banks
// expect: load sectors per request = 16
// expect: store sectors per request = 16
// expect: shared load wavefronts per request = 1
// expect: shared store wavefronts per request = 1
// lesson: more and longer pieces in flight are faster: 512 threads per tile beat 128 and 256, and
//         tiles of 64 x 64 beat tiles of 32 x 32. Streaming hints cost 2.6 %
// launch: transpose<<<(cdiv(columns, 64), cdiv(rows, 64)), 512>>>

#ifndef TR
#define TR 64  // rows of a tile
#define TC 64  // columns of a tile
#define THREADS 512
#endif

__device__ float4 read(const float* x, size_t r, int c, int rows, int columns) {
    float v[4] = {};
    if (r < rows && c + 3 < columns && columns % 4 == 0)
        return *reinterpret_cast<const float4*>(x + r * columns + c);
    if (r < rows)
        for (int k = 0; k < 4; ++k)
            if (c + k < columns) v[k] = x[r * columns + c + k];
    return make_float4(v[0], v[1], v[2], v[3]);
}

__device__ void write(float* y, size_t r, int c, int rows, int columns, const float* v) {
    if (r < rows && c + 3 < columns && columns % 4 == 0)
        *reinterpret_cast<float4*>(y + r * columns + c) = make_float4(v[0], v[1], v[2], v[3]);
    else if (r < rows)
        for (int k = 0; k < 4; ++k)
            if (c + k < columns) y[r * columns + c + k] = v[k];
}

__global__ void __launch_bounds__(THREADS)
    transpose(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
    __shared__ float tile[TR][TC + 1];
    constexpr int WARPS = THREADS / 32;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int along = lane % 8 * 4, across = lane / 8;
    int r0 = blockIdx.y * TR, c0 = blockIdx.x * TC;
    // pieces of 4 rows x 32 columns, one a warp and step
    constexpr int PIECES = TR / 4 * (TC / 32);
    float4 v[PIECES / WARPS];
#pragma unroll
    for (int i = 0; i < PIECES / WARPS; ++i) {
        int piece = i * WARPS + warp, r = piece / (TC / 32) * 4 + across;
        int c = piece % (TC / 32) * 32 + along;
        v[i] = read(x, r0 + r, c0 + c, rows, columns);
    }
#pragma unroll
    for (int i = 0; i < PIECES / WARPS; ++i) {
        int piece = i * WARPS + warp, r = piece / (TC / 32) * 4 + across;
        int c = piece % (TC / 32) * 32 + along;
        tile[r][c] = v[i].x, tile[r][c + 1] = v[i].y, tile[r][c + 2] = v[i].z;
        tile[r][c + 3] = v[i].w;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PIECES / WARPS; ++i) {
        int piece = i * WARPS + warp, c = piece / (TR / 32) * 4 + across;
        int r = piece % (TR / 32) * 32 + along;
        float out[4];
        for (int k = 0; k < 4; ++k) out[k] = tile[r + k][c];
        write(y, c0 + c, r0 + r, columns, rows, out);
    }
}
