"""A training step with one naive kernel per operation (naive.cu)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from weft.kernels import CudaModule, cdiv, cuda
from weft.train.network import network
from weft.train.settings import Settings
from weft.train.step import Parts, TrainingStep

THREADS = 256
BLOCKS = ((0, 28), (4, 14))
"""The index of each block's first layer, and the side of its images."""
HIDDEN, LAST = 9, 11


@functools.cache
def _module() -> CudaModule:
    return cuda(Path(__file__).with_name("naive.cu"))


def _launch(kernel: str, count: int, *args: Any) -> None:
    """Launch a kernel with one thread for each of `count` results."""
    _module().kernel(kernel)[cdiv(count, THREADS), THREADS](*args)


class NaiveStep(TrainingStep):
    """Forward, backward and update as 43 launches of 18 kernels."""

    def __init__(self, settings: Settings, device: torch.device) -> None:
        model = network(seed=settings.seed).to(device)
        update = torch.optim.SGD(model.parameters(), settings.rate, momentum=settings.momentum)
        parts = Parts("naive kernels", model, torch.nn.CrossEntropyLoss(), update)
        super().__init__(parts, settings.batch, device, graph=False)
        self.settings, self.device = settings, device
        self.state = {name: t.detach() for name, t in model.state_dict(keep_vars=True).items()}
        self.weights = {name: self.state[name] for name, _ in model.named_parameters()}
        self.speed = {name: torch.zeros_like(w) for name, w in self.weights.items()}
        self._memory: dict[str, torch.Tensor] = {}

    @property
    def stages(self) -> dict[str, Callable[[], None]]:
        return {"forward": self._run, "backward": self._differentiate, "update": self._descend}

    def _result(self, name: str, *shape: int) -> torch.Tensor:
        """Memory for a result, which is the same in each step."""
        if name not in self._memory:
            self._memory[name] = torch.empty(shape, device=self.device)
        return self._memory[name]

    def _gradient(self, name: str) -> torch.Tensor:
        return self._result(f"{name} gradient", *self.weights[name].shape)

    # ---- forward -------------------------------------------------------------------------------
    def _run(self) -> None:
        x, images = self.pixels, len(self.pixels)
        for at, side in BLOCKS:
            x = self._block(x, at, side)
        x = self._linear(x, HIDDEN)
        self._memory["hidden"] = hidden = self._result("relu", *x.shape)
        _launch("relu", x.numel(), x, hidden, x.numel())
        scores = self._linear(hidden, LAST)
        losses, d = self._result("losses", images), self._result("d scores", *scores.shape)
        _launch("cross_entropy", images, scores, self.classes, losses, d, images, scores.shape[1])
        self.loss = self._result("loss", 1)[0]
        _launch("mean_loss", 1, losses, self._memory["loss"], images)

    def _block(self, x: torch.Tensor, at: int, side: int) -> torch.Tensor:
        """Convolution, batch norm, ReLU, max pooling."""
        weight = self.weights[f"{at}.weight"]
        images, (filters, channels) = len(x), weight.shape[:2]
        y, normal, active = (
            self._result(f"{at} {name}", images, filters, side, side)
            for name in ("convolved", "normal", "active")
        )
        self._memory[f"{at} input"] = x
        count, size = y.numel(), side * side
        _launch("convolution", count, x, weight, y, images, channels, filters, side)
        mean, var = (self._result(f"{at} {name}", filters) for name in ("mean", "var"))
        running = (self.state[f"{at + 1}.running_{name}"] for name in ("mean", "var"))
        _launch("statistics", THREADS * filters, y, mean, var, *running, images, filters, size)
        scale, shift = self.weights[f"{at + 1}.weight"], self.weights[f"{at + 1}.bias"]
        _launch("normalise", count, y, mean, var, scale, shift, normal, count, filters, size)
        _launch("relu", count, normal, active, count)
        pooled = self._result(f"{at} pooled", images, filters, side // 2, side // 2)
        _launch("max_pool", count // 4, active, pooled, count // 4, side // 2)
        return pooled

    def _linear(self, x: torch.Tensor, at: int) -> torch.Tensor:
        weight, bias = self.weights[f"{at}.weight"], self.weights[f"{at}.bias"]
        self._memory[f"{at} input"] = x
        y = self._result(f"{at} linear", len(x), len(weight))
        _launch("linear", y.numel(), x, weight, bias, y, len(x), weight.shape[1], len(weight))
        return y

    # ---- backward ------------------------------------------------------------------------------
    def _differentiate(self) -> None:
        d = self._linear_backward(self._memory["d scores"], LAST)
        before = self._result("d linear", *d.shape)
        _launch("relu_backward", d.numel(), self._memory["hidden"], d, before, d.numel())
        d = self._linear_backward(before, HIDDEN)
        for at, side in reversed(BLOCKS):
            d = self._block_backward(d, at, side)

    def _linear_backward(self, d: torch.Tensor, at: int) -> torch.Tensor:
        weight, x = self.weights[f"{at}.weight"], self._memory[f"{at} input"]
        images, (to, start) = len(d), weight.shape
        dx = self._result(f"{at} d input", images, start)
        dw, db = self._gradient(f"{at}.weight"), self._gradient(f"{at}.bias")
        _launch("linear_input", dx.numel(), d, weight, dx, images, start, to)
        _launch("linear_weight", dw.numel(), d, x, dw, images, start, to)
        _launch("linear_bias", to, d, db, images, to)
        return dx

    def _block_backward(self, d: torch.Tensor, at: int, side: int) -> torch.Tensor:
        weight, x = self.weights[f"{at}.weight"], self._memory[f"{at} input"]
        y, active = self._memory[f"{at} convolved"], self._memory[f"{at} active"]
        images, (filters, channels), count, size = len(x), weight.shape[:2], y.numel(), side * side
        spread, d_normal, d_y = (
            self._result(f"{at} {name}", *y.shape) for name in ("d active", "d normal", "d y")
        )
        _launch("max_pool_backward", count // 4, active, d, spread, count // 4, side // 2)
        _launch("relu_backward", count, active, spread, d_normal, count)
        mean, var = self._memory[f"{at} mean"], self._memory[f"{at} var"]
        sums = self._gradient(f"{at + 1}.weight"), self._gradient(f"{at + 1}.bias")
        shape = images, filters, size
        _launch("norm_sums", THREADS * filters, d_normal, y, mean, var, *sums, *shape)
        scale = self.weights[f"{at + 1}.weight"]
        rest = count, filters, size
        _launch("norm_input", count, d_normal, y, mean, var, scale, *sums, d_y, *rest)
        dw, sizes = self._gradient(f"{at}.weight"), (images, channels, filters, side)
        _launch("convolution_weight", dw.numel(), d_y, x, dw, *sizes)
        if at == 0:
            return d_y  # nothing needs the gradient of the pixels
        dx = self._result(f"{at} d input", *x.shape)
        _launch("convolution_input", dx.numel(), d_y, weight, dx, *sizes)
        return dx

    # ---- update --------------------------------------------------------------------------------
    def _descend(self) -> None:
        how = self.settings.rate, self.settings.momentum
        for name, weight in self.weights.items():
            gradient, speed, count = self._gradient(name), self.speed[name], weight.numel()
            _launch("sgd", count, weight, gradient, speed, *how, count)
