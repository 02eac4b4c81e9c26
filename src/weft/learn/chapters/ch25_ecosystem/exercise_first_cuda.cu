// Write the kernel: fahrenheit[i] = 1.8 celsius[i] + 32, in single precision.
__global__ void convert(const float* celsius, float* fahrenheit, int n) {}
