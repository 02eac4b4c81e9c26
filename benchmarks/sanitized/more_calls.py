"""Calls for kernels that few calls of the sweep reach: optimisers, masks, training, long rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

import weft
from weft.ops.families.fft import factors


def _drawn(device: str, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device, dtype)


def _optimisers(device: str) -> None:
    made: dict[str, dict[str, Any]] = {
        "SGD": {"momentum": 0.9},
        "Adam": {"max_grad_norm": 1.0},
        "AdamW": {"state_bits": 8},
    }
    for name, options in made.items():
        for dtype in (torch.float32, torch.bfloat16):
            params = [torch.nn.Parameter(_drawn(device, n, dtype=dtype)) for n in (5000, 37)]
            for p in params:
                p.grad = _drawn(device, *p.shape, dtype=dtype, seed=2)
            weft.optim.clip_grad_norm_(params, 1.0)
            optimiser = getattr(weft.optim, name)(params, lr=1e-3, **options)
            for _ in range(2):
                optimiser.step()


def _back(result: Any, *inputs: Any) -> None:
    """The gradients of inputs."""
    results = [result] if isinstance(result, torch.Tensor) else list(result)
    gradients = [_drawn(str(r.device), *r.shape, seed=9).to(r.dtype) for r in results]
    torch.autograd.grad(results, inputs, gradients)


def _masks(device: str) -> None:
    for dtype in (torch.float16, torch.float32):
        q, k, v = (_drawn(device, 1, 2, 70, 64, dtype=dtype, seed=s) for s in range(3))
        mask = _drawn(device, 70, 70, dtype=dtype).requires_grad_()
        _back(weft.ops.attention(q, k, v, attn_mask=mask), mask)


def _training(device: str) -> None:
    for dtype in (torch.float32, torch.float16):
        x = _drawn(device, 4, 16, 20, 20, dtype=dtype).requires_grad_()
        weight = _drawn(device, 32, 16, 3, 3, dtype=dtype).requires_grad_()
        bias, gamma, beta, mean, var = (_drawn(device, 32, seed=s) for s in range(5))
        norm = (mean, var.abs(), gamma, beta)
        out = weft.ops.conv_bn_relu_pool(x, weight, bias.to(dtype), *norm, padding=1, training=True)
        _back(out, x, weight)


def _convolutions(device: str) -> None:
    """One tap, three, and many in single precision."""
    for dtype, (h, w), (c, k), taps in (
        (torch.float16, (16, 16), (64, 128), 1),
        (torch.float32, (16, 16), (64, 128), 1),
        (torch.float32, (20, 20), (32, 32), 3),
        (torch.float32, (40, 40), (4, 4), 15),
    ):
        x = _drawn(device, 4, c, h, w, dtype=dtype).requires_grad_()
        weight = _drawn(device, k, c, taps, taps, dtype=dtype, seed=2).requires_grad_()
        _back(weft.ops.conv2d(x, weight, padding=taps // 2), x, weight)


def _embeddings(device: str) -> None:
    """Many positions of few rows, and of many."""
    for rows in (20, 3000):
        generator = torch.Generator().manual_seed(rows)
        index = torch.randint(0, rows, (10000,), generator=generator).to(device)
        table = _drawn(device, rows, 24).requires_grad_()
        _back(weft.ops.embedding(index, table), table)


def _transforms(device: str) -> None:
    """Lengths that no block holds: products of small factors, and primes."""
    for n in (65536, 65521):
        x = _drawn(device, 2, n)
        weft.ops.irfft(weft.ops.rfft(x), n=n)
        weft.ops.ifft(weft.ops.fft(torch.complex(x, x)))


def _long_transforms(device: str) -> None:
    """As for prime lengths for which three passes are too few: beyond 30 million elements."""
    x = _drawn(device, 65521)
    with mock.patch.object(factors, "convolution", lambda n, count: None):
        weft.ops.fft(torch.complex(x, x))


def _losses(device: str) -> None:
    for count, classes in ((70000, 3), (20, 60000)):
        x = _drawn(device, count, classes).requires_grad_()
        generator = torch.Generator().manual_seed(1)
        labels = torch.randint(0, classes, (count,), generator=generator).to(device)
        weight = _drawn(device, classes).abs()
        _back(weft.ops.cross_entropy(x, labels, weight), x)
        _back(weft.ops.cross_entropy(x, labels, label_smoothing=0.1), x)
    x = _drawn(device, 50, 300).requires_grad_()
    target = _drawn(device, 50, 300, seed=2)
    _back(weft.ops.cross_entropy(x, weft.ops.softmax(target)), x)


def _products(device: str) -> None:
    a, b = _drawn(device, 200, 136), _drawn(device, 136, 170, seed=2)
    weft.ops.matmul(a, b, precision="3xtf32")


def _rows(device: str) -> None:
    """Rows and columns of shapes that few calls have."""
    for shape in ((4, 40000), (3000, 64)):
        x, weight, bias = _drawn(device, *shape), _drawn(device, shape[1]), _drawn(device, shape[1])
        inputs = [t.requires_grad_() for t in (x, weight, bias)]
        _back(weft.ops.layer_norm(x, shape[1:], weight, bias), *inputs)
    for shape in ((40, 6, 96), (3, 3000, 40), (1, 60000, 2)):
        for op in (weft.ops.softmax, weft.ops.log_softmax):
            x = _drawn(device, *shape).requires_grad_()
            _back(op(x, dim=1), x)


MORE: dict[str, Callable[[str], None]] = {
    "optimisers": _optimisers, "masks": _masks, "training": _training,
    "convolutions": _convolutions, "embeddings": _embeddings, "transforms": _transforms,
    "long transforms": _long_transforms, "losses": _losses, "products": _products, "rows": _rows,
}  # fmt: skip
