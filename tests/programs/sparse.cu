// cuSPARSE's generic interface on small matrices, and conjugate gradients on a larger one.
#include "check.h"
#include <cusparse.h>
#include <cmath>
#include <vector>

#define SPARSE(call) HOLDS((call) == CUSPARSE_STATUS_SUCCESS)

template <class T>
static T *on_device(const std::vector<T> &host) {
    T *out;
    CALL(cudaMalloc(&out, host.size() * sizeof(T)));
    CALL(cudaMemcpy(out, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return out;
}
template <class T>
static void print(const char *name, const T *x, int n) {
    std::vector<T> host(n);
    CALL(cudaMemcpy(host.data(), x, n * sizeof(T), cudaMemcpyDeviceToHost));
    printf("%s", name);
    for (T each : host) printf(" %g", double(each));
    printf("\n");
}

int main() {
    //  1 0 2 0
    //  0 3 0 0
    //  4 0 0 5
    int *offsets = on_device<int>({0, 2, 3, 5}), *columns = on_device<int>({0, 2, 1, 0, 3});
    int *rows = on_device<int>({0, 0, 1, 2, 2});
    float *values = on_device<float>({1, 2, 3, 4, 5});
    float *x = on_device<float>({1, 2, 3, 4}), *y = on_device<float>({10, 20, 30, NAN});
    cusparseHandle_t handle;
    SPARSE(cusparseCreate(&handle));
    cusparseSpMatDescr_t csr, coo;
    SPARSE(cusparseCreateCsr(&csr, 3, 4, 5, offsets, columns, values, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    SPARSE(cusparseCreateCoo(&coo, 3, 4, 5, rows, columns, values, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    cusparseDnVecDescr_t long_vector, short_vector;
    SPARSE(cusparseCreateDnVec(&long_vector, 4, x, CUDA_R_32F));
    SPARSE(cusparseCreateDnVec(&short_vector, 3, y, CUDA_R_32F));
    float alpha = 2, beta = 1, zero = 0;
    size_t bytes;
    void *buffer;
    SPARSE(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, csr,
                                   long_vector, &beta, short_vector, CUDA_R_32F,
                                   CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
    CALL(cudaMalloc(&buffer, bytes));
    SPARSE(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, csr, long_vector, &beta,
                        short_vector, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, buffer));
    print("2Ax + y:", y, 3);
    SPARSE(cusparseSpMV(handle, CUSPARSE_OPERATION_TRANSPOSE, &beta, coo, short_vector, &zero,
                        long_vector, CUDA_R_32F, CUSPARSE_SPMV_COO_ALG1, buffer));
    print("A'y:", x, 4);

    float *b = on_device<float>({1, 2, 3, 4, 5, 6, 7, 8}), *c = on_device<float>({9, 9, 9, 9, 9, 9});
    cusparseDnMatDescr_t dense, product, whole;
    SPARSE(cusparseCreateDnMat(&dense, 4, 2, 4, b, CUDA_R_32F, CUSPARSE_ORDER_COL));
    SPARSE(cusparseCreateDnMat(&product, 3, 2, 2, c, CUDA_R_32F, CUSPARSE_ORDER_ROW));
    SPARSE(cusparseSpMM(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                        &beta, csr, dense, &zero, product, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT,
                        buffer));
    print("AB:", c, 6);
    SPARSE(cusparseSDDMM(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE,
                         &beta, product, dense, &zero, csr, CUDA_R_32F,
                         CUSPARSE_SDDMM_ALG_DEFAULT, buffer));
    print("ABB' where A is:", values, 5);

    float *full = on_device<float>(std::vector<float>(12, -1));
    SPARSE(cusparseCreateDnMat(&whole, 3, 4, 4, full, CUDA_R_32F, CUSPARSE_ORDER_ROW));
    SPARSE(cusparseSparseToDense(handle, coo, whole, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, buffer));
    print("dense:", full, 12);
    cusparseSpMatDescr_t again;
    int *starts = on_device<int>({0, 0, 0, 0, 0});
    SPARSE(cusparseCreateCsc(&again, 3, 4, 0, starts, nullptr, nullptr, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ONE, CUDA_R_32F));
    SPARSE(cusparseDenseToSparse_analysis(handle, whole, again, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT,
                                          buffer));
    int64_t m, n, nnz;
    SPARSE(cusparseSpMatGetSize(again, &m, &n, &nnz));
    int *found = on_device<int>(std::vector<int>(nnz));
    float *held = on_device<float>(std::vector<float>(nnz));
    SPARSE(cusparseCscSetPointers(again, starts, found, held));
    SPARSE(cusparseDenseToSparse_convert(handle, whole, again, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT,
                                         buffer));
    print("columns start:", starts, 5);
    print("rows:", found, int(nnz));

    // A lower triangle in double precision.
    int *t_offsets = on_device<int>({0, 1, 3, 5}), *t_columns = on_device<int>({0, 0, 1, 1, 2});
    double *t_values = on_device<double>({2, 1, 4, 3, 5}), one = 1;
    double *right = on_device<double>({2, 9, 16}), *solution = on_device<double>({0, 0, 0});
    cusparseSpMatDescr_t triangle;
    cusparseDnVecDescr_t r, s;
    cusparseSpSVDescr_t solver;
    SPARSE(cusparseCreateCsr(&triangle, 3, 3, 5, t_offsets, t_columns, t_values, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    SPARSE(cusparseCreateDnVec(&r, 3, right, CUDA_R_64F));
    SPARSE(cusparseCreateDnVec(&s, 3, solution, CUDA_R_64F));
    SPARSE(cusparseSpSV_createDescr(&solver));
    SPARSE(cusparseSpSV_solve(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, triangle, r, s,
                              CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, solver));
    print("solved:", solution, 3);
    SPARSE(cusparseDestroy(handle));
}
