// silu(gate) * up and its gradients, of rows that may have gaps between them.
#include <weft/early_launch.cuh>
#include "gated.cuh"

STRUCT_GATEDROWS  // see structs.py

// The place of a vector: its row, and its first element there.
    struct Place {
    long long row;
    int column;

    template <int V>
    __device__ static Place of(long long vector, const GatedRows& r) {
        int each = r.n / V;
        if (r.count * each < 1ll << 31) {
            unsigned row = unsigned(vector) / unsigned(each);
            return {row, int(unsigned(vector) - row * each) * V};
        }
        return {vector / each, int(vector % each) * V};
    }
};

// EACH: vectors of a thread, whose loads are under way together.
template <class T, int V, int EACH>
__global__ void __launch_bounds__(256)
    forward(const T* gate, const T* up, T* y, const GatedRows r) {
    take_turn();
    long long all = r.count * (r.n / V), first = blockIdx.x * (256ll * EACH) + threadIdx.x;
    Vector<T, V> g[EACH], u[EACH];
    Place at[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (first + i * 256 >= all) continue;
        at[i] = Place::of<V>(first + i * 256, r);
        g[i] = load<V>(gate + at[i].row * r.gate + at[i].column);
        u[i] = load<V>(up + at[i].row * r.up + at[i].column);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (first + i * 256 >= all) continue;
        store(y + at[i].row * r.n + at[i].column, gated(g[i], u[i]));
    }
}

// With s = logistic(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s. Rows of both are
// `result` apart.
template <class T, int V, int EACH>
__global__ void __launch_bounds__(256)
    backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, const GatedRows r) {
    take_turn();
    long long all = r.count * (r.n / V), first = blockIdx.x * (256ll * EACH) + threadIdx.x;
    Vector<T, V> d[EACH], g[EACH], u[EACH];
    Place at[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (first + i * 256 >= all) continue;
        at[i] = Place::of<V>(first + i * 256, r);
        d[i] = load<V>(dy + at[i].row * r.dy + at[i].column);
        g[i] = load<V>(gate + at[i].row * r.gate + at[i].column);
        u[i] = load<V>(up + at[i].row * r.up + at[i].column);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (first + i * 256 >= all) continue;
        Vector<float, V> e = to_floats(d[i]), a = to_floats(g[i]), b = to_floats(u[i]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float s = logistic<T>(a[j]), part = e[j] * s;
            e[j] = part * b[j] * (1 + a[j] * (1 - s));
            b[j] = part * a[j];
        }
        long long to = at[i].row * r.result + at[i].column;
        store(dgate + to, from_floats<T>(e)), store(dup + to, from_floats<T>(b));
    }
}
