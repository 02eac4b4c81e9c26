// What the upper rungs share: reading and writing four numbers at a time where rows are multiples
// of 16 bytes (`ragged.cuh` has the others), and the outer product of eight by eight in registers.
#pragma once

__device__ inline float4 four(const float* m, int row, int col, int rows, int cols) {
    if (row < rows && col < cols)
        return *reinterpret_cast<const float4*>(m + row * size_t(cols) + col);
    return make_float4(0, 0, 0, 0);
}

__device__ inline void put4(float* m, int row, int col, int rows, int cols, const float* v) {
    if (row < rows && col < cols)
        *reinterpret_cast<float4*>(m + row * size_t(cols) + col) =
            make_float4(v[0], v[1], v[2], v[3]);
}

// Eight numbers as two vectors, `apart` numbers from each other.
__device__ inline void load8(float* v, const float* from, int apart) {
    float4 low = *reinterpret_cast<const float4*>(from);
    float4 high = *reinterpret_cast<const float4*>(from + apart);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

__device__ inline void outer(float (&sum)[8][8], const float* u, const float* v) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += u[i] * v[j];
}
