// Products of the tokens by the rows of a weight, which pass through the ring.
//
// A block has units of 16 rows. Its warps share the K of each piece, and tensor cores multiply: the
// weights are A, the tokens are columns of B. A lane reads 16 bytes of two rows in each chunk; the
// order of K within a chunk is that of the lanes, for weights and tokens alike.
#pragma once
#include "problem.cuh"

enum class To { HEADS, RESIDUAL, HIDDEN, LOGITS };

// The product number `index` of a step: four for each layer, then the head.
template <class C>
struct Product {
    To to;
    const unsigned char* weight;
    const float* scales;
    const typename C::T* bias = nullptr;
    int n, k, row;  // results of a token, weights and bytes of a row

    __device__ Product(const Shared<C>& shared, int index) {
        const DecodeStep& p = shared.p;
        int layer = index / 4, part = layer < p.layers ? index % 4 : 4;
        int inner = p.heads * C::SIZE;
        int word = part == 0 ? QKV : part == 1 ? OUT : part == 2 ? UP : part == 3 ? DOWN : QKV;
        to = part == 0 ? To::HEADS : part == 2 ? To::HIDDEN : part == 4 ? To::LOGITS : To::RESIDUAL;
        n = part == 0   ? inner + 2 * p.kv_heads * C::SIZE
            : part == 2 ? p.hidden
            : part == 4 ? p.vocabulary
                        : p.width;
        k = part == 1 ? inner : part == 3 ? p.hidden : p.width;
        row = k * C::BITS / 8;
        weight = shared.template at<const unsigned char>(layer, word);
        scales = shared.template at<const float>(layer, word + 1);
        if (part == 0) bias = shared.template at<const typename C::T>(layer, QKV_BIAS);
    }
    // Rows of gates and of what they multiply alternate in units: eight of each.
    __device__ int each() const { return to == To::HIDDEN ? ROWS / 2 : ROWS; }
    __device__ int units() const { return ceil_div(n, each()); }
    // The result that row r of a unit is for, and its row of the weight; rows behind the last one
    // are that again.
    __device__ int result(int unit, int r) const { return unit * each() + r % each(); }
    __device__ int weight_row(int unit, int r) const {
        return min(result(unit, r), n - 1) + (r >= each() ? n : 0);
    }
};

// Copies the rows of a block to the ring; the lanes of a warp call it.
template <class C>
__device__ void copy_weights(const Product<C>& w, const Shared<C>& shared, Turn<C::STAGES>& turn) {
    int r = lane_index() % ROWS;
    for (int unit = blockIdx.x; unit < w.units(); unit += gridDim.x) {
        long long row = w.weight_row(unit, r);
        const unsigned char* from = w.weight + row * w.row;
        const float* scales = C::GROUPED ? w.scales + row * (w.k / SCALED) : nullptr;
#pragma unroll 1
        for (int at = 0; at < w.row; at += PIECE, turn.next()) {
            int bytes = min(PIECE, w.row - at), groups = bytes * 8 / C::BITS / SCALED * 4;
            unsigned to = shared_address(shared.stage(turn));
            Barrier& full = shared.stages->full[turn.stage];
            shared.stages->wait_empty(turn);
            if (lane_index() == 0)
                full.arrive_expecting(ROWS * (bytes + (C::GROUPED ? groups : 0)));
            __syncwarp();
            if (lane_index() < ROWS) load_bytes(to + r * PITCH, from + at, full, bytes);
            else if (C::GROUPED)
                load_bytes(to + ROWS * PITCH + r * 64, scales + at * 8 / C::BITS / SCALED, full,
                           groups);
        }
    }
}

// ---- multiplication ----------------------------------------------------------------------------
// Adds the products of a chunk: its 16 rows from `rows` on, the tokens from `inputs` on.
template <class C>
__device__ void add_chunk(float (&total)[4], const unsigned char* rows, const float* scales,
                          const Vector<unsigned, 4>* inputs, const float* sums, unsigned bits) {
    using T = typename C::T;
    int lane = lane_index();
    const unsigned char* mine = rows + lane / 4 * PITCH + lane % 4 * 16;
    auto low = load<4>(reinterpret_cast<const unsigned*>(mine));
    auto high = load<4>(reinterpret_cast<const unsigned*>(mine + 8 * PITCH));
    float c[2][4] = {};
#pragma unroll
    for (int v = 0; v < C::VECTORS; ++v) {
        auto x = fill<4>(0u);
        if (lane < 4 * C::TOKENS) x = inputs[v * 4 * C::TOKENS + lane];
        unsigned a[2][4];
        if constexpr (C::BITS == 16) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a[0][i] = low[i], a[1][i] = high[i];
        } else if constexpr (C::BITS == 8) {
            const Dequantiser<C::F, T> weights{bits};
            weights.convert(a[0], &low[2 * v]), weights.convert(a[1], &high[2 * v]);
        } else offset_int4(a[0], low[v], bits), offset_int4(a[1], high[v], bits);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            unsigned of[4] = {a[0][i], a[1][i], a[0][i + 1], a[1][i + 1]}, b[2] = {x[i], x[i + 1]};
            mma<T>(c[i / 2], of, b);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float sum = c[0][i] + c[1][i];
        if constexpr (C::OFFSET) sum -= INT4_OFFSET<T> * sums[min(c_column(i), C::TOKENS - 1)];
        if constexpr (C::GROUPED) total[i] += sum * scales[c_row(i) * 16];
        else total[i] += sum;
    }
}

// What a lane needs to finish results of a unit: number `lane` + 32 i is row % 16 of token / 16.
template <class C>
struct Finish {
    static constexpr int EACH = ceil_div(ROWS * C::TOKENS, 32);
    float scale[EACH], added[EACH];

    static __device__ int row(int i) { return (lane_index() + 32 * i) % ROWS; }
    static __device__ int token(int i) { return (lane_index() + 32 * i) / ROWS; }

    // Reads what does not depend on the sums.
    __device__ void prepare(const Product<C>& w, const Memory<typename C::T>& m, int unit) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int n = w.result(unit, row(i));
            bool inside = n < w.n && token(i) < C::TOKENS;
            scale[i] = 1, added[i] = 0;
            if (C::QUANTISED && !C::GROUPED) scale[i] = w.scales[w.weight_row(unit, row(i))];
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
            for (int warp = 0; warp < WARPS; ++warp)
                sum += shares[(warp * C::TOKENS + t) * ROWS + row(i)];
            sum = sum * scale[i] + added[i];
            float other = shuffle_down(sum, ROWS / 2);
            bool inside = n < w.n && token(i) < C::TOKENS;
            if (!inside) continue;
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
                         const Memory<typename C::T>& m, Turn<C::STAGES>& turn) {
    constexpr int SHARE = ROWS * C::TOKENS;
    int lane = lane_index(), warp = warp_index(), made = 0;
#pragma unroll 1
    for (int unit = blockIdx.x; unit < w.units(); unit += gridDim.x, ++made) {
        Finish<C> finish;
        if (warp == made % WARPS) finish.prepare(w, m, unit);
        float total[4] = {};
#pragma unroll 1
        for (int at = 0; at < w.row; at += PIECE, turn.next()) {
            const unsigned char* stage = shared.stage(turn);
            int chunks = min(PIECE, w.row - at) / 64;
            shared.stages->wait_full(turn);
#pragma unroll
            for (int i = 0; i < PIECE / 64 / WARPS; ++i) {
                int chunk = warp + i * WARPS, whole = at / 64 + chunk;
                if (chunk >= chunks) continue;
                auto* scales = reinterpret_cast<const float*>(stage + ROWS * PITCH);
                add_chunk<C>(total, stage + chunk * 64, scales + chunk * C::CHUNK / SCALED,
                             shared.inputs() + whole * C::VECTORS * 4 * C::TOKENS,
                             shared.sums() + whole * C::TOKENS, shared.p.bits);
            }
            __syncwarp();  // all lanes have read their weights
            if (lane == 0) shared.stages->empty[turn.stage].arrive();
        }
        // A warp that is two units ahead has met the one that added up these shares.
        float* shares = shared.shares() + made % 2 * WARPS * SHARE;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (c_column(i) < C::TOKENS)
                shares[warp * SHARE + c_column(i) * ROWS + c_row(i)] = total[i];
        meet_warps();
        if (warp == made % WARPS) finish.store(w, m, unit, shares);
    }
}
