// rung:   04 look back
// idea:   one pass: a tile publishes its sum as soon as it is known, and its running total as soon
//         as that is known; a tile looks back over its predecessors until it finds a total
//         (decoupled look-back, Merrill and Garland). x is read once, y written once. Sums are
//         computed first, and a separate warp looks back while the others scan. A tile is in
//         registers and in shared memory: the more bytes are in flight, the less a wait costs
// clear:  state
// scratch: state:u64[cdiv(n,19712)]
// launch: scan<<<cdiv(n, 19712), 256, 43008>>>

#include <weft/async.cuh>
#include <weft/block.cuh>

#ifndef HELD
#define HELD 10       // vectors of four that a thread holds in registers
#define LYING 12      // and in shared memory
#define THREADS 224  // and a warp that looks back
#define RESIDENT 4   // blocks of an SM
#define WINDOW 1     // times 32 predecessors are polled at once
#define SLEEP 100    // nanoseconds until they are polled again
#endif
#define VECTORS (HELD + LYING)
#define TILE (4 * VECTORS * THREADS)
#define WARPS (THREADS / 32)

// The state of a tile: 0 nothing yet, 1 its own sum, 2 the sum of all up to it; with the value in
// one 64-bit word, so that a reader never sees half of it.
__device__ void publish(unsigned long long* state, unsigned kind, float value) {
    unsigned long long word =
        (static_cast<unsigned long long>(kind) << 32) | __float_as_uint(value);
    weft::store_relaxed(state, word);
}

// The sum of all tiles before `tile`, by one warp, which polls WINDOW * 32 predecessors at a time:
// a total that is published becomes known to so many tiles after one journey to the L2 and back.
__device__ float look_back(const unsigned long long* state, int tile) {
    int lane = threadIdx.x % 32;
    float before = 0;
    for (int last = tile - 1; last >= 0; last -= WINDOW * 32) {
        unsigned long long words[WINDOW];
        auto word = [&](int w) {
            int at = last - w * 32 - lane;
            return at >= 0 ? weft::load_relaxed(state + at) : 2ull << 32;
        };
#pragma unroll
        for (int w = 0; w < WINDOW; ++w) words[w] = word(w);
#pragma unroll
        for (int w = 0; w < WINDOW; ++w) {
            unsigned ready, total;
            while (true) {
                ready = __ballot_sync(~0u, (words[w] >> 32) != 0);
                total = __ballot_sync(~0u, (words[w] >> 32) == 2);
                // nothing past the nearest total is needed
                if (!(~ready & (total ? (total & -total) - 1 : ~0u))) break;
                __nanosleep(SLEEP);  // frequent polls delay what others publish
                words[w] = word(w);
            }
            int stop = total ? __ffs(total) - 1 : 31;
            float value = lane <= stop ? __uint_as_float(static_cast<unsigned>(words[w])) : 0;
            before += weft::warp_sum(value);
            if (total) return before;
        }
    }
    return before;
}

// All warps meet, each where its part of the work ends; __syncthreads() would have to be one for
// all.
__device__ void meet() { weft::barrier_sync<THREADS + 32>(1); }

// Blocks start in the order of their numbers, so that predecessors are always under way.
__global__ void __launch_bounds__(THREADS + 32, RESIDENT)
    scan(const float* __restrict__ x, float* __restrict__ y, unsigned long long* state, size_t n) {
    __shared__ float sums[WARPS];
    __shared__ float start;
    int tile = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == WARPS) {
        meet();
        float all = weft::warp_sum(lane < WARPS ? sums[lane] : 0);
        if (lane == 0) publish(state + tile, tile ? 1 : 2, all);
        float earlier = look_back(state, tile);
        if (lane == 0) {
            if (tile) publish(state + tile, 2, earlier + all);
            start = earlier;
        }
        meet();
        return;
    }
    extern __shared__ float4 lying[];
    size_t first = size_t(tile) * TILE + warp * (128 * VECTORS);
    bool whole = first + 128 * VECTORS <= n;
    float4 v[HELD];
    // Vectors of four stay together; lane l of step k holds vector k·32 + l. Each step is scanned
    // by the warp, so that no data has to change its place.
    auto place = [&](int k) { return first + 4 * (k * 32 + lane); };
    auto other = [&](int k) -> float4& { return lying[(k - HELD) * THREADS + threadIdx.x]; };
    auto edge = [&](size_t i) {
        return make_float4(i < n ? x[i] : 0, i + 1 < n ? x[i + 1] : 0, i + 2 < n ? x[i + 2] : 0,
                           i + 3 < n ? x[i + 3] : 0);
    };
#pragma unroll
    for (int k = HELD; k < VECTORS; ++k) {
        if (whole) weft::copy_async<16>(&other(k), x + place(k));
        else other(k) = edge(place(k));
    }
#pragma unroll
    for (int k = 0; k < HELD; ++k)
        v[k] = whole ? *reinterpret_cast<const float4*>(x + place(k)) : edge(place(k));
    weft::wait_all_copies();
    float sum = 0;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        float4 f = k < HELD ? v[k < HELD ? k : 0] : other(k);
        sum += (f.x + f.y) + (f.z + f.w);
    }
    sum = weft::warp_sum(sum);
    if (lane == 0) sums[warp] = sum;
    meet();
    float before = 0;
    for (int w = 0; w < warp; ++w) before += sums[w];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        float4 f = k < HELD ? v[k < HELD ? k : 0] : other(k);
        f.y += f.x, f.z += f.y, f.w += f.z;
        float up = weft::inclusive_scan(f.w, weft::Plus());
        float own = weft::shuffle_up(up, 1);
        float left = before + (lane ? own : 0);
        f.x += left, f.y += left, f.z += left, f.w += left;
        before += weft::shuffle(up, 31);
        (k < HELD ? v[k < HELD ? k : 0] : other(k)) = f;
    }
    meet();
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        float4 f = k < HELD ? v[k < HELD ? k : 0] : other(k);
        float o[4] = {f.x + start, f.y + start, f.z + start, f.w + start};
        if (whole) {
            *reinterpret_cast<float4*>(y + place(k)) = make_float4(o[0], o[1], o[2], o[3]);
        } else {
            for (int j = 0; j < 4; ++j)
                if (place(k) + j < n) y[place(k) + j] = o[j];
        }
    }
}
