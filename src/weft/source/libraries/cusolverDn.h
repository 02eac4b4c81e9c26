// The part of cuSOLVER's dense interface that weft serves; used where the toolkit has no
// cusolverDn.h of its own.
#pragma once

#include <cusolver_common.h>

typedef struct cusolverDnContext *cusolverDnHandle_t;

#ifdef __cplusplus
extern "C" {
#endif
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream);

#define WEFT_SOLVER(S, T, R, MAKE_Q, APPLY_Q, EIGEN)                                               \
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
    cusolverStatus_t cusolverDn##S##MAKE_Q##_bufferSize(cusolverDnHandle_t, int m, int n, int k,   \
                                                     const T *a, int lda, const T *tau,            \
                                                     int *size);                                   \
    cusolverStatus_t cusolverDn##S##MAKE_Q(cusolverDnHandle_t, int m, int n, int k, T *a, int lda, \
                                          const T *tau, T *work, int size, int *info);             \
    cusolverStatus_t cusolverDn##S##APPLY_Q##_bufferSize(                                          \
        cusolverDnHandle_t, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,      \
        const T *a, int lda, const T *tau, const T *c, int ldc, int *size);                        \
    cusolverStatus_t cusolverDn##S##APPLY_Q(cusolverDnHandle_t, cublasSideMode_t side,             \
                                          cublasOperation_t op, int m, int n, int k, const T *a,   \
                                          int lda, const T *tau, T *c, int ldc, T *work, int size, \
                                          int *info);                                              \
    cusolverStatus_t cusolverDn##S##gesvd_bufferSize(cusolverDnHandle_t, int m, int n, int *size); \
    cusolverStatus_t cusolverDn##S##gesvd(cusolverDnHandle_t, signed char job_u,                   \
                                          signed char job_vt, int m, int n, T *a, int lda, R *s,   \
                                          T *u, int ldu, T *vt, int ldvt, T *work, int size,       \
                                          R *rwork, int *info);                                    \
    cusolverStatus_t cusolverDn##S##EIGEN##_bufferSize(cusolverDnHandle_t, cusolverEigMode_t mode, \
                                                     cublasFillMode_t fill, int n, const T *a,     \
                                                     int lda, const R *w, int *size);              \
    cusolverStatus_t cusolverDn##S##EIGEN(cusolverDnHandle_t, cusolverEigMode_t mode,              \
                                          cublasFillMode_t fill, int n, T *a, int lda, R *w,       \
                                          T *work, int size, int *info);
WEFT_SOLVER(S, float, float, orgqr, ormqr, syevd)
WEFT_SOLVER(D, double, double, orgqr, ormqr, syevd)
WEFT_SOLVER(C, cuComplex, float, ungqr, unmqr, heevd)
WEFT_SOLVER(Z, cuDoubleComplex, double, ungqr, unmqr, heevd)
#undef WEFT_SOLVER
#ifdef __cplusplus
}
#endif
#include <cusolverDn_rest.h>
