// Products of the tokens by the rows of a weight, which pass through the ring.
//
// A block has units of 16 rows. Its warps share the K of each piece, and tensor cores multiply: the
// weights are A, the tokens are columns of B. A lane reads 16 bytes of two rows in each chunk; the
// order of K within a chunk is that of the lanes, for weights and tokens alike. Warps do not wait
// for each other: the one that adds up the sums of a unit finds them in a ring of their own.
#pragma once
#include "factors.cuh"

enum class To { HEADS, RESIDUAL, HIDDEN, LOGITS };

// The product number `index` of a step: four for each layer, then the head.
template <class C>
struct Product {
    To to;
    const TensorMap *map, *scale_map;
    const float* scales;  // of rows
    const typename C::T* bias;
    int n, row;  // results of a token, bytes of a row

    __device__ Product(const Shared<C>& shared, int index) {
        const DecodeStep& p = shared.p;
        int layer = index / 4, part = index % 4, inner = p.heads * C::SIZE;
        to = layer == p.layers ? To::LOGITS
             : part == 0       ? To::HEADS
             : part == 2       ? To::HIDDEN
                               : To::RESIDUAL;
        n = to == To::HEADS    ? inner + 2 * p.kv_heads * C::SIZE
            : to == To::HIDDEN ? p.hidden
            : to == To::LOGITS ? p.vocabulary
                               : p.width;
        row = (part == 1 ? inner : part == 3 ? p.hidden : p.width) * C::BITS / 8;
        map = shared.maps + layer * MAPS + WEIGHT_MAPS + part;
        scale_map = shared.maps + layer * MAPS + SCALE_MAPS + part;
        scales = shared.template at<const float>(layer, SCALES + part);
        bias = part ? nullptr : shared.template at<const typename C::T>(layer, BIAS);
    }
    // Rows of gates and of what they multiply are the halves of a unit.
    __device__ int each() const { return to == To::HIDDEN ? ROWS / 2 : ROWS; }
    __device__ int units() const { return ceil_div(n, each()); }
    // The result that row r of a unit is for.
    __device__ int result(int unit, int r) const { return unit * each() + r % each(); }
    // The first row of the weight of half of a unit.
    __device__ int row_of(int unit, int half) const {
        return unit * each() + half * (to == To::HIDDEN ? n : ROWS / 2);
    }
};

// What a lane needs to finish results of a unit: number `lane` + 32 i is row % 16 of token / 16.
template <class C>
struct Finish {
    static constexpr int EACH = ceil_div(ROWS * C::TOKENS, 32);
    float scale = 1, added[EACH], factor[EACH];

    static __device__ int row(int i) { return (lane_index() + 32 * i) % ROWS; }
    static __device__ int token(int i) { return (lane_index() + 32 * i) / ROWS; }

    // Reads what does not depend on the sums.
    __device__ void prepare(const Product<C>& w, const Shared<C>& shared,
                            const Memory<typename C::T>& m, int unit) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int n = w.result(unit, row(i));
            bool inside = n < w.n && token(i) < C::TOKENS;
            added[i] = 0, factor[i] = 1;
            if (C::INTEGER && token(i) < C::TOKENS) factor[i] = shared.factors()[token(i)];
            if (w.to == To::RESIDUAL && inside) added[i] = __ldcg(m.x + token(i) * w.n + n);
            if (w.bias && inside) added[i] = to<float>(w.bias[n]);
        }
    }
    // Adds the shares of the warps, and stores results.
    __device__ void store(const Product<C>& w, const Memory<typename C::T>& m, int unit,
                          const float* shares) {
        using T = typename C::T;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int n = w.result(unit, row(i)), t = min(token(i), C::TOKENS - 1);
            float sum = 0;
#pragma unroll
            for (int plane = 0; plane < C::PLANES; ++plane) {
                float of_plane = 0;
#pragma unroll
                for (int warp = 0; warp < WARPS; ++warp)
                    of_plane += shares[(warp * C::COLUMNS + t * C::PLANES + plane) * ROWS + row(i)];
                sum = sum * 256 + of_plane;
            }
            sum = sum * scale * factor[i] + added[i];
            float other = shuffle_down(sum, ROWS / 2);
            if (n >= w.n || token(i) >= C::TOKENS) continue;
            long long at = static_cast<long long>(t) * w.n + n;
            if (w.to == To::HEADS) m.heads[at] = sum;
            else if (w.to == To::RESIDUAL) m.x[at] = sum;
            else if (w.to == To::LOGITS) m.logits[at] = to<T>(sum);
            else if (row(i) < ROWS / 2) m.hidden[at] = to<T>(sum / (1 + __expf(-sum)) * other);
        }
    }
};

// Multiplies the rows of a block by the tokens in shared memory, and stores results.
template <class C>
__device__ void multiply(const Product<C>& w, const Shared<C>& shared,
                         const Memory<typename C::T>& m, Turns<C>& turns) {
    constexpr int SHARE = ROWS * C::COLUMNS;
    int warp = warp_index();
#pragma unroll 1
    for (int unit = blockIdx.x, made = 0; unit < w.units(); unit += gridDim.x, ++made) {
        bool finishes = warp == made % WARPS;
        Finish<C> finish;
        if (finishes) finish.prepare(w, shared, m, unit);
        const Vector<unsigned, 4>* inputs = shared.inputs();
        const int* sums = shared.sums();
        typename Select<C::INTEGER, IntegerProducts<C>, Products<C>>::Type products(shared.p.bits);
#pragma unroll 1
        for (int at = 0; at < w.row; at += PIECE, turns.ring.next()) {
            const unsigned char* piece = shared.stage(turns.ring);
            shared.stages->wait_full(turns.ring);
            if (C::BY_ROW && at == 0)
                finish.scale = reinterpret_cast<const float*>(piece + STAGED)[Finish<C>::row(0)];
            products.add(piece, inputs, sums);
            shared.release(turns.ring);
            inputs += C::DEEP / C::CHUNK * C::VECTORS * 4 * C::COLUMNS;
            sums += C::DEEP / C::CHUNK * C::COLUMNS;
        }
        float* shares = shared.shares(turns.shares);
        shared.shared_sums->wait_empty(turns.shares);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (c_column(i) < C::COLUMNS)
                shares[warp * SHARE + c_column(i) * ROWS + c_row(i)] = products.total(i);
        __syncwarp();
        if (lane_index() == 0) shared.shared_sums->full[turns.shares.stage].arrive();
        if (finishes) {
            shared.shared_sums->wait_full(turns.shares);
            finish.store(w, m, unit, shares);
            __syncwarp();
            if (lane_index() == 0) shared.shared_sums->empty[turns.shares.stage].arrive();
        }
        turns.shares.next();
    }
}
