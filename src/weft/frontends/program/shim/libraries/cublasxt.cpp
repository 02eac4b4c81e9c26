// cuBLASXt: products of matrices of the host, which are shared out to no one here: a call is one
// product of cuBLAS, and returns when it is done.
#include <cublasXt.h>

#include "library.h"

using namespace weft;

struct cublasXtContext {
    cublasHandle_t blas;
    int block = 2048;
    std::vector<int> devices;
};

namespace {
constexpr size_t MOST_ROWS = INT32_MAX;  // what cuBLAS takes

template <class T, class Gemm>
cublasStatus_t host_gemm(Gemm gemm, cublasXtHandle_t handle, cublasOperation_t ta,
                         cublasOperation_t tb, size_t m, size_t n, size_t k, const T *alpha,
                         const T *a, size_t lda, const T *b, size_t ldb, const T *beta, T *c,
                         size_t ldc) {
    if (!handle || handle->devices.empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
    for (size_t each : {m, n, k, lda, ldb, ldc})
        if (each > MOST_ROWS) return CUBLAS_STATUS_INVALID_VALUE;
    auto status = gemm(handle->blas, ta, tb, int(m), int(n), int(k), alpha, a, int(lda), b,
                       int(ldb), beta, c, int(ldc));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cudaDeviceSynchronize() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
}  // namespace

API cublasStatus_t cublasXtCreate(cublasXtHandle_t *out) {
    *out = new cublasXtContext;
    return cublasCreate(&(*out)->blas);
}
API cublasStatus_t cublasXtDestroy(cublasXtHandle_t handle) {
    auto status = cublasDestroy(handle->blas);
    delete handle;
    return status;
}
API cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t handle, int count, int devices[]) {
    int there = 0;
    cudaGetDeviceCount(&there);
    if (count < 1) return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < count; i++)
        if (devices[i] < 0 || devices[i] >= there) return CUBLAS_STATUS_INVALID_VALUE;
    handle->devices.assign(devices, devices + count);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasXtMaxBoards(int *boards) { return set(*boards, MOST_DEVICES); }
API cublasStatus_t cublasXtSetBlockDim(cublasXtHandle_t handle, int size) {
    if (size < 1) return CUBLAS_STATUS_INVALID_VALUE;
    handle->block = size;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasXtGetBlockDim(cublasXtHandle_t handle, int *size) {
    return set(*size, handle->block);
}
API cublasStatus_t cublasXtSetPinningMemMode(cublasXtHandle_t, cublasXtPinnedMemMode_t) {
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasXtSgemm(cublasXtHandle_t handle, cublasOperation_t ta,
                                 cublasOperation_t tb, size_t m, size_t n, size_t k,
                                 const float *alpha, const float *a, size_t lda, const float *b,
                                 size_t ldb, const float *beta, float *c, size_t ldc) {
    return host_gemm(cublasSgemm, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
API cublasStatus_t cublasXtDgemm(cublasXtHandle_t handle, cublasOperation_t ta,
                                 cublasOperation_t tb, size_t m, size_t n, size_t k,
                                 const double *alpha, const double *a, size_t lda, const double *b,
                                 size_t ldb, const double *beta, double *c, size_t ldc) {
    return host_gemm(cublasDgemm, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
