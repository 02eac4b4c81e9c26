// Sums of the rows of A beside a product: tensor cores multiply the rows by ones too. Tiles beside
// each other share the rows: a warpgroup of each of the first ones sums those that it multiplies. A
// gradient of a weight, dYᵀ X, gives that of the bias so.
#pragma once
#include "multiply_tiles.cuh"

// O: elements of the sums.
template <class T, class S, bool A_KMAJOR, bool B_KMAJOR, class O>
struct RowSums : TensorSums<T, S, A_KMAJOR, B_KMAJOR> {
    using Tile = typename TensorSums<T, S, A_KMAJOR, B_KMAJOR>::Tile;
    // Eight columns of ones, a stage of K long; then the sums of other blocks of a cluster, of
    // which a lane gives those of two rows.
    static constexpr int ONES = 8 * 128, GIVEN = S::BM / 2 * 16,
                         BYTES = ONES + (S::SPLITS - 1) * GIVEN;

    O* to;
    float of[S::DOWN][1][4];
    bool wanted;

    static __device__ Barrier& arrived() {
        __shared__ Barrier barrier;
        return barrier;
    }
    // True if a warpgroup sums its rows in this tile. Warpgroups that take turns have all rows.
    static __device__ bool sums(const Problem& p, const Work& work, int consumer) {
        int sharing = S::TURNS ? 1 : min(p.tiles_n, S::CONSUMERS);
        return (S::TURNS ? 0 : consumer % sharing) == work.column / S::BN;
    }
    // A cluster has one tile.
    __device__ void init(const Problem& p) {
        if constexpr (S::SPLITS > 1) {
            Work work = Work::number<S::BM, S::BN>(blockIdx.x / S::SPLITS, p);
            int given = 0;
            for (int c = 0; c < S::CONSUMERS; ++c)
                given += sums(p, work, c) ? GIVEN / S::CONSUMERS : 0;
            arrived().init(1);
            if (given && cluster_block() == 0) arrived().arrive_expecting((S::SPLITS - 1) * given);
        }
    }
    __device__ void begin(unsigned char* room) {
        T* ones = reinterpret_cast<T*>(room);
        for (int i = threadIdx.x; i < ONES / 2; i += S::THREADS) ones[i] = weft::to<T>(1.0f);
        publish_tiles();
    }
    __device__ void fetch(const Problem& p, const Work& work, int, int) {
        wanted = sums(p, work, warpgroup_index());
    }

    __device__ void start(Tile& tile, unsigned ring, typename Tile::Ring& stages, int consumer,
                          int steps, unsigned char* room) {
        if (!wanted) return tile.start(ring, stages, consumer, steps);
        unsigned long long ones = wgmma_rows(shared_address(room));
        tile.start(ring, stages, consumer, steps,
                   [&](int i, unsigned long long a, bool accumulate) {
                       wgmma<T, Tile::A::TRANSPOSE, false>(of[i], a, ones, accumulate);
                   });
    }
    __device__ void finish(Tile& tile, typename Tile::Ring& stages) {
        tile.finish(stages);
#pragma unroll
        for (int i = 0; i < S::DOWN; ++i) wgmma_results(of[i]);
    }
    // All columns of `of` are the same: lanes with the first one store it.
    __device__ void store(const Problem& p, int row, unsigned char* room) {
        if (!wanted || lane_index() % 4) return;
        if constexpr (S::SPLITS > 1) {
            float4* given = reinterpret_cast<float4*>(room + ONES) + threadIdx.x / 4;
            constexpr int EACH = GIVEN / 16;
            int me = cluster_block();
            if (me) {
                float4 mine = {of[0][0][0], of[0][0][2], 0, 0};
                store_to(0, given + (me - 1) * EACH, mine, arrived());
                return;
            }
            arrived().wait(0);
            for (int block = 1; block < S::SPLITS; ++block) {
                float4 x = given[(block - 1) * EACH];
                of[0][0][0] += x.x, of[0][0][2] += x.y;
            }
        }
#pragma unroll
        for (int i = 0; i < S::DOWN; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int at = row + i * 64 + c_row(half * 2);
                if (at < p.M) to[at] = weft::to<O>(of[i][0][half * 2]);
            }
    }
};
