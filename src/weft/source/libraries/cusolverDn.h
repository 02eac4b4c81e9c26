// The part of cuSOLVER's dense interface that weft serves; used where the toolkit has no
// cusolverDn.h of its own.
#pragma once

#define CUSOLVER_COMMON_H_  // code tests for NVIDIA's guard

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

typedef enum {
    CUSOLVER_STATUS_SUCCESS = 0,
    CUSOLVER_STATUS_NOT_INITIALIZED = 1,
    CUSOLVER_STATUS_ALLOC_FAILED = 2,
    CUSOLVER_STATUS_INVALID_VALUE = 3,
    CUSOLVER_STATUS_ARCH_MISMATCH = 4,
    CUSOLVER_STATUS_MAPPING_ERROR = 5,
    CUSOLVER_STATUS_EXECUTION_FAILED = 6,
    CUSOLVER_STATUS_INTERNAL_ERROR = 7,
    CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
    CUSOLVER_STATUS_NOT_SUPPORTED = 9,
    CUSOLVER_STATUS_ZERO_PIVOT = 10,
    CUSOLVER_STATUS_INVALID_LICENSE = 11
} cusolverStatus_t;
typedef enum { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 } cusolverEigMode_t;
typedef struct cusolverDnContext *cusolverDnHandle_t;

#ifdef __cplusplus
extern "C" {
#endif
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream);

#define WEFT_SOLVER(S, T)                                                                          \
    cusolverStatus_t cusolverDn##S##getrf_bufferSize(cusolverDnHandle_t, int m, int n, T *a,       \
                                                     int lda, int *size);                          \
    cusolverStatus_t cusolverDn##S##getrf(cusolverDnHandle_t, int m, int n, T *a, int lda,         \
                                          T *work, int *pivots, int *info);                        \
    cusolverStatus_t cusolverDn##S##getrs(cusolverDnHandle_t, cublasOperation_t op, int n,         \
                                          int columns, const T *a, int lda, const int *pivots,     \
                                          T *b, int ldb, int *info);                               \
    cusolverStatus_t cusolverDn##S##potrf_bufferSize(cusolverDnHandle_t, cublasFillMode_t fill,    \
                                                     int n, T *a, int lda, int *size);             \
    cusolverStatus_t cusolverDn##S##potrf(cusolverDnHandle_t, cublasFillMode_t fill, int n, T *a,  \
                                          int lda, T *work, int size, int *info);                  \
    cusolverStatus_t cusolverDn##S##potrs(cusolverDnHandle_t, cublasFillMode_t fill, int n,        \
                                          int columns, const T *a, int lda, T *b, int ldb,         \
                                          int *info);                                              \
    cusolverStatus_t cusolverDn##S##potri_bufferSize(cusolverDnHandle_t, cublasFillMode_t fill,    \
                                                     int n, T *a, int lda, int *size);             \
    cusolverStatus_t cusolverDn##S##potri(cusolverDnHandle_t, cublasFillMode_t fill, int n, T *a,  \
                                          int lda, T *work, int size, int *info);                  \
    cusolverStatus_t cusolverDn##S##geqrf_bufferSize(cusolverDnHandle_t, int m, int n, T *a,       \
                                                     int lda, int *size);                          \
    cusolverStatus_t cusolverDn##S##geqrf(cusolverDnHandle_t, int m, int n, T *a, int lda, T *tau, \
                                          T *work, int size, int *info);                           \
    cusolverStatus_t cusolverDn##S##orgqr_bufferSize(cusolverDnHandle_t, int m, int n, int k,      \
                                                     const T *a, int lda, const T *tau,            \
                                                     int *size);                                   \
    cusolverStatus_t cusolverDn##S##orgqr(cusolverDnHandle_t, int m, int n, int k, T *a, int lda,  \
                                          const T *tau, T *work, int size, int *info);             \
    cusolverStatus_t cusolverDn##S##ormqr_bufferSize(                                              \
        cusolverDnHandle_t, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,      \
        const T *a, int lda, const T *tau, const T *c, int ldc, int *size);                        \
    cusolverStatus_t cusolverDn##S##ormqr(cusolverDnHandle_t, cublasSideMode_t side,               \
                                          cublasOperation_t op, int m, int n, int k, const T *a,   \
                                          int lda, const T *tau, T *c, int ldc, T *work, int size, \
                                          int *info);                                              \
    cusolverStatus_t cusolverDn##S##gesvd_bufferSize(cusolverDnHandle_t, int m, int n, int *size); \
    cusolverStatus_t cusolverDn##S##gesvd(cusolverDnHandle_t, signed char job_u,                   \
                                          signed char job_vt, int m, int n, T *a, int lda, T *s,   \
                                          T *u, int ldu, T *vt, int ldvt, T *work, int size,       \
                                          T *rwork, int *info);                                    \
    cusolverStatus_t cusolverDn##S##syevd_bufferSize(cusolverDnHandle_t, cusolverEigMode_t mode,   \
                                                     cublasFillMode_t fill, int n, const T *a,     \
                                                     int lda, const T *w, int *size);              \
    cusolverStatus_t cusolverDn##S##syevd(cusolverDnHandle_t, cusolverEigMode_t mode,              \
                                          cublasFillMode_t fill, int n, T *a, int lda, T *w,       \
                                          T *work, int size, int *info);
WEFT_SOLVER(S, float)
WEFT_SOLVER(D, double)
#undef WEFT_SOLVER
#ifdef __cplusplus
}
#endif
