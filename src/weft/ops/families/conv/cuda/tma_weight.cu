// The backward pass to the weight of 16-bit elements on Hopper, by boxes: a product of dy and
// pixels by warpgroups, see tma.cuh. Its rows are channels of dy, its columns taps and channels of
// x, and its depth is the positions of a tile. Positions between the columns of a tile have a dy of
// 0.
#include <weft/pipeline.cuh>
#include <weft/problem.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

STRUCT_WEIGHTBOXES  // tma/gradients.py declares it

    // A warpgroup has 64 channels of dy and a group of slabs, of a tap and 64 channels of x each.
    // Slabs are p.leading bytes apart: FIRST of them from one plane on, and SECOND from another.
    // ACROSS warpgroups have a group each, and DOWN others the next 64 channels of dy. Another warp
    // copies. A stage has a tile's rows of dy and its planes. A block adds the tiles of its part of
    // all positions, and stores the sums as a matrix of its own in `parts`: [channel of
    // dy][tap][channel of x].
    template <class T, int FIRST, int SECOND, int ACROSS, int DOWN, int STAGES, int RESIDENT>
    __global__ void __maxnreg__(RESIDENT == 2       ? 200
                                : ACROSS * DOWN > 2 ? 152
                                                    : 224)
        tma_weight(const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap x,
                   float* parts, const __grid_constant__ WeightBoxes p) {
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

    // Blocks of one part are neighbours: they read the same tiles.
    int at = blockIdx.x, tile_k = at % p.tiles_k;
    at /= p.tiles_k;
    int tile_c = at % p.tiles_c;
    at /= p.tiles_c;
    int tile_group = at % p.tiles_group, part = at / p.tiles_group;
    int tiles = p.tiles_h * p.tiles_n;
    int begin = int((long long)tiles * part / p.splits),
        end = int((long long)tiles * (part + 1) / p.splits);
    int consumer = warpgroup_index();
    Turn<STAGES> turn;
    if (consumer == CONSUMERS) {
        if (lane_index() > 0) return;
        prefetch_map(dy), prefetch_map(x);
        for (int tile = begin; tile < end; ++tile, turn.next()) {
            int n = tile / p.tiles_h, h = (tile - n * p.tiles_h) * p.tile_h;
            Barrier& full = stages.full[turn.stage];
            unsigned to = ring + turn.stage * stage_bytes;
            stages.wait_empty(turn);
            full.arrive_expecting(DOWN * p.dy_bytes + p.planes * p.x_bytes);
#pragma unroll
            for (int i = 0; i < DOWN; ++i, to += p.dy_slot)
                load_box(to, dy, full, (tile_k * DOWN + i) * 64, 0, h, n * p.tile_n);
            for (int i = 0; i < p.planes; ++i, to += p.x_slot)
                load_box(to, x, full, tile_c * p.tile_channels + p.plane[i].channel, p.plane[i].x,
                         h * p.step_h + p.plane[i].y, n * p.tile_n);
        }
        return;
    }
    int down = consumer / ACROSS, group_index = tile_group * ACROSS + consumer % ACROSS;
    const TapGroup& group = p.group[min(group_index, p.groups - 1)];
    unsigned left = ring + down * p.dy_slot, right = ring + DOWN * p.dy_slot;
    unsigned from[2] = {right + group.plane[0] * p.x_slot + group.shift[0] * 128,
                        right + group.plane[1] * p.x_slot + group.shift[1] * 128};
    float first[FIRST * 8][4], second[SECOND > 0 ? SECOND * 8 : 1][4];
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
    if (group_index >= p.groups) return;
    int row = (tile_k * DOWN + down) * 64 + threadIdx.x % 128 / 32 * 16,
        column = tile_c * p.tile_channels + lane_index() % 4 * 2;
    float* to = parts + (long long)part * p.K * p.taps * p.C;
    auto store = [&](const float (&of)[4], int slab, int n) {
        int tap = group.tap[slab], c = column + group.channel[slab] + n * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int k = row + half * 8 + lane_index() / 4;
            if (k < p.K && c < p.C)
                *reinterpret_cast<float2*>(to + ((long long)k * p.taps + tap) * p.C + c) =
                    make_float2(fresh ? 0 : of[half * 2], fresh ? 0 : of[half * 2 + 1]);
        }
    };
#pragma unroll
    for (int i = 0; i < FIRST * 8; ++i) store(first[i], i / 8, i % 8);
#pragma unroll
    for (int i = 0; i < SECOND * 8; ++i) store(second[i], FIRST + i / 8, i % 8);
}
