// Tensor cores by inline PTX: ldmatrix from swizzled shared memory, mma.sync, cp.async.
#include <cuda_fp16.h>

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void ldmatrix_x4(unsigned (&r)[4], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}

__device__ void ldmatrix_x2_trans(unsigned (&r)[2], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(p)));
}

__device__ void mma_16x8x16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}

// 64 x 64 tile a block of 4 warps (2 x 2), each 32 x 32; all row-major; sizes multiples of 64, 64,
// 32. A chunk of 8 halfs is stored at (chunk ^ row bits), so that ldmatrix meets no bank twice.
__global__ void __launch_bounds__(128)
swizzled(const half* A, const half* B, float* C, int N, int K) {
    __shared__ __align__(128) half a[2][64 * 32], b[2][32 * 64];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, wr = warp / 2 * 32, wc = warp % 2 * 32;
    int r0 = blockIdx.y * 64, c0 = blockIdx.x * 64;
    auto at_a = [](int r, int chunk) { return r * 32 + (chunk ^ (r >> 1 & 3)) * 8; };
    auto at_b = [](int k, int chunk) { return k * 64 + (chunk ^ (k & 7)) * 8; };
    auto fetch = [&](int k0, int s) {
        for (int i = t; i < 256; i += 128) {
            copy_16(&a[s][at_a(i / 4, i % 4)], &A[(size_t)(r0 + i / 4) * K + k0 + i % 4 * 8]);
            copy_16(&b[s][at_b(i / 8, i % 8)], &B[(size_t)(k0 + i / 8) * N + c0 + i % 8 * 8]);
        }
        asm volatile("cp.async.commit_group;");
    };
    float c[2][4][4] = {};
    fetch(0, 0);
    for (int k0 = 0, s = 0; k0 < K; k0 += 32, s ^= 1) {
        if (k0 + 32 < K) {
            fetch(k0 + 32, s ^ 1);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        for (int kk = 0; kk < 32; kk += 16) {
            unsigned fa[2][4], fb[4][2];
            for (int i = 0; i < 2; i++)
                ldmatrix_x4(fa[i], &a[s][at_a(wr + i * 16 + lane % 16, kk / 8 + lane / 16)]);
            for (int j = 0; j < 4; j++)
                ldmatrix_x2_trans(fb[j], &b[s][at_b(kk + lane % 16, wc / 8 + j)]);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++) mma_16x8x16(c[i][j], fa[i], fb[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            int r = r0 + wr + i * 16 + lane / 4, col = c0 + wc + j * 8 + lane % 4 * 2;
            *(float2*)&C[(size_t)r * N + col] = make_float2(c[i][j][0], c[i][j][1]);
            *(float2*)&C[(size_t)(r + 8) * N + col] = make_float2(c[i][j][2], c[i][j][3]);
        }
}
