// Rows of memory in vectors, wherever they begin.
#pragma once
#include "vector.cuh"

// A row of n elements as vectors of V that begin at multiples of 16 bytes. The first and the last one may reach out of
// the row; what is outside reads as `outside` and is not written.
template <class T, int V>
struct Row {
    int lead, n;  // elements from the last multiple of 16 bytes to the row's first element

    __device__ Vector<T, V> get(const T* row, int chunk, float outside) const {
        int at = chunk * V - lead;
        if (at >= 0 && at + V <= n) return load<V>(row + at);
        Vector<T, V> v;
#pragma unroll
        for (int j = 0; j < V; j++) v[j] = at + j >= 0 && at + j < n ? row[at + j] : to<T>(outside);
        return v;
    }
    __device__ void put(T* row, int chunk, const Vector<T, V>& v) const {
        int at = chunk * V - lead;
        if (at >= 0 && at + V <= n) {
            store(row + at, v);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            if (at + j >= 0 && at + j < n) row[at + j] = v[j];
    }
};
