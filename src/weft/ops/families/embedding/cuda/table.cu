// Rows of a table by index, and the gradient of the table. The gradient adds the rows of each index
// in order, so that it does not depend on timing: positions come sorted by index, a block lists
// those of its rows of the table, or each block adds its positions to a whole table of its own.
#include <assert.h>

#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/warp.cuh>

using namespace weft;

// Elements are copied as they are. A row has `chunks` vectors of V; rows of the table are `pitch`
// elements apart.
template <class T, class L, int V>
__global__ void __launch_bounds__(256)
    gather(const L* indices, const T* table, T* y, long long count, long long rows, int chunks,
           long long pitch) {
    take_turn();
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count * chunks;
         i += gridDim.x * 256ll) {
        long long index = indices[i / chunks], column = i % chunks * V;
        assert(index >= 0 && index < rows && "an index must be 0 to the rows of the weight - 1");
        store(y + i * V, load<V>(table + index * pitch + column));
    }
}

// The type of sums of T: integers wrap around when the sum is stored.
template <class T> struct Total {
    using Type = long long;
};
template <> struct Total<float> {
    using Type = float;
};
template <> struct Total<__half> {
    using Type = float;
};
template <> struct Total<__nv_bfloat16> {
    using Type = float;
};
template <> struct Total<double> {
    using Type = double;
};

// The positions of the sorted indices are cut into pieces of `each`. What a group of threads adds
// up is the whole gradient of an index, unless more positions of it are in the piece before or
// after: those sums go to `partials`, one for the first index of a piece and one for the last.
template <class T, int V>
struct Piece {
    using S = typename Total<T>::Type;
    const long long *keys, *order;
    long long n, begin, end;
    int columns, column;

    __device__ Piece(const long long* keys, const long long* order, long long n, int each,
                     int columns, int width)
        : keys(keys), order(order), n(n), columns(columns) {
        long long piece = blockIdx.x * (128ll / width) + threadIdx.x / width;
        begin = piece * each, end = min(n, begin + each);
        column = (blockIdx.y * width + threadIdx.x % width) * V;
    }
    __device__ bool there() const { return begin < n && column < columns; }
    __device__ bool goes_back() const { return begin > 0 && keys[begin - 1] == keys[begin]; }
    __device__ bool goes_on() const { return end < n && keys[end - 1] == keys[end]; }
    // The partial sum of the first index (0) or the last (1) of a piece.
    __device__ S* partial(S* partials, long long piece, int which) const {
        return partials + (piece * 2 + which) * columns + column;
    }
    // Writes the whole sum of an index, and what `base` has there if there is one.
    __device__ void write(T* d, const T* base, long long key, Vector<S, V> sum) const {
        long long at = key * columns + column;
        Vector<T, V> made, before;
        if (base) before = load<V>(base + at);
#pragma unroll
        for (int j = 0; j < V; j++) made[j] = to<T>(base ? to<S>(before[j]) + sum[j] : sum[j]);
        store(d + at, made);
    }
};

template <class T, int V>
__global__ void __launch_bounds__(128)
    add_pieces(const T* dy, const long long* keys, const long long* order, T* d, const T* base,
               typename Total<T>::Type* partials, long long n, int each, int columns, int width,
               long long padding) {
    take_turn();
    using S = typename Total<T>::Type;
    Piece<T, V> p(keys, order, n, each, columns, width);
    if (!p.there()) return;
    bool back = p.goes_back(), on = p.goes_on();
    Vector<S, V> sum{};
    long long key = keys[p.begin];
    bool first = true;
    auto finish = [&](bool last) {
        if ((first && back) || (last && on)) {
            store(p.partial(partials, p.begin / each, first && back ? 0 : 1), sum);
        } else if (key != padding) {
            p.write(d, base, key, sum);
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
            for (int j = 0; j < V; j++) sum[j] += to<S>(rows[a][j]);
        }
    }
    finish(true);
}

// The group of the piece in which an index begins adds the sums of the pieces that follow.
template <class T, int V>
__global__ void __launch_bounds__(128)
    join_pieces(const long long* keys, const long long* order, T* d, const T* base,
                typename Total<T>::Type* partials, long long n, int each, int columns, int width,
                long long padding) {
    take_turn();
    using S = typename Total<T>::Type;
    Piece<T, V> p(keys, order, n, each, columns, width);
    if (!p.there() || !p.goes_on()) return;
    long long key = keys[p.end - 1], piece = p.begin / each;
    if (key == padding || (keys[p.begin] == key && p.goes_back())) return;  // it began before
    Vector<S, V> sum = load<V>(p.partial(partials, piece, 1));
    for (long long next = piece + 1; next * each < n && keys[next * each] == key; next++) {
        Vector<S, V> more = load<V>(p.partial(partials, next, 0));
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += more[j];
    }
    p.write(d, base, key, sum);
}

// For at most UNSORTED positions, in any order, of few rows: a block writes `width` vectors of a
// row of the table. It lists the positions of its row in their order. `groups` threads share a
// vector: each adds every `groups`-th position of the list, and the first one adds their sums.
template <class T, class L, int V>
__global__ void __launch_bounds__(256)
    add_rows(const T* dy, const L* indices, T* d, int n, int columns, int width, int groups,
             long long padding) {
    take_turn();
    constexpr int UNSORTED = 4096, WARPS = 8, WORDS = UNSORTED / 32 / WARPS;
    __shared__ unsigned short list[UNSORTED];
    __shared__ int counts[WARPS];
    __shared__ Vector<float, V> part[256];
    long long row = blockIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int words = (n + 255) / 256, begin = warp * words * 32 + lane;
    unsigned found[WORDS];
    int count = 0;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        if (k >= words) break;
        int i = begin + k * 32;
        long long index = i < n ? (long long)indices[i] : -1;
        found[k] = __ballot_sync(~0u, index == row && index != padding);
        count += __popc(found[k]);
    }
    if (lane == 0) counts[warp] = count;
    __syncthreads();
    int at = 0, total = 0;
    for (int w = 0; w < WARPS; w++) at += w < warp ? counts[w] : 0, total += counts[w];
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        if (k >= words) break;
        int i = begin + k * 32;
        if (found[k] >> lane & 1) list[at + __popc(found[k] & ((1u << lane) - 1))] = i;
        at += __popc(found[k]);
    }
    __syncthreads();
    int each = 256 / groups, group = threadIdx.x / each;
    for (int base = 0; base < width; base += each) {
        int item = base + threadIdx.x % each, column = (blockIdx.y * width + item) * V;
        bool there = item < width && column < columns;
        constexpr int AHEAD = 8;
        Vector<float, V> sum{};
        for (int k = group; there && k < total; k += AHEAD * groups) {
            Vector<T, V> ahead[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                int next = k + a * groups;
                ahead[a] = {};
                if (next < total) ahead[a] = load<V>(dy + list[next] * (long long)columns + column);
            }
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
#pragma unroll
                for (int j = 0; j < V; j++) sum[j] += to<float>(ahead[a][j]);
        }
        if (groups > 1) {  // all vectors of the block at once
            part[threadIdx.x] = sum;
            __syncthreads();
            for (int g = 1; g < groups && group == 0; g++)
#pragma unroll
                for (int j = 0; j < V; j++) sum[j] += part[g * each + threadIdx.x][j];
        }
        if (!there || group) continue;
        Vector<T, V> made;
#pragma unroll
        for (int j = 0; j < V; j++) made[j] = to<T>(sum[j]);
        store(d + row * columns + column, made);
    }
}

// For at most 65,536 positions, in any order: of 2^shift blocks, block b writes the rows b,
// b + 2^shift, b + 2 * 2^shift …, so that the frequent rows, which are often neighbours, are of
// different blocks. It lists the positions of its rows, row by row and each in order, adds them,
// and writes zeros where a row has none. `width` vectors of a row are those of a row of the grid.
template <class T, class L, int V>
__global__ void __launch_bounds__(512)
    add_listed(const T* dy, const L* indices, T* d, int n, long long rows, int columns, int shift,
               int width, long long padding) {
    take_turn();
    constexpr int BLOCK = 512, WARPS = BLOCK / 32, EACH = 8, TILE = BLOCK * EACH;
    extern __shared__ int memory[];
    __shared__ int counts[2][WARPS];
    int block = blockIdx.x, step = 1 << shift, lane = lane_index(), warp = warp_index();
    int share = block < rows ? int((rows - 1 - block) / step + 1) : 0;
    int* ends = memory;  // of the row's positions in `order`; before that, how many they are
    auto* found = reinterpret_cast<unsigned short*>(ends + (rows + step - 1) / step);
    unsigned short* order = found + n;
    for (int i = threadIdx.x; i < share; i += BLOCK) ends[i] = 0;
    __syncthreads();
    int total = 0;
    for (int tile = 0, turn = 0; tile < n; tile += TILE, turn ^= 1) {
        long long index[EACH];
        unsigned own[EACH];
        int first = tile + warp * (32 * EACH) + lane, count = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++)
            index[k] = first + k * 32 < n ? (long long)indices[first + k * 32] : -1;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            bool is = index[k] >= 0 && index[k] < rows && index[k] != padding &&
                      int(index[k] & (step - 1)) == block;
            own[k] = __ballot_sync(~0u, is);
            count += __popc(own[k]);
            if (is) atomicAdd(ends + (index[k] >> shift), 1);
        }
        if (lane == 0) counts[turn][warp] = count;
        __syncthreads();
        int at = total;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            at += w < warp ? counts[turn][w] : 0;
            total += counts[turn][w];
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (own[k] >> lane & 1)
                found[at + __popc(own[k] & ((1u << lane) - 1))] = first + k * 32;
            at += __popc(own[k]);
        }
    }
    __syncthreads();
    if (warp == 0 && total > 0) {
        for (int i = 0, before = 0; i < share; i += 32) {  // where the positions of rows begin
            int has = i + lane < share ? ends[i + lane] : 0, sum = inclusive_scan(has, Plus());
            if (i + lane < share) ends[i + lane] = before + sum - has;
            before += shuffle(sum, 31);
        }
        __syncwarp();
        for (int i = 0; i < total; i += 32) {
            bool there = i + lane < total;
            int position = there ? found[i + lane] : 0;
            int row = there ? int((long long)indices[position] >> shift) : -1;
            unsigned same = __match_any_sync(~0u, row);
            int rank = __popc(same & ((1u << lane) - 1));
            if (there) order[ends[row] + rank] = position;
            __syncwarp();
            if (there && rank == 0) ends[row] += __popc(same);
            __syncwarp();
        }
    }
    __syncthreads();
    int from = blockIdx.y * width, wide = min(width, columns / V - from);
    for (int item = threadIdx.x; item < share * wide; item += BLOCK) {
        int row = item / wide, column = (from + item - row * wide) * V;
        int k = row > 0 ? ends[row - 1] : 0, end = ends[row];
        constexpr int AHEAD = 8;
        Vector<float, V> sum{};
        for (; k < end; k += AHEAD) {
            Vector<T, V> ahead[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                ahead[a] = {};
                if (k + a < end)
                    ahead[a] = load<V>(dy + order[k + a] * (long long)columns + column);
            }
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
#pragma unroll
                for (int j = 0; j < V; j++) sum[j] += to<float>(ahead[a][j]);
        }
        store_whole(d + ((long long)row * step + block) * columns + column, from_floats<T>(sum));
    }
}

// For a table of few rows: each block adds `each` positions to a table of its own in shared memory,
// of `width` vectors of columns, and writes it to `tables`. A group of `width` threads has a copy
// of that table, in which a thread has a column.
template <class T, class L, int V>
__global__ void __launch_bounds__(256)
    add_tables(const T* dy, const L* indices, float* tables, long long n, int rows, int columns,
               long long each, int width, long long padding) {
    take_turn();
    __shared__ Vector<float, V> sums[12288 / V];
    int groups = blockDim.x / width, group = threadIdx.x / width, copy = rows * width;
    int column = (blockIdx.y * width + threadIdx.x % width) * V;
    Vector<float, V>* own = sums + group * copy + threadIdx.x % width;
    for (int row = 0; row < rows; row++) own[row * width] = {};
    long long begin = blockIdx.x * each, end = min(n, begin + each);
    constexpr int AHEAD = 8;
    for (long long i = begin + group; i < end && column < columns; i += AHEAD * groups) {
        Vector<T, V> ahead[AHEAD];
        int at[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            long long position = i + a * groups,
                      index = position < end ? (long long)indices[position] : -1;
            at[a] = index >= 0 && index < rows && index != padding ? int(index) : -1;
            if (at[a] >= 0) ahead[a] = load<V>(dy + position * columns + column);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (at[a] < 0) continue;
            Vector<float, V> sum = own[at[a] * width];
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += to<float>(ahead[a][j]);
            own[at[a] * width] = sum;
        }
    }
    __syncthreads();
    if (column >= columns) return;
    for (int row = group; row < rows; row += groups) {
        const Vector<float, V>* first = sums + row * width + threadIdx.x % width;
        Vector<float, V> sum = first[0];
        for (int g = 1; g < groups; g++)
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += first[g * copy][j];
        store(tables + ((long long)blockIdx.x * rows + row) * columns + column, sum);
    }
}

// Adds the tables of `count` elements that the blocks have written: 8 threads share an element.
template <class T>
__global__ void __launch_bounds__(256)
    join_tables(const float* tables, T* d, int count, int blocks) {
    take_turn();
    __shared__ float parts[8][32];
    int at = blockIdx.x * 32 + threadIdx.x % 32, group = threadIdx.x / 32;
    float sum = 0;
    if (at < count)
#pragma unroll 4
        for (int block = group; block < blocks; block += 8)
            sum += tables[(long long)block * count + at];
    parts[group][threadIdx.x % 32] = sum;
    __syncthreads();
    if (group || at >= count) return;
    for (int g = 1; g < 8; g++) sum += parts[g][threadIdx.x];
    d[at] = to<T>(sum);
}
