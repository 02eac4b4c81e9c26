// Rows of a table by index, and the gradient of the table. The gradient adds the rows of each index in order, so that it
// does not depend on timing: positions come sorted by index, except few of them.
#include <assert.h>

#include "vector.cuh"

// Elements are copied as they are. A row has `chunks` vectors of V; rows of the table are `pitch` elements apart.
template <class T, class L, int V>
__global__ void __launch_bounds__(256) gather(const L* indices, const T* table, T* y, long long count, long long rows,
                                              int chunks, long long pitch) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count * chunks; i += gridDim.x * 256ll) {
        long long index = indices[i / chunks], column = i % chunks * V;
        assert(index >= 0 && index < rows && "an index must be 0 to the rows of the weight - 1");
        store(y + i * V, load<V>(table + index * pitch + column));
    }
}

// The positions of the sorted indices are cut into pieces of `each`. What a group of threads adds up is the whole
// gradient of an index, unless more positions of it are in the piece before or after: those sums go to `partials`, one
// for the first index of a piece and one for the last.
template <class T, int V>
struct Piece {
    const long long *keys, *order;
    long long n, begin, end;
    int columns, column;

    __device__ Piece(const long long* keys, const long long* order, long long n, int each, int columns, int width)
        : keys(keys), order(order), n(n), columns(columns) {
        long long piece = blockIdx.x * (128ll / width) + threadIdx.x / width;
        begin = piece * each, end = min(n, begin + each);
        column = (blockIdx.y * width + threadIdx.x % width) * V;
    }
    __device__ bool there() const { return begin < n && column < columns; }
    __device__ bool goes_back() const { return begin > 0 && keys[begin - 1] == keys[begin]; }
    __device__ bool goes_on() const { return end < n && keys[end - 1] == keys[end]; }
    // The partial sum of the first index (0) or the last (1) of a piece.
    __device__ float* partial(float* partials, long long piece, int which) const {
        return partials + (piece * 2 + which) * columns + column;
    }
};

template <class T, int V>
__global__ void __launch_bounds__(128) add_pieces(const T* dy, const long long* keys, const long long* order, T* d,
                                                  float* partials, long long n, int each, int columns, int width,
                                                  long long padding) {
    Piece<T, V> p(keys, order, n, each, columns, width);
    if (!p.there()) return;
    bool back = p.goes_back(), on = p.goes_on();
    Vector<float, V> sum{};
    long long key = keys[p.begin];
    bool first = true;
    auto finish = [&](bool last) {
        if ((first && back) || (last && on)) {
            store(p.partial(partials, p.begin / each, first && back ? 0 : 1), sum);
        } else if (key != padding) {
            Vector<T, V> made;
#pragma unroll
            for (int j = 0; j < V; j++) made[j] = to<T>(sum[j]);
            store(d + key * columns + p.column, made);
        }
        sum = {}, first = false;
    };
    constexpr int AHEAD = 4;
    for (long long i = p.begin; i < p.end; i += AHEAD) {
        Vector<T, V> rows[AHEAD];
        long long ahead[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            long long at = min(i + a, p.end - 1);
            ahead[a] = keys[at];
            rows[a] = load<V>(dy + order[at] * columns + p.column);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (i + a >= p.end) break;
            if (ahead[a] != key) finish(false), key = ahead[a];
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += to<float>(rows[a][j]);
        }
    }
    finish(true);
}

// The group of the piece in which an index begins adds the sums of the pieces that follow.
template <class T, int V>
__global__ void __launch_bounds__(128) join_pieces(const long long* keys, const long long* order, T* d,
                                                   const float* partials, long long n, int each, int columns, int width,
                                                   long long padding) {
    Piece<T, V> p(keys, order, n, each, columns, width);
    if (!p.there() || !p.goes_on()) return;
    long long key = keys[p.end - 1], piece = p.begin / each;
    if (key == padding || (keys[p.begin] == key && p.goes_back())) return;  // it began before
    float* found = const_cast<float*>(partials);
    Vector<float, V> sum = load<V>(p.partial(found, piece, 1));
    for (long long next = piece + 1; next * each < n && keys[next * each] == key; next++) {
        Vector<float, V> more = load<V>(p.partial(found, next, 0));
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += more[j];
    }
    Vector<T, V> made;
#pragma unroll
    for (int j = 0; j < V; j++) made[j] = to<T>(sum[j]);
    store(d + key * columns + p.column, made);
}

// For at most FEW positions, in any order: the block of the first position of an index adds the rows of all of them.
template <class T, class L, int V>
__global__ void __launch_bounds__(128) add_few(const T* dy, const L* indices, T* d, int n, int columns,
                                               long long padding) {
    constexpr int FEW = 512;
    __shared__ unsigned same[FEW / 32];  // a bit for each position: whether it has the index of this block
    long long key = indices[blockIdx.x];
    bool before = false;
    for (int i = threadIdx.x; i < (n + 31) / 32 * 32; i += 128) {
        bool is_same = i < n && indices[i] == key;
        before |= is_same && i < int(blockIdx.x);
        unsigned word = __ballot_sync(~0u, is_same);
        if (i % 32 == 0) same[i / 32] = word;
    }
    if (__syncthreads_or(before) || key == padding) return;
    int column = (blockIdx.y * 128 + threadIdx.x) * V;
    if (column >= columns) return;
    constexpr int AHEAD = 8;
    Vector<float, V> sum{};
    int at = blockIdx.x / 32, last = (n - 1) / 32;
    unsigned word = same[at];
    while (true) {
        Vector<T, V> rows[AHEAD];
        int found = 0;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            while (!word && at < last) word = same[++at];
            if (!word) break;
            rows[a] = load<V>(dy + (at * 32ll + __ffs(word) - 1) * columns + column);
            word &= word - 1;
            found++;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (a >= found) break;
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += to<float>(rows[a][j]);
        }
        if (found < AHEAD) break;
    }
    Vector<T, V> made;
#pragma unroll
    for (int j = 0; j < V; j++) made[j] = to<T>(sum[j]);
    store(d + key * columns + column, made);
}
