// The part of cuDNN's legacy interface that weft serves; used where there is no cudnn.h otherwise.
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>

#define CUDNN_MAJOR 9
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION (CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)
#define CUDNN_BN_MIN_EPSILON 0.0
#define CUDNN_DIM_MAX 8

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;

typedef enum {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;
typedef enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2 } cudnnDataType_t;
typedef enum { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 } cudnnTensorFormat_t;
typedef enum { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum {
    CUDNN_DEFAULT_MATH = 0,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    CUDNN_FMA_MATH = 3
} cudnnMathType_t;
typedef enum { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 } cudnnNanPropagation_t;
typedef enum { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 } cudnnDeterminism_t;
typedef enum {
    CUDNN_ACTIVATION_SIGMOID = 0,
    CUDNN_ACTIVATION_RELU = 1,
    CUDNN_ACTIVATION_TANH = 2,
    CUDNN_ACTIVATION_CLIPPED_RELU = 3,
    CUDNN_ACTIVATION_ELU = 4,
    CUDNN_ACTIVATION_IDENTITY = 5
} cudnnActivationMode_t;
typedef enum {
    CUDNN_POOLING_MAX = 0,
    CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
    CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
    CUDNN_POOLING_MAX_DETERMINISTIC = 3
} cudnnPoolingMode_t;
typedef enum {
    CUDNN_SOFTMAX_FAST = 0,
    CUDNN_SOFTMAX_ACCURATE = 1,
    CUDNN_SOFTMAX_LOG = 2
} cudnnSoftmaxAlgorithm_t;
typedef enum { CUDNN_SOFTMAX_MODE_INSTANCE = 0, CUDNN_SOFTMAX_MODE_CHANNEL = 1 } cudnnSoftmaxMode_t;
typedef enum {
    CUDNN_BATCHNORM_PER_ACTIVATION = 0,
    CUDNN_BATCHNORM_SPATIAL = 1,
    CUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2
} cudnnBatchNormMode_t;
typedef enum {
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
    CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
    CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
    CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
    CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
    CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
} cudnnConvolutionFwdAlgo_t;
typedef enum {
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6
} cudnnConvolutionBwdDataAlgo_t;
typedef enum {
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7
} cudnnConvolutionBwdFilterAlgo_t;

#define WEFT_PERFORMANCE(Algorithm, Name)  \
    typedef struct {                       \
        Algorithm algo;                    \
        cudnnStatus_t status;              \
        float time;                        \
        size_t memory;                     \
        cudnnDeterminism_t determinism;    \
        cudnnMathType_t mathType;          \
        int reserved[3];                   \
    } Name;
WEFT_PERFORMANCE(cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdAlgoPerf_t)
WEFT_PERFORMANCE(cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t)
WEFT_PERFORMANCE(cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterAlgoPerf_t)
#undef WEFT_PERFORMANCE

#ifdef __cplusplus
extern "C" {
#endif
#define WEFT_T cudnnTensorDescriptor_t
#define WEFT_F cudnnFilterDescriptor_t
#define WEFT_C cudnnConvolutionDescriptor_t
size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream);

cudnnStatus_t cudnnCreateTensorDescriptor(WEFT_T *desc);
cudnnStatus_t cudnnDestroyTensorDescriptor(WEFT_T desc);
cudnnStatus_t cudnnSetTensor4dDescriptor(WEFT_T desc, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w);
cudnnStatus_t cudnnSetTensor4dDescriptorEx(WEFT_T desc, cudnnDataType_t type, int n, int c, int h,
                                           int w, int n_stride, int c_stride, int h_stride,
                                           int w_stride);
cudnnStatus_t cudnnSetTensorNdDescriptor(WEFT_T desc, cudnnDataType_t type, int rank,
                                         const int sizes[], const int strides[]);
cudnnStatus_t cudnnGetTensor4dDescriptor(WEFT_T desc, cudnnDataType_t *type, int *n, int *c, int *h,
                                         int *w, int *n_stride, int *c_stride, int *h_stride,
                                         int *w_stride);
cudnnStatus_t cudnnCreateFilterDescriptor(WEFT_F *desc);
cudnnStatus_t cudnnDestroyFilterDescriptor(WEFT_F desc);
cudnnStatus_t cudnnSetFilter4dDescriptor(WEFT_F desc, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w);
cudnnStatus_t cudnnCreateConvolutionDescriptor(WEFT_C *desc);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(WEFT_C desc);
cudnnStatus_t cudnnSetConvolution2dDescriptor(WEFT_C desc, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute);
cudnnStatus_t cudnnSetConvolutionGroupCount(WEFT_C desc, int groups);
cudnnStatus_t cudnnSetConvolutionMathType(WEFT_C desc, cudnnMathType_t math);
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(WEFT_C desc, WEFT_T x, WEFT_F w, int *n, int *c,
                                                    int *h, int *width);

#define WEFT_ALGORITHM(Direction, Algo, Perf, A, B, C)                                             \
    cudnnStatus_t cudnnGetConvolution##Direction##Algorithm_v7(                                    \
        cudnnHandle_t, A, B, WEFT_C, C, int asked, int *found, Perf *results);                     \
    cudnnStatus_t cudnnFindConvolution##Direction##Algorithm(                                      \
        cudnnHandle_t, A, B, WEFT_C, C, int asked, int *found, Perf *results);                     \
    cudnnStatus_t cudnnGetConvolution##Direction##WorkspaceSize(cudnnHandle_t, A, B, WEFT_C, C,    \
                                                                Algo, size_t *bytes);
WEFT_ALGORITHM(Forward, cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdAlgoPerf_t, WEFT_T, WEFT_F,
               WEFT_T)
WEFT_ALGORITHM(BackwardData, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t,
               WEFT_F, WEFT_T, WEFT_T)
WEFT_ALGORITHM(BackwardFilter, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterAlgoPerf_t,
               WEFT_T, WEFT_T, WEFT_F)
#undef WEFT_ALGORITHM

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void *alpha, WEFT_T xd, const void *x,
                                      WEFT_F wd, const void *w, WEFT_C, cudnnConvolutionFwdAlgo_t,
                                      void *workspace, size_t bytes, const void *beta, WEFT_T yd,
                                      void *y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void *alpha, WEFT_F wd,
                                           const void *w, WEFT_T dyd, const void *dy, WEFT_C,
                                           cudnnConvolutionBwdDataAlgo_t, void *workspace,
                                           size_t bytes, const void *beta, WEFT_T dxd, void *dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void *alpha, WEFT_T xd,
                                             const void *x, WEFT_T dyd, const void *dy, WEFT_C,
                                             cudnnConvolutionBwdFilterAlgo_t, void *workspace,
                                             size_t bytes, const void *beta, WEFT_F dwd, void *dw);
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t, const void *alpha, WEFT_T dyd,
                                           const void *dy, const void *beta, WEFT_T dbd, void *db);
cudnnStatus_t cudnnAddTensor(cudnnHandle_t, const void *alpha, WEFT_T ad, const void *a,
                             const void *beta, WEFT_T cd, void *c);

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *desc);
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t desc);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t desc,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient);
cudnnStatus_t cudnnActivationForward(cudnnHandle_t, cudnnActivationDescriptor_t, const void *alpha,
                                     WEFT_T xd, const void *x, const void *beta, WEFT_T yd,
                                     void *y);
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t, cudnnActivationDescriptor_t, const void *alpha,
                                      WEFT_T yd, const void *y, WEFT_T dyd, const void *dy,
                                      WEFT_T xd, const void *x, const void *beta, WEFT_T dxd,
                                      void *dx);
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t *desc);
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t desc);
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t desc, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int window_h, int window_w,
                                          int pad_h, int pad_w, int stride_h, int stride_w);
cudnnStatus_t cudnnGetPooling2dForwardOutputDim(cudnnPoolingDescriptor_t desc, WEFT_T x, int *n,
                                                int *c, int *h, int *w);
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t, cudnnPoolingDescriptor_t, const void *alpha,
                                  WEFT_T xd, const void *x, const void *beta, WEFT_T yd, void *y);
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t, cudnnPoolingDescriptor_t, const void *alpha,
                                   WEFT_T yd, const void *y, WEFT_T dyd, const void *dy, WEFT_T xd,
                                   const void *x, const void *beta, WEFT_T dxd, void *dx);
cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t,
                                  const void *alpha, WEFT_T xd, const void *x, const void *beta,
                                  WEFT_T yd, void *y);
cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t,
                                   const void *alpha, WEFT_T yd, const void *y, WEFT_T dyd,
                                   const void *dy, const void *beta, WEFT_T dxd, void *dx);

cudnnStatus_t cudnnDeriveBNTensorDescriptor(WEFT_T derived, WEFT_T x, cudnnBatchNormMode_t mode);
cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t, cudnnBatchNormMode_t, const void *alpha, const void *beta, WEFT_T xd,
    const void *x, WEFT_T yd, void *y, WEFT_T pd, const void *scale, const void *bias,
    const void *mean, const void *variance, double epsilon);
cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t, cudnnBatchNormMode_t, const void *alpha, const void *beta, WEFT_T xd,
    const void *x, WEFT_T yd, void *y, WEFT_T pd, const void *scale, const void *bias,
    double factor, void *mean, void *variance, double epsilon, void *saved_mean,
    void *saved_inverse);
cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t, cudnnBatchNormMode_t, const void *alpha, const void *beta,
    const void *alpha_parameters, const void *beta_parameters, WEFT_T xd, const void *x, WEFT_T dyd,
    const void *dy, WEFT_T dxd, void *dx, WEFT_T pd, const void *scale, void *d_scale, void *d_bias,
    double epsilon, const void *saved_mean, const void *saved_inverse);
#undef WEFT_T
#undef WEFT_F
#undef WEFT_C
#ifdef __cplusplus
}
#endif
#include <cudnn_rest.h>
