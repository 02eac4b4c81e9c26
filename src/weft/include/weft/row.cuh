// Rows of memory in vectors, wherever the rows begin.
//
// A row of n elements is read as vectors of V elements that begin at multiples of their size. Its
// ends may be parts of vectors; what is outside of the row reads as `outside` and is not written.
#pragma once
#include "async.cuh"
#include "convert.cuh"

namespace weft {

// A row whose vectors are elements. Rows that are not RAGGED consist of whole vectors.
template <class T, int V, bool RAGGED = true>
struct Row {
    int lead;  // elements from the last multiple of a vector to the row's first element
    int n;     // elements of the row

    // Does vector `chunk` lie in the row with all its elements?
    __device__ bool whole(int chunk) const {
        return chunk * V >= lead && (chunk + 1) * V - lead <= n;
    }
    // Does element j of vector `chunk` lie in the row?
    __device__ bool has(int chunk, int j) const {
        if constexpr (!RAGGED) return whole(chunk);
        return chunk * V + j >= lead && chunk * V + j - lead < n;
    }
    // Returns the number of elements of vector `chunk` that lie in the row.
    __device__ int count(int chunk) const {
        int at = chunk * V - lead;
        return max(0, min(at + V, n) - max(at, 0));
    }
    // Loads vector `chunk` of the row that begins at `row`.
    __device__ Vector<T, V> get(const T* row, int chunk, float outside) const {
        int at = chunk * V - lead;
        if constexpr (!RAGGED) {
            Vector<T, V> v = fill<V>(to<T>(outside));
            if (whole(chunk)) v = load<V>(row + at);
            return v;
        }
        if (whole(chunk)) return load<V>(row + at);
        Vector<T, V> v;
#pragma unroll
        for (int j = 0; j < V; ++j) v[j] = at + j >= 0 && at + j < n ? row[at + j] : to<T>(outside);
        return v;
    }
    // The same for several loads that are under way together, and with `outside`: see load_if.
    __device__ Vector<T, V> get_ahead(const T* row, int chunk, float outside) const {
        if constexpr (RAGGED) return get(row, chunk, outside);
        Vector<T, V> v = load_if(whole(chunk), row + (chunk * V - lead), Vector<T, V>());
        return whole(chunk) ? v : fill<V>(to<T>(outside));
    }
    // Stores vector `chunk`, but for the elements outside of the row.
    __device__ void put(T* row, int chunk, const Vector<T, V>& v) const {
        int at = chunk * V - lead;
        if (whole(chunk)) {
            store_whole(row + at, v);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; ++j)
            if (RAGGED && at + j >= 0 && at + j < n) row[at + j] = v[j];
    }
};

// A row whose vectors stay packed in registers. EVEN: it begins and ends with a whole vector.
template <class T, int V, bool EVEN>
struct PackedRow {
    int lead, n;

    // The row of n elements that begins `start` elements behind a multiple of a vector.
    __device__ PackedRow(long long start, int n) : lead(EVEN ? 0 : int(start % V)), n(n) {}

    // Returns the number of the first element of vector `chunk`; it may be negative.
    __device__ int place(int chunk) const { return EVEN ? chunk * V : chunk * V - lead; }
    // Is element i in the row?
    __device__ bool has(int i) const { return i >= 0 && i < n; }
    // Are all elements of the vector from element `at` on in the row, and can it be loaded at once?
    __device__ bool whole(int at) const {
        return sizeof(Packed<T, V>) == 16 && (EVEN ? at < n : at >= 0 && at + V <= n);
    }
    // Loads a vector that is not whole, from element `at` on.
    __device__ Packed<T, V> rest(const T* row, int at, float outside) const {
        Packed<T, V> v;
#pragma unroll
        for (int w = 0; w < v.WORDS; ++w) {
            v.word[w] = 0;
#pragma unroll
            for (int j = 0; j < v.EACH && w * v.EACH + j < V; ++j) {
                int i = at + w * v.EACH + j;
                v.word[w] |= bits_of(!EVEN && has(i) ? row[i] : to<T>(outside)) << (j * 16);
            }
        }
        return v;
    }
    // Loads vector `chunk` of the row that begins at `row`.
    __device__ Packed<T, V> get(const T* row, int chunk, float outside) const {
        int at = place(chunk);
        if (!whole(at)) return rest(row, at, outside);
        Packed<T, V> v;
        *reinterpret_cast<uint4*>(&v) = *reinterpret_cast<const uint4*>(row + at);
        return v;
    }
    // Stores vector `chunk`, but for the elements outside of the row.
    __device__ void put(T* row, int chunk, const Packed<T, V>& v) const {
        int at = place(chunk);
        if (whole(at)) {
            store_whole(row + at, *reinterpret_cast<const Vector<T, V>*>(&v));
        } else if constexpr (!EVEN) {
#pragma unroll
            for (int j = 0; j < V; ++j)
                if (has(at + j)) row[at + j] = to<T>(v[j]);
        }
    }
    // Starts a copy of vector `chunk` into shared memory, for this thread alone; wait_all_copies()
    // completes it.
    __device__ void fetch(Packed<T, V>* shared, const T* row, int chunk, float outside) const {
        int at = place(chunk);
        if (whole(at)) copy_async<16>(shared, row + at);
        else *shared = rest(row, at, outside);
    }
};

}  // namespace weft
