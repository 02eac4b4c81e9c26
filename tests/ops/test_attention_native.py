"""Calls of attention with gradients, from the second one on without Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import draw
import native_ops

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from exact_attention import exact  # noqa: E402
from weft.device.gpu import native_launch  # noqa: E402
from weft.device.tensor_map_layout import MAP_BYTES  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.native import record, trace  # noqa: E402
from weft.ops.core.plan import Map  # noqa: E402

pytestmark = native_ops.MARKS

CALLS = {
    # batch, heads, heads of keys, queries, keys, elements, causal
    "clip-text": (16, 12, 12, 77, 77, 64, True),
    "sdxl-unet cross": (8, 10, 10, 4096, 77, 64, False),
    "sd3-medium": (1, 24, 24, 1178, 1178, 64, False),
    "llama3-8b": (8, 32, 8, 197, 197, 128, True),
    "dit-xl-2": (4, 16, 16, 1024, 1024, 72, False),
}


def requests(
    batch: int, heads: int, shared: int, rows: int, keys: int, head: int, causal: bool
) -> Iterator[tuple[str, Any]]:
    """The arguments of both passes of a call; the tensors have one element of memory."""
    one = torch.empty(1, dtype=torch.float16)
    q, k = one.expand(batch, heads, rows, head), one.expand(batch, shared, keys, head)
    yield "attention_lse", (q, k, k, None, 0.0, causal, None, heads > shared, None)
    tensors = (q, None, q, k, k, q, torch.empty(1).expand(batch, heads, rows), *(None,) * 4)
    yield "attention_backward", (*tensors, 0, 0, causal, None, heads > shared, 0.0, 0, 0, None)


def size(argument: Any) -> int:
    """Bytes of a parameter, at most."""
    if isinstance(argument, Map):
        return MAP_BYTES
    return len(argument) if isinstance(argument, bytes) else 8


@pytest.mark.parametrize("call", CALLS)
def test_parameters_fit(call: str) -> None:
    """A launch with more parameters is made in Python, and so is the backward pass around it."""
    for name, args in requests(*CALLS[call]):
        op = library.function(name)
        for candidate in op.definition.candidates(op.request(*args)):
            for step in candidate.build().steps:
                assert sum(map(size, step.args)) <= native_launch.ROOM, (
                    candidate.name,
                    step.kernel,
                )
                assert len(step.args) <= native_launch.MANY


def test_gradients_call_the_formula_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all tensors are one plan: no op of torch runs around it."""
    calls, steps = [], []
    call, traced = record._Formula.__call__, trace.traced
    monkeypatch.setattr(record._Formula, "__call__", lambda *a: calls.append(a) or call(*a))
    monkeypatch.setattr(trace, "traced", lambda *a: steps.append(traced(*a)) or steps[-1])
    generator = draw.seeded(1)
    q, k, v = (generator.normal(1, 20, 2, 64).half().to(native_ops.where()) for _ in "qkv")
    leaves = [x.transpose(1, 2).requires_grad_() for x in (q, k, v)]
    dout = generator.normal(1, 20, 2, 64).half().to(native_ops.where()).transpose(1, 2)
    doubles = [x.detach().double().requires_grad_() for x in leaves]
    expected = torch.autograd.grad(exact(doubles, True)[0], doubles, dout.double())
    for _ in range(3):
        made = torch.autograd.grad(weft.ops.attention(*leaves, is_causal=True), leaves, dout)
        for ours, theirs in zip(made, expected, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=2e-2, atol=2e-2)
    assert len(calls) == 1
    ((rows, _),) = steps
    assert len(rows) == 1
