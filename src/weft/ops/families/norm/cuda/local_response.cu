// Local response norm: y = x * d^-beta, d = k + alpha * (the squares of `size` channels around).
// Tensors are [outer, channels, inner]; the window of channel c begins at c - before.
//
//   dx = dy * d^-beta - 2 * alpha * beta * x * (the sum of dy * x * d^(-beta - 1) over all channels
//        whose window has this one: they begin at c + before - size + 1)
#include <weft/convert.cuh>

using namespace weft;

// See local_response_norm.py.
STRUCT_RESPONSE

// A thread's column: V neighbours along `inner`, of one of the strips of EACH channels.
template <int V, int EACH>
struct Column {
    int first;
    long long at;  // of channel 0
    bool there;

    __device__ Column(const Response& p) {
        long long t = blockIdx.x * 256ll + threadIdx.x;
        int columns = p.inner / V, strips = (p.channels + EACH - 1) / EACH;
        long long rest = t / columns, outer = rest / strips;
        first = int(rest - outer * strips) * EACH;
        at = outer * p.channels * p.inner + (t - rest * columns) * V;
        there = outer < p.outer;
    }
};

// N channels from `first` on as floats; zeros where there is none.
template <int V, int N, class T>
__device__ void channels_of(Vector<float, V> (&to)[N], const T* x, long long at, int first,
                            const Response& p) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        int c = first + i;
        to[i] = {};
        if (c < 0 || c >= p.channels) continue;
        Vector<T, V> read = load<V>(x + at + (long long)c * p.inner);
#pragma unroll
        for (int j = 0; j < V; j++) to[i][j] = ::to<float>(read[j]);
    }
}

template <int V, class T>
__device__ void write(T* y, const Vector<float, V>& from) {
    Vector<T, V> made;
#pragma unroll
    for (int j = 0; j < V; j++) made[j] = to<T>(from[j]);
    store(y, made);
}

// ---- windows of SIZE channels: a thread has those of EACH results in registers ----------------
template <class T, int V, int SIZE, int EACH>
__global__ void __launch_bounds__(256) strips(const T* x, T* y, const Response p) {
    Column<V, EACH> column(p);
    if (!column.there) return;
    Vector<float, V> in[EACH + SIZE - 1];
    channels_of(in, x, column.at, column.first - SIZE / 2, p);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (column.first + i >= p.channels) return;
        Vector<float, V> out;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float squares = 0;
#pragma unroll
            for (int s = 0; s < SIZE; s++) squares += in[i + s][j] * in[i + s][j];
            out[j] = in[i + SIZE / 2][j] * powf(p.k + p.alpha * squares, -p.beta);
        }
        write(y + column.at + (long long)(column.first + i) * p.inner, out);
    }
}

template <class T, int V, int SIZE, int EACH>
__global__ void __launch_bounds__(256)
    strips_backward(const T* dy, const T* x, T* dx, const Response p) {
    constexpr int BEFORE = SIZE / 2, AFTER = SIZE - 1 - BEFORE;
    Column<V, EACH> column(p);
    if (!column.there) return;
    Vector<float, V> in[EACH + 2 * (SIZE - 1)], ratio[EACH + SIZE - 1], own[EACH];
    channels_of(in, x, column.at, column.first - AFTER - BEFORE, p);
    channels_of(ratio, dy, column.at, column.first - AFTER, p);
#pragma unroll
    for (int i = 0; i < EACH + SIZE - 1; i++) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            float squares = 0, g = ratio[i][j];
#pragma unroll
            for (int s = 0; s < SIZE; s++) squares += in[i + s][j] * in[i + s][j];
            float d = p.k + p.alpha * squares, power = g == 0 ? 0 : powf(d, -p.beta);
            if (i >= AFTER && i < EACH + AFTER) own[i - AFTER][j] = g * power;
            ratio[i][j] = g == 0 ? 0 : g * in[i + BEFORE][j] * power / d;
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (column.first + i >= p.channels) return;
#pragma unroll
        for (int j = 0; j < V; j++) {
            float sum = 0;
#pragma unroll
            for (int s = 0; s < SIZE; s++) sum += ratio[i + s][j];
            own[i][j] -= 2 * p.alpha * p.beta * in[i + AFTER + BEFORE][j] * sum;
        }
        write(dx + column.at + (long long)(column.first + i) * p.inner, own[i]);
    }
}

// ---- windows of any size: a thread reads that of one result -----------------------------------
// The sum of f over the channels from `first` on that there are.
template <int V, class F>
__device__ Vector<float, V> over(int first, const Response& p, F f) {
    Vector<float, V> sum{};
    for (int c = max(0, first); c < min(p.channels, first + p.size); c++) f(c, sum);
    return sum;
}

template <int V, class T>
__device__ Vector<float, V> divisors(const T* x, int c, const Response& p) {
    Vector<float, V> d = over<V>(c - p.before, p, [&](int other, Vector<float, V>& sum) {
        Vector<T, V> read = load<V>(x + (long long)other * p.inner);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += to<float>(read[j]) * to<float>(read[j]);
    });
#pragma unroll
    for (int j = 0; j < V; j++) d[j] = p.k + p.alpha * d[j];
    return d;
}

template <class T, int V>
__global__ void __launch_bounds__(256) window(const T* x, T* y, const Response p) {
    Column<V, 1> column(p);
    if (!column.there) return;
    long long at = column.at + (long long)column.first * p.inner;
    Vector<float, V> out = divisors<V>(x + column.at, column.first, p);
    Vector<T, V> in = load<V>(x + at);
#pragma unroll
    for (int j = 0; j < V; j++) out[j] = to<float>(in[j]) * powf(out[j], -p.beta);
    write(y + at, out);
}

// What a channel adds to the gradients of its window: dy * x * d^(-beta - 1).
template <class T, int V>
__global__ void __launch_bounds__(256)
    ratios(const T* dy, const T* x, float* ratio, const Response p) {
    Column<V, 1> column(p);
    if (!column.there) return;
    long long at = column.at + (long long)column.first * p.inner;
    Vector<float, V> d = divisors<V>(x + column.at, column.first, p);
    Vector<T, V> in = load<V>(x + at), g = load<V>(dy + at);
#pragma unroll
    for (int j = 0; j < V; j++)
        d[j] = to<float>(g[j]) * to<float>(in[j]) * powf(d[j], -p.beta) / d[j];
    store(ratio + at, d);
}

template <class T, int V>
__global__ void __launch_bounds__(256)
    window_backward(const T* dy, const T* x, const float* ratio, T* dx, const Response p) {
    Column<V, 1> column(p);
    if (!column.there) return;
    long long at = column.at + (long long)column.first * p.inner;
    Vector<float, V> d = divisors<V>(x + column.at, column.first, p);
    int first = column.first + p.before - p.size + 1;
    Vector<float, V> sum = over<V>(first, p, [&](int other, Vector<float, V>& sum) {
        Vector<float, V> read = load<V>(ratio + column.at + (long long)other * p.inner);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += read[j];
    });
    Vector<T, V> in = load<V>(x + at), g = load<V>(dy + at);
#pragma unroll
    for (int j = 0; j < V; j++)
        d[j] = to<float>(g[j]) * powf(d[j], -p.beta) -
               2 * p.alpha * p.beta * to<float>(in[j]) * sum[j];
    write(dx + at, d);
}
