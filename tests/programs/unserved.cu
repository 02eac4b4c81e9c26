// Calls that weft does not serve: a texture's array, and a library of which there is nothing.
#include "check.h"

extern "C" int cusparseCreate(void **handle);

int main() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    HOLDS(format.x == 32);
    GIVES(cudaMallocArray(&array, &format, 16, 16), cudaErrorNotSupported);
    GIVES(cudaGetLastError(), cudaErrorNotSupported);
    void *handle = nullptr;
    printf("cusparse gives %d\n", cusparseCreate(&handle));
}
