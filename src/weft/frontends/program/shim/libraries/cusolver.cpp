// cuSOLVER's dense factors, systems, eigenvalues and singular values; NumPy computes
// (libraries/solver.py).
#include <cusolverDn.h>

#include "../standard.h"
#include "../weft.h"

using namespace weft;

struct cusolverDnContext {
    cudaStream_t stream = nullptr;
};

namespace {
template <class T>
constexpr int64_t solver_type = CUDA_R_32F;
template <>
constexpr int64_t solver_type<double> = CUDA_R_64F;
template <>
constexpr int64_t solver_type<cuComplex> = CUDA_C_32F;
template <>
constexpr int64_t solver_type<cuDoubleComplex> = CUDA_C_64F;
constexpr int SOLVER_WORK = 16;  // elements; none are needed, but programs allocate what they are told

int64_t number(const void *address) { return int64_t(address); }
int64_t number(int64_t value) { return value; }

template <class... Parts>
cusolverStatus_t solver_call(cusolverDnHandle_t handle, const char *name, Parts... parts) {
    if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (broken()) return CUSOLVER_STATUS_EXECUTION_FAILED;
    std::vector<int64_t> numbers = {number(parts)...};
    auto status = std::make_shared<int>(0);
    auto error = submit(handle->stream, cudaGraphNodeTypeKernel, [=] {
        *status = ops.compute(name, numbers.data(), int(numbers.size()));
        return cudaSuccess;
    }, true);
    return error ? CUSOLVER_STATUS_EXECUTION_FAILED : static_cast<cusolverStatus_t>(*status);
}
cusolverStatus_t work_size(int *size) {
    *size = SOLVER_WORK;
    return CUSOLVER_STATUS_SUCCESS;
}
}  // namespace

API cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *out) {
    *out = new cusolverDnContext;
    return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
    delete handle;
    return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream) {
    *stream = handle->stream;
    return CUSOLVER_STATUS_SUCCESS;
}

#define SOLVER_SIZES(S, T, R, MAKE_Q, APPLY_Q, EIGEN)                                              \
    API cusolverStatus_t cusolverDn##S##getrf_bufferSize(cusolverDnHandle_t, int, int, T *, int,   \
                                                         int *size) {                              \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potrf_bufferSize(cusolverDnHandle_t, cublasFillMode_t,     \
                                                         int, T *, int, int *size) {               \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potri_bufferSize(cusolverDnHandle_t, cublasFillMode_t,     \
                                                         int, T *, int, int *size) {               \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##geqrf_bufferSize(cusolverDnHandle_t, int, int, T *, int,   \
                                                         int *size) {                              \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##MAKE_Q##_bufferSize(cusolverDnHandle_t, int, int, int,     \
                                                         const T *, int, const T *, int *size) {   \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##APPLY_Q##_bufferSize(                                      \
        cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, int, int, const T *, int,    \
        const T *, const T *, int, int *size) {                                                    \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##gesvd_bufferSize(cusolverDnHandle_t, int, int,             \
                                                         int *size) {                              \
        return work_size(size);                                                                    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##EIGEN##_bufferSize(cusolverDnHandle_t, cusolverEigMode_t,  \
                                                         cublasFillMode_t, int, const T *, int,    \
                                                         const R *, int *size) {                   \
        return work_size(size);                                                                    \
    }

#define SOLVER_CALLS(S, T, R, MAKE_Q, APPLY_Q, EIGEN)                                              \
    API cusolverStatus_t cusolverDn##S##getrf(cusolverDnHandle_t handle, int m, int n, T *a,       \
                                              int lda, T *, int *pivots, int *info) {              \
        return solver_call(handle, "solver_getrf", solver_type<T>, m, n, a, lda, pivots, info);    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##getrs(cusolverDnHandle_t handle, cublasOperation_t op,     \
                                              int n, int columns, const T *a, int lda,             \
                                              const int *pivots, T *b, int ldb, int *info) {       \
        return solver_call(handle, "solver_getrs", solver_type<T>, op, n, columns, a, lda, pivots, \
                           b, ldb, info);                                                          \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potrf(cusolverDnHandle_t handle, cublasFillMode_t fill,    \
                                              int n, T *a, int lda, T *, int, int *info) {         \
        return solver_call(handle, "solver_potrf", solver_type<T>, fill, n, a, lda, info);         \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potrs(cusolverDnHandle_t handle, cublasFillMode_t fill,    \
                                              int n, int columns, const T *a, int lda, T *b,       \
                                              int ldb, int *info) {                                \
        return solver_call(handle, "solver_potrs", solver_type<T>, fill, n, columns, a, lda, b,    \
                           ldb, info);                                                             \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##potri(cusolverDnHandle_t handle, cublasFillMode_t fill,    \
                                              int n, T *a, int lda, T *, int, int *info) {         \
        return solver_call(handle, "solver_potri", solver_type<T>, fill, n, a, lda, info);         \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##geqrf(cusolverDnHandle_t handle, int m, int n, T *a,       \
                                              int lda, T *tau, T *, int, int *info) {              \
        return solver_call(handle, "solver_geqrf", solver_type<T>, m, n, a, lda, tau, info);       \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##MAKE_Q(cusolverDnHandle_t handle, int m, int n, int k,     \
                                              T *a, int lda, const T *tau, T *, int, int *info) {  \
        return solver_call(handle, "solver_orgqr", solver_type<T>, m, n, k, a, lda, tau, info);    \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##APPLY_Q(                                                   \
        cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n,      \
        int k, const T *a, int lda, const T *tau, T *c, int ldc, T *, int, int *info) {            \
        return solver_call(handle, "solver_ormqr", solver_type<T>, side, op, m, n, k, a, lda, tau, \
                           c, ldc, info);                                                          \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##gesvd(                                                     \
        cusolverDnHandle_t handle, signed char job_u, signed char job_vt, int m, int n, T *a,      \
        int lda, R *s, T *u, int ldu, T *vt, int ldvt, T *, int, R *, int *info) {                 \
        return solver_call(handle, "solver_gesvd", solver_type<T>, job_u, job_vt, m, n, a, lda, s, \
                           u, ldu, vt, ldvt, info);                                                \
    }                                                                                              \
    API cusolverStatus_t cusolverDn##S##EIGEN(cusolverDnHandle_t handle, cusolverEigMode_t mode,   \
                                              cublasFillMode_t fill, int n, T *a, int lda, R *w,   \
                                              T *, int, int *info) {                               \
        return solver_call(handle, "solver_syevd", solver_type<T>, mode, fill, n, a, lda, w,       \
                           info);                                                                  \
    }
SOLVER_SIZES(S, float, float, orgqr, ormqr, syevd)
SOLVER_SIZES(D, double, double, orgqr, ormqr, syevd)
SOLVER_SIZES(C, cuComplex, float, ungqr, unmqr, heevd)
SOLVER_SIZES(Z, cuDoubleComplex, double, ungqr, unmqr, heevd)
SOLVER_CALLS(S, float, float, orgqr, ormqr, syevd)
SOLVER_CALLS(D, double, double, orgqr, ormqr, syevd)
SOLVER_CALLS(C, cuComplex, float, ungqr, unmqr, heevd)
SOLVER_CALLS(Z, cuDoubleComplex, double, ungqr, unmqr, heevd)
