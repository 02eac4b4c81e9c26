// Products of float32 with its accuracy on Hopper's tensor cores: each number is the sum of two of
// tf32, big and small, and of their four products three count: C = As Bb + Ab Bs + Ab Bb.
#include "k_major.cuh"
#include "multiply_tiles.cuh"

STRUCT_FLOATMATRIX;  // see tf32.py

// ---- both parts of the operands ----------------------------------------------------------------
// The parts of x. The larger is rounded to 11 bits, or cut off where it would overflow; what is not
// finite has no smaller one. Copies by tensor maps round that one.
__device__ inline float2 parts_of(float x) {
    unsigned bits = __float_as_uint(x);
    float big = __uint_as_float(bits + 0x1000 & ~0x1fffu);
    if (!isfinite(big)) big = isfinite(x) ? __uint_as_float(bits & ~0x1fffu) : x + x;
    return make_float2(big, isfinite(x) ? x - big : 0);
}

__device__ inline void store_parts(float* to, const FloatMatrix& m, const float (&x)[4]) {
    Vector<float, 4> big, small;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 parts = parts_of(x[i]);
        big[i] = parts.x, small[i] = parts.y;
    }
    store(to, big), store(to + (long long)m.extent * m.pitch, small);
}

// The part of an operand that a block of 256 threads splits: 1,024 of K of all rows, one after
// another, if K is contiguous.
__device__ inline void split_rows(const float* from, float* to, const FloatMatrix& m, int block) {
    int across = m.pitch / 4;
    unsigned at = block * 256u + threadIdx.x, row = at / across, k = (at - row * across) * 4;
    unsigned matrix = row / m.extent;
    row -= matrix * m.extent;
    if (matrix >= m.matrices) return;
    from += matrix * m.batch + row * m.along + k;
    float x[4];
    if (m.vectors && k + 4 <= m.k_extent) {
        Vector<float, 4> all = load<4>(from);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = all[i];
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = k + i < m.k_extent ? from[i] : 0;
    }
    store_parts(to + ((matrix * 2ll) * m.extent + row) * m.pitch + k, m, x);
}

// Else a square of 64: its rows along K become neighbours along K.
__device__ inline void split_columns(const float* from, float* to, const FloatMatrix& m,
                                     int block) {
    __shared__ float square[64][65];
    int down = ceil_div(m.pitch, 64), across = ceil_div(m.extent, 64);
    int matrix = block / (down * across), tile = block % (down * across);
    int k0 = tile / across * 64, along0 = tile % across * 64;
    from += matrix * m.batch;
    for (int i = threadIdx.x; i < 64 * 64; i += 256) {
        int k = i / 64, along = i % 64;
        bool there = k0 + k < m.k_extent && along0 + along < m.extent;
        square[k][along] = there ? from[(k0 + k) * m.k + along0 + along] : 0;
    }
    __syncthreads();
    to += ((matrix * 2ll) * m.extent + along0) * m.pitch + k0;
    for (int i = threadIdx.x; i < 64 * 16; i += 256) {
        int along = i / 16, k = i % 16 * 4;
        if (along0 + along >= m.extent || k0 + k >= m.pitch) continue;
        float x[4] = {square[k][along], square[k + 1][along], square[k + 2][along],
                      square[k + 3][along]};
        store_parts(to + (long long)along * m.pitch + k, m, x);
    }
}

// Both operands by one launch.
template <bool A_KMAJOR, bool B_KMAJOR>
__global__ void __launch_bounds__(256) split(const float* A, float* to_a, const FloatMatrix a,
                                             const float* B, float* to_b, const FloatMatrix b) {
    take_turn();
    int block = blockIdx.x;
    if (block < a.blocks) {
        if (A_KMAJOR) split_rows(A, to_a, a, block);
        else split_columns(A, to_a, a, block);
    } else {
        if (B_KMAJOR) split_rows(B, to_b, b, block - a.blocks);
        else split_columns(B, to_b, b, block - a.blocks);
    }
}

// ---- the product -------------------------------------------------------------------------------
// A stage has both parts of A, then of B: matrices 2 n and 2 n + 1 of the maps.
template <int BM, int BN, int STAGES_>
struct SplitTile : PipelinedTile<float, BM, BN, STAGES_, true, true> {
    using Whole = PipelinedTile<float, BM, BN, STAGES_, true, true>;
    using A = typename Whole::A;
    using B = typename Whole::B;
    using Ring = typename Whole::Ring;
    static constexpr int STAGE = 2 * Whole::STAGE;

    static __device__ void fill(const OperandMaps& a, const OperandMaps& b, unsigned ring,
                                Ring& stages, Turn<STAGES_>& turn, int row, int column, int2 batch,
                                int k, int steps) {
        int bytes = 2 * (A::bytes(a, row) + B::bytes(b, column));
#pragma unroll 1
        for (; steps > 0; --steps, k += Whole::STEP, turn.next()) {
            Barrier& full = stages.full[turn.stage];
            unsigned tile = ring + turn.stage * STAGE;
            stages.wait_empty(turn);
            full.arrive_expecting(bytes);
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                A::load(tile + part * A::BYTES, a, full, row, k, batch.x * 2 + part);
                B::load(tile + 2 * A::BYTES + part * B::BYTES, b, full, column, k,
                        batch.y * 2 + part);
            }
        }
    }
    __device__ void multiply_stage(unsigned tile, int consumer, bool fresh) {
        wgmma_begin();
        auto product = [&](int a, int b, bool first) {
#pragma unroll
            for (int k = 0; k < 64; k += 16)
                Elements<float>::multiply<false, false>(
                    this->of[0], A::operand(tile + a * A::BYTES, consumer * 64, k),
                    B::operand(tile + 2 * A::BYTES + b * B::BYTES, 0, k),
                    !fresh || !first || k > 0);
        };
        product(1, 0, true), product(0, 1, false), product(0, 0, false);
        wgmma_commit();
    }
};

// A result by multiplications and additions of float32, one after another.
__device__ __noinline__ float plain_result(const float* A, const float* B, const FloatMatrix& a,
                                           const FloatMatrix& b) {
    float sum = 0;
    for (int k = 0; k < a.k_extent && !isnan(sum); ++k) sum = fmaf(A[k * a.k], B[k * b.k], sum);
    return sum;
}

// Sums of three products, added in parts as the tensor cores cut sums off: see TensorSums of
// multiply_tiles.cuh. Infinity times a small part of 0 is no number, and a part may be rounded past
// the largest one, so results that are not finite are computed again.
template <class S>
struct SplitSums : TensorSums<float, S, true, true> {
    using Tile = SplitTile<S::BM, S::BN, S::STAGES>;

    const float *A, *B;
    const FloatMatrix &a, &b;
    int batch, row, column;

    __device__ void fetch(const Problem&, const Work& work, int r0, int c0) {
        batch = work.batch, row = r0, column = c0;
    }
    __device__ void start(Tile& tile, unsigned ring, typename Tile::Ring& stages, int consumer,
                          int steps, unsigned char*) {
        multiply_in_parts(tile, ring, stages, consumer, steps);
    }
    __device__ void finish(Tile&, typename Tile::Ring&) {}
    template <int N>
    __device__ void complete(const float (&of)[N][4], float (&sums)[N][4], unsigned char*) {
        memcpy(sums, of, sizeof of);
        bool wrong = false;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) wrong |= !isfinite(sums[n][i]);
        if (!wrong) return;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int m = row + c_row(i), c = column + n * 8 + c_column(i);
                if (!isfinite(sums[n][i]) && m < a.extent && c < b.extent)
                    sums[n][i] = plain_result(A + batch * a.batch + m * a.along,
                                              B + batch * b.batch + c * b.along, a, b);
            }
    }
};

template <int BM, int BN, int STAGES, int SPLITS, bool TRANSPOSED, bool WHOLE, int ACTIVATION,
          int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    split_product(MAPS, const float* of_a, const float* of_b, const float* bias, float* C,
                  const __grid_constant__ FloatMatrix a, const __grid_constant__ FloatMatrix b,
                  const __grid_constant__ Problem p) {
    using S = Schedule<BM, BN, STAGES, 1, SPLITS>;
    SplitSums<S> sums{{}, of_a, of_b, a, b};
    multiply_tiles<S, Results<float, TRANSPOSED, WHOLE, ACTIVATION, BIAS>>(OF_MAPS, A, bias, C, p,
                                                                           sums);
}
