// A piece of a tensor: every element by a rule.
#pragma once
#include <weft/convert.cuh>

using namespace weft;

// Where the elements are: parameters and gradients (P), the states (S), and with MASTER the
// parameters in single precision, of which P has the rounded values.
template <class P, class S, int STATES, bool MASTER>
struct Streams {
    P* p;
    const P* g;
    S* state[STATES > 0 ? STATES : 1];
    float* master;

    // Whether all addresses are multiples of 16 bytes.
    __device__ bool whole() const {
        size_t bits = reinterpret_cast<size_t>(p) | reinterpret_cast<size_t>(g);
        for (int s = 0; s < STATES; s++) bits |= reinterpret_cast<size_t>(state[s]);
        if (MASTER) bits |= reinterpret_cast<size_t>(master);
        return bits % 16 == 0;
    }
};

template <class P, class S, int STATES, bool MASTER, int V>
struct Elements {
    Vector<P, V> p, g;
    Vector<S, V> state[STATES > 0 ? STATES : 1];
    Vector<float, MASTER ? V : 1> master;
    using From = Streams<P, S, STATES, MASTER>;

    __device__ void read(const From& from, long long i) {
        p = load<V>(from.p + i), g = load<V>(from.g + i);
        for (int s = 0; s < STATES; s++) state[s] = load<V>(from.state[s] + i);
        if constexpr (MASTER) master = load<V>(from.master + i);
    }
    __device__ void write(const From& to, long long i) const {
        store(to.p + i, p);
        for (int s = 0; s < STATES; s++) store(to.state[s] + i, state[s]);
        if constexpr (MASTER) store(to.master + i, master);
    }
    template <class Rule>
    __device__ void change(const Rule& rule, float factor) {
#pragma unroll
        for (int k = 0; k < V; k++) {
            float value, states[STATES > 0 ? STATES : 1];
            if constexpr (MASTER) value = master[k];
            else value = to<float>(p[k]);
            for (int s = 0; s < STATES; s++) states[s] = to<float>(state[s][k]);
            rule(value, factor * to<float>(g[k]), states);
            for (int s = 0; s < STATES; s++) state[s][k] = to<S>(states[s]);
            if constexpr (MASTER) master[k] = value;
            p[k] = to<P>(value);
        }
    }
};

// Changes `count` elements by a block of THREADS threads; V are loaded at once, U times before the
// first use. `factor` multiplies every gradient. `from` and `to` may be the same.
template <int V, int U, int THREADS, class Rule, class P, class S, int STATES, bool MASTER>
__device__ void update(const Streams<P, S, STATES, MASTER>& from,
                       const Streams<P, S, STATES, MASTER>& to, long long count, const Rule& rule,
                       float factor) {
    long long done = 0;
    if (from.whole() && to.whole()) {
        done = count / V * V;
        for (long long i = threadIdx.x * V; i < done; i += U * THREADS * V) {
            Elements<P, S, STATES, MASTER, V> e[U];
#pragma unroll
            for (int u = 0; u < U; u++)
                if (i + u * THREADS * V < done) e[u].read(from, i + u * THREADS * V);
#pragma unroll
            for (int u = 0; u < U; u++)
                if (i + u * THREADS * V < done) {
                    e[u].change(rule, factor);
                    e[u].write(to, i + u * THREADS * V);
                }
        }
    }
    for (long long i = done + threadIdx.x; i < count; i += THREADS) {
        Elements<P, S, STATES, MASTER, 1> e;
        e.read(from, i);
        e.change(rule, factor);
        e.write(to, i);
    }
}
