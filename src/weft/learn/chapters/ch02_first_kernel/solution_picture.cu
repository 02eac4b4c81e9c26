// Adds 0.25 to every pixel of an image. The rows of the image follow one another in memory.
__global__ void brighten(const float* image, float* out, int height, int width) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column < width)
        out[row * width + column] = image[row * width + column] + 0.25f;
}
