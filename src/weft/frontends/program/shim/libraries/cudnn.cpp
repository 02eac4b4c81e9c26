// cuDNN's legacy interface: descriptors keep what is set; NumPy computes (libraries/dnn.py).
#include "library.h"

#include <cudnn.h>

using namespace weft;

namespace {
// A descriptor is its numbers. A tensor or a filter has a type, four sizes and four strides; a
// convolution has paddings, strides, dilations, mode and groups.
template <class H>
Numbers &dnn_numbers(H descriptor) {
    return *reinterpret_cast<Numbers *>(descriptor);
}
template <class H>
cudnnStatus_t create_descriptor(H *out) {
    *out = reinterpret_cast<H>(new Numbers);
    return CUDNN_STATUS_SUCCESS;
}
template <class H>
cudnnStatus_t destroy_descriptor(H descriptor) {
    delete reinterpret_cast<Numbers *>(descriptor);
    return CUDNN_STATUS_SUCCESS;
}
int64_t bits_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
Numbers dense_tensor(int type, int format, int64_t n, int64_t c, int64_t h, int64_t w) {
    if (format == CUDNN_TENSOR_NHWC) return {type, n, c, h, w, h * w * c, 1, w * c, c};
    return {type, n, c, h, w, c * h * w, h * w, w, 1};
}

// The numbers of one call, in the order that dnn.py reads.
class DnnCall {
  public:
    template <class H>
    DnnCall &tensor(H descriptor, const void *address) {
        numbers.push_back(int64_t(address));
        return add(descriptor);
    }
    template <class H>
    DnnCall &add(H descriptor) {
        auto &values = dnn_numbers(descriptor);
        numbers.insert(numbers.end(), values.begin(), values.end());
        return *this;
    }
    DnnCall &number(int64_t value) {
        numbers.push_back(value);
        return *this;
    }
    DnnCall &scales(const void *alpha, const void *beta) {
        return number(int64_t(alpha)).number(int64_t(beta));
    }
    cudnnStatus_t run(cudnnHandle_t handle, const char *name) {
        if (!handle) return CUDNN_STATUS_NOT_INITIALIZED;
        auto stream = *reinterpret_cast<cudaStream_t *>(handle);
        int status = numpy_call(stream, name, numbers, int(CUDNN_STATUS_EXECUTION_FAILED));
        if (status == CUDNN_STATUS_EXECUTION_FAILED) return CUDNN_STATUS_EXECUTION_FAILED;
        return status ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
    }

  private:
    Numbers numbers;
};

// All algorithms are one, which needs no workspace.
template <class Performance>
cudnnStatus_t choose_algorithm(int asked, int *found, Performance *results) {
    if (asked < 1) return CUDNN_STATUS_BAD_PARAM;
    memset(results, 0, sizeof *results);
    results->determinism = CUDNN_DETERMINISTIC;
    *found = 1;
    return CUDNN_STATUS_SUCCESS;
}
}  // namespace

API size_t cudnnGetVersion() { return CUDNN_VERSION; }
API const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
        case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
        case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
        case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
        case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
        default: return "CUDNN_STATUS_EXECUTION_FAILED";
    }
}
API cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
    return set(*out, reinterpret_cast<cudnnHandle_t>(new cudaStream_t(nullptr)));
}
API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    delete reinterpret_cast<cudaStream_t *>(handle);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    return set(*reinterpret_cast<cudaStream_t *>(handle), stream);
}
API cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
    return set(*stream, *reinterpret_cast<cudaStream_t *>(handle));
}

// ---- descriptors --------------------------------------------------------------------------------

#define DESCRIPTOR(Name, H)                                                                \
    API cudnnStatus_t cudnnCreate##Name##Descriptor(H *out) { return create_descriptor(out); } \
    API cudnnStatus_t cudnnDestroy##Name##Descriptor(H desc) { return destroy_descriptor(desc); }
DESCRIPTOR(Tensor, cudnnTensorDescriptor_t)
DESCRIPTOR(Filter, cudnnFilterDescriptor_t)
DESCRIPTOR(Convolution, cudnnConvolutionDescriptor_t)
DESCRIPTOR(Activation, cudnnActivationDescriptor_t)
DESCRIPTOR(Pooling, cudnnPoolingDescriptor_t)

API cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t desc,
                                             cudnnTensorFormat_t format, cudnnDataType_t type,
                                             int n, int c, int h, int w) {
    if (n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
    dnn_numbers(desc) = dense_tensor(type, format, n, c, h, w);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t desc, cudnnDataType_t type,
                                               int n, int c, int h, int w, int ns, int cs, int hs,
                                               int ws) {
    dnn_numbers(desc) = {type, n, c, h, w, ns, cs, hs, ws};
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t desc, cudnnDataType_t type,
                                             int rank, const int sizes[], const int strides[]) {
    if (rank < 1 || rank > 4) {
        say("cudnnSetTensorNdDescriptor: %d dimensions, of which weft has at most 4", rank);
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    Numbers values = {type, 1, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < rank; i++) values[1 + i] = sizes[i], values[5 + i] = strides[i];
    dnn_numbers(desc) = values;
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t desc, cudnnDataType_t *type,
                                             int *n, int *c, int *h, int *w, int *ns, int *cs,
                                             int *hs, int *ws) {
    auto &values = dnn_numbers(desc);
    *type = static_cast<cudnnDataType_t>(values[0]);
    int *out[] = {n, c, h, w, ns, cs, hs, ws};
    for (int i = 0; i < 8; i++) *out[i] = int(values[1 + i]);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t desc, cudnnDataType_t type,
                                             cudnnTensorFormat_t format, int k, int c, int h,
                                             int w) {
    return set(dnn_numbers(desc), dense_tensor(type, format, k, c, h, w));
}
API cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t desc, int pad_h,
                                                  int pad_w, int stride_h, int stride_w,
                                                  int dilation_h, int dilation_w,
                                                  cudnnConvolutionMode_t mode, cudnnDataType_t) {
    dnn_numbers(desc) = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, mode, 1};
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t desc, int groups) {
    return set(dnn_numbers(desc)[7], groups);
}
API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t) {
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t desc,
                                                        cudnnTensorDescriptor_t x,
                                                        cudnnFilterDescriptor_t filter, int *n,
                                                        int *c, int *h, int *w) {
    auto &how = dnn_numbers(desc), &image = dnn_numbers(x), &taps = dnn_numbers(filter);
    if (taps[2] * how[7] != image[2]) return CUDNN_STATUS_BAD_PARAM;
    auto size = [&](int i) {
        int64_t extent = (taps[3 + i] - 1) * how[4 + i] + 1;
        return int((image[3 + i] + 2 * how[i] - extent) / how[2 + i] + 1);
    };
    *n = int(image[1]), *c = int(taps[1]), *h = size(0), *w = size(1);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t desc,
                                               cudnnActivationMode_t mode, cudnnNanPropagation_t,
                                               double coefficient) {
    dnn_numbers(desc) = {mode, bits_of(coefficient)};
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t desc,
                                              cudnnPoolingMode_t mode, cudnnNanPropagation_t,
                                              int window_h, int window_w, int pad_h, int pad_w,
                                              int stride_h, int stride_w) {
    dnn_numbers(desc) = {mode, window_h, window_w, pad_h, pad_w, stride_h, stride_w};
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetPooling2dForwardOutputDim(cudnnPoolingDescriptor_t desc,
                                                    cudnnTensorDescriptor_t x, int *n, int *c,
                                                    int *h, int *w) {
    auto &how = dnn_numbers(desc), &image = dnn_numbers(x);
    auto size = [&](int i) {
        return int((image[3 + i] + 2 * how[3 + i] - how[1 + i]) / how[5 + i] + 1);
    };
    *n = int(image[1]), *c = int(image[2]), *h = size(0), *w = size(1);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived,
                                                cudnnTensorDescriptor_t x,
                                                cudnnBatchNormMode_t mode) {
    auto &image = dnn_numbers(x);
    bool each = mode == CUDNN_BATCHNORM_PER_ACTIVATION;
    int type = image[0] == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    dnn_numbers(derived) = dense_tensor(type, CUDNN_TENSOR_NCHW, 1, image[2], each ? image[3] : 1,
                                        each ? image[4] : 1);
    return CUDNN_STATUS_SUCCESS;
}

// ---- convolution --------------------------------------------------------------------------------

#define ALGORITHM(Direction, Algo, Perf, A, B, C)                                                 \
    API cudnnStatus_t cudnnGetConvolution##Direction##Algorithm_v7(                               \
        cudnnHandle_t, A, B, cudnnConvolutionDescriptor_t, C, int asked, int *found,              \
        Perf *results) {                                                                          \
        return choose_algorithm(asked, found, results);                                           \
    }                                                                                             \
    API cudnnStatus_t cudnnFindConvolution##Direction##Algorithm(                                 \
        cudnnHandle_t, A, B, cudnnConvolutionDescriptor_t, C, int asked, int *found,              \
        Perf *results) {                                                                          \
        return choose_algorithm(asked, found, results);                                           \
    }                                                                                             \
    API cudnnStatus_t cudnnGetConvolution##Direction##WorkspaceSize(                              \
        cudnnHandle_t, A, B, cudnnConvolutionDescriptor_t, C, Algo, size_t *bytes) {              \
        *bytes = 0;                                                                               \
        return CUDNN_STATUS_SUCCESS;                                                              \
    }
ALGORITHM(Forward, cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdAlgoPerf_t,
          cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t)
ALGORITHM(BackwardData, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t,
          cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t)
ALGORITHM(BackwardFilter, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterAlgoPerf_t,
          cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)

API cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                          cudnnTensorDescriptor_t xd, const void *x,
                                          cudnnFilterDescriptor_t wd, const void *w,
                                          cudnnConvolutionDescriptor_t how,
                                          cudnnConvolutionFwdAlgo_t, void *, size_t,
                                          const void *beta, cudnnTensorDescriptor_t yd, void *y) {
    return DnnCall().tensor(xd, x).tensor(wd, w).tensor(yd, y).add(how).scales(alpha, beta).run(
        handle, "dnn.forward");
}
API cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                               cudnnFilterDescriptor_t wd, const void *w,
                                               cudnnTensorDescriptor_t dyd, const void *dy,
                                               cudnnConvolutionDescriptor_t how,
                                               cudnnConvolutionBwdDataAlgo_t, void *, size_t,
                                               const void *beta, cudnnTensorDescriptor_t dxd,
                                               void *dx) {
    return DnnCall().tensor(wd, w).tensor(dyd, dy).tensor(dxd, dx).add(how).scales(alpha, beta).run(
        handle, "dnn.backward_data");
}
API cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                                 cudnnTensorDescriptor_t xd, const void *x,
                                                 cudnnTensorDescriptor_t dyd, const void *dy,
                                                 cudnnConvolutionDescriptor_t how,
                                                 cudnnConvolutionBwdFilterAlgo_t, void *, size_t,
                                                 const void *beta, cudnnFilterDescriptor_t dwd,
                                                 void *dw) {
    return DnnCall().tensor(xd, x).tensor(dyd, dy).tensor(dwd, dw).add(how).scales(alpha, beta).run(
        handle, "dnn.backward_filter");
}
API cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void *alpha,
                                               cudnnTensorDescriptor_t dyd, const void *dy,
                                               const void *beta, cudnnTensorDescriptor_t dbd,
                                               void *db) {
    return DnnCall().tensor(dyd, dy).tensor(dbd, db).scales(alpha, beta).run(handle,
                                                                            "dnn.backward_bias");
}
API cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha,
                                 cudnnTensorDescriptor_t ad, const void *a, const void *beta,
                                 cudnnTensorDescriptor_t cd, void *c) {
    return DnnCall().tensor(ad, a).tensor(cd, c).scales(alpha, beta).run(handle, "dnn.add");
}

// ---- layers -------------------------------------------------------------------------------------

API cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t how,
                                         const void *alpha, cudnnTensorDescriptor_t xd,
                                         const void *x, const void *beta,
                                         cudnnTensorDescriptor_t yd, void *y) {
    return DnnCall().tensor(xd, x).tensor(yd, y).add(how).scales(alpha, beta).run(handle,
                                                                                 "dnn.activation");
}
API cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t how,
                                          const void *alpha, cudnnTensorDescriptor_t yd,
                                          const void *y, cudnnTensorDescriptor_t dyd,
                                          const void *dy, cudnnTensorDescriptor_t xd, const void *x,
                                          const void *beta, cudnnTensorDescriptor_t dxd, void *dx) {
    DnnCall call;
    call.tensor(yd, y).tensor(dyd, dy).tensor(xd, x).tensor(dxd, dx);
    return call.add(how).scales(alpha, beta).run(handle, "dnn.activation_backward");
}
API cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t how,
                                      const void *alpha, cudnnTensorDescriptor_t xd, const void *x,
                                      const void *beta, cudnnTensorDescriptor_t yd, void *y) {
    return DnnCall().tensor(xd, x).tensor(yd, y).add(how).scales(alpha, beta).run(handle,
                                                                                 "dnn.pooling");
}
API cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t how,
                                       const void *alpha, cudnnTensorDescriptor_t yd, const void *y,
                                       cudnnTensorDescriptor_t dyd, const void *dy,
                                       cudnnTensorDescriptor_t xd, const void *x, const void *beta,
                                       cudnnTensorDescriptor_t dxd, void *dx) {
    DnnCall call;
    call.tensor(yd, y).tensor(dyd, dy).tensor(xd, x).tensor(dxd, dx);
    return call.add(how).scales(alpha, beta).run(handle, "dnn.pooling_backward");
}
API cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                      cudnnSoftmaxMode_t mode, const void *alpha,
                                      cudnnTensorDescriptor_t xd, const void *x, const void *beta,
                                      cudnnTensorDescriptor_t yd, void *y) {
    DnnCall call;
    call.tensor(xd, x).tensor(yd, y).number(algorithm).number(mode);
    return call.scales(alpha, beta).run(handle, "dnn.softmax");
}
API cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                       cudnnSoftmaxMode_t mode, const void *alpha,
                                       cudnnTensorDescriptor_t yd, const void *y,
                                       cudnnTensorDescriptor_t dyd, const void *dy,
                                       const void *beta, cudnnTensorDescriptor_t dxd, void *dx) {
    DnnCall call;
    call.tensor(yd, y).tensor(dyd, dy).tensor(dxd, dx).number(algorithm).number(mode);
    return call.scales(alpha, beta).run(handle, "dnn.softmax_backward");
}

// ---- batch norm ---------------------------------------------------------------------------------

API cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    cudnnTensorDescriptor_t xd, const void *x, cudnnTensorDescriptor_t yd, void *y,
    cudnnTensorDescriptor_t pd, const void *scale, const void *bias, const void *mean,
    const void *variance, double epsilon) {
    DnnCall call;
    call.tensor(xd, x).tensor(yd, y);
    for (auto *parameter : {scale, bias, mean, variance}) call.tensor(pd, parameter);
    call.number(mode).number(bits_of(epsilon));
    return call.scales(alpha, beta).run(handle, "dnn.norm_inference");
}
API cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    cudnnTensorDescriptor_t xd, const void *x, cudnnTensorDescriptor_t yd, void *y,
    cudnnTensorDescriptor_t pd, const void *scale, const void *bias, double factor, void *mean,
    void *variance, double epsilon, void *saved_mean, void *saved_inverse) {
    DnnCall call;
    call.tensor(xd, x).tensor(yd, y);
    // Statistics that are not wanted are null: another address stands for them and is not used.
    const void *all[] = {scale, bias, mean ? mean : scale, variance ? variance : scale,
                         saved_mean ? saved_mean : scale, saved_inverse ? saved_inverse : scale};
    for (auto *parameter : all) call.tensor(pd, parameter);
    call.number(mode).number(bits_of(epsilon)).number(bits_of(factor));
    call.number(mean && variance).number(saved_mean && saved_inverse);
    return call.scales(alpha, beta).run(handle, "dnn.norm_training");
}
API cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const void *alpha_parameters, const void *beta_parameters, cudnnTensorDescriptor_t xd,
    const void *x, cudnnTensorDescriptor_t dyd, const void *dy, cudnnTensorDescriptor_t dxd,
    void *dx, cudnnTensorDescriptor_t pd, const void *scale, void *d_scale, void *d_bias,
    double epsilon, const void *saved_mean, const void *saved_inverse) {
    DnnCall call;
    call.tensor(xd, x).tensor(dyd, dy).tensor(dxd, dx);
    const void *all[] = {scale, d_scale, d_bias, saved_mean ? saved_mean : scale,
                         saved_inverse ? saved_inverse : scale};
    for (auto *parameter : all) call.tensor(pd, parameter);
    call.number(mode).number(bits_of(epsilon)).number(saved_mean && saved_inverse);
    call.scales(alpha, beta).scales(alpha_parameters, beta_parameters);
    return call.run(handle, "dnn.norm_backward");
}
