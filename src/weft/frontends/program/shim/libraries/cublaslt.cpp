// cuBLASLt: descriptors keep what is set; a product is computed by NumPy (libraries/matmul.py).
#include "library.h"

#include <cublasLt.h>

using namespace weft;

namespace {
using LtValues = std::map<int, int64_t>;  // attribute -> value

template <class H>
LtValues &values_of(H descriptor) {
    return *reinterpret_cast<LtValues *>(descriptor);
}
int64_t attribute_of(const LtValues &values, int attribute, int64_t otherwise = 0) {
    auto found = values.find(attribute);
    return found == values.end() ? otherwise : found->second;
}
cublasStatus_t set_attribute(LtValues &values, int attribute, const void *value, size_t bytes) {
    if (!value || bytes > sizeof(int64_t)) return CUBLAS_STATUS_INVALID_VALUE;
    int64_t number = 0;
    memcpy(&number, value, bytes);
    values[attribute] = number;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t read_attribute(const LtValues &values, int attribute, void *value, size_t bytes,
                    size_t *written) {
    int64_t number = attribute_of(values, attribute);
    if (written) *written = bytes;
    if (bytes > sizeof number) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &number, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
template <class H>
cublasStatus_t create_values(H *out, LtValues values = {}) {
    *out = reinterpret_cast<H>(new LtValues(std::move(values)));
    return CUBLAS_STATUS_SUCCESS;
}
template <class H>
cublasStatus_t destroy_values(H descriptor) {
    delete reinterpret_cast<LtValues *>(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

// The numbers of a matrix in the order that matmul.py reads.
void add_matrix(Numbers &numbers, const void *address, cublasLtMatrixLayout_t layout) {
    auto &values = values_of(layout);
    numbers.push_back(reinterpret_cast<int64_t>(address));
    for (int attribute : {CUBLASLT_MATRIX_LAYOUT_TYPE, CUBLASLT_MATRIX_LAYOUT_ROWS,
                          CUBLASLT_MATRIX_LAYOUT_COLS, CUBLASLT_MATRIX_LAYOUT_LD,
                          CUBLASLT_MATRIX_LAYOUT_ORDER,
                          CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET})
        numbers.push_back(attribute_of(values, attribute));
}
}  // namespace

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { return create_values(handle); }
API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy_values(handle); }
API size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                            cudaDataType_t scale) {
    return create_values(out, {{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute},
                        {CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale},
                        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1},
                        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, -1},
                        {CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT}});
}
API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    return destroy_values(desc);
}
API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                  cublasLtMatmulDescAttributes_t attribute,
                                                  const void *value, size_t bytes) {
    return set_attribute(values_of(desc), attribute, value, bytes);
}
API cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                                  cublasLtMatmulDescAttributes_t attribute,
                                                  void *value, size_t bytes, size_t *written) {
    return read_attribute(values_of(desc), attribute, value, bytes, written);
}
API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                              uint64_t rows, uint64_t cols, int64_t ld) {
    return create_values(out, {{CUBLASLT_MATRIX_LAYOUT_TYPE, type},
                        {CUBLASLT_MATRIX_LAYOUT_ROWS, int64_t(rows)},
                        {CUBLASLT_MATRIX_LAYOUT_COLS, int64_t(cols)},
                        {CUBLASLT_MATRIX_LAYOUT_LD, ld},
                        {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1}});
}
API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy_values(layout);
}
API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                    cublasLtMatrixLayoutAttribute_t attribute,
                                                    const void *value, size_t bytes) {
    return set_attribute(values_of(layout), attribute, value, bytes);
}
API cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                    cublasLtMatrixLayoutAttribute_t attribute,
                                                    void *value, size_t bytes, size_t *written) {
    return read_attribute(values_of(layout), attribute, value, bytes, written);
}
API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    return create_values(out);
}
API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy_values(preference);
}
API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void *value, size_t bytes) {
    return set_attribute(values_of(preference), attribute, value, bytes);
}
// There is one algorithm, which needs no workspace.
API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int asked,
    cublasLtMatmulHeuristicResult_t *results, int *found) {
    if (asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
    memset(results, 0, sizeof *results);
    results->state = CUBLAS_STATUS_SUCCESS;
    results->wavesCount = 1;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                  const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                                  const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                                  const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                  cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *,
                                  void *, size_t, cudaStream_t stream) {
    if (!handle || !desc) return CUBLAS_STATUS_NOT_INITIALIZED;
    Numbers numbers;
    add_matrix(numbers, a, a_layout), add_matrix(numbers, b, b_layout);
    add_matrix(numbers, c ? c : d, c ? c_layout : d_layout), add_matrix(numbers, d, d_layout);
    numbers.push_back(attribute_of(values_of(d_layout), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1));
    for (int attribute :
         {CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB,
          CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
          CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
          CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
          CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE,
          CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE})
        numbers.push_back(attribute_of(values_of(desc), attribute));
    // Scalars of the host are read now: the caller may change them afterwards.
    auto scalars = std::make_shared<std::pair<double, double>>();
    auto &values = values_of(desc);
    int64_t mode = attribute_of(values, CUBLASLT_MATMUL_DESC_POINTER_MODE);
    size_t bytes = attribute_of(values, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_64F ? 8 : 4;
    bool host = mode == CUBLASLT_POINTER_MODE_HOST;
    if (host && alpha) alpha = memcpy(&scalars->first, alpha, bytes);
    if (host && beta) beta = memcpy(&scalars->second, beta, bytes);
    numbers.push_back(reinterpret_cast<int64_t>(alpha));
    numbers.push_back(reinterpret_cast<int64_t>(beta));
    return numpy_call(stream, "matmul", numbers, CUBLAS_STATUS_EXECUTION_FAILED, scalars);
}
