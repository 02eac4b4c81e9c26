// The backward pass to the weight of 16-bit elements on Hopper, by boxes: a product of dy and
// pixels by warpgroups, see tma.cuh. Its rows are channels of dy, its columns taps and channels of
// x, and its depth is the positions of a tile. Positions between the columns of a tile have a dy of
// 0.
#include <weft/block.cuh>
#include <weft/cluster.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>
#include <weft/problem.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

STRUCT_WEIGHTBOXES;  // tma/gradients.py declares it

// What sums are, and their order: a part of the gradient, [channel of dy][tap][channel of x]; the
// gradient, [channel of dy][channel of x][tap]; or the gradient with its channels last, as a part.
enum SumsOf { PARTS, FIRST, LAST };

// The results of a tile: FRAGMENTS accumulators of each of its threads. CLUSTER blocks have added
// parts of the positions, and each stores its share of the channels of dy.
template <class T, int FRAGMENTS, int ACROSS, int DOWN, int CLUSTER, SumsOf OF>
struct WeightTile {
    static constexpr int THREADS = ACROSS * DOWN * 128, ROWS = 64 / CLUSTER,
                         ROOM = FRAGMENTS * THREADS * 16;
    int k, c, group;  // the first ones
    const WeightBoxes& p;

    // Calls store(row, slab, column, x, y) for pairs of neighbours of a fragment that a thread of
    // the block has; rows count from k.
    template <class Store>
    __device__ void pairs(float4 v, int thread, int n, const Store& store) const {
        int consumer = thread / 128, row = consumer / ACROSS * 64 + thread % 128 / 32 * 16;
        int slab = n / 8, column = n % 8 * 8 + thread % 4 * 2, at = group + consumer % ACROSS;
        if (at >= p.groups) return;
        const TapGroup& taps = p.group[at];
        row += thread % 32 / 4, column += taps.channel[slab];
        if (c + column >= p.C) return;
        store(row, int(taps.tap[slab]), column, v.x, v.y);
        store(row + 8, int(taps.tap[slab]), column, v.z, v.w);
    }
    __device__ void store_part(float* part, int row, int tap, int column, float x, float y) const {
        if (k + row < p.K)
            *reinterpret_cast<float2*>(part + ((long long)(k + row) * p.taps + tap) * p.C + c +
                                       column) = make_float2(x, y);
    }
    // Adds the fragments of all blocks of the cluster, which are in `memory` of each.
    __device__ void finish(unsigned char* memory, float* part, T* out) const {
        constexpr int EACH = 128 / CLUSTER, SHARE = THREADS / CLUSTER;
        const float4* room = reinterpret_cast<const float4*>(memory);
        T* rows = reinterpret_cast<T*>(memory + ROOM);
        int rank = CLUSTER > 1 ? cluster_block() : 0, wide = p.tile_channels * p.taps;
        if constexpr (CLUSTER > 1) cluster_sync();
        else barrier_sync<THREADS>(1);
#pragma unroll 2
        for (int i = threadIdx.x; i < FRAGMENTS * SHARE; i += THREADS) {
            int n = i / SHARE, at = i - n * SHARE,
                thread = at / EACH * 128 + rank * EACH + at % EACH;
            float4 sum = room[n * THREADS + thread];
            if constexpr (CLUSTER > 1) {
                sum = make_float4(0, 0, 0, 0);
#pragma unroll
                for (int block = 0; block < CLUSTER; ++block) {
                    float4 v = load_from(block, room + n * THREADS + thread);
                    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
                }
            }
            pairs(sum, thread, n, [&](int row, int tap, int column, float x, float y) {
                if constexpr (OF != PARTS) {
                    int own = row / 64 * ROWS + row % 64 - rank * ROWS, next = 1,
                        within = tap * p.tile_channels + column;
                    if constexpr (OF == FIRST) within = column * p.taps + tap, next = p.taps;
                    T* to_row = rows + own * wide + within;
                    to_row[0] = to<T>(x), to_row[next] = to<T>(y);
                } else {
                    store_part(part, row, tap, column, x, y);
                }
            });
        }
        if constexpr (OF != PARTS) {
            barrier_sync<THREADS>(1);
            int channels = min(p.tile_channels, p.C - c), pieces = OF == LAST ? p.taps : 1,
                columns = channels * p.taps / pieces / 8;  // vectors of a piece
            for (int i = threadIdx.x; i < DOWN * ROWS * pieces * columns; i += THREADS) {
                int line = i / columns, at = (i - line * columns) * 8, own = line / pieces,
                    tap = line - own * pieces;
                int row = k + own / ROWS * 64 + rank * ROWS + own % ROWS;
                long long first = OF == LAST ? ((long long)row * p.taps + tap) * p.C + c
                                             : ((long long)row * p.C + c) * p.taps;
                if (row < p.K)
                    store_whole(out + first + at,
                                load<8>(rows + own * wide + tap * p.tile_channels + at));
            }
        }
        if constexpr (CLUSTER > 1) cluster_sync();  // no block ends while others read its fragments
    }
};

// A warpgroup has 64 channels of dy and a group of slabs, of a tap and 64 channels of x each. Slabs
// are p.leading bytes apart: SLABS of them from one plane on, and SECOND from another. ACROSS
// warpgroups have a group each, and DOWN others the next 64 channels of dy. Another warp copies. A
// stage has a tile's rows of dy and its planes. A block adds the tiles of its part of all
// positions.
template <class T, int SLABS, int SECOND, int ACROSS, int DOWN, int STAGES, int CLUSTER, SumsOf OF>
__global__ void __maxnreg__(ACROSS* DOWN > 2    ? 128
                            : ACROSS * DOWN > 1 ? 168
                                                : 255)
    tma_weight(const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap x,
               float* parts, T* out, const __grid_constant__ WeightBoxes p) {
    constexpr int CONSUMERS = ACROSS * DOWN;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ Stages<STAGES> stages;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    int stage_bytes = DOWN * p.dy_slot + p.planes * p.x_slot;
    if (threadIdx.x == 0) stages.init(1, CONSUMERS * 4);
    // What copies do not fill is 0.
    for (int stage = 0; stage < STAGES; ++stage)
        for (int slot = 0; slot < DOWN + p.planes; ++slot) {
            int before =
                slot < DOWN ? slot * p.dy_slot : DOWN * p.dy_slot + (slot - DOWN) * p.x_slot;
            int first = slot < DOWN ? p.dy_bytes : p.x_bytes,
                last = slot < DOWN ? p.dy_slot : p.x_slot;
            for (int at = first + threadIdx.x * 16; at < last; at += blockDim.x * 16)
                *reinterpret_cast<uint4*>(start + stage * stage_bytes + before + at) =
                    make_uint4(0, 0, 0, 0);
        }
    publish_tiles();
    __syncthreads();
    start_next_kernel();
    wait_for_kernels();

    // Blocks of one part are neighbours: they read the same tiles.
    int at = blockIdx.x / CLUSTER, tile_k = at % p.tiles_k;
    at /= p.tiles_k;
    int tile_c = at % p.tiles_c;
    at /= p.tiles_c;
    int tile_group = at % p.tiles_group, whole = at / p.tiles_group,
        part = whole * CLUSTER + blockIdx.x % CLUSTER;
    int tiles = p.tiles_w * p.tiles_h * p.tiles_n;
    int begin = int((long long)tiles * part / p.splits),
        end = int((long long)tiles * (part + 1) / p.splits);
    int consumer = warpgroup_index();
    Turn<STAGES> turn;
    if (consumer == CONSUMERS) {
        if (lane_index() > 0) return;
        prefetch_map(dy), prefetch_map(x);
        for (int tile = begin; tile < end; ++tile, turn.next()) {
            int line = tile / p.tiles_w, n = line / p.tiles_h,
                h = (line - n * p.tiles_h) * p.tile_h, w = (tile - line * p.tiles_w) * p.tile_w;
            Barrier& full = stages.full[turn.stage];
            unsigned to = ring + turn.stage * stage_bytes;
            stages.wait_empty(turn);
            full.arrive_expecting(DOWN * p.dy_bytes + p.planes * p.x_bytes);
#pragma unroll
            for (int i = 0; i < DOWN; ++i, to += p.dy_slot)
                load_box(to, dy, full, (tile_k * DOWN + i) * 64, w, h, n * p.tile_n);
            for (int i = 0; i < p.planes; ++i, to += p.x_slot)
                load_box(to, x, full, tile_c * p.tile_channels + p.plane[i].channel,
                         w * p.step_w + p.plane[i].x, h * p.step_h + p.plane[i].y, n * p.tile_n);
        }
        return;
    }
    int down = consumer / ACROSS, group_index = tile_group * ACROSS + consumer % ACROSS;
    const TapGroup& group = p.group[min(group_index, p.groups - 1)];
    unsigned left = ring + down * p.dy_slot, right = ring + DOWN * p.dy_slot;
    unsigned from[2] = {right + group.plane[0] * p.x_slot + group.shift[0] * 128,
                        right + group.plane[1] * p.x_slot + group.shift[1] * 128};
    float first[SLABS * 8][4], second[SECOND > 0 ? SECOND * 8 : 1][4];
    bool fresh = true;
#pragma unroll 1
    for (int tile = begin; tile < end; ++tile, turn.next()) {
        unsigned moved = turn.stage * stage_bytes;
        unsigned long long a = wgmma_columns<64>(left + moved),
                           b = wgmma_columns(from[0] + moved, p.leading),
                           c = wgmma_columns(from[1] + moved, p.leading);
        stages.wait_full(turn);
        wgmma_begin();
#pragma unroll 1
        for (int k = 0; k < p.steps; ++k, a += 128, b += 128, c += 128) {
            wgmma<T, true, true>(first, a, b, !fresh);
            if constexpr (SECOND > 0) wgmma<T, true, true>(second, a, c, !fresh);
            fresh = false;
        }
        wgmma_commit();
        wgmma_wait<1>();  // the products of a tile are under way while the next ones are issued
        if (tile > begin && lane_index() == 0) stages.empty[turn.before()].arrive();
    }
    wgmma_wait<0>();
    wgmma_results(first);
    if constexpr (SECOND > 0) wgmma_results(second);
    using Tile = WeightTile<T, (SLABS + SECOND) * 8, ACROSS, DOWN, CLUSTER, OF>;
    Tile tile{tile_k * DOWN * 64, tile_c * p.tile_channels, tile_group * ACROSS, p};
    float* to = parts + (long long)whole * p.K * p.taps * p.C;
    if constexpr (CLUSTER > 1 || OF != PARTS)
        barrier_sync<Tile::THREADS>(1);  // all have read the last stage: the results take its place
    auto put = [&](const float (&of)[4], int n) {
        float4 v = fresh ? make_float4(0, 0, 0, 0) : make_float4(of[0], of[1], of[2], of[3]);
        if constexpr (CLUSTER > 1 || OF != PARTS)
            reinterpret_cast<float4*>(start)[n * Tile::THREADS + threadIdx.x] = v;
        else
            tile.pairs(v, threadIdx.x, n, [&](int row, int tap, int column, float x, float y) {
                tile.store_part(to, row, tap, column, x, y);
            });
    };
#pragma unroll
    for (int i = 0; i < SLABS * 8; ++i) put(first[i], i);
#pragma unroll
    for (int i = 0; i < SECOND * 8; ++i) put(second[i], SLABS * 8 + i);
    if constexpr (CLUSTER > 1 || OF != PARTS) tile.finish(start, to, out);
}
