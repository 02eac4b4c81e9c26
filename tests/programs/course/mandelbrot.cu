// The Mandelbrot set as text; the window is read from standard input.
#include <cuda_runtime.h>
#include <iostream>
#include <string>
#include <thrust/complex.h>
#include <vector>

template <typename T>
__global__ void iterate(char *out, int w, int h, T x0, T x1, T y0, T y1) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= w || j >= h) return;
    thrust::complex<T> c(x0 + (x1 - x0) * i / (w - 1), y0 + (y1 - y0) * j / (h - 1)), z(0);
    int n = 0;
    while (n < 200 && thrust::norm(z) < T(4)) z = z * z + c, n++;
    out[j * w + i] = n == 200 ? '*' : n > 8 ? '+' : n > 4 ? '.' : ' ';
}

int main() {
    int w, h;
    double x0, x1, y0, y1;
    if (!(std::cin >> w >> h >> x0 >> x1 >> y0 >> y1)) {
        std::cerr << "width height x0 x1 y0 y1\n";
        return 2;
    }
    char *out;
    cudaMalloc(&out, w * h);
    iterate<double>
        <<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(out, w, h, x0, x1, y0, y1);
    std::vector<char> text(w * h);
    if (cudaMemcpy(text.data(), out, w * h, cudaMemcpyDeviceToHost)) return 1;
    for (int j = 0; j < h; j++) std::cout << std::string(&text[j * w], w) << '\n';
}
