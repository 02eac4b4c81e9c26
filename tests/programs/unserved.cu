// Calls that weft does not serve: a texture's array, and a library of which there is nothing.
#include "check.h"

extern "C" int cufftPlan1d(int *plan, int n, int type, int batch);

int main() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    HOLDS(format.x == 32);
    GIVES(cudaMallocArray(&array, &format, 16, 16), cudaErrorNotSupported);
    GIVES(cudaGetLastError(), cudaErrorNotSupported);
    int plan = 0;
    printf("cufft gives %d\n", cufftPlan1d(&plan, 16, 41, 1));
}
