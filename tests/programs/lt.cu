// cuBLASLt: a linear layer with bias and GELU, its gradient, a batch; batched LU factors of cuBLAS.
#include "check.h"
#include <cmath>
#include <cublasLt.h>
#include <cuda_bf16.h>

#define BLAS(call) HOLDS((call) == CUBLAS_STATUS_SUCCESS)
const int M = 5, N = 4, K = 3;

static float gelu(float x) {
    return 0.5f * x * (1 + tanhf(sqrtf(2 / float(M_PI)) * (x + 0.044715f * x * x * x)));
}

template <class T>
static void layer(cublasLtHandle_t handle, cudaDataType type, float tolerance) {
    T *a, *b, *d, *bias, *aux;
    CALL(cudaMallocManaged(&a, M * K * sizeof(T)));
    CALL(cudaMallocManaged(&b, 2 * K * N * sizeof(T)));
    CALL(cudaMallocManaged(&d, 2 * M * N * sizeof(T)));
    CALL(cudaMallocManaged(&bias, M * sizeof(T)));
    CALL(cudaMallocManaged(&aux, 2 * M * N * sizeof(T)));
    for (int i = 0; i < M * K; i++) a[i] = T(float(i % 7) / 4 - 0.5f);
    for (int i = 0; i < 2 * K * N; i++) b[i] = T(float(i % 5) / 2 - 1);
    for (int i = 0; i < M; i++) bias[i] = T(float(i) / 4);
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t la, lb, ld;
    cublasLtMatmulPreference_t preference;
    BLAS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    cublasOperation_t transpose = CUBLAS_OP_T;
    BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                        sizeof transpose));
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    int64_t leading = M, batches = M * N;
    void *pointers[] = {bias, aux};
    BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                        sizeof epilogue));
    BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointers[0], 8));
    BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                        &pointers[1], 8));
    BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &leading, 8));
    BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                                        &batches, 8));
    BLAS(cublasLtMatrixLayoutCreate(&la, type, K, M, K));
    BLAS(cublasLtMatrixLayoutCreate(&lb, type, K, N, K));
    BLAS(cublasLtMatrixLayoutCreate(&ld, type, M, N, M));
    int count = 2;
    int64_t none = 0, b_stride = K * N;
    struct {
        cublasLtMatrixLayout_t layout;
        int64_t *stride;
    } strided[] = {{la, &none}, {lb, &b_stride}, {ld, &batches}};
    for (auto &each : strided) {
        BLAS(cublasLtMatrixLayoutSetAttribute(each.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                              &count, sizeof count));
        BLAS(cublasLtMatrixLayoutSetAttribute(
            each.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, each.stride, 8));
    }
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    cublasLtMatmulHeuristicResult_t found;
    int results = 0;
    BLAS(cublasLtMatmulAlgoGetHeuristic(handle, desc, la, lb, ld, ld, preference, 1, &found, &results));
    HOLDS(results == 1);
    float one = 1, zero = 0;
    BLAS(cublasLtMatmul(handle, desc, &one, a, la, b, lb, &zero, d, ld, d, ld, &found.algo, nullptr, 0, 0));
    CALL(cudaDeviceSynchronize());
    for (int batch = 0; batch < 2; batch++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = float(bias[i]);
                for (int k = 0; k < K; k++)
                    sum += float(a[i * K + k]) * float(b[batch * K * N + j * K + k]);
                int at = batch * M * N + j * M + i;
                HOLDS(fabs(float(aux[at]) - sum) <= tolerance);
                HOLDS(fabs(float(d[at]) - gelu(sum)) <= tolerance);
            }
    BLAS(cublasLtMatmulPreferenceDestroy(preference));
    BLAS(cublasLtMatmulDescDestroy(desc));
}

int main() {
    cublasLtHandle_t handle;
    BLAS(cublasLtCreate(&handle));
    layer<float>(handle, CUDA_R_32F, 1e-5f);
    layer<__nv_bfloat16>(handle, CUDA_R_16BF, 0.02f);
    BLAS(cublasLtDestroy(handle));

    // A system of equations by LU factors; the first pivot is not on the diagonal.
    cublasHandle_t blas;
    BLAS(cublasCreate(&blas));
    float *a, *b, **tables, matrix[] = {0, 1, 2, 3, 4, 6, 5, 1, 2}, solution[] = {1, -2, 3};
    int *pivots, *info, status;
    CALL(cudaMallocManaged(&a, sizeof matrix));
    CALL(cudaMallocManaged(&b, 3 * sizeof *b));
    CALL(cudaMallocManaged(&tables, 2 * sizeof *tables));
    CALL(cudaMallocManaged(&pivots, 4 * sizeof *pivots));
    info = pivots + 3, tables[0] = a, tables[1] = b;
    memcpy(a, matrix, sizeof matrix);
    for (int i = 0; i < 3; i++) {
        b[i] = 0;
        for (int j = 0; j < 3; j++) b[i] += matrix[3 * j + i] * solution[j];
    }
    BLAS(cublasSgetrfBatched(blas, 3, tables, 3, pivots, info, 1));
    BLAS(cublasSgetrsBatched(blas, CUBLAS_OP_N, 3, 1, tables, 3, pivots, tables + 1, 3, &status, 1));
    CALL(cudaDeviceSynchronize());
    HOLDS(*info == 0 && status == 0 && pivots[0] == 3);
    for (int i = 0; i < 3; i++) HOLDS(fabs(b[i] - solution[i]) < 1e-5);
#ifndef CUBLAS_API_H_
#error "other headers look for NVIDIA's guard"
#endif
    printf("layers and factors agree\n");
}
