// A tile of 128 x 256 results of two warpgroups, from boxes that tensor maps copy: 64 of K a stage.
#pragma once
#include <weft/convert.cuh>
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>

using T = __nv_bfloat16;

constexpr int BM = 128, BN = 256, STAGES = 4;
constexpr int A_BYTES = BM * 128, STAGE = A_BYTES + BN * 128;  // a row of 64 elements has 128 bytes

struct BoxTile {
    float of[BN / 8][4];  // of a thread: 16 rows of a warp, 8 columns times 32

    // One thread copies the stage of K from k on: a box of A, and four of 64 columns of B.
    static __device__ void fill(unsigned tile, const weft::TensorMap& a, const weft::TensorMap& b,
                                weft::Barrier& full, int row, int column, int k) {
        full.arrive_expecting(STAGE);
        weft::load_box(tile, a, full, k, row);
        for (int i = 0; i < BN / 64; ++i)
            weft::load_box(tile + A_BYTES + i * weft::slab_bytes(64), b, full, column + i * 64, k);
    }
    // Starts the products of a stage: 64 rows for each warpgroup.
    __device__ void multiply(unsigned tile, bool fresh) {
        unsigned rows = tile + weft::warpgroup_index() * weft::slab_bytes(64);
        weft::wgmma_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16)
            weft::wgmma<T, false, true>(of, weft::wgmma_rows(rows + k * 2),
                                        weft::wgmma_columns<64>(tile + A_BYTES + k * 128),
                                        !fresh || k > 0);
        weft::wgmma_commit();
    }
    // Stores pairs of neighbours, from the registers.
    __device__ void store(T* C, int row, int column, int M, int N) {
        row += threadIdx.x / 32 * 16;
#pragma unroll
        for (int n = 0; n < BN / 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                int r = row + weft::c_row(i), c = column + n * 8 + weft::c_column(i);
                if (r < M && c < N)
                    *reinterpret_cast<unsigned*>(C + size_t(r) * N + c) =
                        weft::pack<T>(of[n][i], of[n][i + 1]);
            }
    }
};
