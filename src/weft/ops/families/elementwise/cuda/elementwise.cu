// One expression of up to three operands, for each element. EXPRESSION is defined when this is
// compiled: C++ over a, b and c of the type C in which the arithmetic is done, and numbers s and t.
//
// The output is dense, so an element's number is its place in the output. The kernels differ in how
// they find the element's place in the operands.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/problem.cuh>

#include "../../activation/cuda/activations.cuh"
#include "../../../core/cuda/functions.cuh"
#include "../../loss/cuda/values.cuh"

using namespace weft;

// An element that is only copied, of any dtype.
template <int BYTES>
struct Bits;
template <> struct Bits<1> {
    unsigned char bits;
};
template <> struct Bits<2> {
    unsigned short bits;
};
template <> struct Bits<4> {
    unsigned bits;
};
template <> struct Bits<8> {
    unsigned long long bits;
};

// Access modes of the operands of V neighbouring elements.
enum Mode {
    LINEAR,  // one vector; the operand has the output's order
    ROW,  // one vector; V neighbours are in one row, and rows begin at a multiple of V
    SAME,  // one element; V neighbours are in one row, and rows repeat one element
    EACH,  // element by element
    TRANSPOSED,  // through shared memory (transposed() only)
    SHIFTED  // a vector of the output's order that begins anywhere, from the two around it
};

// All operands have the output's order of elements; an operand with stride 0 is one element. A
// thread computes V neighbours at a time, U times; all loads are issued before the first result is
// stored.
template <class O, class C, class TA, class TB, class TC, int V, int U>
__global__ void __launch_bounds__(256) flat(const TA* pa, const TB* pb, const TC* pc, O* out, C s,
                                            C t, long long n, int sa, int sb, int sc) {
    take_turn();
    long long start = (blockIdx.x * (256ll * U) + threadIdx.x) * V;
    Vector<TA, V> va[U];
    Vector<TB, V> vb[U];
    Vector<TC, V> vc[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        long long i = start + u * (256 * V);
        if (i + V > n) break;
        va[u] = sa ? load<V>(pa + i) : fill<V>(*pa);
        vb[u] = sb ? load<V>(pb + i) : fill<V>(*pb);
        vc[u] = sc ? load<V>(pc + i) : fill<V>(*pc);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        long long i = start + u * (256 * V);
        if (i + V <= n) {
            Vector<O, V> result;
#pragma unroll
            for (int k = 0; k < V; k++) {
                C a = to<C>(va[u][k]), b = to<C>(vb[u][k]), c = to<C>(vc[u][k]);
                result[k] = to<O>(EXPRESSION);
            }
            store_whole(out + i, result);
        } else {
            for (; i < n; i++) {
                C a = to<C>(pa[i * sa]), b = to<C>(pb[i * sb]), c = to<C>(pc[i * sc]);
                out[i] = to<O>(EXPRESSION);
            }
            return;
        }
    }
}

// The dimensions, innermost first.
template <class I, int RANK>
struct Walk {
    I size[RANK], magic[RANK], shift[RANK], a[RANK], b[RANK], c[RANK];
};

// The coordinates of an element, and its places in the operands: x[0]. x[d] counts dimensions from
// d on.
template <class I, int RANK>
struct Place {
    I at[RANK], a[RANK], b[RANK], c[RANK];

    __device__ Place(I i, const Walk<I, RANK>& walk) {
#pragma unroll
        for (int d = 0; d < RANK; d++) {
            I rest = d + 1 < RANK ? quotient(i, walk.magic[d], walk.shift[d]) : I(0);
            at[d] = d + 1 < RANK ? i - rest * walk.size[d] : i;
            // Keeps the compiler from computing with strides less sizes times strides: they are
            // negative, and a sanitizer takes their products for indices that wrap.
            opaque(at[d]);
            i = rest;
        }
#pragma unroll
        for (int d = RANK - 1; d >= 0; d--) {
            a[d] = at[d] * walk.a[d] + (d + 1 < RANK ? a[d + 1] : I(0));
            b[d] = at[d] * walk.b[d] + (d + 1 < RANK ? b[d + 1] : I(0));
            c[d] = at[d] * walk.c[d] + (d + 1 < RANK ? c[d + 1] : I(0));
        }
    }
    // The next element: a step along the innermost dimension, or one along the next where it ends.
    template <int d = 0>
    __device__ void next(const Walk<I, RANK>& walk) {
        at[d] += 1, a[d] += walk.a[d], b[d] += walk.b[d], c[d] += walk.c[d];
        if constexpr (d + 1 < RANK)
            if (at[d] == walk.size[d]) {
                next<d + 1>(walk);
                at[d] = 0, a[d] = a[d + 1], b[d] = b[d + 1], c[d] = c[d + 1];
            }
    }
};

// Elements i to i + V - 1 of the n at p, which is no multiple of their size: the two vectors around
// them, shifted. Where one of these begins before p or ends behind the last element, they are read
// one by one.
template <int V, class T, class I>
__device__ Vector<T, V> shifted(const T* p, I i, I n) {
    constexpr int BYTES = V * sizeof(T), WORDS = BYTES / 4;
    static_assert(BYTES >= 4, "whole words");
    Vector<T, V> v;
    if (i < V || n - i < 2 * V) {
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = p[i + k];
        return v;
    }
    unsigned apart = unsigned(reinterpret_cast<size_t>(p) % BYTES), words = apart / 4,
             bits = apart % 4 * 8;
    const T* first = p + i - apart / sizeof(T);
    Vector<T, V> around[2] = {load<V>(first), load<V>(first + V)};
    unsigned w[2 * WORDS];
    memcpy(w, around, sizeof(w));
#pragma unroll
    for (int step = WORDS / 2; step > 0; step /= 2)
#pragma unroll
        for (int k = 0; k + step < 2 * WORDS; k++)
            if (words & step) w[k] = w[k + step];
    unsigned made[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; k++) made[k] = __funnelshift_r(w[k], w[k + 1], bits);
    memcpy(&v, made, sizeof(v));
    return v;
}

// Neighbouring elements of one operand, unless they are read one by one.
template <int MODE, int V, class T, class I>
__device__ void fetch(Vector<T, V>& to, const T* p, I i, I place, I n) {
    if constexpr (MODE == LINEAR) to = load<V>(p + i);
    if constexpr (MODE == SHIFTED) to = shifted<V>(p, i, n);
    if constexpr (MODE == ROW) to = load<V>(p + place);
    if constexpr (MODE == SAME) to = fill<V>(p[place]);
}

// Operands of any strides. A thread computes V neighbours at a time, U times; all loads are issued
// before the first result is stored.
template <class O, class C, class TA, class TB, class TC, class I, int RANK, int V, int U, int MA,
          int MB, int MC>
__global__ void __launch_bounds__(256)
    strided(const TA* __restrict__ pa, const TB* __restrict__ pb, const TC* __restrict__ pc,
            O* __restrict__ out, C s, C t, I n, const Walk<I, RANK> walk) {
    take_turn();
    Vector<TA, V> va[U];
    Vector<TB, V> vb[U];
    Vector<TC, V> vc[U];
    I start = (I(blockIdx.x) * (256 * U) + threadIdx.x) * V;
#pragma unroll
    for (int u = 0; u < U; u++) {
        I i = start + u * (256 * V);
        if (i >= n || n - i < V) break;
        Place<I, RANK> place(i, walk);
        fetch<MA, V>(va[u], pa, i, place.a[0], n);
        fetch<MB, V>(vb[u], pb, i, place.b[0], n);
        fetch<MC, V>(vc[u], pc, i, place.c[0], n);
#pragma unroll
        for (int k = 0; k < V; k++) {
            if constexpr (MA == EACH) va[u][k] = pa[place.a[0]];
            if constexpr (MB == EACH) vb[u][k] = pb[place.b[0]];
            if constexpr (MC == EACH) vc[u][k] = pc[place.c[0]];
            if (k + 1 < V && (MA == EACH || MB == EACH || MC == EACH)) place.next(walk);
        }
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        I i = start + u * (256 * V);
        if (i >= n) return;
        if (n - i < V) {  // the last elements
            for (; i < n; i++) {
                Place<I, RANK> place(i, walk);
                C a = to<C>(pa[place.a[0]]), b = to<C>(pb[place.b[0]]), c = to<C>(pc[place.c[0]]);
                out[i] = to<O>(EXPRESSION);
            }
            return;
        }
        Vector<O, V> result;
#pragma unroll
        for (int k = 0; k < V; k++) {
            C a = to<C>(va[u][k]), b = to<C>(vb[u][k]), c = to<C>(vc[u][k]);
            result[k] = to<O>(EXPRESSION);
        }
        store_whole(out + i, result);
    }
}

// ---- operands with another innermost dimension than the output ----------------------------------
// The output's innermost dimension is q; a transposed operand's is p. A block computes a tile of P
// x Q: it reads rows along p into shared memory and writes rows along q, whose size is a multiple
// of VQ. Other dimensions are the batch.
template <int BATCH>
struct TransposeShape {
    long long p, q, tiles_p, tiles_q;  // sizes, and numbers of tiles
    long long out_p, a_p, b_p, c_p, a_q, b_q, c_q;  // strides
    long long size[BATCH], out[BATCH], a[BATCH], b[BATCH], c[BATCH];
};

// A tile of shared memory as rows of q. Rows are an odd number of words apart, and 32 rows four
// words more, so that neither rows nor columns meet a bank twice.
template <class T, int P, int Q>
struct SharedTile {
    static constexpr int PITCH = P + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
    static constexpr int SKEW = sizeof(T) < 8 ? 16 / sizeof(T) : 0;
    static constexpr int SIZE = Q * PITCH + (Q - 1) / 32 * SKEW;
    static __device__ int at(int q, int p) { return q * PITCH + q / 32 * SKEW + p; }
};

// The places of a block's threads in a tile of LENGTH x ROWS, in vectors of V x SIZE bytes: a warp
// takes 128 bytes of a row and as many rows as it has lanes for.
template <int LENGTH, int ROWS, int V, int SIZE, int THREADS>
struct ThreadMap {
    static constexpr int FIT = LENGTH / V, MOST = V * SIZE < 4 ? 32 : 128 / (V * SIZE);
    static constexpr int LANES = FIT < MOST ? FIT : MOST, DOWN = 32 / LANES;
    static constexpr int PIECES = FIT / LANES, STEPS = LENGTH * ROWS / (V * THREADS),
                         WARPS = THREADS / 32;
    // Steps that a warp takes along a row, and rows that all warps take in a step.
    static constexpr int TURNS = PIECES > WARPS ? PIECES / WARPS : 1;
    static constexpr int BESIDE = PIECES < WARPS ? WARPS / PIECES * DOWN : DOWN;
    static_assert(LENGTH * ROWS % (V * THREADS) == 0 && FIT % LANES == 0 && ROWS % DOWN == 0,
                  "whole steps");
    int first_along, first_row;
    __device__ ThreadMap() {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        first_along = (warp % PIECES * LANES + lane % LANES) * V,
        first_row = warp / PIECES * DOWN + lane / LANES;
    }
    // The added offset is known to the compiler.
    __device__ int along(int step) const {
        return first_along + step % TURNS * (WARPS * LANES * V);
    }
    __device__ int row(int step) const { return first_row + step / TURNS * BESIDE; }
};

// Up to V elements at p, `left` of which there are.
template <int V, class T>
__device__ Vector<T, V> some(const T* p, int left) {
    Vector<T, V> v;
    if (left >= V) return load<V>(p);
#pragma unroll
    for (int k = 0; k < V; k++)
        if (k < left) v[k] = p[k];
    return v;
}

// A transposed operand, from memory to registers and on to shared memory.
template <int MODE, int P, int Q, int V, int THREADS, class T>
struct TransposedOperand {
    using In = ThreadMap<P, Q, V, sizeof(T), THREADS>;
    Vector<T, V> regs[MODE == TRANSPOSED ? In::STEPS : 1];

    __device__ void read(const T* from, long long stride, int left_p, int left_q) {
        In in;
        if constexpr (MODE == TRANSPOSED) {
            from += in.first_row * stride;
#pragma unroll
            for (int i = 0; i < In::STEPS; i++) {
                int along = in.along(i);
                if (in.row(i) < left_q && along < left_p)
                    regs[i] = some<V>(from + (i / In::TURNS * In::BESIDE) * stride + along,
                                      left_p - along);
            }
        }
    }
    __device__ void stage(T* tile) const {
        In in;
        if constexpr (MODE == TRANSPOSED)
#pragma unroll
            for (int i = 0; i < In::STEPS; i++) {
                T* to = tile + SharedTile<T, P, Q>::at(in.row(i), in.along(i));
                if constexpr (sizeof(T) < 4 &&
                              V * sizeof(T) >= 4) {  // word by word: rows begin at whole words
#pragma unroll
                    for (int k = 0; k < V * int(sizeof(T)) / 4; k++)
                        reinterpret_cast<unsigned*>(to)[k] =
                            reinterpret_cast<const unsigned*>(&regs[i])[k];
                } else {
#pragma unroll
                    for (int k = 0; k < V; k++) to[k] = regs[i][k];
                }
            }
    }
};

// V neighbours along q of an operand.
template <int MODE, int P, int Q, int V, class T>
__device__ Vector<T, V> along_q(const T* from, const T* tile, int p, int q, long long sp,
                                long long sq) {
    if constexpr (MODE == ROW) {
        return load<V>(from + p * sp + q);
    } else if constexpr (MODE == SAME) {
        return fill<V>(from[p * sp]);
    } else {
        Vector<T, V> v;
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = MODE == TRANSPOSED ? tile[SharedTile<T, P, Q>::at(q + k, p)]
                                      : from[p * sp + (q + k) * sq];
        return v;
    }
}

template <class O, class C, class TA, class TB, class TC, int BATCH, int P, int Q, int VP, int VQ,
          int THREADS, int MA, int MB, int MC>
__global__ void __launch_bounds__(THREADS)
    transposed(const TA* __restrict__ pa, const TB* __restrict__ pb, const TC* __restrict__ pc,
               O* __restrict__ out, C s, C t, const TransposeShape<BATCH> turn) {
    take_turn();
    __shared__ alignas(16) TA tile_a[MA == TRANSPOSED ? SharedTile<TA, P, Q>::SIZE : 1];
    __shared__ alignas(16) TB tile_b[MB == TRANSPOSED ? SharedTile<TB, P, Q>::SIZE : 1];
    __shared__ alignas(16) TC tile_c[MC == TRANSPOSED ? SharedTile<TC, P, Q>::SIZE : 1];
    unsigned block = blockIdx.x, tiles_q = unsigned(turn.tiles_q), tiles_p = unsigned(turn.tiles_p);
    long long q0 = (long long)(block % tiles_q) * Q,
              p0 = (long long)(block / tiles_q % tiles_p) * P;
    unsigned rest = block / tiles_q / tiles_p;
    out += p0 * turn.out_p + q0;
    pa += p0 * turn.a_p + q0 * turn.a_q, pb += p0 * turn.b_p + q0 * turn.b_q,
        pc += p0 * turn.c_p + q0 * turn.c_q;
#pragma unroll
    for (int d = 0; d < BATCH; d++) {
        unsigned size = unsigned(turn.size[d]), k = rest % size;
        rest /= size;
        out += k * turn.out[d], pa += k * turn.a[d], pb += k * turn.b[d], pc += k * turn.c[d];
    }
    int left_p = int(min(turn.p - p0, (long long)P)), left_q = int(min(turn.q - q0, (long long)Q));
    TransposedOperand<MA, P, Q, VP, THREADS, TA> a_in;
    TransposedOperand<MB, P, Q, VP, THREADS, TB> b_in;
    TransposedOperand<MC, P, Q, VP, THREADS, TC> c_in;
    a_in.read(pa, turn.a_q, left_p, left_q);
    b_in.read(pb, turn.b_q, left_p, left_q);
    c_in.read(pc, turn.c_q, left_p, left_q);
    a_in.stage(tile_a);
    b_in.stage(tile_b);
    c_in.stage(tile_c);
    __syncthreads();
    using Out = ThreadMap<Q, P, VQ, sizeof(O), THREADS>;
    Out at;
#pragma unroll
    for (int i = 0; i < Out::STEPS; i++) {
        int p = at.row(i), q = at.along(i);
        if (p >= left_p || q >= left_q) continue;
        auto va = along_q<MA, P, Q, VQ>(pa, tile_a, p, q, turn.a_p, turn.a_q);
        auto vb = along_q<MB, P, Q, VQ>(pb, tile_b, p, q, turn.b_p, turn.b_q);
        auto vc = along_q<MC, P, Q, VQ>(pc, tile_c, p, q, turn.c_p, turn.c_q);
        Vector<O, VQ> result;
#pragma unroll
        for (int k = 0; k < VQ; k++) {
            C a = to<C>(va[k]), b = to<C>(vb[k]), c = to<C>(vc[k]);
            result[k] = to<O>(EXPRESSION);
        }
        store_whole(out + p * turn.out_p + q, result);
    }
}
