// Convolution of 16-bit elements on Hopper, forward and backward to the data: a product of weights
// and pixels by warpgroups, see tma.cuh. Its rows are target channels and its columns positions, so
// that a tile has as many positions as an image gives.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>
#include "../../matmul/cuda/shares.cuh"
#include "epilogue.cuh"
#include "tma.cuh"

using namespace weft;

// The results of a warpgroup: 64 channels x BN positions. They are stored by parts of PART
// positions, which pass through shared memory.
template <class T, int BN, int PART, bool LAST>
struct TargetPart {
    static constexpr int BYTES = 2 * PART * 128 + BN * 4, WHOLE = BN / 8;

    // Stores; `memory` has BYTES of this warpgroup, whose barrier is `id`. LAST: channels are
    // contiguous in the target, and are stored by vectors. Without `any`, no tap computes results.
    template <class Epilogue>
    static __device__ void store(const float (&of)[WHOLE][4], bool any, unsigned char* memory,
                                 int id, T* y, const Epilogue& epilogue, const Boxes& p,
                                 const Box& box, int channel, int first) {
        int* places = reinterpret_cast<int*>(memory + 2 * PART * 128);
        int thread = threadIdx.x % 128, warp = thread / 32, lane = lane_index();
        typename Epilogue::Channel own[2];
#pragma unroll
        for (int half = 0; half < 2; ++half)
            own[half] = epilogue.channel(channel + warp * 16 + half * 8 + lane / 4, p.target_c);
        barrier_sync<128>(id);  // the tile before is stored
        y += box.n * p.target_image;
        for (int i = thread; i < BN; i += 128) places[i] = place(first + i, p, box);
#pragma unroll
        for (int n = 0; n < WHOLE; n += PART / 8) {
            unsigned char* part = memory + n / (PART / 8) % 2 * PART * 128;
#pragma unroll
            for (int m = 0; m < PART / 8; m += 2) {
                if (n + m >= WHOLE) continue;
                unsigned words[4] = {};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    int at = n + m + i / 2, half = i % 2;
                    if (at < WHOLE)
                        words[i] = pack<T>(own[half](any ? of[at][half * 2] : 0),
                                           own[half](any ? of[at][half * 2 + 1] : 0));
                }
                int beside = m + lane / 16, eight = warp * 2 + lane / 8 % 2, inner = lane % 8;
                if constexpr (LAST)
                    store_matrices_x4<true>(
                        shared_address(part + swizzle<128>(beside * 8 + inner, eight)), words);
                else
                    store_matrices_x4(
                        shared_address(part + swizzle<2 * PART>(eight * 8 + inner, beside)), words);
            }
            barrier_sync<128>(id);
            if constexpr (LAST)
                write_vectors(part, places + n * 8, BN - n * 8, y + channel, epilogue, p, channel);
            else write_elements(part, places + n * 8, BN - n * 8, y, epilogue, p, channel);
        }
    }
    // A lane has 8 channels of a position.
    template <class Epilogue>
    static __device__ void write_vectors(const unsigned char* part, const int* places, int left,
                                         T* y, const Epilogue& epilogue, const Boxes& p,
                                         int channel) {
        constexpr int EACH = PART / 16;
        int row = threadIdx.x % 128 / 8, vector = threadIdx.x % 8, at[EACH];
        Vector<T, 8> v[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            at[i] = row + i * 16 < left ? places[row + i * 16] : -1;
            v[i] = load<8>(reinterpret_cast<const T*>(part + swizzle<128>(row + i * 16, vector)));
        }
        if (channel + vector * 8 >= p.target_c) return;
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (at[i] >= 0) v[i] = epilogue.stored(y + at[i] + vector * 8, v[i]);
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (at[i] >= 0) store_whole(y + at[i] + vector * 8, v[i]);
    }
    // A lane has a position of some channels.
    template <class Epilogue>
    static __device__ void write_elements(const unsigned char* part, const int* places, int left,
                                          T* y, const Epilogue& epilogue, const Boxes& p,
                                          int channel) {
        int warp = threadIdx.x % 128 / 32;
#pragma unroll
        for (int i = lane_index(); i < PART; i += 32) {
            int at = i < left ? places[i] : -1;
            if (at < 0) continue;
#pragma unroll 4
            for (int c = warp; c < min(64, p.target_c - channel); c += 4) {
                const T* from = reinterpret_cast<const T*>(part + swizzle<2 * PART>(c, i / 8));
                epilogue.write(y + at + (long long)(channel + c) * p.target_channel,
                               load<1>(from + i % 8));
            }
        }
    }
    // The place of a position in the target, from the first image of the box on; -1: it has none.
    static __device__ int place(int at, const Boxes& p, const Box& box) {
        int n = at / p.image, rest = at - n * p.image, i = rest / p.row, j = rest - i * p.row;
        const Phase& phase = p.phase[box.phase];
        int h = (box.y + i) * p.out_h + phase.out_y, w = (box.x + j) * p.out_w + phase.out_x;
        bool inside = n < p.tile_n && i < p.tile_h && j < p.tile_w && box.n + n < p.target_n &&
                      h < p.target_h && w < p.target_w;
        return inside ? int(n * p.target_image) + h * p.target_row + w * p.target_column : -1;
    }
};

// The copies of a tile. One thread starts those of planes into a ring of PLANES slots, and one
// those of weights, of 64 source channels and a tap, into one of STAGES: neither waits for the
// other.
template <int CHANNELS, int PLANES, int STAGES, bool BACK>
struct Copies {
    static constexpr int STAGE = CHANNELS * slab_bytes(64);

    static __device__ void planes(const TensorMap& x, const Boxes& p, const Box& box, int2 chunks,
                                  Stages<PLANES>& stages, Turn<PLANES>& turn, unsigned slots) {
        const Phase& phase = p.phase[box.phase];
        for (int chunk = chunks.x; chunk < chunks.y; ++chunk)
            for (int i = 0; i < phase.planes; ++i, turn.next()) {
                const Plane& plane = p.plane[phase.first_plane + i];
                Barrier& full = stages.full[turn.stage];
                stages.wait_empty(turn);
                full.arrive_expecting(p.plane_bytes);
                load_box(slots + turn.stage * p.slot_bytes, x, full, chunk * 64,
                         box.x * p.step_w + plane.x, box.y * p.step_h + plane.y, box.n);
            }
    }
    static __device__ void weights(const TensorMap& weight, const Boxes& p, const Box& box,
                                   int2 chunks, Stages<STAGES>& stages, Turn<STAGES>& turn,
                                   unsigned ring) {
        const Phase& phase = p.phase[box.phase];
        const Plane &first = p.plane[phase.first_plane],
                    &last = p.plane[phase.first_plane + max(phase.planes - 1, 0)];
        int end = phase.planes ? last.first_tap + last.taps : first.first_tap;
        for (int chunk = chunks.x; chunk < chunks.y; ++chunk)
            for (int tap = first.first_tap; tap < end; ++tap, turn.next()) {
                Barrier& full = stages.full[turn.stage];
                unsigned to = ring + turn.stage * STAGE;
                int number = p.tap[tap].number;
                stages.wait_empty(turn);
                full.arrive_expecting(STAGE);
                if constexpr (BACK) {
#pragma unroll
                    for (int g = 0; g < CHANNELS; ++g)
                        load_box(to + g * slab_bytes(64), weight, full,
                                 (box.channel * CHANNELS + g) * 64, number, chunk * 64);
                } else {
                    load_box(to, weight, full, chunk * 64, number, box.channel * CHANNELS * 64);
                }
            }
    }
};

// The registers of a thread: at launch, of a thread that copies, and of one that multiplies.
template <int WARPGROUPS, int RESIDENT>
struct Registers {
    static constexpr int LAUNCH = 65536 / (WARPGROUPS * 128 * RESIDENT) / 8 * 8,
                         COPYING = LAUNCH < 128 ? 24 : 40,
                         SPARE = (LAUNCH * WARPGROUPS - COPYING) / (WARPGROUPS - 1) / 8 * 8,
                         COMPUTING = SPARE < 232 ? SPARE : 232;
};

// CHANNELS x POSITIONS warpgroups compute 64 x BN results each, and two threads of another
// copy.
// RESIDENT blocks share an SM and cover each other's waits. The SPLITS blocks of a cluster share
// the chunks of source channels of one tile, and the columns of its results. BACK: the weights of a
// source channel are contiguous, not those of a target channel.
template <class T, int CHANNELS, int POSITIONS, int BN, int PLANES, int STAGES, int RESIDENT,
          int SPLITS, bool BACK, bool LAST, class Epilogue>
__device__ void convolve_boxes(const TensorMap& x, const TensorMap& weight,
                               const Epilogue& epilogue, T* y, const Boxes& p) {
    using Producer = Copies<CHANNELS, PLANES, STAGES, BACK>;
    constexpr int CONSUMERS = CHANNELS * POSITIONS, STAGE = Producer::STAGE;
    using Shares = ClusterShares<SPLITS, BN / 8, CONSUMERS * 4>;
    static_assert(Shares::OWNERS == 1, "whole columns of results");
    using Part = TargetPart<T, Shares::MINE * 8, RESIDENT == 1 ? 64 : 32, LAST>;
    using R = Registers<CONSUMERS + 1, RESIDENT>;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ Stages<PLANES> planes;
    __shared__ Stages<STAGES> stages;
    __shared__ Shares shares;
    unsigned ring = slab_aligned(shared_address(bytes)), slots = ring + STAGES * STAGE;
    unsigned char* start = bytes + (ring - shared_address(bytes));
    if (threadIdx.x == 0) {
        if (SPLITS > 1) shares.init();
        planes.init(1, CONSUMERS * 4), stages.init(1, CONSUMERS * 4);
    }
    for (int i = threadIdx.x; i < PLANES * p.zeros * 8; i += blockDim.x) {
        int slot = i / (p.zeros * 8), at = i - slot * p.zeros * 8;
        unsigned char* behind = start + STAGES * STAGE + slot * p.slot_bytes + p.plane_bytes;
        reinterpret_cast<uint4*>(behind)[at] = make_uint4(0, 0, 0, 0);
    }
    publish_tiles();
    __syncthreads();
    if (SPLITS > 1) cluster_arrive();  // the barriers are there
    start_next_kernel();
    wait_for_kernels();

    int consumer = warpgroup_index(), part = SPLITS == 1 ? 0 : blockIdx.x % SPLITS;
    int2 chunks = make_int2(p.chunks * part / SPLITS, p.chunks * (part + 1) / SPLITS);
    int first = blockIdx.x / SPLITS, apart = gridDim.x / SPLITS;
    if (consumer == CONSUMERS) {
        fewer_registers<R::COPYING>();
        if (lane_index() > 0) return;
        if (threadIdx.x == CONSUMERS * 128) {
            prefetch_map(x);
            Turn<PLANES> turn;
#pragma unroll 1
            for (int at = first; at < works(p); at += apart)
                Producer::planes(x, p, Box(at, p), chunks, planes, turn, slots);
        } else if (threadIdx.x == CONSUMERS * 128 + 32) {
            prefetch_map(weight);
            Turn<STAGES> turn;
#pragma unroll 1
            for (int at = first; at < works(p); at += apart)
                Producer::weights(weight, p, Box(at, p), chunks, stages, turn, ring);
        }
        return;
    }
    more_registers<R::COMPUTING>();
    int across = consumer / CHANNELS * BN;
    unsigned mine = ring + consumer % CHANNELS * slab_bytes(64);
    unsigned char* staging =
        start + STAGES * STAGE + PLANES * p.slot_bytes + consumer * Part::BYTES;
    float of[BN / 8][4];
    Turn<PLANES> plane_turn;
    Turn<STAGES> turn;
    auto release = [](Barrier& empty) {
        if (lane_index() == 0) empty.arrive();
    };
#pragma unroll 1
    for (int at = first; at < works(p); at += apart) {
        Box box(at, p);
        const Phase& phase = p.phase[box.phase];
        bool fresh = true;
#pragma unroll 1
        for (int i = 0, index = 0; i < phase.planes * (chunks.y - chunks.x);
             ++i, plane_turn.next()) {
            const Plane& plane = p.plane[phase.first_plane + index];
            if (++index == phase.planes) index = 0;
            unsigned pixels = slots + plane_turn.stage * p.slot_bytes + across * 128;
            planes.wait_full(plane_turn);
#pragma unroll 1
            for (int tap = 0; tap < plane.taps; ++tap, turn.next()) {
                unsigned long long a, b;
                b = wgmma_rows(pixels + p.tap[plane.first_tap + tap].shift * 128);
                a = BACK ? wgmma_columns<64>(mine + turn.stage * STAGE)
                         : wgmma_rows(mine + turn.stage * STAGE);
                stages.wait_full(turn);
                wgmma_begin();
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    wgmma<T, BACK, false>(of, a + k * (BACK ? 128 : 2), b + k * 2, !fresh || k > 0);
                wgmma_commit();
                wgmma_wait<1>();  // products are under way while the next ones are issued
                if (!fresh) {
                    release(stages.empty[turn.before()]);
                    if (tap == 0) release(planes.empty[plane_turn.before()]);
                }
                fresh = false;
            }
        }
        wgmma_wait<0>();
        wgmma_results(of);
        if (!fresh) {
            release(stages.empty[turn.before()]);
            release(planes.empty[plane_turn.before()]);
        }
        int channel = (box.channel * CHANNELS + consumer % CHANNELS) * 64;
        if constexpr (SPLITS == 1) {
            Part::store(of, !fresh, staging, 1 + consumer, y, epilogue, p, box, channel, across);
        } else {
            if (fresh) memset(of, 0, sizeof of);
            float all[Shares::MINE][4];
            unsigned char* beside =
                start + STAGES * STAGE + PLANES * p.slot_bytes + CONSUMERS * Part::BYTES;
            shares.add(of, all, reinterpret_cast<float4*>(Shares::REPLACES ? start : beside));
            Part::store(all, true, staging, 1 + consumer, y, epilogue, p, box, channel,
                        across + Shares::first() * 8);
        }
    }
}

template <class T, int CHANNELS, int POSITIONS, int BN, int PLANES, int STAGES, int RESIDENT,
          int SPLITS, bool BACK, bool LAST>
__global__ void __launch_bounds__(128 + CHANNELS * POSITIONS * 128, RESIDENT)
    tma(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight,
        const T* bias, T* y, const __grid_constant__ Boxes p) {
    convolve_boxes<T, CHANNELS, POSITIONS, BN, PLANES, STAGES, RESIDENT, SPLITS, BACK, LAST>(
        x, weight, BiasEpilogue<T>{bias}, y, p);
}

// The same with a norm, a residual and ReLU.
template <class T, class Statistic, class Parameter, int CHANNELS, int POSITIONS, int BN,
          int PLANES, int STAGES, int RESIDENT, int SPLITS, bool BACK, bool LAST>
__global__ void __launch_bounds__(128 + CHANNELS * POSITIONS * 128, RESIDENT)
    fused_tma(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight, FUSED,
              T* y, const __grid_constant__ Boxes p) {
    convolve_boxes<T, CHANNELS, POSITIONS, BN, PLANES, STAGES, RESIDENT, SPLITS, BACK, LAST>(
        x, weight, OF_FUSED(y), y, p);
}
