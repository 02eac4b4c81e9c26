// Calls that weft does not serve: memory of a graphics library, a library of which there is nothing,
// and one function of each library of which there is something.
#include <cublasLt.h>
#include <cublasXt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <cufftXt.h>
#include <cusolverDn.h>
#include <cusolverRf.h>
#include <cusolverSp.h>
#include <cusparse.h>

#include "check.h"

extern "C" int nvjpegCreateSimple(void **handle);

int main() {
    cudaExternalMemory_t memory;
    GIVES(cudaImportExternalMemory(&memory, nullptr), cudaErrorNotSupported);
    GIVES(cudaGetLastError(), cudaErrorNotSupported);
    void *handle = nullptr;
    printf("nvjpeg gives %d\n", nvjpegCreateSimple(&handle));

    cublasHandle_t blas = nullptr;
    cuComplex one = {1, 0}, *complexes = nullptr;
    float *reals = nullptr;
    HOLDS(cublasCgeru(blas, 2, 2, &one, complexes, 1, complexes, 1, complexes, 2) ==
          CUBLAS_STATUS_NOT_SUPPORTED);
    HOLDS(cublasXtStrmm(nullptr, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                        CUBLAS_DIAG_UNIT, 2, 2, reals, reals, 2, reals, 2, reals,
                        2) == CUBLAS_STATUS_NOT_SUPPORTED);
    gesvdjInfo_t about;
    HOLDS(cusolverDnCreateGesvdjInfo(&about) == CUSOLVER_STATUS_NOT_SUPPORTED);
    cusolverDnParams_t parameters;
    HOLDS(cusolverDnCreateParams(&parameters) == CUSOLVER_STATUS_NOT_SUPPORTED);
    cusolverSpHandle_t sparse_solver;
    HOLDS(cusolverSpCreate(&sparse_solver) == CUSOLVER_STATUS_NOT_SUPPORTED);
    cusolverRfHandle_t refactor;
    HOLDS(cusolverRfCreate(&refactor) == CUSOLVER_STATUS_NOT_SUPPORTED);
    cusparseSpGEMMDescr_t product;
    HOLDS(cusparseSpGEMM_createDescr(&product) == CUSPARSE_STATUS_NOT_SUPPORTED);
    cudnnRNNDescriptor_t rnn;
    HOLDS(cudnnCreateRNNDescriptor(&rnn) == CUDNN_STATUS_NOT_SUPPORTED);
    cufftHandle plan = 0;
    HOLDS(cufftXtSetCallback(plan, &handle, CUFFT_CB_LD_COMPLEX, &handle) == CUFFT_NOT_SUPPORTED);
    printf("libraries refuse\n");
}
