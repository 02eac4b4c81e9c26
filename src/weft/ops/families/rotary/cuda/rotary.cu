// Rotary embeddings: pairs of elements of a head are turned by an angle of their position.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

STRUCT_ROTATION  // see structs.py

// A thread has 2 V elements of a head. Of those that are turned, pairs are `rotated` / 2 apart
    // or, if INTERLEAVED, neighbours; others are copied. Neighbouring threads have neighbouring
    // elements, then heads, then positions, so that a packed tensor is read in its order.
    template <class T, class A, int V, bool INTERLEAVED>
    __global__ void __launch_bounds__(256)
        rotate(const T* from0, const T* from1, const T* from2, T* to0, T* to1, T* to2,
               const A* cosines, const A* sines, const Rotation r) {
    take_turn();
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= r.total) return;
    int units = r.size / (2 * V), unit = int(i % units);
    long long row = i / units;
    int head = int(row % r.all_heads);
    long long place = row / r.all_heads;
    int position = int(place % r.positions);
    long long batch = place / r.positions;
    int part = head < r.heads[0] ? 0 : head < r.heads[0] + r.heads[1] ? 1 : 2;
    head -= part == 0 ? 0 : part == 1 ? r.heads[0] : r.heads[0] + r.heads[1];
    const T* from = part == 0 ? from0 : part == 1 ? from1 : from2;
    T* to_row = part == 0 ? to0 : part == 1 ? to1 : to2;
    from +=
        batch * r.from_batch[part] + head * r.from_head[part] + position * r.from_position[part];
    to_row += batch * r.to_batch[part] + head * r.to_head[part] + position * r.to_position[part];
    int rotated = r.rotated[part];
    bool turns = unit * 2 * V < rotated;
    // The first elements of both vectors, and that of their angles.
    int low = unit * 2 * V, high = low + V, angle = unit * V;
    if (turns && !INTERLEAVED) low = unit * V, high = low + rotated / 2;
    Vector<T, V> a = load<V>(from + low), b = load<V>(from + high);
    if (turns) {
        long long at = batch * r.angle_batch + position * r.angle_position + angle;
        Vector<float, V> c = to_floats(load<V>(cosines + at)), s = to_floats(load<V>(sines + at));
        Vector<float, V> x = to_floats(a), y = to_floats(b);
        // The elements of pair j; neighbours are in one vector, unless it has one element.
        constexpr bool WITHIN = INTERLEAVED && V > 1;
        auto left = [&](int j) -> float& {
            return !WITHIN ? x[j] : j < V / 2 ? x[2 * j % V] : y[2 * j % V];
        };
        auto right = [&](int j) -> float& {
            return !WITHIN ? y[j] : j < V / 2 ? x[(2 * j + 1) % V] : y[(2 * j + 1) % V];
        };
#pragma unroll
        for (int j = 0; j < V; j++) {
            float u = left(j), v = right(j), sine = s[j] * r.sign;
            left(j) = u * c[j] - v * sine, right(j) = v * c[j] + u * sine;
        }
        a = from_floats<T>(x), b = from_floats<T>(y);
    }
    store(to_row + low, a), store(to_row + high, b);
}
