// Degrees Celsius to degrees Fahrenheit: one number for each thread.
__global__ void convert(const float* celsius, float* fahrenheit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) fahrenheit[i] = 1.8f * celsius[i] + 32;
}
