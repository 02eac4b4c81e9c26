"""A training step in NumPy: forward and backward written out, on the parameters of a network.

The arrays share the memory of the network's tensors, so its `state_dict` has what is computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weft.train.network import network
from weft.train.settings import Settings
from weft.train.step import Parts, TrainingStep

Array = np.ndarray[Any, Any]
BLOCKS, HIDDEN, LAST = (0, 4), 9, 11
"""The indices of the blocks' first layers and of the two linear layers."""


@dataclass
class _Block:
    """The values that the backward pass of a block needs: inputs of each of its four layers."""

    windows: Array
    normal: Array
    deviation: Array
    activated: Array


class NumpyStep(TrainingStep):
    """Forward, backward and update as array expressions on the host."""

    def __init__(self, settings: Settings) -> None:
        model = network(seed=settings.seed)
        update = torch.optim.SGD(model.parameters(), settings.rate, momentum=settings.momentum)
        parts = Parts("NumPy", model, torch.nn.CrossEntropyLoss(), update)
        super().__init__(parts, settings.batch, torch.device("cpu"), graph=False)
        self.settings = settings
        self.weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
        self.velocity = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self.running = {name: b.numpy() for name, b in model.named_buffers()}
        self.gradients: dict[str, Array] = {}
        self.blocks: list[_Block] = []

    @property
    def stages(self) -> dict[str, Callable[[], None]]:
        return {"forward": self._run, "backward": self._differentiate, "update": self._descend}

    # ---- forward -------------------------------------------------------------------------------
    def _run(self) -> None:
        x, classes = self.pixels.numpy(), self.classes.numpy()
        self.blocks = []
        for at in BLOCKS:
            x = self._block(x, at)
        self.flat = x.reshape(len(x), -1)
        weight, bias = self._linear(HIDDEN)
        self.hidden = np.maximum(self.flat @ weight.T + bias, 0)
        weight, bias = self._linear(LAST)
        scores = self.hidden @ weight.T + bias
        scores -= scores.max(1, keepdims=True)
        self.chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        loss = -np.log(self.chances[np.arange(len(x)), classes]).mean()
        self.loss = torch.tensor(float(loss))

    def _block(self, x: Array, at: int) -> Array:
        """Convolution, batch norm, ReLU, max pooling."""
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        y = np.tensordot(windows, self.weights[f"{at}.weight"], ((1, 4, 5), (1, 2, 3)))
        y = y.transpose(0, 3, 1, 2)
        count = y.size // y.shape[1]
        mean = _sums(y) / count
        var = _sums((y - _wide(mean)) ** 2) / count
        self._track(at + 1, mean, var, count)
        deviation = np.sqrt(var + 1e-5)
        normal = (y - _wide(mean)) / _wide(deviation)
        scale, shift = self._linear(at + 1)
        activated = np.maximum(normal * _wide(scale) + _wide(shift), 0)
        self.blocks.append(_Block(windows, normal, deviation, activated))
        pooled: Array = _quarters(activated).max(-1)
        return pooled

    def _track(self, at: int, mean: Array, var: Array, count: int) -> None:
        """Running statistics, with a momentum of 0.1 and the unbiased variance."""
        for name, value in (("mean", mean), ("var", var * count / (count - 1))):
            kept = self.running[f"{at}.running_{name}"]
            kept += np.float32(0.1) * (value - kept)

    def _linear(self, at: int) -> tuple[Array, Array]:
        return self.weights[f"{at}.weight"], self.weights[f"{at}.bias"]

    # ---- backward ------------------------------------------------------------------------------
    def _differentiate(self) -> None:
        rows = np.arange(len(self.flat))
        d = self.chances.copy()
        d[rows, self.classes.numpy()] -= 1
        d /= len(rows)
        d = self._linear_backward(LAST, self.hidden, d) * (self.hidden > 0)
        d = self._linear_backward(HIDDEN, self.flat, d)
        side = self.pixels.shape[-1] // 4
        d = d.reshape(len(rows), -1, side, side)
        for at, block in reversed([*zip(BLOCKS, self.blocks, strict=True)]):
            d = self._block_backward(at, block, d)

    def _linear_backward(self, at: int, x: Array, d: Array) -> Array:
        self.gradients |= {f"{at}.weight": d.T @ x, f"{at}.bias": d.sum(0)}
        dx: Array = d @ self.weights[f"{at}.weight"]
        return dx

    def _block_backward(self, at: int, block: _Block, d: Array) -> Array:
        quarters = _quarters(block.activated)
        chosen = quarters.argmax(-1)[..., None] == np.arange(4)
        d = _whole(chosen * d[..., None]) * (block.activated > 0)
        shift, scale = _sums(d), _sums(d * block.normal)
        self.gradients |= {f"{at + 1}.weight": scale, f"{at + 1}.bias": shift}
        count = d.size // len(shift)
        factor = self.weights[f"{at + 1}.weight"] / block.deviation
        d = (d - _wide(shift / count) - block.normal * _wide(scale / count)) * _wide(factor)
        self.gradients[f"{at}.weight"] = np.tensordot(d, block.windows, ((0, 2, 3), (0, 2, 3)))
        if at == 0:
            return d  # nothing needs the gradient of the pixels
        flipped = self.weights[f"{at}.weight"][:, :, ::-1, ::-1]
        padded = np.pad(d, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.tensordot(windows, flipped, ((1, 4, 5), (0, 2, 3))).transpose(0, 3, 1, 2)

    # ---- update --------------------------------------------------------------------------------
    def _descend(self) -> None:
        for name, weight in self.weights.items():
            speed = self.velocity[name]
            speed *= self.settings.momentum
            speed += self.gradients[name]
            weight -= self.settings.rate * speed


def _sums(x: Array) -> Array:
    """The sums of each channel, in float64: NumPy adds sequentially along this axis."""
    sums: Array = x.sum((0, 2, 3), dtype=np.float64).astype(np.float32)
    return sums


def _wide(values: Array) -> Array:
    """Values per channel, shaped to broadcast with [images, channels, rows, columns]."""
    return values[:, None, None]


def _quarters(x: Array) -> Array:
    """The windows of 2 x 2, with their four elements last."""
    n, c, h, w = x.shape
    windows = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return windows.reshape(n, c, h // 2, w // 2, 4)


def _whole(quarters: Array) -> Array:
    """Undo `_quarters`."""
    n, c, h, w, _ = quarters.shape
    windows = quarters.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return windows.reshape(n, c, 2 * h, 2 * w)
