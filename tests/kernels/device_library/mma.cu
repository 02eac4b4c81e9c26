// Calls every function of weft/mma.cuh.
#include <weft/mma.cuh>
#include <weft/convert.cuh>

using namespace weft;

// c[16][16] = a[16][16] b, with b as [n][k], or as [k][n] if TRANSPOSED.
template <class T, bool TRANSPOSED>
__global__ void product(const T* a, const T* b, float* c) {
    constexpr int PITCH = 24;
    __shared__ __align__(16) T as[16 * PITCH], bs[16 * PITCH];
    for (int i = threadIdx.x; i < 256; i += 32)
        as[i / 16 * PITCH + i % 16] = a[i], bs[i / 16 * PITCH + i % 16] = b[i];
    __syncwarp();
    unsigned left[4], right[4];
    load_matrices_x4(left, shared_address(as + a_row(PITCH)));
    if constexpr (TRANSPOSED) load_matrices_x4<true>(right, shared_address(bs + a_row(PITCH)));
    else load_matrices_x4(right, shared_address(bs + b_row(PITCH)));
    float sums[2][4] = {};
    mma<T>(sums[0], left, right);
    mma<T>(sums[1], left, right + 2);
    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 4; ++i) c[c_row(i) * 16 + n * 8 + c_column(i)] = sums[n][i];
}

// c[16][8] = a a' a[:8]': the first product, 16 x 16, is the left operand of the second one. Tiles
// are swizzled; the right operand is loaded as two matrices.
template <class T>
__global__ void chain(const T* a, float* c) {
    __shared__ __align__(128) T as[256], turned[128];
    for (int i = threadIdx.x; i < 256; i += 32) {
        as[swizzle<32>(i / 16, i % 16 / 8) / 2 + i % 8] = a[i];
        if (i < 128) turned[i % 16 * 8 + i / 16] = a[i];
    }
    __syncwarp();
    int lane = lane_index();
    unsigned left[4], right[2];
    load_matrices_x4(left, shared_address(as) + swizzle<32>(lane % 16, lane / 16));
    float square[2][4] = {}, sums[4] = {};
    for (int n = 0; n < 2; ++n) {
        load_matrices_x2(right, shared_address(as) + swizzle<32>(n * 8 + lane % 8, lane / 8 % 2));
        mma<T>(square[n], left, right);
    }
    c_to_a<T>(left, square[0], square[1]);
    load_matrices_x2<true>(right, shared_address(turned + lane % 16 * 8));
    mma<T>(sums, left, right);
    for (int i = 0; i < 4; ++i) c[c_row(i) * 8 + c_column(i)] = sums[i];
}

// c[16][8] = a[16][8] b[8][8] by three products of tf32, with the accuracy of single precision.
__global__ void exact(const float* a, const float* b, float* c, unsigned* rounded) {
    int g = lane_index() / 4, t = lane_index() % 4;
    unsigned a_big[4], a_small[4], b_big[2], b_small[2];
    for (int i = 0; i < 4; ++i)
        split_tf32(a[(g + i % 2 * 8) * 8 + t + i / 2 * 4], a_big[i], a_small[i]);
    for (int i = 0; i < 2; ++i) split_tf32(b[(t + i * 4) * 8 + g], b_big[i], b_small[i]);
    float sums[4] = {};
    mma<float>(sums, a_small, b_big);
    mma<float>(sums, a_big, b_small);
    mma<float>(sums, a_big, b_big);
    for (int i = 0; i < 4; ++i) c[c_row(i) * 8 + c_column(i)] = sums[i];
    rounded[threadIdx.x] = to_tf32(a[threadIdx.x]);
}

// c[16][8] = a[16][32] b[8][32]' of 8-bit integers.
__global__ void integers(const signed char* a, const signed char* b, int* c) {
    __shared__ __align__(16) signed char as[16 * 48], bs[8 * 48];  // rows of 48 bytes
    for (int i = threadIdx.x; i < 512; i += 32) as[i / 32 * 48 + i % 32] = a[i];
    for (int i = threadIdx.x; i < 256; i += 32) bs[i / 32 * 48 + i % 32] = b[i];
    __syncwarp();
    unsigned left[4], right[2];
    load_matrices_x4(left, shared_address(as) + 2 * a_row(24));
    load_matrices_x2(right, shared_address(bs) + lane_index() % 8 * 48 + lane_index() / 8 % 2 * 16);
    int sums[4] = {};
    for (int i = 0; i < 2; ++i) mma_int8(sums, left, right);  // twice the product
    for (int i = 0; i < 4; ++i) c[c_row(i) * 8 + c_column(i)] = sums[i] / 2;
}

// Each place of a tile of 64 rows, for four lengths of rows: [length][row][vector].
__global__ void places(unsigned* y) {
    for (int row = threadIdx.x; row < 64; row += 32)
        for (int v = 0; v < 16; ++v) {
            unsigned at = row * 16 + v;
            if (v < 2) y[at] = swizzle<32>(row, v);
            if (v < 4) y[1024 + at] = swizzle<64>(row, v);
            if (v < 8) y[2048 + at] = swizzle<128>(row, v);
            y[3072 + at] = swizzle<256>(row, v);
        }
}

template __global__ void product<__half, false>(const __half*, const __half*, float*);
template __global__ void product<__half, true>(const __half*, const __half*, float*);
template __global__ void chain<__half>(const __half*, float*);
template __global__ void product<__nv_bfloat16, false>(const __nv_bfloat16*, const __nv_bfloat16*,
                                                       float*);
template __global__ void product<__nv_bfloat16, true>(const __nv_bfloat16*, const __nv_bfloat16*,
                                                      float*);
template __global__ void chain<__nv_bfloat16>(const __nv_bfloat16*, float*);

// y = x, or its transpose, through the fragments of a matrix of 16 x 16.
template <bool TRANSPOSED>
__global__ void stored(const __half* x, __half* y) {
    __shared__ __align__(16) __half from[256], to[256];
    for (int i = threadIdx.x; i < 256; i += 32) from[i] = x[i];
    __syncwarp();
    unsigned of[4];
    load_matrices_x4(of, shared_address(from + a_row(16)));
    if (TRANSPOSED) {
        unsigned other = of[1];
        of[1] = of[2], of[2] = other;
    }
    store_matrices_x4<TRANSPOSED>(shared_address(to + a_row(16)), of);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) y[i] = to[i];
}
