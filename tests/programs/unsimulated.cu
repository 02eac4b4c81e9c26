// An instruction that is not simulated: the program ignores it, the run must not pass.
#include "check.h"

__global__ void reads_texture(cudaTextureObject_t texture, float *out) {
    *out = tex1D<float>(texture, 0.5f);
}

int main() {
    float *out;
    CALL(cudaMalloc(&out, sizeof(float)));
    reads_texture<<<1, 1>>>(0, out);
    printf("went on\n");
}
