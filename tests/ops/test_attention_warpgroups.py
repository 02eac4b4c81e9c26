"""Attention by warpgroups: the kernels for Hopper."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

from exact_attention import exact, on  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.choose import Candidate  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.attention import forward, model  # noqa: E402
from weft.ops.families.attention.backward import model as backward_model  # noqa: E402
from weft.ops.families.attention.backward import plans as backward  # noqa: E402
from weft.ops.families.attention.backward.model import StreamingKernel, WarpgroupKernel  # noqa: E402

DTYPE = torch.bfloat16
HEAD = 80  # two slabs of columns, the second one in part
LARGE = 192  # a warpgroup for the gradient of keys, and one for that of values
TILE = model.WarpgroupTile(warpgroups=2, keys=16, reach=1.0)
KERNELS = tuple(
    WarpgroupKernel(of_keys, streamed=16, stages=2, reach=1.0) for of_keys in (True, False)
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of little code, so that one kernel serves all calls."""
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    monkeypatch.setattr(forward, "LISTED", 1000)
    monkeypatch.setitem(model.WARPGROUP_TILES, HEAD, (TILE,))
    for head in (HEAD, LARGE):
        monkeypatch.setitem(backward_model.WARPGROUP_KERNELS, head, KERNELS)


def drawn(*shape: int, seed: int) -> Any:
    made = draw.seeded(seed)
    return made.normal(*shape).to(DTYPE)


def by_warpgroups(candidates: list[Candidate]) -> list[Candidate]:
    return [c for c in candidates if "warpgroups" in c.name]


def attend(q: Any, k: Any, v: Any, causal: bool, gqa: bool, sms: int) -> Any:
    """The result and the logarithms of the sums, by `sms` blocks at most."""
    request = library.function("attention_lse").request(q, k, v, None, 0.0, causal, None, gqa)
    (one,) = by_warpgroups(forward.candidates(on(request, sms), False, True))
    return runner(one.build(), len(request.inputs), q.device)(q, k, v, None)


FORWARD = [
    # queries, keys, heads, heads of keys, causal, SMs; why
    (130, 200, 1, 1, False, 9),  # ragged tiles, a tile without rows of the second warpgroup
    (200, 70, 4, 2, True, 2),  # blocks take several tiles; queries past the last key
    (3, 1, 2, 2, True, 9),  # fewer rows and keys than a tile
]


@pytest.mark.parametrize(("rows", "keys", "heads", "shared", "causal", "sms"), FORWARD)
def test_forward(rows: int, keys: int, heads: int, shared: int, causal: bool, sms: int) -> None:
    q = drawn(1, rows, heads, HEAD, seed=1).transpose(1, 2)
    k, v = (drawn(1, shared, keys, HEAD, seed=n) for n in (2, 3))
    out, lse = attend(q, k, v, causal, heads > shared, sms)
    expected, logs = exact((q, k, v), causal)
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(lse.double(), logs, rtol=1e-5, atol=1e-5)


def test_odd_operands() -> None:
    """Values of another width, a misaligned key, and keys that all batches share."""
    q, v = drawn(2, 1, 66, 67, seed=1), drawn(2, 1, 65, 71, seed=3)
    k = drawn(65 * 67 + 1, seed=2)[1:].view(1, 1, 65, 67).expand(2, 1, 65, 67)
    out, _ = attend(q, k, v, False, False, 9)
    expected, _ = exact((q, k, v), False)
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1e-2)


def test_large_scores() -> None:
    """Products of maxima and the scale that are rounded by more than an exponential can take."""
    q, k, v = (drawn(1, 1, 66, HEAD, seed=n) for n in (1, 2, 3))
    q = (q * 2.0**22).to(DTYPE)
    out, _ = attend(q, k, v, False, False, 9)
    largest = (q[0, 0].double() @ k[0, 0].double().mT).argmax(-1)
    assert torch.equal(out[0, 0], v[0, 0, largest])


BACKWARD = [
    (HEAD, 130, 150, 1, 1, False, 1),
    (HEAD, 200, 70, 4, 2, True, 1),  # heads that share keys
    (HEAD, 70, 200, 2, 2, True, 2),  # in parts, some of which have no tiles
    (LARGE, 130, 70, 1, 1, False, 1),
    (LARGE, 70, 90, 2, 1, True, 2),
]


@pytest.mark.parametrize(("head", "rows", "keys", "heads", "shared", "causal", "parts"), BACKWARD)
def test_gradients(
    head: int, rows: int, keys: int, heads: int, shared: int, causal: bool, parts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(StreamingKernel, "parts", lambda stream, gpu: parts)
    q = drawn(1, rows, heads, head, seed=1).transpose(1, 2)
    k, v = (drawn(1, shared, keys, head, seed=n) for n in (2, 3))
    doubles = [x.double().requires_grad_() for x in (q, k, v)]
    out, lse = exact(doubles, causal)
    dout = drawn(*out.shape, seed=4)
    expected = torch.autograd.grad(out, doubles, dout.double())
    tensors = (dout, None, q, k, v, out.detach().to(DTYPE), lse.detach().float(), *(None,) * 4)
    op = library.function("attention_backward")
    request = op.request(*tensors, 0, 0, causal, None, heads > shared, 0.0, 0, 0)
    (one,) = by_warpgroups(backward.candidates(on(request, 3)))
    made = runner(one.build(), len(tensors), q.device, 2)(*tensors, 0, 0)
    for ours, theirs in zip(made, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=2e-2, atol=2e-2)


def test_ragged() -> None:
    """Sequences of different lengths, one of them empty; a causal mask ends at the last of both."""
    lengths, keys = (70, 0, 3), (90, 5, 1)
    starts = [torch.tensor([0, *n]).cumsum(0).int() for n in (lengths, keys)]
    q, dout = (drawn(sum(lengths), 2, HEAD, seed=n) for n in (1, 4))
    k, v = (drawn(sum(keys), 1, HEAD, seed=n) for n in (2, 3))
    tensors = (q, k, v, *starts)
    request = library.function("attention_varlen_lse").request(*tensors, 70, 90, True, None, True)
    (one,) = by_warpgroups(forward.candidates(on(request, 2), True, True))
    out, lse = runner(one.build(), len(tensors), q.device)(*tensors)
    given = (dout, None, q, k, v, out, lse, None, None, *starts)
    op = library.function("attention_backward")
    request = op.request(*given, 70, 90, True, None, True, 0.0, 0, 0)
    (one,) = by_warpgroups(backward.candidates(on(request, 2)))
    gradients = runner(one.build(), len(given), q.device, 2)(*given, 0, 0)
    row = key = 0
    for n, m in zip(lengths, keys, strict=True):
        parts = [
            x.transpose(0, 1)[None].double().requires_grad_()
            for x in (q[row : row + n], k[key : key + m], v[key : key + m])
        ]
        scores = parts[0] @ parts[1].repeat_interleave(2, 1).mT / HEAD**0.5
        hidden = torch.ones(n, m, dtype=torch.bool).triu(1 + m - n)
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        expected = weights @ parts[2].repeat_interleave(2, 1)
        ours = out[row : row + n].transpose(0, 1)[None].double()
        torch.testing.assert_close(ours, expected.detach(), rtol=1e-2, atol=1e-2)
        of = dout[row : row + n].transpose(0, 1)[None].double()
        for made, first, size, theirs in zip(
            gradients, (row, key, key), (n, m, m), torch.autograd.grad(expected, parts, of),
            strict=True,
        ):  # fmt: skip
            mine = made[first : first + size].transpose(0, 1)[None].double()
            torch.testing.assert_close(mine, theirs.nan_to_num(0.0), rtol=2e-2, atol=2e-2)
        row, key = row + n, key + m


@pytest.mark.parametrize(
    ("change", "chosen"),
    [
        ({}, True),
        ({"capability": (8, 0)}, False),
        ({"capability": (10, 0)}, False),
        ({"real": False}, True),
    ],
)
def test_only_on(change: dict[str, Any], chosen: bool) -> None:
    q = torch.empty(1, 4, 4096, 80, dtype=DTYPE).expand(64, 4, 4096, 80)
    request = library.function("attention").request(q, q, q, None, 0.0, False, None, False)
    target = dataclasses.replace(request.target, **{"real": True, **change})
    made = forward.candidates(dataclasses.replace(request, target=target), False, False)
    assert any("warpgroups" in c.name for c in made) == chosen
