// cuSOLVER's dense factors, systems, eigenvalues and singular values; NumPy computes
// (libraries/solver.py).
#include <cusolverDn.h>

#include "library.h"

using namespace weft;

struct cusolverDnContext {
    cudaStream_t stream = nullptr;
};

namespace weft {
constexpr int64_t type_at(const cuComplex *) { return CUDA_C_32F; }
constexpr int64_t type_at(const cuDoubleComplex *) { return CUDA_C_64F; }
}  // namespace weft

namespace {
constexpr int SOLVER_WORK = 16;  // elements; none are needed, but programs allocate them

template <class... Parts>
cusolverStatus_t solver_call(cusolverDnHandle_t handle, const char *name, Parts... parts) {
    if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
    return numpy_call(handle->stream, name, numbers_of(parts...),
                      CUSOLVER_STATUS_EXECUTION_FAILED);
}
}  // namespace

API cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *out) {
    return set(*out, new cusolverDnContext);
}
API cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) { return destroy(handle); }
API cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
    return set(handle->stream, stream);
}
API cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream) {
    return set(*stream, handle->stream);
}

#define WORK_SIZE(NAME, ...)                                                                       \
    API cusolverStatus_t cusolverDn##NAME##_bufferSize(cusolverDnHandle_t, __VA_ARGS__,            \
                                                       int *size) {                                \
        return set(*size, SOLVER_WORK);                                                            \
    }
#define SOLVER_SIZES(S, T, R, MAKE_Q, APPLY_Q, EIGEN)                                              \
    WORK_SIZE(S##getrf, int, int, T *, int)                                                        \
    WORK_SIZE(S##potrf, cublasFillMode_t, int, T *, int)                                           \
    WORK_SIZE(S##potri, cublasFillMode_t, int, T *, int)                                           \
    WORK_SIZE(S##geqrf, int, int, T *, int)                                                        \
    WORK_SIZE(S##MAKE_Q, int, int, int, const T *, int, const T *)                                 \
    WORK_SIZE(S##APPLY_Q, cublasSideMode_t, cublasOperation_t, int, int, int, const T *, int,      \
              const T *, const T *, int)                                                           \
    WORK_SIZE(S##gesvd, int, int)                                                                  \
    WORK_SIZE(S##EIGEN, cusolverEigMode_t, cublasFillMode_t, int, const T *, int, const R *)

#define SOLVER_CALLS(S, T, R, MAKE_Q, APPLY_Q, EIGEN)                                              \
    API cusolverStatus_t cusolverDn##S##getrf(cusolverDnHandle_t handle, int m, int n, T *a,       \
                                              int lda, T *, int *pivots, int *info) {              \
        return solver_call(handle, "solver_getrf", type_at(a), m, n, a, lda, pivots, info);    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##getrs(cusolverDnHandle_t handle, cublasOperation_t op,     \
                                              int n, int columns, const T *a, int lda,             \
                                              const int *pivots, T *b, int ldb, int *info) {       \
        return solver_call(handle, "solver_getrs", type_at(a), op, n, columns, a, lda, pivots, \
                           b, ldb, info);                                                          \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potrf(cusolverDnHandle_t handle, cublasFillMode_t fill,    \
                                              int n, T *a, int lda, T *, int, int *info) {         \
        return solver_call(handle, "solver_potrf", type_at(a), fill, n, a, lda, info);         \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potrs(cusolverDnHandle_t handle, cublasFillMode_t fill,    \
                                              int n, int columns, const T *a, int lda, T *b,       \
                                              int ldb, int *info) {                                \
        return solver_call(handle, "solver_potrs", type_at(a), fill, n, columns, a, lda, b,    \
                           ldb, info);                                                             \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potri(cusolverDnHandle_t handle, cublasFillMode_t fill,    \
                                              int n, T *a, int lda, T *, int, int *info) {         \
        return solver_call(handle, "solver_potri", type_at(a), fill, n, a, lda, info);         \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##geqrf(cusolverDnHandle_t handle, int m, int n, T *a,       \
                                              int lda, T *tau, T *, int, int *info) {              \
        return solver_call(handle, "solver_geqrf", type_at(a), m, n, a, lda, tau, info);       \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##MAKE_Q(cusolverDnHandle_t handle, int m, int n, int k,     \
                                              T *a, int lda, const T *tau, T *, int, int *info) {  \
        return solver_call(handle, "solver_orgqr", type_at(a), m, n, k, a, lda, tau, info);    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##APPLY_Q(                                                   \
        cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n,      \
        int k, const T *a, int lda, const T *tau, T *c, int ldc, T *, int, int *info) {            \
        return solver_call(handle, "solver_ormqr", type_at(a), side, op, m, n, k, a, lda, tau, \
                           c, ldc, info);                                                          \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##gesvd(                                                     \
        cusolverDnHandle_t handle, signed char job_u, signed char job_vt, int m, int n, T *a,      \
        int lda, R *s, T *u, int ldu, T *vt, int ldvt, T *, int, R *, int *info) {                 \
        return solver_call(handle, "solver_gesvd", type_at(a), job_u, job_vt, m, n, a, lda, s, \
                           u, ldu, vt, ldvt, info);                                                \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##EIGEN(cusolverDnHandle_t handle, cusolverEigMode_t mode,   \
                                              cublasFillMode_t fill, int n, T *a, int lda, R *w,   \
                                              T *, int, int *info) {                               \
        return solver_call(handle, "solver_syevd", type_at(a), mode, fill, n, a, lda, w,       \
                           info);                                                                  \
    }
#define SOLVER(...) SOLVER_SIZES(__VA_ARGS__) SOLVER_CALLS(__VA_ARGS__)
SOLVER(S, float, float, orgqr, ormqr, syevd)
SOLVER(D, double, double, orgqr, ormqr, syevd)
SOLVER(C, cuComplex, float, ungqr, unmqr, heevd)
SOLVER(Z, cuDoubleComplex, double, ungqr, unmqr, heevd)
