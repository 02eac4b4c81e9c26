// What the parts of a decoding step share: its configuration, its memory, the table of layers.
#pragma once
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/dequantise.cuh>
#include <weft/grid.cuh>
#include <weft/mma.cuh>
#include <weft/pipeline.cuh>
#include <weft/problem.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

STRUCT_DECODESTEP  // see structs.py

// Warps that compute; one more warp copies.
    constexpr int WARPS = 8,
                  THREADS = WARPS * 32;
// A stage of the ring is a piece of ROWS rows of a weight, the keys or values of TILE tokens, or
// the weight of a norm.
constexpr int ROWS = 16, PIECE = 1024, TILE = 64, STAGED = ROWS * PIECE;
// Weights that share a scale, where those of a row do not share one.
constexpr int SCALED = 128;
// Chunks of 64 bytes of each row: a warp has neighbouring ones.
constexpr int CHUNKS = PIECE / 64;
// Bytes of a row of a tile of keys: longer ones are in tiles beside each other.
constexpr int TILE_ROW = 128;
// Sums of units that wait for the warp that adds them.
constexpr int SHARED_SUMS = 4;

// Words of a layer in the table: addresses of what is read without a map. The row behind the last
// layer has the last norm and the scales of the head.
enum Word { NORM1, NORM2, KEYS, VALUES, BIAS, QUERY_NORM, KEY_NORM, SCALES, WORDS = SCALES + 4 };
// Tensor maps of a layer: of four weights, of their scales, of keys and values.
enum Map { WEIGHT_MAPS, SCALE_MAPS = WEIGHT_MAPS + 4, KEY_MAP = SCALE_MAPS + 4, VALUE_MAP, MAPS };

// Selects a type.
template <bool FIRST, class A, class B>
struct Select {
    using Type = A;
};
template <class A, class B>
struct Select<false, A, B> {
    using Type = B;
};

// BITS     of a weight; F is the format of those of 4 and 8
// GROUPED  SCALED weights of a row share a scale; else a row has one
// TOKENS   of the step: 1 or 2
// SIZE     elements of a head
// SHARING  heads of queries that share keys
template <class T_, int BITS_, Weights F_, bool GROUPED_, int TOKENS_, int SIZE_, int SHARING_,
          int STAGES_>
struct Config {
    using T = T_;
    static constexpr Weights F = F_;
    static constexpr bool GROUPED = GROUPED_,
                          INTEGER = BITS_ == 4 || (BITS_ == 8 && F_ == Weights::INT8);
    static constexpr bool BY_ROW = BITS_ < 16 && !GROUPED;
    static constexpr int BITS = BITS_, TOKENS = TOKENS_, SIZE = SIZE_, SHARING = SHARING_;
    // Tokens for integers are integers of PLANES bytes, which are columns of products.
    static constexpr int PLANES = INTEGER ? 3 : 1, COLUMNS = TOKENS * PLANES;
    static_assert(COLUMNS <= 8, "the columns of one product");
    // A chunk is 64 bytes of each row: CHUNK weights, whose tokens are VECTORS of 16 bytes of a
    // lane.
    static constexpr int CHUNK = 512 / BITS, DEEP = PIECE * 8 / BITS;
    static constexpr int VECTORS = INTEGER ? 8 / BITS : 16 / BITS;
    static constexpr int GROUPS = DEEP / SCALED;  // of a row of a piece
    static constexpr int SCALE_BYTES = GROUPED ? ROWS * GROUPS * 4 : BY_ROW ? ROWS * 4 : 0;
    static constexpr int STAGES = STAGES_, STAGE = STAGED + (SCALE_BYTES + 1023) / 1024 * 1024;
};

// The global memory of a step.
template <class T>
struct Memory {
    float *x, *heads, *partial;
    T *attended, *hidden, *logits;
    int* tickets;
};

// Where a warp is in the ring of what is copied, and in that of sums.
template <class C>
struct Turns {
    Turn<C::STAGES> ring;
    Turn<SHARED_SUMS> shares;
};

// The ring, and what follows it in shared memory.
template <class C>
struct Shared {
    unsigned char* bytes;
    Stages<C::STAGES>* stages;
    Stages<SHARED_SUMS>* shared_sums;
    const TensorMap* maps;
    const DecodeStep& p;

    __device__ unsigned char* stage(const Turn<C::STAGES>& turn) const {
        return bytes + turn.stage * C::STAGE;
    }
    // The tokens of a product as vectors of 16 bytes, in the order of the lanes.
    __device__ Vector<unsigned, 4>* inputs() const {
        return reinterpret_cast<Vector<unsigned, 4>*>(bytes + p.inputs);
    }
    // What weights of 4 bits, which have an offset, add too much: of each chunk and column.
    __device__ int* sums() const { return reinterpret_cast<int*>(bytes + p.sums); }
    // The sums of each warp for the rows of a unit.
    __device__ float* shares(const Turn<SHARED_SUMS>& turn) const {
        constexpr int SIZE = WARPS * ROWS * C::COLUMNS;
        return reinterpret_cast<float*>(bytes + p.shares) + turn.stage * SIZE;
    }
    // The positions of the tokens, then their cosines and sines.
    __device__ int* positions() const { return reinterpret_cast<int*>(bytes + p.angles); }
    __device__ float* angles() const { return reinterpret_cast<float*>(bytes + p.angles) + 4; }
    // What results of tokens are multiplied by, after them.
    __device__ float* factors() const { return angles() + 2 * C::TOKENS * p.pairs; }
    __device__ long long* words() const { return reinterpret_cast<long long*>(bytes + p.words); }
    template <class P>
    __device__ P* at(int layer, int word) const {
        return reinterpret_cast<P*>(words()[layer * WORDS + word]);
    }
    // Lets the next turn use a stage; a warp calls it when its lanes have read what they need.
    __device__ void release(const Turn<C::STAGES>& turn) const {
        __syncwarp();
        if (lane_index() == 0) stages->empty[turn.stage].arrive();
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
