"""The network in several processes: batch norm over the images of all of them.

With statistics of its own images alone, a process would train another network than one process with
the whole batch. Each block is four ops here, because the processes exchange the statistics between
the convolution and the rest.
"""

from __future__ import annotations

from typing import Any

import torch

from weft.ops.core import library
from weft.train.network import Own
from weft.train.parallel import TrainingGroup


class Synchronised(Own):
    """The network on weft's kernels, as one of the processes of a group computes it."""

    def __init__(self, layers: torch.nn.Sequential, group: TrainingGroup) -> None:
        super().__init__(layers)
        self.group = group

    def _block(self, x: torch.Tensor, conv: torch.nn.Conv2d, norm: torch.nn.BatchNorm2d) -> Any:
        if not self.training:
            return super()._block(x, conv, norm)
        x = library.call("conv2d")(x, conv.weight, conv.bias, conv.stride, conv.padding)
        x = _Normalise.apply(x, norm.weight, norm.bias, norm, self.group)
        return library.call("max_pool2d")(library.call("relu")(x), 2)


class _Normalise(torch.autograd.Function):  # type: ignore[misc]
    """Batch norm with the statistics of all processes, which have equally many images."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, norm: Any, group: TrainingGroup) -> Any:
        means, variances = library.call("batch_norm_statistics")(x.detach())
        # Of all processes: the mean of the variances, and the variance of the means.
        mean = group.mean(means)
        var = group.mean(variances + (means - mean) ** 2)
        ctx.count, ctx.eps, ctx.group = x.numel() // x.shape[1] * group.world, norm.eps, group
        unbiased = var * (ctx.count / max(ctx.count - 1, 1))
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(unbiased, norm.momentum)
        ctx.save_for_backward(x, mean, var, weight)
        return library.call("batch_norm_apply")(x, mean, var, weight, bias, False, norm.eps)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, mean, var, weight = ctx.saved_tensors
        backward = library.call("batch_norm_backward")
        # As if the statistics were constants; the rest is a multiple of x and a constant.
        direct, dw, db = backward(dy.contiguous(), x, mean, var, weight, False, ctx.eps, True)
        totals = ctx.group.total(torch.stack((dw, db))) / ctx.count
        slopes = totals * (-weight * (var + ctx.eps).rsqrt())
        rest = library.call("batch_norm_apply")(x, mean, var, slopes[0], slopes[1], False, ctx.eps)
        return library.call("add")(direct, rest), dw, db, None, None
