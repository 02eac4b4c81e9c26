"""Gradients of attention by five products whose tiles TMA copies: the kernels for Hopper."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from exact_attention import exact, on  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Candidate, Request  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.attention.backward import plans as backward  # noqa: E402
from weft.ops.families.attention.backward import tma_model  # noqa: E402
from weft.ops.families.attention.backward.tma_model import StreamedTile  # noqa: E402

DTYPE = torch.bfloat16
TILES = {
    64: StreamedTile(32, ring=3, douts=2, blocks=2, scores=2, sums=2, reach=1.0),
    128: StreamedTile(16, ring=2, douts=2, blocks=1, scores=1, sums=1, reach=1.0),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of little code."""
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    monkeypatch.setattr(tma_model, "TILES", {h: (t,) for h, t in TILES.items()})


def drawn(*shape: int, seed: int) -> Any:
    return draw.seeded(seed).normal(*shape).to(DTYPE)


def by_tma(request: Request) -> Candidate:
    (one,) = (c for c in backward.candidates(request) if "TMA" in c.name)
    return one


CALLS = {
    # queries, keys, heads, heads of keys, elements, causal, SMs
    "all keys in a block": (70, 100, 2, 2, 64, False, 3),
    "all keys in a block, long heads": (40, 77, 2, 1, 128, True, 1),
    "sums of three blocks": (50, 300, 1, 1, 64, False, 2),
    "sums of long heads": (40, 270, 2, 1, 128, False, 3),
    "causal": (300, 300, 1, 1, 64, True, 2),
    "keys that no query sees": (20, 300, 2, 1, 64, True, 2),
    "rows that are no whole vectors": (40, 140, 1, 1, 61, False, 2),
}


def compare(call: str, dtype: Any = DTYPE, with_logarithms: bool = False) -> None:
    rows, keys, heads, shared, head, causal, sms = CALLS[call]
    q = drawn(1, rows, heads, head, seed=1).transpose(1, 2).to(dtype)
    k, v = (drawn(1, shared, keys, head, seed=n).to(dtype) for n in (2, 3))
    doubles = [x.double().requires_grad_() for x in (q, k, v)]
    results = exact(doubles, causal)
    out, lse = (x.detach() for x in results)
    dout = drawn(*out.shape, seed=4).to(dtype)
    dlse = drawn(*lse.shape, seed=5).float() if with_logarithms else None
    given = (dout.double(), torch.zeros_like(lse) if dlse is None else dlse.double())
    expected = torch.autograd.grad(results, doubles, given)
    tensors = (dout, dlse, q, k, v, out.to(dtype), lse.float(), *(None,) * 4)
    op = library.function("attention_backward")
    request = on(op.request(*tensors, 0, 0, causal, None, heads > shared, 0.0, 0, 0), sms)
    made = runner(by_tma(request).build(), len(tensors), q.device, 2)(*tensors, 0, 0)
    for ours, theirs in zip(made, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("call", CALLS)
def test_gradients(call: str) -> None:
    compare(call)


def test_gradients_of_logarithms_and_of_f16() -> None:
    compare("causal", torch.float16, with_logarithms=True)


def test_sanitized() -> None:
    with weft.sanitize():
        compare("sums of three blocks")


@pytest.mark.parametrize(
    ("schedule", "call"), [("last", "sums of long heads"), ("random:1", "all keys in a block")]
)
def test_scheduled(schedule: str, call: str) -> None:
    """Parts of dQ are added in one order, whatever the order of blocks and warps is."""
    with weft.schedule(schedule):
        compare(call)


@pytest.mark.parametrize(
    ("batch", "length", "causal", "chosen"),
    [
        (64, 4096, False, True),
        (100, 77, True, True),
        (1, 1024, False, False),  # 128 blocks of keys, and each waits for the one before
        (1, 2048, True, True),
        (100, 16, True, False),
    ],
)
def test_chosen_where_it_was_faster(
    batch: int, length: int, causal: bool, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the tiles of the model
    head, heads = (128, 8) if length == 2048 else (64, 16)
    x = torch.empty(1, heads, length, head, dtype=DTYPE).expand(batch, -1, -1, -1)
    lse = torch.empty(1, heads, length).expand(batch, -1, -1)
    tensors = (x, None, x, x, x, x, lse, *(None,) * 4)
    op = library.function("attention_backward")
    request = op.request(*tensors, 0, 0, causal, None, False, 0.0, 0, 0)
    target = dataclasses.replace(request.target, real=True, sms=132)
    made = backward.candidates(dataclasses.replace(request, target=target))
    assert ("TMA" in min(made, key=lambda c: c.cost).name) == chosen


OTHERS = {
    "a mask": {"mask": torch.ones(40, 40, dtype=torch.bool)},
    "dropout": {"dropout": 0.5},
    "another GPU": {"capability": (8, 0)},
    "floats": {"dtype": torch.float32},
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_kernels_take_other_calls(other: str) -> None:
    given = OTHERS[other]
    x = torch.empty(1, 2, 40, 64, dtype=given.get("dtype", DTYPE))
    lse = torch.empty(1, 2, 40)
    tensors = (x, None, x, x, x, x, lse, given.get("mask"), *(None,) * 3)
    op = library.function("attention_backward")
    request = op.request(*tensors, 0, 0, False, None, False, given.get("dropout", 0.0), 0, 0)
    capability = given.get("capability", request.target.capability)
    target = dataclasses.replace(request.target, capability=capability)
    made = backward.candidates(dataclasses.replace(request, target=target))
    assert made and not any("TMA" in c.name for c in made)
