// cuDNN: a layer of a network in a stream, with the queries that programs make before it.
#include "check.h"
#include <cmath>
#include <cudnn.h>

#define DNN(call) HOLDS((call) == CUDNN_STATUS_SUCCESS)

__global__ void fill(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = float(i % 7) - 3;
}

int main() {
    cudnnHandle_t handle;
    cudaStream_t stream;
    cudnnTensorDescriptor_t image, maps, bias, pooled;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t relu;
    cudnnPoolingDescriptor_t pooling;
    CALL(cudaStreamCreate(&stream));
    DNN(cudnnCreate(&handle));
    DNN(cudnnSetStream(handle, stream));
    for (auto *each : {&image, &maps, &bias, &pooled}) DNN(cudnnCreateTensorDescriptor(each));
    DNN(cudnnCreateFilterDescriptor(&filter));
    DNN(cudnnCreateConvolutionDescriptor(&convolution));
    DNN(cudnnCreateActivationDescriptor(&relu));
    DNN(cudnnCreatePoolingDescriptor(&pooling));
    DNN(cudnnSetTensor4dDescriptor(image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 8, 8));
    DNN(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, 3, 3, 3));
    DNN(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                        CUDNN_DATA_FLOAT));
    int n, c, h, w, found;
    DNN(cudnnGetConvolution2dForwardOutputDim(convolution, image, filter, &n, &c, &h, &w));
    HOLDS(n == 2 && c == 4 && h == 8 && w == 8);
    DNN(cudnnSetTensor4dDescriptor(maps, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
    DNN(cudnnSetTensor4dDescriptor(bias, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, c, 1, 1));
    DNN(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    DNN(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0,
                                    2, 2));
    DNN(cudnnGetPooling2dForwardOutputDim(pooling, maps, &n, &c, &h, &w));
    HOLDS(h == 4 && w == 4);
    DNN(cudnnSetTensor4dDescriptor(pooled, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
    cudnnConvolutionFwdAlgoPerf_t algorithm;
    DNN(cudnnGetConvolutionForwardAlgorithm_v7(handle, image, filter, convolution, maps, 1, &found,
                                               &algorithm));
    size_t bytes;
    DNN(cudnnGetConvolutionForwardWorkspaceSize(handle, image, filter, convolution, maps,
                                                algorithm.algo, &bytes));
    float *x, *k, *b, *y, *p, one = 1, zero = 0;
    CALL(cudaMallocManaged(&x, 2 * 3 * 64 * sizeof(float)));
    CALL(cudaMallocManaged(&k, 4 * 3 * 9 * sizeof(float)));
    CALL(cudaMallocManaged(&b, 4 * sizeof(float)));
    CALL(cudaMallocManaged(&y, 2 * 4 * 64 * sizeof(float)));
    CALL(cudaMallocManaged(&p, 2 * 4 * 16 * sizeof(float)));
    fill<<<3, 128, 0, stream>>>(x, 2 * 3 * 64);  // the library's work comes after it
    fill<<<1, 128, 0, stream>>>(k, 4 * 3 * 9);
    fill<<<1, 4, 0, stream>>>(b, 4);
    DNN(cudnnConvolutionForward(handle, &one, image, x, filter, k, convolution, algorithm.algo,
                                nullptr, bytes, &zero, maps, y));
    DNN(cudnnAddTensor(handle, &one, bias, b, &one, maps, y));
    DNN(cudnnActivationForward(handle, relu, &one, maps, y, &zero, maps, y));
    DNN(cudnnPoolingForward(handle, pooling, &one, maps, y, &zero, pooled, p));
    CALL(cudaStreamSynchronize(stream));
    for (int image = 0; image < 2; image++)
        for (int map = 0; map < 4; map++)
            for (int i = 0; i < 16; i++) {
                float best = 0;  // of ReLU
                for (int d = 0; d < 4; d++) {
                    int row = i / 4 * 2 + d / 2, column = i % 4 * 2 + d % 2;
                    float sum = b[map];
                    for (int t = 0; t < 27; t++) {
                        int r = row + t / 3 % 3 - 1, s = column + t % 3 - 1;
                        if (r >= 0 && r < 8 && s >= 0 && s < 8)
                            sum += x[(image * 3 + t / 9) * 64 + r * 8 + s] * k[map * 27 + t];
                    }
                    best = fmaxf(best, sum);
                }
                HOLDS(fabs(p[(image * 4 + map) * 16 + i] - best) < 1e-4);
            }
    HOLDS(cudnnSetTensor4dDescriptor(image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 3, 8, 8) ==
          CUDNN_STATUS_BAD_PARAM);
    printf("a layer agrees\n");
}
