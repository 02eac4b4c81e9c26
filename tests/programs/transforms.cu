// cuFFT: transforms against their definition, in every layout that a plan can have.
#include "check.h"
#include <cmath>
#include <complex>
#include <cuda_fp16.h>
#include <cufftXt.h>
#include <vector>

#ifndef _CUFFT_H_
#error "other headers look for NVIDIA's guard"
#endif

#define FFT(call) HOLDS((call) == CUFFT_SUCCESS)
using Complex = std::complex<double>;

// The definition, for one row.
static std::vector<Complex> transform(const std::vector<Complex> &x, int sign) {
    int n = x.size();
    std::vector<Complex> y(n);
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) y[k] += x[j] * std::polar(1.0, sign * 2 * M_PI * k * j / n);
    return y;
}
static float number(int i) { return float((i * 37 + 11) % 17) / 17 - 0.4f; }

int main() {
    const int n = 12, batch = 3;
    float2 *c;
    float *r;
    CALL(cudaMallocManaged(&c, 1024 * sizeof *c));
    CALL(cudaMallocManaged(&r, 1024 * sizeof *r));
    cufftHandle plan;

    // A batch of complex rows, in place, forward and back: not scaled.
    for (int i = 0; i < n * batch; i++) c[i] = {number(i), number(i + 5)};
    FFT(cufftPlan1d(&plan, n, CUFFT_C2C, batch));
    FFT(cufftExecC2C(plan, c, c, CUFFT_FORWARD));
    CALL(cudaDeviceSynchronize());
    for (int b = 0; b < batch; b++) {
        std::vector<Complex> row;
        for (int i = b * n; i < (b + 1) * n; i++) row.push_back({number(i), number(i + 5)});
        auto y = transform(row, -1);
        for (int i = 0; i < n; i++)
            HOLDS(std::abs(y[i] - Complex(c[b * n + i].x, c[b * n + i].y)) < 1e-5);
    }
    FFT(cufftExecC2C(plan, c, c, CUFFT_INVERSE));
    CALL(cudaDeviceSynchronize());
    for (int i = 0; i < n * batch; i++) HOLDS(fabs(c[i].x - n * number(i)) < 1e-4);
    HOLDS(cufftExecR2C(plan, r, c) == CUFFT_INVALID_TYPE);
    FFT(cufftDestroy(plan));
    HOLDS(cufftExecC2C(plan, c, c, CUFFT_FORWARD) == CUFFT_INVALID_PLAN);

    // Reals to half of the complex numbers, and back.
    for (int i = 0; i < n; i++) r[i] = number(i);
    FFT(cufftPlan1d(&plan, n, CUFFT_R2C, 1));
    FFT(cufftExecR2C(plan, r, c));
    CALL(cudaDeviceSynchronize());
    std::vector<Complex> row(r, r + n);
    auto y = transform(row, -1);
    for (int i = 0; i <= n / 2; i++) HOLDS(std::abs(y[i] - Complex(c[i].x, c[i].y)) < 1e-5);
    cufftHandle back;
    FFT(cufftPlan1d(&back, n, CUFFT_C2R, 1));
    FFT(cufftExecC2R(back, c, r + 100));
    CALL(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) HOLDS(fabs(r[100 + i] - n * r[i]) < 1e-4);

    // Two dimensions in place: rows of reals are padded to the complex ones.
    const int h = 4, w = 6, pitch = 2 * (w / 2 + 1);
    float *image = reinterpret_cast<float *>(c);
    double sum = 0;
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) sum += image[i * pitch + j] = number(i * w + j);
    FFT(cufftPlan2d(&plan, h, w, CUFFT_R2C));
    FFT(cufftExecR2C(plan, image, c));
    CALL(cudaDeviceSynchronize());
    HOLDS(fabs(c[0].x - sum) < 1e-4 && fabs(c[0].y) < 1e-5);

    // Columns of a matrix: elements are `batch` apart, transforms one apart.
    int size[] = {n}, embed[] = {n};
    for (int i = 0; i < n * batch; i++) c[i] = {number(i), 0};
    FFT(cufftPlanMany(&plan, 1, size, embed, batch, 1, embed, 1, n, CUFFT_C2C, batch));
    FFT(cufftExecC2C(plan, c, c + 512, CUFFT_FORWARD));
    CALL(cudaDeviceSynchronize());
    for (int b = 0; b < batch; b++) {
        std::vector<Complex> column;
        for (int i = 0; i < n; i++) column.push_back(number(i * batch + b));
        auto y = transform(column, -1);
        for (int i = 0; i < n; i++)
            HOLDS(std::abs(y[i] - Complex(c[512 + b * n + i].x, c[512 + b * n + i].y)) < 1e-5);
    }
    // The extended interface: plans by the types of their elements, memory of plans.
    long long sizes[] = {n};
    size_t bytes;
    int gpus[] = {0, 1};
    FFT(cufftCreate(&plan));
    HOLDS(cufftXtSetGPUs(plan, 2, gpus) == CUFFT_NOT_SUPPORTED);
    FFT(cufftXtSetGPUs(plan, 1, gpus));
    HOLDS(cufftXtMakePlanMany(plan, 1, sizes, nullptr, 1, n, CUDA_R_32F, nullptr, 1, n, CUDA_C_64F, 1,
                              &bytes, CUDA_C_64F) == CUFFT_NOT_SUPPORTED);
    FFT(cufftXtMakePlanMany(plan, 1, sizes, nullptr, 1, n, CUDA_C_32F, nullptr, 1, n, CUDA_C_32F, 1,
                            &bytes, CUDA_C_32F));
    cudaLibXtDesc *memory;
    FFT(cufftXtMalloc(plan, &memory, CUFFT_XT_FORMAT_INPLACE));
    float2 host[n];
    for (int i = 0; i < n; i++) host[i] = {number(i), 0};
    FFT(cufftXtMemcpy(plan, memory, host, CUFFT_COPY_HOST_TO_DEVICE));
    FFT(cufftXtExecDescriptorC2C(plan, memory, memory, CUFFT_FORWARD));
    HOLDS(cufftXtExecDescriptorR2C(plan, memory, memory) == CUFFT_INVALID_TYPE);
    FFT(cufftXtMemcpy(plan, host, memory, CUFFT_COPY_DEVICE_TO_HOST));
    for (int i = 0; i < n; i++) HOLDS(std::abs(y[i] - Complex(host[i].x, host[i].y)) < 1e-5);
    FFT(cufftXtFree(memory));
    FFT(cufftDestroy(plan));

    // Halves: reals to complex numbers, and back.
    auto *halves = reinterpret_cast<__half *>(r);
    auto *pairs = reinterpret_cast<__half2 *>(c);
    for (int i = 0; i < n; i++) halves[i] = __float2half(number(i));
    FFT(cufftCreate(&plan));
    FFT(cufftXtMakePlanMany(plan, 1, sizes, nullptr, 1, n, CUDA_R_16F, nullptr, 1, n, CUDA_C_16F, 1,
                            &bytes, CUDA_C_16F));
    FFT(cufftXtExec(plan, halves, pairs, CUFFT_FORWARD));
    CALL(cudaDeviceSynchronize());
    for (int i = 0; i <= n / 2; i++) {
        float2 pair = __half22float2(pairs[i]);
        HOLDS(std::abs(y[i] - Complex(pair.x, pair.y)) < 5e-3);
    }
    FFT(cufftCreate(&back));
    FFT(cufftXtMakePlanMany(back, 1, sizes, nullptr, 1, n, CUDA_C_16F, nullptr, 1, n, CUDA_R_16F, 1,
                            &bytes, CUDA_C_16F));
    FFT(cufftXtExec(back, pairs, halves + 100, CUFFT_INVERSE));
    CALL(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) HOLDS(fabs(__half2float(halves[100 + i]) - n * number(i)) < 2e-2);
    printf("transforms agree\n");
}
