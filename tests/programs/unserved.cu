// Calls that weft does not serve: memory of a graphics library, and a library of which there is
// nothing.
#include "check.h"

extern "C" int nvjpegCreateSimple(void **handle);

int main() {
    cudaExternalMemory_t memory;
    GIVES(cudaImportExternalMemory(&memory, nullptr), cudaErrorNotSupported);
    GIVES(cudaGetLastError(), cudaErrorNotSupported);
    void *handle = nullptr;
    printf("nvjpeg gives %d\n", nvjpegCreateSimple(&handle));
}
