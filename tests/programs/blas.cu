// Our own product against cuBLAS, and the common functions of cuBLAS against plain loops.
#include "check.h"
#include <cmath>
#include <cublas_v2.h>
#include <vector>

#define BLAS(call) HOLDS((call) == CUBLAS_STATUS_SUCCESS)

__global__ void matmul(const float *a, const float *b, float *c, int n) {  // row-major
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

template <class T>
T *managed(size_t n) {
    T *out;
    CALL(cudaMallocManaged(&out, n * sizeof(T)));
    return out;
}

static float value(int i) { return float((i * 37 + 11) % 19 - 9); }
static bool near(double a, double b, double tolerance = 1e-4) {
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

int main() {
    const int n = 48, m = 5, k = 7, columns = 4;
    cublasHandle_t handle;
    BLAS(cublasCreate(&handle));
    float *a = managed<float>(n * n), *b = managed<float>(n * n), *mine = managed<float>(n * n);
    float *theirs = managed<float>(n * n);
    for (int i = 0; i < n * n; i++) a[i] = value(i), b[i] = value(i + 5), theirs[i] = 1;
    matmul<<<dim3(3, 3), dim3(16, 16)>>>(a, b, mine, n);
    CALL(cudaDeviceSynchronize());
    float one = 1, zero = 0, two = 2, minus = -1;
    BLAS(
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, n, a, n, &zero, theirs, n));
    for (int i = 0; i < n * n; i++) HOLDS(mine[i] == theirs[i]);

    // op(A) is m x k, op(B) k x columns; every combination of transposes, with alpha and beta
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            double *da = managed<double>(100), *db = managed<double>(100),
                   *dc = managed<double>(100);
            for (int i = 0; i < 100; i++)
                da[i] = value(i), db[i] = value(i + 3), dc[i] = value(i + 7);
            int lda = 8, ldb = 9, ldc = 6;
            double alpha = 2, beta = -1;
            BLAS(cublasDgemm(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                             m, columns, k, &alpha, da, lda, db, ldb, &beta, dc, ldc));
            for (int r = 0; r < m; r++)
                for (int c = 0; c < columns; c++) {
                    double sum = 0;
                    for (int i = 0; i < k; i++)
                        sum += (ta ? da[r * lda + i] : da[i * lda + r]) *
                               (tb ? db[i * ldb + c] : db[c * ldb + i]);
                    HOLDS(near(dc[c * ldc + r], 2 * sum - value(c * ldc + r + 7)));
                }
        }

    // half and bfloat16, strided and by pointers
    const int s = 16, batch = 3;
    __half *ha = managed<__half>(batch * s * s), *hb = managed<__half>(s * s),
           *hc = managed<__half>(batch * s * s);
    __nv_bfloat16 *fa = managed<__nv_bfloat16>(s * s), *fb = managed<__nv_bfloat16>(s * s);
    float *fc = managed<float>(batch * s * s);
    for (int i = 0; i < batch * s * s; i++) ha[i] = __float2half(value(i));
    for (int i = 0; i < s * s; i++)
        hb[i] = __float2half(value(i + 2)), fa[i] = value(i), fb[i] = value(i + 2);
    __half h1 = __float2half(1), h0 = __float2half(0);
    BLAS(cublasHgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, s, s, s, &h1, ha, s, s * s, hb,
                                   s, 0, &h0, hc, s, s * s, batch));
    BLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, s, s, s, &one, fa, CUDA_R_16BF, s, fb,
                      CUDA_R_16BF, s, &zero, fc, CUDA_R_32F, s, CUBLAS_COMPUTE_32F,
                      CUBLAS_GEMM_DEFAULT));
    for (int c = 0; c < s; c++)
        for (int r = 0; r < s; r++) {
            double sum[batch] = {}, third = 0;
            for (int i = 0; i < s; i++) {
                for (int g = 0; g < batch; g++)
                    sum[g] += value(g * s * s + i * s + r) * value(c * s + i + 2);
                third += value(i * s + r) * value(c * s + i + 2);
            }
            for (int g = 0; g < batch; g++)
                HOLDS(near(__half2float(hc[g * s * s + c * s + r]), sum[g], 1e-3));
            HOLDS(near(fc[c * s + r], third));
        }
    float **lists = managed<float *>(3 * 2);
    for (int i = 0; i < 2; i++)
        lists[i] = a + i * s * s, lists[2 + i] = b, lists[4 + i] = fc + i * s * s;
    BLAS(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, s, s, s, &one, lists, s, lists + 2, s,
                            &zero, lists + 4, s, 2));
    double corner = 0;
    for (int i = 0; i < s; i++) corner += a[s * s + i * s] * b[i * s];
    HOLDS(near(fc[s * s], corner));

    // vectors, with increments, and results in device memory
    float *x = managed<float>(20), *y = managed<float>(20), *result = managed<float>(1);
    for (int i = 0; i < 20; i++) x[i] = float(i + 1), y[i] = 1;
    BLAS(cublasSaxpy(handle, 10, &two, x, 2, y, 1));
    HOLDS(y[0] == 3 && y[9] == 1 + 2 * 19 && y[10] == 1);
    float dot, norm;
    BLAS(cublasSdot(handle, 3, x, 1, x + 1, 1, &dot));
    HOLDS(dot == 2 + 6 + 12);
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    BLAS(cublasSnrm2(handle, 4, x, 1, result));
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    HOLDS(near(*result, sqrt(30.0)));
    BLAS(cublasSscal(handle, 4, &minus, x, 1));
    BLAS(cublasSasum(handle, 5, x, 1, &norm));
    HOLDS(x[0] == -1 && x[4] == 5 && norm == 15);
    BLAS(cublasScopy(handle, 3, x, 1, y, -1));
    HOLDS(y[0] == -3 && y[2] == -1);
    int index;
    BLAS(cublasIsamax(handle, 20, x, 1, &index));
    HOLDS(index == 20);
    BLAS(cublasSgemv(handle, CUBLAS_OP_T, 3, 2, &one, a, 4, b, 1, &zero, y, 1));
    HOLDS(y[1] == a[4] * b[0] + a[5] * b[1] + a[6] * b[2]);
    BLAS(cublasSger(handle, 2, 2, &one, b, 1, b, 1, fc, 2));

    // copies of a matrix and of a vector with increments, in a stream
    cudaStream_t stream;
    HOLDS(cudaStreamCreate(&stream) == cudaSuccess);
    float host[6] = {1, 2, 3, 4, 5, 6}, back[6] = {};
    BLAS(cublasSetMatrixAsync(2, 2, 4, host, 3, fc, 2, stream));
    BLAS(cublasGetMatrixAsync(2, 2, 4, fc, 2, back, 3, stream));
    BLAS(cublasSetVectorAsync(3, 4, host, 2, y, 1, stream));
    BLAS(cublasGetVectorAsync(2, 4, y + 1, 1, back + 2, 3, stream));
    HOLDS(cudaStreamSynchronize(stream) == cudaSuccess);
    HOLDS(back[0] == 1 && back[1] == 2 && back[2] == 3 && back[4] == 5 && back[5] == 5);
    HOLDS(back[3] == 4);
    BLAS(cublasDestroy(handle));
    printf("cuBLAS agrees\n");
}
