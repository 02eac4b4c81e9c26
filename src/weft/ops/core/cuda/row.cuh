// Rows of memory in vectors, wherever they begin.
#pragma once
#include "vector.cuh"

// A row of n elements as vectors of V that begin at multiples of 16 bytes. The first and the last
// one may reach out of the row; what is outside reads as `outside` and is not written. Rows that
// are not RAGGED consist of whole vectors.
template <class T, int V, bool RAGGED = true>
struct Row {
    int lead, n;  // elements from the last multiple of 16 bytes to the row's first element

    // Whether a vector lies in the row with all its elements, whether its element j does, and how
    // many of them do.
    __device__ bool whole(int chunk) const {
        return chunk * V >= lead && (chunk + 1) * V - lead <= n;
    }
    __device__ bool has(int chunk, int j) const {
        if constexpr (!RAGGED) return whole(chunk);
        return chunk * V + j >= lead && chunk * V + j - lead < n;
    }

    __device__ int count(int chunk) const {
        int at = chunk * V - lead;
        return max(0, min(at + V, n) - max(at, 0));
    }

    __device__ Vector<T, V> get(const T* row, int chunk, float outside) const {
        int at = chunk * V - lead;
        if constexpr (!RAGGED) {
            Vector<T, V> v = filled<V>(to<T>(outside));
            if (whole(chunk)) v = load<V>(row + at);
            return v;
        }
        if (whole(chunk)) return load<V>(row + at);
        Vector<T, V> v;
#pragma unroll
        for (int j = 0; j < V; j++) v[j] = at + j >= 0 && at + j < n ? row[at + j] : to<T>(outside);
        return v;
    }
    __device__ void put(T* row, int chunk, const Vector<T, V>& v) const {
        int at = chunk * V - lead;
        if (whole(chunk)) {
            store_whole(row + at, v);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            if (RAGGED && at + j >= 0 && at + j < n) row[at + j] = v[j];
    }
};
