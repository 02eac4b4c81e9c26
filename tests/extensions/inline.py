"""A script as people write them: wrappers, dispatch over dtypes, accessors, an operator."""

import sys

import torch
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor scale(torch::Tensor x, double f); torch::Tensor row_sums(torch::Tensor x);"
CUDA = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#define CHECK_INPUT(x) \
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a dense CUDA tensor")

template <typename scalar_t>
__global__ void scale_kernel(const scalar_t* __restrict__ x, scalar_t* y, double f, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = static_cast<scalar_t>(static_cast<float>(x[i]) * static_cast<float>(f));
}

torch::Tensor scale(torch::Tensor x, double f) {
    CHECK_INPUT(x);
    TORCH_CHECK(x.device().type() == torch::kCUDA && x.get_device() == 0);
    const at::cuda::OptionalCUDAGuard guard(at::device_of(x));
    auto y = torch::empty_like(x, x.options().device(torch::kCUDA));
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scale", [&] {
        auto stream = at::cuda::getCurrentCUDAStream();
        scale_kernel<scalar_t><<<(x.numel() + 127) / 128, 128, 0, stream>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), f, x.numel());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

__global__ void sums(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x,
                     torch::PackedTensorAccessor32<float, 1, torch::RestrictPtrTraits> y) {
    float sum = 0;
    for (int j = 0; j < x.size(1); j++) sum += x[threadIdx.x][j];
    y[threadIdx.x] = sum;
}

torch::Tensor row_sums(torch::Tensor x) {
    auto y = torch::zeros({x.size(0)}, torch::dtype(torch::kFloat32).device(torch::kCUDA));
    sums<<<1, x.size(0)>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                           y.packed_accessor32<float, 1, torch::RestrictPtrTraits>());
    AT_CUDA_CHECK(cudaGetLastError());
    return y;
}

TORCH_LIBRARY(weft_test, m) { m.def("scale(Tensor x, float f) -> Tensor"); }
TORCH_LIBRARY_IMPL(weft_test, CUDA, m) { m.impl("scale", &scale); }
TORCH_LIBRARY_IMPL(weft_test, CPU, m) {
    m.impl("scale", [](at::Tensor x, double f) { return x * 0; });
}
"""
inline = load_inline(
    "weft_inline", CPP, CUDA, functions=["scale", "row_sums"], build_directory=sys.argv[1]
)
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    x = torch.randn(1000, device="cuda").to(dtype)
    torch.testing.assert_close(inline.scale(x, 2.5), (x.float() * 2.5).to(dtype))
x = torch.randn(5, 7, device="cuda")
torch.testing.assert_close(inline.row_sums(x.t()), x.sum(0))  # an accessor knows the strides
torch.testing.assert_close(torch.ops.weft_test.scale(x, 3.0), 3 * x)
try:
    inline.scale(x.t(), 1.0)
except RuntimeError as error:
    print(str(error).splitlines()[0])
