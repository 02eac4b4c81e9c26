"""Calls of ops as layers make them: their tensors, FLOPs, and the least bytes that they move."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.ops.sweep.draw import Call, Tensor, integers

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8}


@dataclass(frozen=True)
class Work:
    """A call, and the work of its forward pass.

    case   the name of its judge and peers, without "backward"
    flops  of products only
    moved  the bytes of tensors that are read or written once
    """

    case: str
    call: Call
    flops: float
    moved: float

    def cost(self, backward: bool) -> tuple[float, float]:
        """The FLOPs and bytes, with those of the backward pass if it is made."""
        if not backward:
            return self.flops, self.moved
        # Two products for one; attention computes its scores again, which is five for two.
        passes = 3.5 if self.call.op == "attention" else 3.0
        return passes * self.flops, 3.0 * self.moved


def plain(shape: tuple[int, ...], dtype: str, *, gap: int = 0, grad: bool = True) -> Tensor:
    """A contiguous tensor, or rows of a wider one."""
    return Tensor(shape, dtype, tuple(range(len(shape))), gap=gap, grad=grad)


def images(shape: tuple[int, ...], dtype: str, channels_last: bool) -> Tensor:
    """Images or signals, in one of the two orders of memory."""
    order = (0, *range(2, len(shape)), 1) if channels_last else tuple(range(len(shape)))
    return Tensor(shape, dtype, order)


def _work(case: str, call: Call, flops: float, out: int) -> Work:
    """Work that reads its tensors and writes `out` elements of the first one's dtype."""
    present = [t for t in call.tensors if t is not None]
    read = sum(math.prod(t.shape) * SIZES[t.dtype] for t in present)
    float_like = next(t.dtype for t in present if "float" in t.dtype)
    return Work(case, call, flops, read + out * SIZES[float_like])


# ---- products and attention --------------------------------------------------------------------
def linear(
    lead: tuple[int, ...], inner: int, outer: int, dtype: str, bias: bool, act: str = ""
) -> Work:
    """A linear layer of rows (*lead, inner), with an activation after it if one is named."""
    rows = math.prod(lead)
    tensors = (
        plain((*lead, inner), dtype),
        plain((outer, inner), dtype),
        plain((outer,), dtype) if bias else None,
    )
    case, options = ("linear act", {"activation": act}) if act else ("linear", {})
    return _work(case, Call("linear", tensors, options), 2.0 * rows * inner * outer, rows * outer)


def attention(
    batch: int, heads: int, kv: int, rows: int, keys: int, head: int, dtype: str,
    *, causal: bool = False, bias: bool = False,
) -> Work:  # fmt: skip
    """Attention of projections (batch, tokens, heads, head), whose heads come second in the call.

    A cache of keys has its heads outermost.
    """
    order = (0, 2, 1, 3)
    cached = order if rows == keys or rows > 1 else (0, 1, 2, 3)
    tensors: tuple[Tensor | None, ...] = (
        Tensor((batch, heads, rows, head), dtype, order),
        Tensor((batch, kv, keys, head), dtype, cached),
        Tensor((batch, kv, keys, head), dtype, cached),
    )
    flops = 4.0 * batch * heads * rows * keys * head * (0.5 if causal else 1.0)
    out = batch * heads * rows * head
    if bias:
        mask = plain((1, heads, rows, keys), dtype, grad=False)
        call = Call("attention", (*tensors, mask), {})
        return _work("attention bias", call, flops, out)
    call = Call("attention", tensors, {"is_causal": causal, "enable_gqa": kv != heads})
    return _work("attention", call, flops, out)


def convolution(
    batch: int, inputs: int, filters: int, side: int, out: int, dtype: str,
    *, dims: int, kernel: int, stride: int, padding: int, groups: int, bias: bool,
    channels_last: bool,
) -> Work:  # fmt: skip
    """A convolution of images or signals."""
    tensors = (
        images((batch, inputs, *(side,) * dims), dtype, channels_last),
        images((filters, inputs // groups, *(kernel,) * dims), dtype, channels_last),
        plain((filters,), dtype) if bias else None,
    )
    options = {"stride": stride, "padding": padding, "dilation": 1, "groups": groups}
    results = batch * filters * out**dims
    flops = 2.0 * results * (inputs // groups) * kernel**dims
    return _work(f"conv{dims}d", Call(f"conv{dims}d", tensors, options), flops, results)


# ---- rows and elements -------------------------------------------------------------------------
def rows_norm(shape: tuple[int, ...], dtype: str, kind: str, residual: bool) -> Work:
    """A layer or RMS norm of the last dimension, of a sum with a residual if there is one."""
    width = shape[-1:]
    inputs = (plain(shape, dtype),) * (2 if residual else 1)
    weights = (plain(width, dtype),) * (2 if kind == "layer" else 1)
    op = f"{'add_' if residual else ''}{kind}_norm"
    call = Call(op, (*inputs, *weights), {"normalized_shape": width})
    return _work(op, call, 0.0, math.prod(shape) * len(inputs))


def images_norm(shape: tuple[int, ...], dtype: str, kind: str, channels_last: bool) -> Work:
    """A batch norm in training, or a group norm of 32 groups."""
    x = images(shape, dtype, channels_last)
    options = {"num_groups": math.gcd(32, shape[1])} if kind == "group" else {}
    weights = (plain(shape[1:2], "float32" if kind == "batch" else dtype),) * 2
    return _work(
        f"{kind}_norm", Call(f"{kind}_norm", (x, *weights), options), 0.0, math.prod(shape)
    )


def activation(x: Tensor, act: str) -> Work:
    """An activation of a tensor."""
    options = {"approximate": "tanh"} if act == "gelu_tanh" else {}
    op = act.removesuffix("_tanh")
    return _work(op, Call(op, (x,), options), 0.0, math.prod(x.shape))


def gate(rows: int, width: int, dtype: str, act: str) -> Work:
    """The activation of the first half of rows times the second half."""
    halves = (plain((rows, width), dtype, gap=width),) * 2
    return _work(f"gate {act}", Call("gate", halves, {}), 0.0, rows * width)


def add(x: Tensor) -> Work:
    """The sum of two tensors, as of a residual connection."""
    return _work("add", Call("add", (x, x), {}), 0.0, math.prod(x.shape))


def softmax(shape: tuple[int, ...], dtype: str) -> Work:
    """A softmax of the last dimension."""
    call = Call("softmax", (plain(shape, dtype),), {"dim": -1})
    return _work("softmax", call, 0.0, math.prod(shape))


def embedding(shape: tuple[int, ...], vocab: int, width: int, dtype: str) -> Work:
    """Rows of a table; only those that are looked up move."""
    found = math.prod(shape)
    call = Call("embedding", (integers(shape, 0, vocab), plain((vocab, width), dtype)), {})
    return Work("embedding", call, 0.0, found * (8 + 2 * width * SIZES[dtype]))


def cross_entropy(rows: int, classes: int, dtype: str) -> Work:
    """The mean loss of logits, of which one label in eight is ignored."""
    tensors = (plain((rows, classes), dtype), integers((rows,), 0, classes, mixed=-100))
    options = {"reduction": "mean", "label_smoothing": 0.0}
    return _work("cross_entropy", Call("cross_entropy", tensors, options), 0.0, 1)


def max_pool(shape: tuple[int, ...], dtype: str, kernel: int, stride: int, last: bool) -> Work:
    """Maxima of windows of images, padded by half a window."""
    options = {"kernel_size": kernel, "stride": stride, "padding": kernel // 2}
    call = Call("max_pool2d", (images(shape, dtype, last),), options)
    return _work("max_pool2d", call, 0.0, math.prod(shape) // stride**2)


def mean_pool(shape: tuple[int, ...], dtype: str, channels_last: bool) -> Work:
    """The mean of each channel of images."""
    call = Call(
        "adaptive_avg_pool2d", (images(shape, dtype, channels_last),), {"output_size": (1, 1)}
    )
    return _work("adaptive_avg_pool2d", call, 0.0, math.prod(shape[:2]))
