// What the parts of a decoding step share: its configuration, its memory, the table of layers.
#pragma once
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/dequantise.cuh>
#include <weft/grid.cuh>
#include <weft/mma.cuh>
#include <weft/pipeline.cuh>
#include <weft/problem.cuh>

using namespace weft;

STRUCT_DECODESTEP  // see structs.py

    // Warps that compute; one more warp copies.
    constexpr int WARPS = 8,
                  THREADS = WARPS * 32;
// A stage of the ring is a piece of 16 rows of a weight, or keys or values of TILE tokens. Between
// rows of a weight there are 64 bytes, so that the two rows that eight lanes read together lie in
// different banks. Scales of groups of SCALED weights follow.
constexpr int ROWS = 16, PIECE = 1024, PITCH = PIECE + 64, SCALED = 128, TILE = 64;

// Words of a layer in the table. The row after the last layer has the head, and the last norm.
enum Word {
    QKV,
    QKV_SCALE,
    OUT,
    OUT_SCALE,
    UP,
    UP_SCALE,
    DOWN,
    DOWN_SCALE,
    NORM1,
    NORM2,
    KEYS,
    VALUES,
    QKV_BIAS,
    QUERY_NORM,
    KEY_NORM,
    WORDS
};

// BITS     of a weight; F is the format of those of 4 and 8
// GROUPED  SCALED weights of a row share a scale; else a row has one
// TOKENS   of the step: 1, 2 or 4
// SIZE     elements of a head
// SHARING  heads of queries that share keys
template <class T_, int BITS_, Weights F_, bool GROUPED_, int TOKENS_, int SIZE_, int SHARING_,
          int STAGES_>
struct Config {
    using T = T_;
    static constexpr Weights F = F_;
    static constexpr bool GROUPED = GROUPED_, QUANTISED = BITS_ < 16, OFFSET = BITS_ == 4;
    static constexpr int BITS = BITS_, TOKENS = TOKENS_, SIZE = SIZE_, SHARING = SHARING_;
    static constexpr int STAGES = STAGES_, STAGE = ROWS * (PITCH + (GROUPED ? 64 : 0));
    // A chunk is 64 bytes of each row: CHUNK weights, of which a lane has VECTORS of eight.
    static constexpr int CHUNK = 512 / BITS, VECTORS = 16 / BITS;
};

// The memory of a step; all but the first four are written by it.
template <class T>
struct Memory {
    const int* positions;
    const T* embedding;
    const float *cosines, *sines;
    float *x, *heads, *partial;
    T *attended, *hidden, *logits;
    int* tickets;
};

// The ring, and what follows it in shared memory.
template <class C>
struct Shared {
    unsigned char* bytes;
    Stages<C::STAGES>* stages;
    const DecodeStep& p;

    __device__ unsigned char* stage(const Turn<C::STAGES>& turn) const {
        return bytes + turn.stage * C::STAGE;
    }
    // The tokens of a product as vectors of eight elements, in the order of the lanes.
    __device__ Vector<unsigned, 4>* inputs() const {
        return reinterpret_cast<Vector<unsigned, 4>*>(bytes + p.inputs);
    }
    // The sums of x over each chunk of a token.
    __device__ float* sums() const { return reinterpret_cast<float*>(bytes + p.sums); }
    // The results of each warp for the rows of a unit, twice.
    __device__ float* shares() const { return reinterpret_cast<float*>(bytes + p.shares); }
    __device__ const long long* words(int layer) const {
        return reinterpret_cast<const long long*>(bytes + p.words) + layer * WORDS;
    }
    template <class P>
    __device__ P* at(int layer, int word) const {
        return reinterpret_cast<P*>(words(layer)[word]);
    }
};

// Waits for the warps that compute.
__device__ inline void meet_warps() { barrier_sync<THREADS>(1); }

// Returns 16 bytes that other blocks may have written: they are not read from the L1 cache.
template <class P>
__device__ inline Vector<P, 16 / sizeof(P)> load_written(const P* p) {
    uint4 words = __ldcg(reinterpret_cast<const uint4*>(p));
    return *reinterpret_cast<Vector<P, 16 / sizeof(P)>*>(&words);
}
