// Large matrix products of 16-bit elements on Hopper: C = f(A B + bias), batched, a tile for a
// block.
#include "warpgroup.cuh"
#include "store.cuh"

// With PRODUCER, a third warpgroup copies; else two blocks of an SM cover each other's waits.
template <class T, int BN, int STAGES, bool PRODUCER, bool A_KMAJOR, bool B_KMAJOR, int ACTIVATION,
          bool EACH>
__global__ void __launch_bounds__(PRODUCER ? 384 : 256, PRODUCER ? 1 : 2)
    half_warpgroups(const T* A, const T* B, const T* bias, T* C, const Problem p) {
    using G = HalfWarpgroups<T, BN, STAGES, PRODUCER ? 128 : 256, A_KMAJOR, B_KMAJOR>;
    extern __shared__ __align__(16) unsigned char bytes[];
    unsigned ring = slab_aligned(shared_address(bytes));
    T* memory = reinterpret_cast<T*>(bytes + (ring - shared_address(bytes)));
    int steps = (p.K + 63) / 64;
    G tile;
    {
        Place at = Place::here<G::BM, BN>(p);
        if (at.batch >= p.batch) return;
        int thread = PRODUCER ? threadIdx.x % 128 : threadIdx.x;
        auto a = [&] {
            return typename G::A(A + at.batch * p.batch_a, p.lda, at.row, p.M, p.K, thread);
        };
        auto b = [&] {
            return typename G::B(B + at.batch * p.batch_b, p.ldb, at.column, p.N, p.K, thread);
        };
        if (!tile.template multiply<PRODUCER, 40, 232>(a, b, ring, steps)) return;
    }
    barrier_sync<256>(1);  // both have read the last stages: the results take their place
    Place at = Place::here<G::BM, BN>(p);
    if (bias) bias += at.batch * p.batch_bias;
    write_tile<ACTIVATION, EACH>(tile, memory, C + at.batch * p.batch_c, bias, p, at.row,
                                 at.column);
}
