// The kernels of attention for f16 and bf16 whose keys and values are in pages, in 16 or in 8 bits.
#include "forward.cuh"

template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES, int MASK, int SPLIT, bool DROP,
          int ACROSS>
__global__ void __launch_bounds__(WARPS * 32)
    attend(const T* q, const T* k, const T* v, const void* mask, T* o, float* lse,
           const int* starts_q, const int* lengths, float* partial, int* counters, const Problem p,
           const int* table, int size, int most) {
    attend_tile<T, HEAD, BM, BN, WARPS, STAGES, MASK, SPLIT, DROP, ACROSS, true>(
        q, k, v, mask, o, lse, starts_q, lengths, partial, counters, p, {}, {table, size, most});
}

// Blocks of an SM at least, which limit the registers of a thread, where warps share queries: the
// tiles that wait in the registers of all blocks are the bytes under way from memory.
__device__ constexpr int least_blocks(int head, int across) {
    return across == 1 ? 1 : head <= 64 ? 4 : head <= 128 ? 3 : 2;
}

template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES, int MASK, int SPLIT, bool DROP,
          int ACROSS>
__global__ void __launch_bounds__(WARPS * 32, least_blocks(HEAD, ACROSS))
    attend_int8(const T* q, const signed char* k, const signed char* v, const void* mask, T* o,
                float* lse, const int* starts_q, const int* lengths, float* partial, int* counters,
                const Problem p, const int* table, int size, int most, const float* key_scale,
                const float* value_scale, long long key_page, long long key_head, long long key_row,
                long long value_page, long long value_head, long long value_row) {
    attend_tile<T, HEAD, BM, BN, WARPS, STAGES, MASK, SPLIT, DROP, ACROSS, true>(
        q, k, v, mask, o, lse, starts_q, lengths, partial, counters, p, {}, {table, size, most},
        {key_scale,
         value_scale,
         {key_page, key_head, key_row},
         {value_page, value_head, value_row}});
}
