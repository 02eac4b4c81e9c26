"""Attention: against float64 on shapes, strides, masks and lengths of every kind."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention as by_torch  # noqa: E402

import weft  # noqa: E402
from weft.ops.core import library, source  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.attention import model  # noqa: E402
from weft.ops.families.attention.backward import model as backward_model  # noqa: E402
from weft.ops.families.attention.backward import plans as backward  # noqa: E402

LIMITS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
HALF = torch.float16


def drawn(*shape: int, seed: int = 1, dtype: Any = HALF) -> Any:
    return draw.seeded(seed).normal(shape).to(dtype)


def wide(x: Any) -> Any:
    return x.double() if x is not None and x.is_floating_point() else x


def close(ours: Any, q: Any, k: Any, v: Any, attn_mask: Any = None, **options: Any) -> None:
    """The result is as close to float64 as rounding to its dtype allows."""
    want = by_torch(wide(q), wide(k), wide(v), attn_mask=wide(attn_mask), **options)
    assert ours.shape == want.shape and ours.dtype == q.dtype
    limit = LIMITS[q.dtype]
    torch.testing.assert_close(ours.double(), want, rtol=limit, atol=limit)


SHAPES = {
    # query, key, size of value
    "one tile": ((1, 2, 7, 32), (1, 2, 9, 32), 32),
    "several tiles": ((2, 1, 130, 24), (2, 1, 150, 24), 24),
    "more queries than keys": ((1, 1, 70, 16), (1, 1, 3, 16), 16),
    "another size of value": ((1, 1, 5, 8), (1, 1, 66, 8), 24),
    "no batch": ((3, 6, 32), (3, 66, 32), 32),
    "matrices": ((6, 32), (66, 32), 32),
    "five dimensions": ((2, 1, 2, 6, 32), (2, 1, 2, 5, 32), 32),
    "broadcast keys": ((2, 2, 6, 32), (1, 1, 5, 32), 32),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("subject", SHAPES)
def test_shapes(subject: str, causal: bool) -> None:
    query, key, width = SHAPES[subject]
    q, k, v = drawn(*query), drawn(*key, seed=2), drawn(*key[:-1], width, seed=3)
    close(weft.ops.attention(q, k, v, is_causal=causal), q, k, v, is_causal=causal)


HEADS = {"floats": (8, 32, torch.float32), "17 and 5": (17, 5, torch.bfloat16)}
SLOW_HEADS = {
    "odd": (1, 33, HALF), "40": (40, 40, HALF), "64": (64, 64, torch.bfloat16),
    "80": (72, 80, HALF), "96": (96, 96, HALF),
    "128": (128, 128, torch.bfloat16), "192": (192, 130, HALF), "256": (200, 256, HALF),
    "floats": (256, 256, torch.float32),
}  # fmt: skip


@pytest.mark.parametrize(
    "subject", [*HEADS, *(pytest.param(f"slow {s}", marks=pytest.mark.slow) for s in SLOW_HEADS)]
)
def test_head_sizes(subject: str) -> None:
    which = SLOW_HEADS[subject[5:]] if subject.startswith("slow") else HEADS[subject]
    depth, width, dtype = which
    q, k = drawn(1, 2, 200, depth, dtype=dtype), drawn(1, 2, 140, depth, seed=2, dtype=dtype)
    v = drawn(1, 2, 140, width, seed=3, dtype=dtype)
    close(weft.ops.attention(q, k, v, is_causal=True), q, k, v, is_causal=True)
    misaligned = torch.empty(q.numel() + 1, dtype=dtype)[1:].view(q.shape).copy_(q)
    close(weft.ops.attention(misaligned, k, v), q, k, v)


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
@pytest.mark.parametrize("rows", [1, 20, 70])
def test_grouped_queries(rows: int, dtype: Any) -> None:
    q = drawn(2, 6, rows, 32, dtype=dtype)
    k, v = (drawn(2, 2, 80, 32, seed=n, dtype=dtype) for n in (2, 3))
    for causal in (False, True):
        ours = weft.ops.attention(q, k, v, is_causal=causal, enable_gqa=True)
        close(ours, q, k, v, is_causal=causal, enable_gqa=True)


@pytest.mark.parametrize("parts", [8, 48])
def test_few_queries(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long keys of few queries are split among blocks, which the last one combines."""
    monkeypatch.setattr(model, "SPLIT_KV", (parts,))
    monkeypatch.setattr(model, "MORE_STAGES", ())
    monkeypatch.setattr(model, "MOST_CLUSTERS", 0)
    monkeypatch.setitem(model.FORWARD_TILES, 32, ())
    tile = model.ForwardTile(64, 32, warps=4, stages=2, resident=4, reach=0.12)
    monkeypatch.setitem(model.SHARED_TILES, 32, tile)
    keys = 4000 + parts  # plans are kept by shape
    q, k, v = drawn(1, 2, 3, 32), drawn(1, 1, keys, 32, seed=2), drawn(1, 1, keys, 32, seed=3)
    chosen = weft.ops.explain(weft.ops.attention_lse, q, k, v, enable_gqa=True).choice.used.name
    assert chosen == f"64 x 32, keys in {parts}"
    out, lse = weft.ops.attention_lse(q, k, v, enable_gqa=True)
    close(out, q, k, v, enable_gqa=True)
    scores = q.double() @ k.double().transpose(-1, -2) / 32**0.5
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)


SHARED = {
    # tile, parts, query, key, causal
    "one block": (
        model.ForwardTile(16, 64, 4, 2, 3, reach=0.1, key_warps=4),
        1,
        (1, 2, 7, 32),
        (1, 1, 150, 32),
        False,
    ),
    "parts": (
        model.ForwardTile(16, 64, 4, 2, 3, reach=0.1, key_warps=4),
        3,
        (2, 2, 21, 27),
        (2, 1, 210, 27),
        True,
    ),
    "one stage": (
        model.ForwardTile(32, 64, 4, 1, 2, reach=0.1, key_warps=2),
        2,
        (1, 1, 40, 32),
        (1, 1, 131, 32),
        True,
    ),
    "four stages": (
        model.ForwardTile(16, 64, 4, 4, 1, reach=0.1, key_warps=4),
        2,
        (1, 2, 7, 32),
        (1, 1, 700, 32),
        False,
    ),
    "a cluster": (
        model.ForwardTile(16, 64, 4, 3, 1, reach=0.1, key_warps=4, clustered=True),
        4,
        (2, 2, 21, 27),
        (2, 1, 700, 27),
        False,
    ),
    "a cluster of which one block sees no key": (
        model.ForwardTile(16, 64, 4, 2, 1, reach=0.1, key_warps=4, clustered=True),
        2,
        (1, 2, 40, 32),
        (1, 2, 130, 32),
        True,
    ),
}


@pytest.mark.parametrize("subject", SHARED)
def test_warps_share_queries(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warps that have the same queries and parts of a tile's keys, some of which no query sees."""
    tile, parts, query, key, causal = SHARED[subject]
    monkeypatch.setattr(model, "SPLIT_KV", (parts,))
    monkeypatch.setattr(model, "MORE_STAGES", ())
    monkeypatch.setattr(model, "MOST_CLUSTERS", 24 if tile.clustered else 0)
    monkeypatch.setitem(model.FORWARD_TILES, 32, ())
    monkeypatch.setitem(model.WARPGROUP_TILES, 32, ())
    monkeypatch.setitem(model.SHARED_TILES, 32, tile._replace(clustered=False))
    q, k, v = drawn(*query), drawn(*key, seed=2), drawn(*key, seed=3)
    options: dict[str, Any] = {"is_causal": causal, "enable_gqa": query[1] > key[1]}
    chosen = weft.ops.explain(weft.ops.attention_lse, q, k, v, **options).choice.used.name
    assert chosen.startswith(tile.name) and ("cluster" in chosen) == tile.clustered
    with weft.sanitize():
        out, lse = weft.ops.attention_lse(q, k, v, **options)
    close(out, q, k, v, **options)
    repeated = k.double().repeat_interleave(query[1] // key[1], 1)
    scores = q.double() @ repeated.transpose(-1, -2) / query[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)


def test_stages_of_few_queries() -> None:
    """The blocks that an SM is to have get the most stages for which they fit."""
    tensors = [drawn(1, 1, 1, 16)] * 3
    gpu = library.function("attention").request(*tensors, None, 0.0, False, None, False).target
    alone, several = (model.shared_tile(128, n * gpu.sms, gpu) for n in (1, 2))
    assert (alone.stages, alone.resident) == (4, 1)
    assert (several.stages, several.resident) == (3, 2)


def test_few_queries_in_fp32() -> None:
    q, k, v = (drawn(1, 2, n, 20, seed=n, dtype=torch.float32) for n in (3, 500, 500))
    chosen = weft.ops.explain(weft.ops.attention_lse, q, k, v).choice.used.name
    assert "keys in" in chosen
    out, lse = weft.ops.attention_lse(q, k, v)
    close(out, q, k, v)
    scores = q.double() @ k.double().transpose(-1, -2) / 20**0.5
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)


MASKS = {
    "rows": lambda: draw.seeded(4).uniform(70, 80) < 0.5,
    "keys": lambda: torch.arange(80) < torch.tensor([3, 80]).view(2, 1, 1, 1),
    "transposed": lambda: (torch.arange(80)[:, None] <= torch.arange(70)).t(),
    "nothing seen": lambda: (torch.arange(70) > 5)[:, None].expand(70, 80),
}


DTYPES = [torch.float32, pytest.param(HALF, marks=pytest.mark.slow)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("subject", MASKS)
def test_masks(subject: str, dtype: Any) -> None:
    mask = MASKS[subject]()
    q = drawn(2, 1, 70, 32, dtype=dtype)
    k, v = (drawn(2, 1, 80, 32, seed=seed, dtype=dtype) for seed in (2, 3))
    out, lse = weft.ops.attention_lse(q, k, v, attn_mask=mask)
    close(out, q, k, v, attn_mask=mask)
    hidden = ~mask.expand(2, 1, 70, 80).any(-1)
    assert (lse[hidden] == float("-inf")).all() and (out[hidden] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [HALF, torch.float32])
def test_added_masks(dtype: Any) -> None:
    q, k, v = (drawn(2, 1, 70, 32, seed=s, dtype=dtype) for s in (1, 2, 3))
    for kind in {torch.float32, dtype}:
        mask = drawn(2, 1, 1, 70, seed=4, dtype=kind)
        mask[0, 0, 0, :40] = float("-inf")
        for causal in (False, True):
            ours = weft.ops.attention(q, k, v, attn_mask=mask, is_causal=causal)
            combined = mask
            if causal:  # torch takes one of both only
                seen = torch.ones(70, 70, dtype=torch.bool).tril()
                combined = mask.double().masked_fill(~seen, float("-inf"))
            close(ours, q, k, v, attn_mask=combined)


@pytest.mark.parametrize("scale", [0.05, pytest.param(-0.3, marks=pytest.mark.slow)])
def test_scales(scale: float) -> None:
    q, k, v = (drawn(1, 1, 70, 32, seed=s) for s in (1, 2, 3))
    close(weft.ops.attention(q, k, v, scale=scale), q, k, v, scale=scale)


def test_large_scores() -> None:
    """Sums do not overflow, and the maximum may grow from tile to tile."""
    q = 30 * torch.ones(1, 1, 40, 32, dtype=HALF)
    k = torch.linspace(-10, 10, 200)[:, None].expand(1, 1, 200, 32).to(HALF)
    v = drawn(1, 1, 200, 32, seed=3)
    close(weft.ops.attention(q, k, v), q, k, v)
    close(weft.ops.attention(q, k.flip(2), v), q, k.flip(2), v)


def test_nan() -> None:
    """A NaN reaches the rows that see it, and no others."""
    q, k, v = (drawn(1, 1, 70, 32, seed=s) for s in (1, 2, 3))
    k[0, 0, 50, 3] = float("nan")
    out = weft.ops.attention(q, k, v, is_causal=True)
    assert out[0, 0, :50].isfinite().all() and out[0, 0, 50:].isnan().all()


def test_strides() -> None:
    """Views of a fused projection are read as they are; the result keeps their order."""
    fused = drawn(2, 70, 3, 2, 32)
    q, k, v = (fused[:, :, i].transpose(1, 2) for i in range(3))
    out = weft.ops.attention(q, k, v)
    close(out, q, k, v)
    assert out.transpose(1, 2).is_contiguous()
    turned = q.transpose(-1, -2).contiguous().transpose(-1, -2)  # heads are not contiguous
    torch.testing.assert_close(weft.ops.attention(turned, k, v), out)


def test_empty() -> None:
    k, v = drawn(2, 1, 5, 32), drawn(2, 1, 5, 32)
    assert weft.ops.attention(drawn(2, 1, 0, 32), k, v).shape == (2, 1, 0, 32)
    assert weft.ops.attention(drawn(0, 1, 4, 32), k[:0], v[:0]).shape == (0, 1, 4, 32)
    out, lse = weft.ops.attention_lse(drawn(2, 1, 4, 32), k[:, :, :0], v[:, :, :0])
    assert (out == 0).all() and (lse == float("-inf")).all()


@pytest.mark.parametrize("causal", [False, True])
def test_ragged(causal: bool) -> None:
    """Sequences one after another; the causal mask ends at the last query and key."""
    rows, keys = (3, 70, 0, 1), (5, 80, 4, 90)
    starts = [torch.tensor([0, *n]).cumsum(0).int() for n in (rows, keys)]
    q, k, v = drawn(74, 4, 32), drawn(179, 2, 32, seed=2), drawn(179, 2, 32, seed=3)
    out, lse = weft.ops.attention_varlen_lse(
        q, k, v, *starts, max(rows), max(keys), is_causal=causal, enable_gqa=True
    )
    for i in range(len(rows)):
        some = slice(*starts[0][i : i + 2]), slice(*starts[1][i : i + 2])
        one = [x[s].transpose(0, 1) for x, s in ((q, some[0]), (k, some[1]), (v, some[1]))]
        seen = torch.ones(rows[i], keys[i], dtype=torch.bool)
        seen = seen.tril(keys[i] - rows[i]) if causal else seen
        close(out[some[0]].transpose(0, 1), *one, attn_mask=seen, enable_gqa=True)
        repeated = one[1].double().repeat_interleave(2, 0)
        scores = one[0].double() @ repeated.transpose(-1, -2) / 32**0.5
        want = scores.masked_fill(~seen, float("-inf")).logsumexp(-1)
        torch.testing.assert_close(lse[:, some[0]].double(), want, rtol=1e-5, atol=1e-5)


# ---- gradients ---------------------------------------------------------------------------------
GRADIENT_LIMITS = {torch.float32: 1e-5, torch.float16: 6e-3, torch.bfloat16: 5e-2}
GRADIENTS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    # query, key, options
    "several tiles": ((1, 2, 70, 32), (1, 2, 90, 32), {}),
    "causal": ((1, 1, 150, 24), (1, 1, 90, 24), {"is_causal": True}),
    "causal, more keys": ((1, 1, 40, 32), (1, 1, 150, 32), {"is_causal": True, "scale": 0.3}),
    "grouped queries": ((2, 6, 70, 32), (2, 2, 80, 32), {"is_causal": True, "enable_gqa": True}),
    "broadcast keys": ((2, 2, 30, 32), (1, 1, 40, 32), {}),
    "few keys, odd rows": ((2, 1, 70, 13), (2, 1, 3, 13), {}),
    "matrices": ((30, 32), (40, 32), {}),
}
SLOW_GRADIENTS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "odd heads": ((1, 2, 30, 17), (1, 2, 70, 17), {}),
    "64": ((1, 2, 150, 64), (1, 2, 150, 64), {"is_causal": True}),
    "96": ((1, 1, 150, 96), (1, 1, 150, 96), {"is_causal": True}),
    "128": ((1, 1, 150, 128), (1, 1, 150, 128), {"is_causal": True}),
    "256": ((1, 1, 70, 200), (1, 1, 70, 200), {"is_causal": True}),
    "negative scale": ((1, 1, 30, 32), (1, 1, 40, 32), {"scale": -0.2}),
}


def gradients(function: Any, tensors: Any, grad: Any, **options: Any) -> Any:
    inputs = [x.detach().clone().requires_grad_() for x in tensors]
    return torch.autograd.grad(function(*inputs, **options), inputs, grad)


def judge(query: Any, key: Any, dtype: Any, options: dict[str, Any]) -> None:
    """Gradients are as close to float64 as rounding allows, and the same bits again."""
    tensors = [drawn(*n, seed=s, dtype=dtype) for s, n in enumerate((query, key, key))]
    grad = drawn(*query, seed=4, dtype=dtype)
    ours = gradients(weft.ops.attention, tensors, grad, **options)
    again = gradients(weft.ops.attention, tensors, grad, **options)
    mask = wide(options.get("attn_mask"))
    theirs = gradients(by_torch, [x.double() for x in tensors], grad.double(),
                       **(options if mask is None else {**options, "attn_mask": mask}))  # fmt: skip
    limit = GRADIENT_LIMITS[dtype]
    for one, two, want in zip(ours, again, theirs, strict=True):
        assert torch.equal(one, two) and one.dtype == dtype
        torch.testing.assert_close(one.double(), want, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
@pytest.mark.parametrize("subject", GRADIENTS)
def test_gradients(subject: str, dtype: Any) -> None:
    query, key, options = GRADIENTS[subject]
    judge(query, key, dtype, options)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("subject", SLOW_GRADIENTS)
def test_more_gradients(subject: str, dtype: Any) -> None:
    query, key, options = SLOW_GRADIENTS[subject]
    judge(query, key, dtype, options)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_gradients_of_masks(dtype: Any) -> None:
    mask = MASKS["rows"]()
    mask[3] = False  # a row that sees nothing has gradients of 0
    judge((1, 2, 70, 32), (1, 2, 80, 32), dtype, {"attn_mask": mask})


KEPT = {
    # query, key, options; two heads of keys, which take turns
    "causal": ((1, 4, 100, 32), (1, 2, 170, 32), {"is_causal": True, "enable_gqa": True}),
    "more queries": ((2, 1, 150, 32), (2, 1, 70, 32), {"is_causal": True}),
}
SLOW_KEPT = {
    "all keys": ((1, 2, 70, 32), (1, 2, 90, 32), {}),
    "pairs of warps": ((1, 2, 100, 128), (1, 2, 90, 128), {"is_causal": True}),
    "two kernels": ((1, 2, 70, 200), (1, 2, 40, 200), {}),
}


@pytest.mark.parametrize(
    "subject", [*KEPT, *(pytest.param(f"slow {s}", marks=pytest.mark.slow) for s in SLOW_KEPT)]
)
def test_kept_scores(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of scores that are kept, and computed again, give the same results."""
    query, key, options = SLOW_KEPT[subject[5:]] if subject.startswith("slow") else KEPT[subject]
    monkeypatch.setattr(backward, "_rounds", lambda job, gpu: [(0, 1), (1, 1)])
    for seed in range(4):
        kept_as_again(query, key, options, seed)


def kept_as_again(query: Any, key: Any, options: dict[str, Any], seed: int) -> None:
    numbers = np.random.default_rng(seed)
    q, k, v, grad = (
        torch.from_numpy(numbers.standard_normal(shape).astype(np.float16))
        for shape in (query, key, key, query)
    )
    out, lse = weft.ops.attention_lse(q, k, v, **options)
    again, kept = (made() for made in backward_runs(grad, (q, k, v), out, lse, options))
    assert torch.equal(again[1], kept[1]) and torch.equal(again[2], kept[2])
    torch.testing.assert_close(again[0], kept[0], rtol=2e-3, atol=2e-3)


def test_pairs_of_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two warps that share keys come to the same barriers, as CUDA C++ and its tools require."""
    numbers = np.random.default_rng(1)
    shapes = ((1, 4, 100, 32), (1, 2, 70, 32), (1, 2, 70, 32), (1, 4, 100, 32))
    q, k, v, grad = (
        torch.from_numpy(numbers.standard_normal(n).astype(np.float16)) for n in shapes
    )
    options = {"is_causal": True, "enable_gqa": True}
    out, lse = weft.ops.attention_lse(q, k, v, **options)
    alone = backward_runs(grad, (q, k, v), out, lse, options)[0]()
    block = backward_model.BlockTile(queries=32, keys=32)
    tiles = backward_model.BACKWARD_TILES[32]._replace(dkv=block, paired=True)
    monkeypatch.setitem(backward_model.BACKWARD_TILES, 32, tiles)
    paired = backward_runs(grad, (q, k, v), out, lse, options)[0]()
    assert all(torch.equal(one, two) for one, two in zip(alone, paired, strict=True))
    name = "keys<__half, 32, 32, 32, 4, 0, true, false, false>"
    ptx = source.kernel("attention/backward.cu", name).ptx
    # Tiles that a mask cuts, whole tiles, and the end.
    assert len(re.findall(r"bar\.sync\s+0;", ptx)) == 3


DELTAS = """
#include "backward.cuh"
template <class T, int HEAD>
__device__ void both(const T* o, const T* dout, float* few, float* many) {
    constexpr int LANES = sizeof(T) == 2 ? 4 : 16, ALL = lanes_of<T>(HEAD);
    auto sum = [&](auto lanes, float* to) {
        constexpr int N = decltype(lanes)::value;
        int row = threadIdx.x / N;
        float x = row_delta<T, HEAD, N>(o + row * HEAD, dout + row * HEAD, row < 8 ? HEAD : 0);
        if (row < 8) to[row] = x;
    };
    sum(Count<LANES>(), few);
    sum(Count<ALL>(), many);
}
template <class T, int... HEADS>
__global__ void deltas(const T* o, const T* dout, float* few, float* many) {
    int n = 0;
    (both<T, HEADS>(o, dout, few + n * 8, many + n++ * 8), ...);
}
"""


@pytest.mark.parametrize("ctype", ["__half", "float"])
def test_deltas(ctype: str) -> None:
    """Every kernel adds up a row of dO * O in the same order, however many lanes it has."""
    heads = (16, 64, 96, 128, 192)
    kernel = weft.cuda(DELTAS, include=[source.FAMILIES / "attention" / "cuda"]).kernel(
        f"deltas<{ctype}, {', '.join(map(str, heads))}>"
    )
    for seed in range(4):
        numbers = np.random.default_rng(seed)
        dtype = np.float16 if ctype == "__half" else np.float32
        o, grad = (numbers.standard_normal((8, 256)).astype(dtype) for _ in range(2))
        few, many = np.zeros((2, len(heads), 8), np.float32)
        kernel[1, 256](o, grad, few, many)
        assert np.array_equal(few, many)
        for made, head in zip(few, heads, strict=True):
            rows = (a.ravel()[: 8 * head].reshape(8, head).astype(float) for a in (o, grad))
            np.testing.assert_allclose(made, math.prod(rows).sum(1), rtol=1e-5, atol=1e-5)


def backward_runs(
    grad: Any, qkv: Any, out: Any, lse: Any, options: dict[str, Any]
) -> list[Callable[[], Any]]:
    """Runs of the candidates of a backward call, that which stores scores is the last."""
    op = library.function("attention_backward")
    causal, shared = (options.get(n, False) for n in ("is_causal", "enable_gqa"))
    tensors = (grad, None, *qkv, out, lse, *(None,) * 4)
    request = op.request(*tensors, 0, 0, causal, None, shared, 0.0, 0, 0)
    return [
        functools.partial(runner(c.build(), len(tensors), grad.device, 2), *tensors, 0, 0)
        for c in backward.candidates(request)
    ]


def all_plans(dtype: Any, query: Any, key: Any, **options: Any) -> None:
    """The gradients of all candidates are as close to float64 as rounding allows."""
    q, grad = drawn(*query, dtype=dtype), drawn(*query, seed=4, dtype=dtype)
    k, v = (drawn(*key, seed=s, dtype=dtype) for s in (2, 3))
    group, causal = query[1] // key[1], options.get("is_causal", False)
    scores = q.double() @ k.double().repeat_interleave(group, 1).mT / query[-1] ** 0.5
    if causal:
        scores.masked_fill_(torch.ones(query[2], key[2]).triu(1).bool(), -torch.inf)
    out = scores.softmax(-1) @ v.double().repeat_interleave(group, 1)
    theirs = gradients(by_torch, [x.double() for x in (q, k, v)], grad.double(), **options)
    lse, limit = scores.logsumexp(-1).float(), GRADIENT_LIMITS[dtype]
    for run in backward_runs(grad, (q, k, v), out.to(dtype), lse, options):
        for one, two in zip(run(), theirs, strict=True):
            torch.testing.assert_close(one.double(), two, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
def test_gradients_in_parts(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries and keys that blocks stream in parts, of which the last one may have none.

    A pair of warps has 32 keys: the last one has 10, and stored scores of the next head follow.
    """
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    tiles = backward_model.BACKWARD_TILES[32]._replace(paired=True)
    monkeypatch.setitem(backward_model.BACKWARD_TILES, 32, tiles)
    monkeypatch.setattr(backward_model.StreamingKernel, "parts", lambda stream, gpu: 3)
    options = {"is_causal": True, "enable_gqa": True}
    all_plans(dtype, (1, 4, 100, 32), (1, 2, 74, 32), **options)


def test_rounds_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of scores are stored in rounds of heads; the kernels are those of the parts."""
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    monkeypatch.setattr(backward, "_rounds", lambda job, gpu: [(0, 2), (2, 1)])
    options = {"is_causal": True, "enable_gqa": True}
    all_plans(torch.float32, (3, 2, 100, 32), (3, 1, 74, 32), **options)


def test_gradients_of_lse() -> None:
    """The logarithms of the sums have a gradient as well."""
    tensors = [drawn(1, 1, 40, 32, seed=s, dtype=torch.float32) for s in range(3)]
    weights = drawn(1, 1, 40, seed=4, dtype=torch.float32)

    def both(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) / 32**0.5
        return (scores.softmax(-1) @ v).sum() + (scores.logsumexp(-1) * weights.to(q)).sum()

    def ours(q: Any, k: Any, v: Any) -> Any:
        out, lse = weft.ops.attention_lse(q, k, v)
        return out.sum() + (lse * weights).sum()

    found = gradients(ours, tensors, None)
    want = gradients(both, [x.double() for x in tensors], None)
    for one, two in zip(found, want, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-5, atol=1e-5)


def test_ragged_gradients() -> None:
    rows, keys = (3, 40, 0, 1), (5, 30, 4, 20)
    starts = [torch.tensor([0, *n]).cumsum(0).int() for n in (rows, keys)]
    tensors = [drawn(n, h, 32, seed=h, dtype=torch.float32) for n, h in ((44, 4), (59, 2), (59, 2))]
    grad = drawn(44, 4, 32, seed=5, dtype=torch.float32)
    ours = gradients(weft.ops.attention_varlen, tensors, grad, cu_seq_q=starts[0],
                     cu_seq_k=starts[1], max_q=40, max_k=30, is_causal=True,
                     enable_gqa=True)  # fmt: skip

    def padded(q: Any, k: Any, v: Any) -> Any:
        whole = []
        for i in range(len(rows)):
            some = [slice(*s[i : i + 2]) for s in starts]
            seen = torch.ones(rows[i], keys[i], dtype=torch.bool).tril(keys[i] - rows[i])
            pairs = ((q, some[0]), (k, some[1]), (v, some[1]))
            one = (x[s].transpose(0, 1) for x, s in pairs)
            out = by_torch(*one, attn_mask=seen, enable_gqa=True)
            whole.append(out.transpose(0, 1))
        return torch.cat(whole)

    theirs = gradients(padded, [x.double() for x in tensors], grad.double())
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-5, atol=1e-5)


def test_op() -> None:
    """Fake tensors, the schema, and the gradients that torch.compile traces."""
    q, k, v = (drawn(1, 2, 5, 32, seed=s, dtype=torch.float32).requires_grad_() for s in range(3))
    for op in (weft.ops.attention_lse, weft.ops.attention):
        torch.library.opcheck(op.definition._opoverload, (q, k, v, None, 0.0, True))
    function = torch.compile(
        lambda *x: weft.ops.attention(*x, is_causal=True), backend="aot_eager", fullgraph=True
    )
    ours = gradients(function, (q, k, v), torch.ones_like(q))
    theirs = gradients(by_torch, (q, k, v), torch.ones_like(q), is_causal=True)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["attention", "attention_lse"])
def test_gradients_by_the_dispatcher_with_defaults_alone(name: str) -> None:
    """torch leaves out arguments that have their defaults, the mask among them."""
    q, k, v = (drawn(1, 2, 5, 32, seed=s, dtype=torch.float32).requires_grad_() for s in range(3))
    op = getattr(weft.ops, name).definition._opoverload

    def function(*tensors: Any) -> Any:
        made = op(*tensors)
        return made[0] if isinstance(made, tuple) else made

    ours = gradients(function, (q, k, v), torch.ones_like(q))
    theirs = gradients(by_torch, (q, k, v), torch.ones_like(q))
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_autocast() -> None:
    """Tensors are converted to the dtype of autocast, and gradients come back in their own."""
    q, k, v = (drawn(1, 1, 70, 32, seed=s, dtype=torch.float32).requires_grad_() for s in range(3))
    with torch.autocast("cpu", HALF):
        out = weft.ops.attention(q, k, v)
    half = [x.detach().half() for x in (q, k, v)]
    close(out, *half)
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32 and q.grad.abs().sum() > 0


def test_vmap() -> None:
    q, k, v = (drawn(3, 1, 5, 32, seed=s, dtype=torch.float32) for s in range(3))
    torch.testing.assert_close(
        torch.vmap(weft.ops.attention)(q, k, v), by_torch(q, k, v), rtol=1e-5, atol=1e-5
    )


ADDED = {
    # the mask, its dtype, the dtype of the tensors, options
    "a bias of each head": ((2, 70, 40), HALF, HALF, {"is_causal": True}),
    "one row for all heads": ((1, 1, 1, 40), torch.float32, torch.float32, {}),
    "a bias in float32": ((1, 2, 70, 1), torch.float32, HALF, {"enable_gqa": True}),
}


@pytest.mark.parametrize(
    "subject", [next(iter(ADDED)), *(pytest.param(s, marks=pytest.mark.slow) for s in [*ADDED][1:])]
)
def test_gradients_of_added_masks(subject: str) -> None:
    """An added mask has a gradient of its own shape; the others are as without it."""
    shape, of_mask, dtype, options = ADDED[subject]
    heads = 1 if "enable_gqa" in options else 2
    tensors = [drawn(2, 2, 70, 24, dtype=dtype)]
    tensors += [drawn(2, heads, 40, 24, seed=s, dtype=dtype) for s in (2, 3)]
    tensors.append(drawn(*shape, seed=4, dtype=of_mask))
    grad = drawn(2, 2, 70, 24, seed=5, dtype=dtype)

    def combined(q: Any, k: Any, v: Any, mask: Any, is_causal: bool = False, **rest: Any) -> Any:
        if is_causal:  # torch takes one of both only
            hidden = ~torch.ones(70, 40, dtype=torch.bool).tril()
            mask = mask + torch.zeros(70, 40).masked_fill(hidden, float("-inf")).to(mask)
        return by_torch(q, k, v, attn_mask=mask, **rest)

    ours = gradients(weft.ops.attention, tensors, grad, **options)
    theirs = gradients(combined, [x.double() for x in tensors], grad.double(), **options)
    limit = 10 * GRADIENT_LIMITS[dtype]  # sums of many scores
    for one, want, x in zip(ours, theirs, tensors, strict=True):
        assert one.dtype == x.dtype
        torch.testing.assert_close(one.double(), want, rtol=limit, atol=limit)


def test_gradient_of_a_mask_alone() -> None:
    q, k, v = (drawn(1, 1, 5, 32, seed=s, dtype=torch.float32) for s in range(3))
    mask = torch.zeros(5, 5, requires_grad=True)
    ours = torch.autograd.grad(weft.ops.attention(q, k, v, attn_mask=mask).sum(), mask)[0]
    theirs = torch.autograd.grad(by_torch(q, k, v, attn_mask=mask).sum(), mask)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


# ---- dropout -----------------------------------------------------------------------------------
def kept(query: Any, key: Any, p: float, **options: Any) -> Any:
    """The weights that the next call keeps: those that reach an identity matrix as values."""
    n = key.shape[-2]
    eye = torch.eye(n, dtype=query.dtype).expand(*key.shape[:-1], n)
    torch.manual_seed(5)
    return weft.ops.attention(query, key, eye, dropout_p=p, **options) > 0


def weighed(q: Any, k: Any, v: Any, mask: Any, keep: Any, p: float) -> Any:
    weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + mask).softmax(-1)
    return (weights * keep / (1 - p)) @ v


@pytest.mark.parametrize("dtype", [HALF, pytest.param(torch.float32, marks=pytest.mark.slow)])
def test_dropout(dtype: Any) -> None:
    """Results and gradients are those of the weights that are kept, scaled."""
    p, shape = 0.3, (1, 2, 70, 24)
    tensors = [drawn(*shape, seed=s, dtype=dtype) for s in range(3)]
    tensors.append(drawn(70, 70, seed=4, dtype=dtype))
    grad = drawn(*shape, seed=5, dtype=dtype)
    keep = kept(*tensors[:2], p)
    assert abs(keep.double().mean() - (1 - p)) < 0.03
    torch.manual_seed(5)
    again = [x.clone().requires_grad_() for x in tensors]
    out = weft.ops.attention(*again, dropout_p=p)
    exact = [x.double().requires_grad_() for x in tensors]
    want = weighed(*exact, keep, p)
    torch.testing.assert_close(out.double(), want, rtol=5 * LIMITS[dtype], atol=5 * LIMITS[dtype])
    limit = 5 * GRADIENT_LIMITS[dtype]
    pairs = zip(
        torch.autograd.grad(out, again, grad),
        torch.autograd.grad(want, exact, grad.double()),
        strict=True,
    )
    for one, two in pairs:
        torch.testing.assert_close(one.double(), two, rtol=limit, atol=limit)
    assert torch.equal(keep, kept(*(x.float() for x in tensors[:2]), p))  # whatever the dtype


def test_dropout_draws() -> None:
    """Calls differ, a seed repeats them, and 0 and 1 are as torch has them."""
    q, k, v = (drawn(1, 1, 70, 32, seed=s, dtype=torch.float32) for s in range(3))
    torch.manual_seed(1)
    first, second = (weft.ops.attention(q, k, v, dropout_p=0.5) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(first, weft.ops.attention(q, k, v, dropout_p=0.5))
    assert not torch.equal(first, second)
    assert torch.equal(weft.ops.attention(q, k, v, dropout_p=1.0), torch.zeros_like(q))
    compiled = torch.compile(
        lambda *x: weft.ops.attention(*x, dropout_p=0.5), backend="aot_eager", fullgraph=True
    )
    assert not torch.equal(compiled(q, k, v), compiled(q, k, v))


# ---- refusals ----------------------------------------------------------------------------------
X = torch.zeros(1, 2, 3, 8)
REFUSED: dict[str, tuple[Any, dict[str, Any]]] = {
    "unsupported dtypes": ((X.double(), X.double(), X.double()), {}),
    "dtypes": ((X, X.half(), X), {}),
    "matrices or batches": ((X[0, 0, 0], X, X), {}),
    "incompatible shapes": ((X, X[..., :4], X), {}),
    "1 to 256 elements": ((torch.zeros(3, 300), torch.zeros(3, 300), X[0, 0]), {}),
    "incompatible batches or heads": ((torch.zeros(1, 6, 3, 8), X, X), {}),
    "batches or heads": ((torch.zeros(1, 5, 3, 8), X, X), {"enable_gqa": True}),
    "dropout_p is 1.5, expected 0 to 1": ((X, X, X), {"dropout_p": 1.5}),
    "attn_mask has dtype torch.int32": (
        (X, X, X),
        {"attn_mask": torch.zeros(3, 3, dtype=torch.int32)},
    ),
    "expected one that broadcasts to": ((X, X, X), {"attn_mask": torch.zeros(4, 3)}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str) -> None:
    tensors, options = REFUSED[message]
    with pytest.raises(weft.ArgumentError, match=message):
        weft.ops.attention(*tensors, **options)


RAGGED: dict[str, tuple[Any, ...]] = {
    "three dimensions": (X, X, X, torch.zeros(2, dtype=torch.int32)),
    "vector of int32": (X[0], X[0], X[0], torch.zeros(2)),
    "do not describe the same sequences": (X[0], X[0], X[0], torch.zeros(3, dtype=torch.int32)),
}


@pytest.mark.parametrize("message", RAGGED)
def test_ragged_refusals(message: str) -> None:
    *tensors, starts = RAGGED[message]
    with pytest.raises(weft.ArgumentError, match=message):
        weft.ops.attention_varlen(*tensors, starts, torch.zeros(2, dtype=torch.int32), 1, 1)


def test_alias() -> None:
    assert weft.ops.scaled_dot_product_attention is weft.ops.attention


def test_sanitized() -> None:
    """No kernel reads what nothing wrote, or races."""
    with weft.sanitize() as session:
        q, k, v = drawn(1, 2, 70, 24), drawn(1, 1, 90, 24), drawn(1, 1, 90, 24)
        weft.ops.attention_lse(q, k, v, is_causal=True, enable_gqa=True)
    assert not session.findings


@pytest.mark.slow
def test_more_sanitized() -> None:
    with weft.sanitize() as session:
        q, k, v = drawn(1, 2, 2, 24), drawn(1, 1, 4000, 24), drawn(1, 1, 4000, 24)
        weft.ops.attention_lse(q, k, v, enable_gqa=True)
        q, k, v = (drawn(1, 1, 70, 24, dtype=torch.float32) for _ in range(3))
        weft.ops.attention_lse(q, k, v)
    assert not session.findings
