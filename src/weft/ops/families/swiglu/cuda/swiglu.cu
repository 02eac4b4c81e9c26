// activation(gate) * up and its gradients, of rows that may have gaps between them.
#include <weft/early_launch.cuh>
#include "../../activation/cuda/activations.cuh"
#include "gated.cuh"

STRUCT_GATEDROWS;  // see structs.py

struct Gelu {
    template <class T>
    __device__ static float value(float x) {
        return gelu<T>(x);
    }
    template <class T>
    __device__ static Activated with_slope(float x) {
        auto n = normal<T>(x);
        return {x * n.below, n.below + x * n.density};
    }
};
struct GeluTanh {
    template <class T>
    __device__ static float value(float x) {
        return gelu_tanh<T>(x);
    }
    template <class T>
    __device__ static Activated with_slope(float x) {
        return {gelu_tanh<T>(x), gelu_tanh_slope<T>(x)};
    }
};

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
template <class Activation, class T, int V, int EACH>
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
        store(y + at[i].row * r.n + at[i].column, gated<Activation>(g[i], u[i]));
    }
}

// dgate = dy up slope(gate), dup = dy activation(gate). Rows of both are `result` apart.
template <class Activation, class T, int V, int EACH>
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
            Activated gate = Activation::template with_slope<T>(a[j]);
            float d = e[j];
            e[j] = d * b[j] * gate.slope;
            b[j] = d * gate.value;
        }
        long long to = at[i].row * r.result + at[i].column;
        store(dgate + to, from_floats<T>(e)), store(dup + to, from_floats<T>(b));
    }
}
