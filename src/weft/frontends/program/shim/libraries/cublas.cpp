// cuBLAS: the arguments of each function, gathered for NumPy (blas.py) to compute with.
#include "library.h"

#include <cublas_v2.h>

using namespace weft;

namespace weft {
constexpr int64_t type_at(const __half *) { return CUDA_R_16F; }
}  // namespace weft

namespace {
// A call: matrices are column-major; a vector's increment stands in its leading dimension.
struct BlasCall {
    const char *operation;
    int64_t type_a, type_b, type_c, type_scale;  // cudaDataType_t
    int64_t transpose_a, transpose_b;            // 0 as it is, 1 transposed, 2 conjugate
    int64_t by_pointers;                         // a, b, c are arrays of pointers
    int64_t m, n, k;
    const void *alpha, *beta, *a, *b;
    void *c;
    int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, batch;

    Numbers numbers() const {  // in the order of blas.py
        return numbers_of(type_a, type_b, type_c, type_scale, transpose_a, transpose_b,
                          by_pointers, m, n, k, alpha, beta, a, b, c, lda, ldb, ldc, stride_a,
                          stride_b, stride_c, batch);
    }
};
struct Context {
    cudaStream_t stream = nullptr;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
};
Context *of(cublasHandle_t handle) { return reinterpret_cast<Context *>(handle); }

size_t size_of(int64_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_16F ? 2 : 4; }

template <class T>
BlasCall call_of(const char *operation) {
    BlasCall call{};
    call.operation = operation;
    call.type_a = call.type_b = call.type_c = call.type_scale =
        type_at(static_cast<const T *>(nullptr));
    call.batch = 1;
    return call;
}

cublasStatus_t compute(cublasHandle_t handle, BlasCall call) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (broken()) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    auto stream = of(handle)->stream;
    auto scalars = std::make_shared<std::pair<double, double>>();
    // A graph runs the call later: scalars of the host are read now.
    if (capturing(stream) && of(handle)->pointers == CUBLAS_POINTER_MODE_HOST) {
        size_t bytes = size_of(call.type_scale);
        if (call.alpha) call.alpha = memcpy(&scalars->first, call.alpha, bytes);
        if (call.beta) call.beta = memcpy(&scalars->second, call.beta, bytes);
    }
    return numpy_call(stream, call.operation, call.numbers(), CUBLAS_STATUS_EXECUTION_FAILED,
                      scalars);
}

int scale_type(cublasComputeType_t type) {
    switch (type) {
        case CUBLAS_COMPUTE_16F:
        case CUBLAS_COMPUTE_16F_PEDANTIC:
            return CUDA_R_16F;
        case CUBLAS_COMPUTE_64F:
        case CUBLAS_COMPUTE_64F_PEDANTIC:
            return CUDA_R_64F;
        case CUBLAS_COMPUTE_32I:
        case CUBLAS_COMPUTE_32I_PEDANTIC:
            return CUDA_R_32I;
        default:
            return CUDA_R_32F;
    }
}

// The arguments that all matrix products have.
BlasCall product(BlasCall call, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                 const void *alpha, const void *a, int lda, const void *b, int ldb,
                 const void *beta, void *c, int ldc) {
    call.operation = "blas_gemm";
    call.transpose_a = ta, call.transpose_b = tb;
    call.m = m, call.n = n, call.k = k;
    call.alpha = alpha, call.a = a, call.lda = lda, call.b = b, call.ldb = ldb;
    call.beta = beta, call.c = c, call.ldc = ldc;
    return call;
}
BlasCall batched(BlasCall call, int batch) {
    call.by_pointers = 1, call.batch = batch;
    return call;
}
BlasCall strided(BlasCall call, int64_t a, int64_t b, int64_t c, int batch) {
    call.stride_a = a, call.stride_b = b, call.stride_c = c, call.batch = batch;
    return call;
}
BlasCall typed(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
    BlasCall call{};
    call.type_a = a, call.type_b = b, call.type_c = c, call.type_scale = scale_type(compute);
    call.batch = 1;
    return call;
}
// A vector or two: increments stand in the leading dimensions.
template <class T>
BlasCall vectors(const char *operation, int n, const void *alpha, const void *x, int incx,
                 const void *y, int incy, void *result) {
    auto call = call_of<T>(operation);
    call.n = n, call.alpha = alpha, call.a = x, call.lda = incx, call.b = y, call.ldb = incy,
    call.c = result;
    return call;
}
}  // namespace

// ---- the handle ---------------------------------------------------------------------------------

API cublasStatus_t cublasCreate(cublasHandle_t *out) {
    return set(*out, reinterpret_cast<cublasHandle_t>(new Context));
}
API cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete of(handle);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasGetVersion(cublasHandle_t, int *version) {
    return set(*version, CUBLAS_VERSION);
}
API cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    return set(of(handle)->stream, stream);
}
API cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream) {
    return set(*stream, of(handle)->stream);
}
API cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
    return set(of(handle)->pointers, mode);
}
API cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t *mode) {
    return set(*mode, of(handle)->pointers);
}
API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    return set(of(handle)->math, mode);
}
API cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
    return set(*mode, of(handle)->math);
}
API cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) {
    return CUBLAS_STATUS_SUCCESS;
}

API const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define ROW(name)                                                                                  \
    case name:                                                                                     \
        return #name;
        ROW(CUBLAS_STATUS_SUCCESS)
        ROW(CUBLAS_STATUS_NOT_INITIALIZED) ROW(CUBLAS_STATUS_ALLOC_FAILED)
            ROW(CUBLAS_STATUS_INVALID_VALUE) ROW(CUBLAS_STATUS_ARCH_MISMATCH)
                ROW(CUBLAS_STATUS_MAPPING_ERROR) ROW(CUBLAS_STATUS_EXECUTION_FAILED)
                    ROW(CUBLAS_STATUS_INTERNAL_ERROR) ROW(CUBLAS_STATUS_NOT_SUPPORTED) default
            : return "unknown status";
#undef ROW
    }
}
API const char *cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

// ---- copies between host and device -------------------------------------------------------------

static cublasStatus_t copied(cudaError_t error) {
    return error ? CUBLAS_STATUS_MAPPING_ERROR : CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void *a, int lda, void *b,
                                   int ldb) {
    return copied(cudaMemcpy2D(b, size_t(ldb) * size, a, size_t(lda) * size, size_t(rows) * size,
                               columns, cudaMemcpyHostToDevice));
}
API cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void *a, int lda, void *b,
                                   int ldb) {
    return copied(cudaMemcpy2D(b, size_t(ldb) * size, a, size_t(lda) * size, size_t(rows) * size,
                               columns, cudaMemcpyDeviceToHost));
}
API cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int size, const void *a, int lda,
                                        void *b, int ldb, cudaStream_t stream) {
    return copied(cudaMemcpy2DAsync(b, size_t(ldb) * size, a, size_t(lda) * size,
                                    size_t(rows) * size, columns, cudaMemcpyHostToDevice, stream));
}
API cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int size, const void *a, int lda,
                                        void *b, int ldb, cudaStream_t stream) {
    return copied(cudaMemcpy2DAsync(b, size_t(ldb) * size, a, size_t(lda) * size,
                                    size_t(rows) * size, columns, cudaMemcpyDeviceToHost, stream));
}
API cublasStatus_t cublasSetVector(int n, int size, const void *x, int incx, void *y, int incy) {
    return cublasSetMatrix(1, n, size, x, incx, y, incy);
}
API cublasStatus_t cublasGetVector(int n, int size, const void *x, int incx, void *y, int incy) {
    return cublasGetMatrix(1, n, size, x, incx, y, incy);
}
API cublasStatus_t cublasSetVectorAsync(int n, int size, const void *x, int incx, void *y, int incy,
                                        cudaStream_t stream) {
    return cublasSetMatrixAsync(1, n, size, x, incx, y, incy, stream);
}
API cublasStatus_t cublasGetVectorAsync(int n, int size, const void *x, int incx, void *y, int incy,
                                        cudaStream_t stream) {
    return cublasGetMatrixAsync(1, n, size, x, incx, y, incy, stream);
}

// ---- vectors and matrices, single and double ----------------------------------------------------

#define BLAS_OF(S, s, T)                                                                           \
    API cublasStatus_t cublas##S##axpy_v2(cublasHandle_t h, int n, const T *alpha, const T *x,     \
                                          int incx, T *y, int incy) {                              \
        return compute(h, vectors<T>("blas_axpy", n, alpha, x, incx, y, incy, y));                 \
    }                                                                                              \
    API cublasStatus_t cublas##S##dot_v2(cublasHandle_t h, int n, const T *x, int incx,            \
                                         const T *y, int incy, T *out) {                           \
        return compute(h, vectors<T>("blas_dot", n, nullptr, x, incx, y, incy, out));              \
    }                                                                                              \
    API cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t h, int n, const T *x, int incx, T *out) { \
        return compute(h, vectors<T>("blas_nrm2", n, nullptr, x, incx, x, incx, out));             \
    }                                                                                              \
    API cublasStatus_t cublas##S##asum_v2(cublasHandle_t h, int n, const T *x, int incx, T *out) { \
        return compute(h, vectors<T>("blas_asum", n, nullptr, x, incx, x, incx, out));             \
    }                                                                                              \
    API cublasStatus_t cublas##S##scal_v2(cublasHandle_t h, int n, const T *alpha, T *x,           \
                                          int incx) {                                              \
        return compute(h, vectors<T>("blas_scal", n, alpha, x, incx, x, incx, x));                 \
    }                                                                                              \
    API cublasStatus_t cublas##S##copy_v2(cublasHandle_t h, int n, const T *x, int incx, T *y,     \
                                          int incy) {                                              \
        return compute(h, vectors<T>("blas_copy", n, nullptr, x, incx, y, incy, y));               \
    }                                                                                              \
    API cublasStatus_t cublas##S##swap_v2(cublasHandle_t h, int n, T *x, int incx, T *y,           \
                                          int incy) {                                              \
        return compute(h, vectors<T>("blas_swap", n, nullptr, x, incx, y, incy, y));               \
    }                                                                                              \
    API cublasStatus_t cublasI##s##amax_v2(cublasHandle_t h, int n, const T *x, int incx,          \
                                           int *out) {                                             \
        return compute(h, vectors<T>("blas_amax", n, nullptr, x, incx, x, incx, out));             \
    }                                                                                              \
    API cublasStatus_t cublasI##s##amin_v2(cublasHandle_t h, int n, const T *x, int incx,          \
                                           int *out) {                                             \
        return compute(h, vectors<T>("blas_amin", n, nullptr, x, incx, x, incx, out));             \
    }                                                                                              \
    API cublasStatus_t cublas##S##gemv_v2(cublasHandle_t h, cublasOperation_t t, int m, int n,     \
                                          const T *alpha, const T *a, int lda, const T *x,         \
                                          int incx, const T *beta, T *y, int incy) {               \
        auto call = call_of<T>("blas_gemv");                                                       \
        call.transpose_a = t, call.m = m, call.n = n, call.alpha = alpha, call.beta = beta;        \
        call.a = a, call.lda = lda, call.b = x, call.ldb = incx, call.c = y, call.ldc = incy;      \
        return compute(h, call);                                                                   \
    }                                                                                              \
    API cublasStatus_t cublas##S##ger_v2(cublasHandle_t h, int m, int n, const T *alpha,           \
                                         const T *x, int incx, const T *y, int incy, T *a,         \
                                         int lda) {                                                \
        auto call = call_of<T>("blas_ger");                                                        \
        call.m = m, call.n = n, call.alpha = alpha;                                                \
        call.a = x, call.lda = incx, call.b = y, call.ldb = incy, call.c = a, call.ldc = lda;      \
        return compute(h, call);                                                                   \
    }                                                                                              \
    API cublasStatus_t cublas##S##geam(                                                            \
        cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,                \
        const T *alpha, const T *a, int lda, const T *beta, const T *b, int ldb, T *c, int ldc) {  \
        auto call =                                                                                \
            product(call_of<T>("blas_geam"), ta, tb, m, n, 0, alpha, a, lda, b, ldb, beta, c, ldc);\
        call.operation = "blas_geam";                                                              \
        return compute(h, call);                                                                   \
    }

#define GEMMS_OF(S, V, T)                                                                          \
    API cublasStatus_t cublas##S##gemm##V(                                                         \
        cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,         \
        const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c, int ldc) {  \
        auto call = call_of<T>("blas_gemm");                                                       \
        return compute(                                                                            \
            h, product(call, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));               \
    }                                                                                              \
    API cublasStatus_t cublas##S##gemmBatched(                                                     \
        cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,         \
        const T *alpha, const T *const a[], int lda, const T *const b[], int ldb, const T *beta,   \
        T *const c[], int ldc, int batch) {                                                        \
        auto call = product(call_of<T>("blas_gemm"), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, \
                            (void *)c, ldc);                                                       \
        return compute(h, batched(call, batch));                                                   \
    }                                                                                              \
    API cublasStatus_t cublas##S##gemmStridedBatched(                                              \
        cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,         \
        const T *alpha, const T *a, int lda, long long int sa, const T *b, int ldb,                \
        long long int sb, const T *beta, T *c, int ldc, long long int sc, int batch) {             \
        auto call =                                                                                \
            product(call_of<T>("blas_gemm"), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);\
        return compute(h, strided(call, sa, sb, sc, batch));                                       \
    }

BLAS_OF(S, s, float)
BLAS_OF(D, d, double)
GEMMS_OF(S, _v2, float)
GEMMS_OF(D, _v2, double)
GEMMS_OF(H, , __half)

// ---- products of mixed types --------------------------------------------------------------------

API cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                int n, int k, const void *alpha, const void *a, cudaDataType at,
                                int lda, const void *b, cudaDataType bt, int ldb, const void *beta,
                                void *c, cudaDataType ct, int ldc, cublasComputeType_t type,
                                cublasGemmAlgo_t) {
    return compute(
        h, product(typed(at, bt, ct, type), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}
API cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                       int m, int n, int k, const void *alpha,
                                       const void *const a[], cudaDataType at, int lda,
                                       const void *const b[], cudaDataType bt, int ldb,
                                       const void *beta, void *const c[], cudaDataType ct, int ldc,
                                       int batch, cublasComputeType_t type, cublasGemmAlgo_t) {
    auto call = product(typed(at, bt, ct, type), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta,
                        (void *)c, ldc);
    return compute(h, batched(call, batch));
}
API cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType at, int lda, long long int sa, const void *b,
    cudaDataType bt, int ldb, long long int sb, const void *beta, void *c, cudaDataType ct, int ldc,
    long long int sc, int batch, cublasComputeType_t type, cublasGemmAlgo_t) {
    auto call =
        product(typed(at, bt, ct, type), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return compute(h, strided(call, sa, sb, sc, batch));
}

// ---- batched factors ----------------------------------------------------------------------------

namespace {
template <class... Parts>
cublasStatus_t factors(cublasHandle_t handle, const char *name, Parts... parts) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    return numpy_call(of(handle)->stream, name, numbers_of(parts...),
                      CUBLAS_STATUS_EXECUTION_FAILED);
}
}  // namespace

#define FACTORS(S, T)                                                                              \
    API cublasStatus_t cublas##S##trsm_v2(cublasHandle_t h, cublasSideMode_t side,                 \
                                          cublasFillMode_t fill, cublasOperation_t trans,          \
                                          cublasDiagType_t diag, int m, int n, const T *alpha,     \
                                          const T *a, int lda, T *b, int ldb) {                    \
        return factors(h, "trsm", type_at(a), side, fill, trans, diag, m, n, alpha, a, lda, b,     \
                       ldb);                                                                       \
    }                                                                                              \
    API cublasStatus_t cublas##S##getrfBatched(cublasHandle_t h, int n, T *const a[], int lda,     \
                                               int *pivots, int *info, int batch) {                \
        return factors(h, "getrf", type_at(*a), n, a, lda, pivots, info, batch);                   \
    }                                                                                              \
    API cublasStatus_t cublas##S##getriBatched(cublasHandle_t h, int n, const T *const a[],        \
                                               int lda, const int *pivots, T *const c[], int ldc,  \
                                               int *info, int batch) {                             \
        return factors(h, "getri", type_at(*a), n, a, lda, pivots, c, ldc, info, batch);           \
    }                                                                                              \
    API cublasStatus_t cublas##S##getrsBatched(                                                    \
        cublasHandle_t h, cublasOperation_t trans, int n, int nrhs, const T *const a[], int lda,   \
        const int *pivots, T *const b[], int ldb, int *info, int batch) {                          \
        return factors(h, "getrs", type_at(*a), trans, n, nrhs, a, lda, pivots, b, ldb, info,      \
                       batch);                                                                     \
    }
FACTORS(S, float)
FACTORS(D, double)
