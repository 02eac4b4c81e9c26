// An image of twice the size: the texture unit interpolates between texels.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void zoom(cudaTextureObject_t image, float* wide, int w, int h) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < 2 * w && r < 2 * h)
        wide[r * 2 * w + c] = tex2D<float>(image, (c + 0.5f) / 2, (r + 0.5f) / 2);
}

int main(int count, char** arguments) {
    int w = atoi(arguments[1]), h = atoi(arguments[2]);
    std::vector<float> image(w * h), wide(4 * w * h);
    for (int r = 0; r < h; r++)
        for (int c = 0; c < w; c++) image[r * w + c] = (16 * r + 48 * c) % 256;

    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t texels;
    cudaMallocArray(&texels, &format, w, h);
    size_t row = w * sizeof(float);
    cudaMemcpy2DToArray(texels, 0, 0, image.data(), row, row, h, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = texels;
    cudaTextureDesc reading = {};
    reading.filterMode = cudaFilterModeLinear;
    reading.readMode = cudaReadModeElementType;
    reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &reading, nullptr);

    float* d_wide;
    cudaMalloc(&d_wide, wide.size() * sizeof(float));
    dim3 block(16, 16), grid((2 * w + 15) / 16, (2 * h + 15) / 16);
    zoom<<<grid, block>>>(texture, d_wide, w, h);
    cudaMemcpy(wide.data(), d_wide, wide.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int r = 0; r < 2 * h; r++)
        for (int c = 0; c < 2 * w; c++) sum += (r % 3 + c % 5) * double(wide[r * 2 * w + c]);
    printf("%.9g\n", sum);
    cudaDestroyTextureObject(texture);
    cudaFreeArray(texels);
    cudaFree(d_wide);
}
