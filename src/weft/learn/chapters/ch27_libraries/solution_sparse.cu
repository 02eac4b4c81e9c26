// Three arrays describe the matrix, for the library and for the kernel.
#include <cstdio>
#include <cstdlib>
#include <cusparse.h>
#include <vector>

__global__ void multiply(const int* offsets, const int* columns, const float* values,
                         const float* x, float* z, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float sum = 0;
    for (int e = offsets[r]; e < offsets[r + 1]; e++) sum += values[e] * x[columns[e]];
    z[r] = sum;
}

template <class T>
T* on_device(const std::vector<T>& host) {
    T* made;
    cudaMalloc(&made, host.size() * sizeof(T));
    cudaMemcpy(made, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return made;
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]);
    std::vector<int> h_offsets = {0}, h_columns;
    std::vector<float> h_values, h_x, h_y(n), h_z(n);
    for (int r = 0; r < n; r++) {
        for (int c : {r - 3, r, r + 1})
            if (c >= 0 && c < n) h_columns.push_back(c), h_values.push_back((r + 2 * c) % 7);
        h_offsets.push_back(h_columns.size());
        h_x.push_back(r % 5 + 1);
    }
    int *offsets = on_device(h_offsets), *columns = on_device(h_columns);
    float *values = on_device(h_values), *x = on_device(h_x), *y, *z;
    cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&z, n * sizeof(float));

    cusparseHandle_t handle;
    cusparseSpMatDescr_t matrix;
    cusparseDnVecDescr_t from, to;
    cusparseCreate(&handle);
    cusparseCreateCsr(&matrix, n, n, h_values.size(), offsets, columns, values, CUSPARSE_INDEX_32I,
                      CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
    cusparseCreateDnVec(&from, n, x, CUDA_R_32F);
    cusparseCreateDnVec(&to, n, y, CUDA_R_32F);
    float one = 1, zero = 0;
    size_t bytes;
    void* buffer;
    cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, from, &zero, to,
                            CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &bytes);
    cudaMalloc(&buffer, bytes);
    if (cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, from, &zero, to,
                     CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, buffer) != CUSPARSE_STATUS_SUCCESS)
        return 1;
    multiply<<<(n + 63) / 64, 64>>>(offsets, columns, values, x, z, n);

    cudaMemcpy(h_y.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(h_z.data(), z, n * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int r = 0; r < n; r++) sum += (r + 1.0) * h_y[r] * h_z[r];
    printf("%.9g\n", sum);
    cusparseDestroyDnVec(from), cusparseDestroyDnVec(to), cusparseDestroySpMat(matrix);
    cusparseDestroy(handle);
    cudaFree(offsets), cudaFree(columns), cudaFree(values), cudaFree(buffer);
    cudaFree(x), cudaFree(y), cudaFree(z);
}
