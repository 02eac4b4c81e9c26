// Histograms: how many elements, or what sum of weights, falls into each of `bins` bins.
//
// T is the type of x and C of the arithmetic that finds a bin; W is the type of the weights, A of
// the sums in global memory, S of those in shared memory and O of the result.
#include <weft/block.cuh>
#include <weft/convert.cuh>

#include "../../../core/cuda/operations.cuh"

using namespace weft;

// x as vectors of V that begin at multiples of their size: `visit` is called with the place of each
// vector that this thread takes and its elements, and the number of the first and behind the last
// one that are inside. IN_FLIGHT loads are under way at once; histogram.py defines it.
template <int V, class T, class Visit>
__device__ void each_vector(const T* x, long long n, Visit visit) {
    int lead = int(reinterpret_cast<size_t>(x) / sizeof(T) % V);
    long long chunks = (n + lead + V - 1) / V, step = (long long)gridDim.x * blockDim.x;
    long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    auto inside = [&](long long c) { return c * V >= lead && (c + 1) * V - lead <= n; };
    auto take = [&](long long c) {
        long long at = c * V - lead;
        Vector<T, V> v = {};
        if (inside(c)) {
            v = load<V>(x + at);
        } else {
#pragma unroll
            for (int j = 0; j < V; j++)
                if (at + j >= 0 && at + j < n) v[j] = x[at + j];
        }
        visit(at, v, at < 0 ? int(-at) : 0, at + V > n ? int(n - at) : V);
    };
    for (; chunk < chunks; chunk += IN_FLIGHT * step) {
        if (inside(chunk) && inside(chunk + (IN_FLIGHT - 1) * step)) {
            Vector<T, V> v[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) v[k] = load<V>(x + (chunk + k * step) * V - lead);
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) visit((chunk + k * step) * V - lead, v[k], 0, V);
        } else {
            for (int k = 0; k < IN_FLIGHT && chunk + k * step < chunks; k++) take(chunk + k * step);
        }
    }
}

template <class C> __device__ bool is_finite(C x) { return x - x == 0; }

// The least and the largest finite element.
template <class C>
struct Extent {
    C low = greatest<C>(), high = least<C>();
    __device__ void add(const Extent& other) {
        low = min(low, other.low), high = max(high, other.high);
    }
    __device__ Extent of_block() const {
        return block_reduce<256>(*this, Extent(), [](Extent a, const Extent& b) {
            a.add(b);
            return a;
        });
    }
};

// Where they are equal, one lower and one higher, as in torch. `parts` has room for those of each
// block, `range` gets the result.
template <class T, class C, int V>
__global__ void __launch_bounds__(256)
    extent(const T* x, Extent<C>* parts, Extent<C>* range, int* counter, long long n) {
    Extent<C> own;
    each_vector<V>(x, n, [&](long long, const Vector<T, V>& v, int first, int end) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            C one = to<C>(v[j]);
            if (j >= first && j < end && is_finite(one)) own.add({one, one});
        }
    });
    own = own.of_block();
    if (threadIdx.x == 0) parts[blockIdx.x] = own;
    if (!is_last_block(counter, gridDim.x)) return;
    own = Extent<C>();
    for (int i = threadIdx.x; i < gridDim.x; i += 256) own.add(parts[i]);
    own = own.of_block();
    if (threadIdx.x == 0) {
        if (own.low == own.high) own.low -= 1, own.high += 1;
        *range = own;
    }
}

// The bin of a value; `bins` if in none. Bins of values are those of torch.histc; where VALUES, a
// value is its bin.
template <class C, bool VALUES>
struct Bins {
    C low, high;
    int count;

    __device__ int of(C x) const {
        if (VALUES) return x >= 0 && x < count ? int(x) : count;
        if (!(x >= low && x <= high)) return count;
        return min(int((x - low) * count / (high - low)), count - 1);
    }
};

template <class A, class B> constexpr bool SAME = false;
template <class A> constexpr bool SAME<A, A> = true;

// Every block counts in shared memory, in COPIES copies that the lanes of a warp have for their
// own, and adds its sums to `totals` at the end; COPIES 0: it adds to `totals` directly. The last
// block converts them to y where O is another type, or where `totals` are zeros that launches share
// (SHARED): then it clears them for the next launch.
template <class T, class C, class W, class S, class A, class O, int V, int COPIES, bool VALUES,
          bool WEIGHTED, bool SHARED>
__global__ void __launch_bounds__(512)
    count(const T* x, const W* weights, void* totals, O* y, const C* range, int* counter,
          long long n, C low, C high, int bins) {
    extern __shared__ char memory[];
    S* mine = reinterpret_cast<S*>(memory);  // [bin][copy]
    A* sums = SHARED ? reinterpret_cast<A*>(counter + 1) : static_cast<A*>(totals);
    Bins<C, VALUES> find{range ? range[0] : low, range ? range[1] : high, bins};
    for (int i = threadIdx.x; i < bins * COPIES; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    [[maybe_unused]] int copy = threadIdx.x % (COPIES ? COPIES : 1);
    each_vector<V>(x, n, [&](long long at, const Vector<T, V>& v, int first, int end) {
        [[maybe_unused]] Vector<W, V> w;
        if constexpr (WEIGHTED) {
            bool straight = reinterpret_cast<size_t>(weights + at) % alignof(Vector<W, V>) == 0;
            if (straight && end - first == V) {
                w = load<V>(weights + at);
            } else {
#pragma unroll
                for (int j = 0; j < V; j++)
                    if (j >= first && j < end) w[j] = weights[at + j];
            }
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            int bin = j >= first && j < end ? find.of(to<C>(v[j])) : bins;
            if (bin == bins) continue;
            S one = 1;
            if constexpr (WEIGHTED) one = to<S>(w[j]);
            if constexpr (COPIES > 0) atomicAdd(&mine[bin * COPIES + copy], one);
            else atomicAdd(&sums[bin], A(one));
        }
    });
    if constexpr (COPIES > 0) {
        __syncthreads();
        for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
            S sum = 0;
            // each thread begins with another copy: neighbours read different banks
            for (int k = 0; k < COPIES; k++) sum += mine[bin * COPIES + (k + threadIdx.x) % COPIES];
            if (sum != 0) atomicAdd(&sums[bin], A(sum));
        }
    }
    if constexpr (SHARED || !SAME<A, O>) {
        if (!is_last_block(counter, gridDim.x)) return;
        for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
            y[bin] = to<O>(sums[bin]);
            if (SHARED) sums[bin] = 0;
        }
    }
}
