// cuSPARSE's generic interface: descriptors; NumPy computes (libraries/sparse.py).
#include <cusparse.h>

#include "library.h"

using namespace weft;

struct cusparseContext {
    cudaStream_t stream = nullptr;
    cusparsePointerMode_t mode = CUSPARSE_POINTER_MODE_HOST;
};
struct cusparseSpMatDescr {
    int64_t format, rows, cols, nnz;
    void *first, *second, *values;  // offsets or rows; columns, or rows of CSC
    int64_t first_type, second_type, base, type, fill = 0, unit = 0;
};
struct cusparseDnVecDescr {
    int64_t size;
    void *values;
    int64_t type;
};
struct cusparseDnMatDescr {
    int64_t rows, cols, ld;
    void *values;
    int64_t type, order;
};
struct cusparseSpSVDescr {};
struct cusparseMatDescr {  // of the legacy interface, whose operations are not served
    int type = 0, base = 0, fill = 0, unit = 0;
};

namespace weft {
void append(Numbers *to, cusparseConstSpMatDescr_t m) {
    for (int64_t each : {m->format, m->rows, m->cols, m->nnz, int64_t(m->first), int64_t(m->second),
                         int64_t(m->values), m->first_type, m->second_type, m->base, m->type,
                         m->fill, m->unit})
        to->push_back(each);
}
void append(Numbers *to, cusparseConstDnMatDescr_t m) {
    for (int64_t each : {m->rows, m->cols, m->ld, int64_t(m->values), m->type, m->order})
        to->push_back(each);
}
void append(Numbers *to, cusparseConstDnVecDescr_t v) {
    for (int64_t each : {v->size, int64_t(v->values), v->type}) to->push_back(each);
}
}  // namespace weft

namespace {
constexpr size_t SPARSE_BUFFER = 16;  // none is needed, but programs allocate what they are told

template <class... Parts>
cusparseStatus_t sparse_call(cusparseHandle_t handle, const char *name, Parts... parts) {
    if (!handle) return CUSPARSE_STATUS_NOT_INITIALIZED;
    Numbers numbers;
    (append(&numbers, parts), ...);
    return numpy_call(handle->stream, name, numbers, CUSPARSE_STATUS_EXECUTION_FAILED);
}

cusparseStatus_t create_sparse(cusparseSpMatDescr_t *out, int64_t format, int64_t rows,
                               int64_t cols, int64_t nnz, void *first, void *second, void *values,
                               int64_t first_type, int64_t second_type, int64_t base,
                               int64_t type) {
    if (rows < 0 || cols < 0 || nnz < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    *out = new cusparseSpMatDescr{format,     rows,        cols, nnz, first, second, values,
                                  first_type, second_type, base, type};
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t point(cusparseSpMatDescr_t m, void *first, void *second, void *values) {
    m->first = first, m->second = second, m->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
const char *const SPARSE_NAMES[] = {
    "CUSPARSE_STATUS_SUCCESS", "CUSPARSE_STATUS_NOT_INITIALIZED", "CUSPARSE_STATUS_ALLOC_FAILED",
    "CUSPARSE_STATUS_INVALID_VALUE", "CUSPARSE_STATUS_ARCH_MISMATCH",
    "CUSPARSE_STATUS_MAPPING_ERROR", "CUSPARSE_STATUS_EXECUTION_FAILED",
    "CUSPARSE_STATUS_INTERNAL_ERROR", "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
    "CUSPARSE_STATUS_ZERO_PIVOT", "CUSPARSE_STATUS_NOT_SUPPORTED",
    "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"};
}  // namespace

// ---- handles and descriptors --------------------------------------------------------------------

API cusparseStatus_t cusparseCreate(cusparseHandle_t *out) {
    return set(*out, new cusparseContext);
}
API cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) { return destroy(handle); }
API cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int *version) {
    return set(*version, 12500);
}
API cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
    return set(handle->stream, stream);
}
API cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream) {
    return set(*stream, handle->stream);
}
API cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
    return set(handle->mode, mode);
}
API cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode) {
    return set(*mode, handle->mode);
}
API const char *cusparseGetErrorName(cusparseStatus_t status) {
    return unsigned(status) < 12 ? SPARSE_NAMES[status] : "unknown error";
}
API const char *cusparseGetErrorString(cusparseStatus_t status) {
    return cusparseGetErrorName(status);
}
API cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *out) {
    return set(*out, new cusparseMatDescr);
}
API cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t descriptor) {
    return destroy(descriptor);
}
API cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t descriptor, cusparseMatrixType_t type) {
    return set(descriptor->type, type);
}
API cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t descriptor,
                                             cusparseIndexBase_t base) {
    return set(descriptor->base, base);
}
API cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr_t descriptor) {
    return static_cast<cusparseMatrixType_t>(descriptor->type);
}
API cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t descriptor) {
    return static_cast<cusparseIndexBase_t>(descriptor->base);
}
API cusparseStatus_t cusparseSetMatFillMode(cusparseMatDescr_t descriptor,
                                            cusparseFillMode_t mode) {
    return set(descriptor->fill, mode);
}
API cusparseStatus_t cusparseSetMatDiagType(cusparseMatDescr_t descriptor,
                                            cusparseDiagType_t type) {
    return set(descriptor->unit, type);
}
API cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *out, int64_t rows, int64_t cols,
                                       int64_t nnz, void *offsets, void *columns, void *values,
                                       cusparseIndexType_t offset_type,
                                       cusparseIndexType_t column_type, cusparseIndexBase_t base,
                                       cudaDataType type) {
    return create_sparse(out, CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values,
                         offset_type, column_type, base, type);
}
API cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *out, int64_t rows, int64_t cols,
                                       int64_t nnz, void *offsets, void *row_indices, void *values,
                                       cusparseIndexType_t offset_type,
                                       cusparseIndexType_t row_type, cusparseIndexBase_t base,
                                       cudaDataType type) {
    return create_sparse(out, CUSPARSE_FORMAT_CSC, rows, cols, nnz, offsets, row_indices, values,
                         offset_type, row_type, base, type);
}
API cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *out, int64_t rows, int64_t cols,
                                       int64_t nnz, void *row_indices, void *columns, void *values,
                                       cusparseIndexType_t index_type, cusparseIndexBase_t base,
                                       cudaDataType type) {
    return create_sparse(out, CUSPARSE_FORMAT_COO, rows, cols, nnz, row_indices, columns, values,
                         index_type, index_type, base, type);
}
API cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix) {
    return destroy(matrix);
}
API cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t m, int64_t *rows, int64_t *cols,
                                          int64_t *nnz) {
    *rows = m->rows, *cols = m->cols, *nnz = m->nnz;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t m, cusparseFormat_t *format) {
    return set(*format, m->format);
}
API cusparseStatus_t cusparseSpMatGetValues(cusparseSpMatDescr_t m, void **values) {
    return set(*values, m->values);
}
API cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t m, void *values) {
    return set(m->values, values);
}
API cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t m,
                                               cusparseSpMatAttribute_t attribute, void *data,
                                               size_t) {
    (attribute == CUSPARSE_SPMAT_FILL_MODE ? m->fill : m->unit) = *static_cast<int *>(data);
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t m, void *first, void *second,
                                            void *values) {
    return point(m, first, second, values);
}
API cusparseStatus_t cusparseCscSetPointers(cusparseSpMatDescr_t m, void *first, void *second,
                                            void *values) {
    return point(m, first, second, values);
}
API cusparseStatus_t cusparseCooSetPointers(cusparseSpMatDescr_t m, void *first, void *second,
                                            void *values) {
    return point(m, first, second, values);
}
API cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *out, int64_t size, void *values,
                                         cudaDataType type) {
    *out = new cusparseDnVecDescr{size, values, type};
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t vector) {
    return destroy(vector);
}
API cusparseStatus_t cusparseDnVecGetValues(cusparseDnVecDescr_t vector, void **values) {
    return set(*values, vector->values);
}
API cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t vector, void *values) {
    return set(vector->values, values);
}
API cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *out, int64_t rows, int64_t cols,
                                         int64_t ld, void *values, cudaDataType type,
                                         cusparseOrder_t order) {
    if (ld < (order == CUSPARSE_ORDER_COL ? rows : cols)) return CUSPARSE_STATUS_INVALID_VALUE;
    *out = new cusparseDnMatDescr{rows, cols, ld, values, type, order};
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t matrix) {
    return destroy(matrix);
}
API cusparseStatus_t cusparseDnMatGetValues(cusparseDnMatDescr_t matrix, void **values) {
    return set(*values, matrix->values);
}
API cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t matrix, void *values) {
    return set(matrix->values, values);
}

// ---- products -----------------------------------------------------------------------------------

// Each operation asks for a buffer first, and may look at the matrix before it is done.
#define SPARSE_PRODUCT(NAME, ALGORITHM, OPS, A, B, C)                                              \
    API cusparseStatus_t cusparse##NAME##_bufferSize(cusparseHandle_t, OPS, const void *, A, B,    \
                                                     const void *, C, cudaDataType, ALGORITHM,     \
                                                     size_t *bytes) {                              \
        return set(*bytes, SPARSE_BUFFER);                                                         \
    }                                                                                              \
    API cusparseStatus_t cusparse##NAME##_preprocess(cusparseHandle_t, OPS, const void *, A, B,    \
                                                     const void *, C, cudaDataType, ALGORITHM,     \
                                                     void *) {                                     \
        return CUSPARSE_STATUS_SUCCESS;                                                            \
    }
#define TWO_OPS cusparseOperation_t, cusparseOperation_t
SPARSE_PRODUCT(SpMV, cusparseSpMVAlg_t, cusparseOperation_t, cusparseConstSpMatDescr_t,
               cusparseConstDnVecDescr_t, cusparseDnVecDescr_t)
SPARSE_PRODUCT(SpMM, cusparseSpMMAlg_t, TWO_OPS, cusparseConstSpMatDescr_t,
               cusparseConstDnMatDescr_t, cusparseDnMatDescr_t)
SPARSE_PRODUCT(SDDMM, cusparseSDDMMAlg_t, TWO_OPS, cusparseConstDnMatDescr_t,
               cusparseConstDnMatDescr_t, cusparseSpMatDescr_t)

API cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t op,
                                  const void *alpha, cusparseConstSpMatDescr_t a,
                                  cusparseConstDnVecDescr_t x, const void *beta,
                                  cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t,
                                  void *) {
    return sparse_call(handle, "sparse_mv", op, type, alpha, beta, a, x,
                       static_cast<cusparseConstDnVecDescr_t>(y));
}
API cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t op_a,
                                  cusparseOperation_t op_b, const void *alpha,
                                  cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                  const void *beta, cusparseDnMatDescr_t c, cudaDataType type,
                                  cusparseSpMMAlg_t, void *) {
    return sparse_call(handle, "sparse_mm", op_a, op_b, type, alpha, beta, a, b,
                       static_cast<cusparseConstDnMatDescr_t>(c));
}
API cusparseStatus_t cusparseSDDMM(cusparseHandle_t handle, cusparseOperation_t op_a,
                                   cusparseOperation_t op_b, const void *alpha,
                                   cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b,
                                   const void *beta, cusparseSpMatDescr_t c, cudaDataType type,
                                   cusparseSDDMMAlg_t, void *) {
    return sparse_call(handle, "sparse_sddmm", op_a, op_b, type, alpha, beta, a, b,
                       static_cast<cusparseConstSpMatDescr_t>(c));
}

// ---- triangular systems and conversions ---------------------------------------------------------

API cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t *out) {
    return set(*out, new cusparseSpSVDescr);
}
API cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t descriptor) {
    return destroy(descriptor);
}
API cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void *,
                                             cusparseConstSpMatDescr_t, cusparseConstDnVecDescr_t,
                                             cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                                             cusparseSpSVDescr_t, size_t *bytes) {
    return set(*bytes, SPARSE_BUFFER);
}
API cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t, cusparseOperation_t, const void *,
                                           cusparseConstSpMatDescr_t, cusparseConstDnVecDescr_t,
                                           cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                                           cusparseSpSVDescr_t, void *) {
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t op,
                                        const void *alpha, cusparseConstSpMatDescr_t a,
                                        cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
                                        cudaDataType type, cusparseSpSVAlg_t,
                                        cusparseSpSVDescr_t) {
    return sparse_call(handle, "sparse_solve", op, type, alpha, a, x,
                       static_cast<cusparseConstDnVecDescr_t>(y));
}
API cusparseStatus_t cusparseSparseToDense_bufferSize(cusparseHandle_t, cusparseConstSpMatDescr_t,
                                                      cusparseDnMatDescr_t,
                                                      cusparseSparseToDenseAlg_t, size_t *bytes) {
    return set(*bytes, SPARSE_BUFFER);
}
API cusparseStatus_t cusparseSparseToDense(cusparseHandle_t handle, cusparseConstSpMatDescr_t a,
                                           cusparseDnMatDescr_t b, cusparseSparseToDenseAlg_t,
                                           void *) {
    return sparse_call(handle, "sparse_to_dense", a, static_cast<cusparseConstDnMatDescr_t>(b));
}
API cusparseStatus_t cusparseDenseToSparse_bufferSize(cusparseHandle_t, cusparseConstDnMatDescr_t,
                                                      cusparseSpMatDescr_t,
                                                      cusparseDenseToSparseAlg_t, size_t *bytes) {
    return set(*bytes, SPARSE_BUFFER);
}
// Counts; the program then allocates the columns and values, and sets their pointers.
API cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t handle,
                                                    cusparseConstDnMatDescr_t a,
                                                    cusparseSpMatDescr_t b,
                                                    cusparseDenseToSparseAlg_t, void *) {
    return sparse_call(handle, "sparse_count", a, static_cast<const void *>(&b->nnz),
                       static_cast<cusparseConstSpMatDescr_t>(b));
}
API cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t handle,
                                                   cusparseConstDnMatDescr_t a,
                                                   cusparseSpMatDescr_t b,
                                                   cusparseDenseToSparseAlg_t, void *) {
    return sparse_call(handle, "sparse_from_dense", a, static_cast<cusparseConstSpMatDescr_t>(b));
}
