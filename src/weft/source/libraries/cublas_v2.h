// The part of cuBLAS's interface that weft serves; used where the toolkit has no cublas_v2.h of its
// own.
#pragma once
// NVIDIA's guards: other headers test them to see whether cuBLAS is there.
#define CUBLAS_V2_H_
#define CUBLAS_API_H_

#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 0
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VERSION (CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH)

typedef struct cublasContext *cublasHandle_t;

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum {
    CUBLAS_FILL_MODE_LOWER = 0,
    CUBLAS_FILL_MODE_UPPER = 1,
    CUBLAS_FILL_MODE_FULL = 2
} cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;
typedef enum {
    CUBLAS_GEMM_DFALT = -1,
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99
} cublasGemmAlgo_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef cudaDataType cublasDataType_t;

// The library's symbols carry a version, as NVIDIA's do.
#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasGetVersion cublasGetVersion_v2
#define cublasSetStream cublasSetStream_v2
#define cublasGetStream cublasGetStream_v2
#define cublasSetWorkspace cublasSetWorkspace_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
#define cublasSgemm cublasSgemm_v2
#define cublasDgemm cublasDgemm_v2
#define cublasStrsm cublasStrsm_v2
#define cublasDtrsm cublasDtrsm_v2
#define cublasSgemv cublasSgemv_v2
#define cublasDgemv cublasDgemv_v2
#define cublasSger cublasSger_v2
#define cublasDger cublasDger_v2
#define cublasSaxpy cublasSaxpy_v2
#define cublasDaxpy cublasDaxpy_v2
#define cublasSdot cublasSdot_v2
#define cublasDdot cublasDdot_v2
#define cublasSnrm2 cublasSnrm2_v2
#define cublasDnrm2 cublasDnrm2_v2
#define cublasSasum cublasSasum_v2
#define cublasDasum cublasDasum_v2
#define cublasSscal cublasSscal_v2
#define cublasDscal cublasDscal_v2
#define cublasScopy cublasScopy_v2
#define cublasDcopy cublasDcopy_v2
#define cublasSswap cublasSswap_v2
#define cublasDswap cublasDswap_v2
#define cublasIsamax cublasIsamax_v2
#define cublasIdamax cublasIdamax_v2
#define cublasIsamin cublasIsamin_v2
#define cublasIdamin cublasIdamin_v2

#ifdef __cplusplus
extern "C" {
#endif
cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t *mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
const char *cublasGetStatusName(cublasStatus_t status);
const char *cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasSetVector(int n, int size, const void *x, int incx, void *y, int incy);
cublasStatus_t cublasGetVector(int n, int size, const void *x, int incx, void *y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void *a, int lda, void *b,
                               int ldb);
cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void *a, int lda, void *b,
                               int ldb);
cublasStatus_t cublasSetVectorAsync(int n, int size, const void *x, int incx, void *y, int incy,
                                    cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync(int n, int size, const void *x, int incx, void *y, int incy,
                                    cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int size, const void *a, int lda,
                                    void *b, int ldb, cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int size, const void *a, int lda,
                                    void *b, int ldb, cudaStream_t stream);

#define WEFT_BLAS_OF(S, s, T)                                                                      \
    cublasStatus_t cublas##S##axpy_v2(cublasHandle_t, int n, const T *alpha, const T *x, int incx, \
                                      T *y, int incy);                                             \
    cublasStatus_t cublas##S##dot_v2(cublasHandle_t, int n, const T *x, int incx, const T *y,      \
                                     int incy, T *result);                                         \
    cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t, int n, const T *x, int incx, T *result);     \
    cublasStatus_t cublas##S##asum_v2(cublasHandle_t, int n, const T *x, int incx, T *result);     \
    cublasStatus_t cublas##S##scal_v2(cublasHandle_t, int n, const T *alpha, T *x, int incx);      \
    cublasStatus_t cublas##S##copy_v2(cublasHandle_t, int n, const T *x, int incx, T *y,           \
                                      int incy);                                                   \
    cublasStatus_t cublas##S##swap_v2(cublasHandle_t, int n, T *x, int incx, T *y, int incy);      \
    cublasStatus_t cublasI##s##amax_v2(cublasHandle_t, int n, const T *x, int incx, int *result);  \
    cublasStatus_t cublasI##s##amin_v2(cublasHandle_t, int n, const T *x, int incx, int *result);  \
    cublasStatus_t cublas##S##gemv_v2(cublasHandle_t, cublasOperation_t trans, int m, int n,       \
                                      const T *alpha, const T *a, int lda, const T *x, int incx,   \
                                      const T *beta, T *y, int incy);                              \
    cublasStatus_t cublas##S##ger_v2(cublasHandle_t, int m, int n, const T *alpha, const T *x,     \
                                     int incx, const T *y, int incy, T *a, int lda);               \
    cublasStatus_t cublas##S##geam(                                                                \
        cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n,          \
        const T *alpha, const T *a, int lda, const T *beta, const T *b, int ldb, T *c, int ldc);
#define WEFT_GEMMS_OF(S, V, T)                                                                   \
    cublasStatus_t cublas##S##gemm##V(                                                           \
        cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, \
        const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c, int ldc); \
    cublasStatus_t cublas##S##gemmBatched(                                                       \
        cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, \
        const T *alpha, const T *const a[], int lda, const T *const b[], int ldb, const T *beta, \
        T *const c[], int ldc, int batch);                                                       \
    cublasStatus_t cublas##S##gemmStridedBatched(                                                \
        cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, \
        const T *alpha, const T *a, int lda, long long int stridea, const T *b, int ldb,         \
        long long int strideb, const T *beta, T *c, int ldc, long long int stridec, int batch);
#define WEFT_FACTORS_OF(S, T)                                                                      \
    cublasStatus_t cublas##S##trsm_v2(cublasHandle_t, cublasSideMode_t side, cublasFillMode_t fill, \
                                      cublasOperation_t trans, cublasDiagType_t diag, int m,       \
                                      int n, const T *alpha, const T *a, int lda, T *b, int ldb);  \
    cublasStatus_t cublas##S##getrfBatched(cublasHandle_t, int n, T *const a[], int lda,           \
                                           int *pivots, int *info, int batch);                     \
    cublasStatus_t cublas##S##getriBatched(cublasHandle_t, int n, const T *const a[], int lda,     \
                                           const int *pivots, T *const c[], int ldc, int *info,    \
                                           int batch);                                             \
    cublasStatus_t cublas##S##getrsBatched(cublasHandle_t, cublasOperation_t trans, int n,         \
                                           int nrhs, const T *const a[], int lda,                  \
                                           const int *pivots, T *const b[], int ldb, int *info,    \
                                           int batch);
WEFT_FACTORS_OF(S, float)
WEFT_FACTORS_OF(D, double)
#undef WEFT_FACTORS_OF
WEFT_BLAS_OF(S, s, float)
WEFT_BLAS_OF(D, d, double)
WEFT_GEMMS_OF(S, _v2, float)
WEFT_GEMMS_OF(D, _v2, double)
WEFT_GEMMS_OF(H, , __half)
#undef WEFT_BLAS_OF
#undef WEFT_GEMMS_OF

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType atype, int lda, const void *b, cudaDataType btype, int ldb,
                            const void *beta, void *c, cudaDataType ctype, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t transa,
                                   cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                   const void *const a[], cudaDataType atype, int lda,
                                   const void *const b[], cudaDataType btype, int ldb,
                                   const void *beta, void *const c[], cudaDataType ctype, int ldc,
                                   int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType atype,
                                          int lda, long long int stridea, const void *b,
                                          cudaDataType btype, int ldb, long long int strideb,
                                          const void *beta, void *c, cudaDataType ctype, int ldc,
                                          long long int stridec, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
#ifdef __cplusplus
}

// C++ callers may name the old type of computation.
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                                   cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                   const void *a, cudaDataType atype, int lda, const void *b,
                                   cudaDataType btype, int ldb, const void *beta, void *c,
                                   cudaDataType ctype, int ldc, cudaDataType compute,
                                   cublasGemmAlgo_t algorithm) {
    cublasComputeType_t type = compute == CUDA_R_64F   ? CUBLAS_COMPUTE_64F
                               : compute == CUDA_R_16F ? CUBLAS_COMPUTE_16F
                               : compute == CUDA_R_32I ? CUBLAS_COMPUTE_32I
                                                       : CUBLAS_COMPUTE_32F;
    return cublasGemmEx(handle, transa, transb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta,
                        c, ctype, ldc, type, algorithm);
}
#endif
#include <cublas_v2_rest.h>
