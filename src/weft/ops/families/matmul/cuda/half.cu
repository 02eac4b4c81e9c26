// Matrix products of 16-bit elements: C = f(A B + bias), for any strides, batched, cut along K
// where tiles are few.
#include <weft/early_launch.cuh>
#include "half.cuh"
#include "panels.cuh"
#include "store.cuh"

// Blocks are numbered by tile, then by part of K, then by product of the batch. With SPLIT, a block
// stores its sums in `parts`, and the last block of a tile adds them in order: results do not
// depend on which block comes last.
template <class G, int BM, int BN, int ACTIVATION, bool SPLIT, bool EACH = false, class T>
__device__ void half_tile(const T* A, const T* B, const T* bias, T* C, float4* parts, int* counters,
                          const Problem& p) {
    extern __shared__ __align__(128) char bytes[];
    T* memory = reinterpret_cast<T*>(bytes);
    G tile;
    ColumnBias<G::ACROSS> added;
    start_next_kernel();
    if constexpr (!G::WHOLE) wait_for_kernels();
    Place at = Place::here<BM, BN, SPLIT>(p);
    auto fetch_bias = [&] {
        if (bias) bias += at.batch * p.batch_bias;
        added.template fetch<EACH>(bias, p, at.column + G::first_column());
    };
    {
        int k0 = SPLIT ? at.split * p.each : 0, k1 = SPLIT ? min(p.K, k0 + p.each) : p.K;
        typename G::A a(A + at.batch * p.batch_a, p.lda, at.row, p.M, k0, k1);
        typename G::B b(B + at.batch * p.batch_b, p.ldb, at.column, p.N, k0, k1);
        if constexpr (G::WHOLE) wait_for_kernels(a.from, b.from);
        if (at.batch >= p.batch) return;
        if constexpr (G::WHOLE) tile.run_whole(a, b, memory, fetch_bias);
        else tile.run(a, b, memory, k0, k1);
    }
    if constexpr (!G::WHOLE) at = Place::here<BM, BN, SPLIT>(p);
    if constexpr (SPLIT) {
        // [tile of the batch][split][place of a thread's four results][thread]
        constexpr int FOURS = G::DOWN * G::ACROSS;
        long long slot = at.batch * p.tiles_m * p.tiles_n + at.tile;
        float4* mine = parts + slot * p.splits * FOURS * G::THREADS + threadIdx.x;
#pragma unroll
        for (int f = 0; f < FOURS; ++f) {
            const float* v = tile.of[f / G::ACROSS][f % G::ACROSS];
            mine[(at.split * FOURS + f) * G::THREADS] = make_float4(v[0], v[1], v[2], v[3]);
        }
        __threadfence();
        __syncthreads();
        bool& last = *reinterpret_cast<bool*>(bytes);
        if (threadIdx.x == 0) {
            last = atomicAdd(counters + slot, 1) == p.splits - 1;
            if (last) counters[slot] = 0;  // for the next launch
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        __syncthreads();  // all have read it: the results take its place
#pragma unroll
        for (int f = 0; f < FOURS; ++f) {
            float* v = tile.of[f / G::ACROSS][f % G::ACROSS];
            float4 sum = make_float4(0, 0, 0, 0);
            for (int s = 0; s < p.splits; ++s) {
                float4 one = __ldcg(mine + (s * FOURS + f) * G::THREADS);
                sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w;
            }
            v[0] = sum.x, v[1] = sum.y, v[2] = sum.z, v[3] = sum.w;
        }
    }
    if constexpr (!G::WHOLE) fetch_bias();
    write_tile<ACTIVATION, EACH>(tile, added, memory, C + at.batch * p.batch_c, bias, p, at.row,
                                 at.column);
}

template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, int RESIDENT, bool A_KMAJOR,
          int ABYTES, bool B_KMAJOR, int BBYTES, int ACTIVATION, bool SPLIT, bool EACH>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    half_tiled(const T* A, const T* B, const T* bias, T* C, float4* parts, int* counters,
               const Problem p) {
    using G = HalfGemm<T, BM, BN, BK, WM, WN, STAGES, A_KMAJOR, ABYTES, B_KMAJOR, BBYTES>;
    half_tile<G, BM, BN, ACTIVATION, SPLIT, EACH>(A, B, bias, C, parts, counters, p);
}

// The same with panels of DEPTH of K. ALIGNED: rows begin at multiples of 16 bytes.
template <class T, int BM, int BN, int DEPTH, int WM, int WN, int RESIDENT, bool A_KMAJOR,
          bool B_KMAJOR, bool ALIGNED, int ACTIVATION, bool SPLIT, bool EACH>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    half_panels(const T* A, const T* B, const T* bias, T* C, float4* parts, int* counters,
                const Problem p) {
    using G = HalfPanels<T, BM, BN, DEPTH, WM, WN, A_KMAJOR, B_KMAJOR, ALIGNED>;
    half_tile<G, BM, BN, ACTIVATION, SPLIT, EACH>(A, B, bias, C, parts, counters, p);
}
