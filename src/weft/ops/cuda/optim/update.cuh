// One chunk of one tensor: every element by a rule.
#pragma once
#include "table.cuh"
#include "vector.cuh"

// The lists of a table: parameters and gradients (P), the states (S), then with MASTER the parameters in single
// precision, of which P has the rounded values. V elements are loaded at once, U times before the first use.
template <class P, class S, int STATES, bool MASTER>
struct Streams {
    P* p;
    const P* g;
    S* state[STATES > 0 ? STATES : 1];
    float* master;

    __device__ Streams(const Table& table, const Chunk& chunk) {
        p = table.at<P>(0, chunk.tensor) + chunk.begin;
        g = table.at<P>(1, chunk.tensor) + chunk.begin;
        for (int s = 0; s < STATES; s++) state[s] = table.at<S>(2 + s, chunk.tensor) + chunk.begin;
        if (MASTER) master = table.at<float>(2 + STATES, chunk.tensor) + chunk.begin;
    }
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

// `factor` multiplies every gradient.
template <class P, class S, bool MASTER, int V, int U, int THREADS, class Rule>
__device__ void update(const Table& table, const Chunk& chunk, const Rule& rule, float factor) {
    constexpr int STATES = Rule::STATES;
    Streams<P, S, STATES, MASTER> at(table, chunk);
    long long done = 0;
    if (at.whole()) {
        done = chunk.count / V * V;
        for (long long i = threadIdx.x * V; i < done; i += U * THREADS * V) {
            Elements<P, S, STATES, MASTER, V> e[U];
#pragma unroll
            for (int u = 0; u < U; u++)
                if (i + u * THREADS * V < done) e[u].read(at, i + u * THREADS * V);
#pragma unroll
            for (int u = 0; u < U; u++)
                if (i + u * THREADS * V < done) {
                    e[u].change(rule, factor);
                    e[u].write(at, i + u * THREADS * V);
                }
        }
    }
    for (long long i = done + threadIdx.x; i < chunk.count; i += THREADS) {
        Elements<P, S, STATES, MASTER, 1> e;
        e.read(at, i);
        e.change(rule, factor);
        e.write(at, i);
    }
}
