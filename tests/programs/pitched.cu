// Pitched memory and copies in two and three dimensions.
#include "check.h"
#include <vector>

__global__ void add_row_and_column(float *x, size_t pitch, int width, int height) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < width && r < height)
        reinterpret_cast<float *>(reinterpret_cast<char *>(x) + r * pitch)[c] += 100.0f * r + c;
}

int main() {
    const int width = 37, height = 19, depth = 3;
    std::vector<float> host(width * height, 0.5f), back(width * height);
    float *device;
    size_t pitch;
    CALL(cudaMallocPitch(&device, &pitch, width * sizeof(float), height));
    HOLDS(pitch >= width * sizeof(float) && pitch % 256 == 0);
    CALL(cudaMemset2D(device, pitch, 0, width * sizeof(float), height));
    CALL(cudaMemcpy2D(device, pitch, host.data(), width * sizeof(float), width * sizeof(float),
                      height, cudaMemcpyHostToDevice));
    add_row_and_column<<<dim3(2, 3), dim3(32, 8)>>>(device, pitch, width, height);
    CALL(cudaMemcpy2D(back.data(), width * sizeof(float), device, pitch, width * sizeof(float),
                      height, cudaMemcpyDeviceToHost));
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) HOLDS(back[r * width + c] == 100.0f * r + c + 0.5f);
    GIVES(cudaMemcpy2D(back.data(), 4, device, pitch, width * sizeof(float), height,
                       cudaMemcpyDeviceToHost),
          cudaErrorInvalidPitchValue);

    std::vector<int> cube(width * height * depth), out(width * height * depth, -1);
    for (size_t i = 0; i < cube.size(); i++) cube[i] = int(i);
    cudaExtent extent = make_cudaExtent(width * sizeof(int), height, depth);
    cudaPitchedPtr block;
    CALL(cudaMalloc3D(&block, extent));
    CALL(cudaMemset3D(block, 0, extent));
    cudaMemcpy3DParms in = {};
    in.srcPtr = make_cudaPitchedPtr(cube.data(), width * sizeof(int), width, height);
    in.dstPtr = block;
    in.extent = extent;
    in.kind = cudaMemcpyHostToDevice;
    CALL(cudaMemcpy3D(&in));
    cudaMemcpy3DParms part = {};  // one plane of it
    part.srcPtr = block;
    part.srcPos = make_cudaPos(0, 0, 1);
    part.dstPtr = make_cudaPitchedPtr(out.data(), width * sizeof(int), width, height);
    part.extent = make_cudaExtent(width * sizeof(int), height, 1);
    part.kind = cudaMemcpyDeviceToHost;
    CALL(cudaMemcpy3D(&part));
    for (int i = 0; i < width * height; i++) HOLDS(out[i] == cube[width * height + i]);
    HOLDS(out[width * height] == -1);
    printf("rows and planes are in place\n");
    CALL(cudaFree(device));
    CALL(cudaFree(block.ptr));
}
