"""flex_attention: scores and masks as C++ expressions, beside the same functions in PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.errors import ArgumentError, CompileError  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.attention import forward, tma_model  # noqa: E402
from weft.ops.families.attention.flex import op as flex  # noqa: E402
from weft.ops.families.attention.flex.text import only_added_to  # noqa: E402
from weft.ops.families.attention.tma_model import TmaTile  # noqa: E402


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")


class Call(NamedTuple):
    """Expressions, and what they mean as functions of PyTorch."""

    score: str
    mask: str
    tensors: dict[str, Any]
    score_mod: Callable[..., Any] = lambda s, b, h, q, k: s
    mask_mod: Callable[..., Any] = lambda b, h, q, k: k >= 0


SLOPE = draw.seeded(7).normal(4) / 8
DOCUMENT = (torch.arange(2)[:, None] * 3 + torch.arange(90) // 25).int()
BIAS = draw.seeded(8).normal(90, 70).half().T  # strided
CAP = torch.tensor(1.5)
CALLS = {
    "a slope of each head": Call(
        "score + slope[h] * (k - q)", "", {"slope": SLOPE},
        lambda s, b, h, q, k: s + SLOPE.double()[h] * (k - q),
    ),
    "documents": Call(
        "", "k <= q && document[b][q] == document[b][k]", {"document": DOCUMENT},
        mask_mod=lambda b, h, q, k: (k <= q) & (DOCUMENT[b, q] == DOCUMENT[b, k]),
    ),
    "a cap": Call(
        "cap * tanh(score / cap)", "", {"cap": CAP},
        lambda s, b, h, q, k: 1.5 * torch.tanh(s / 1.5),
    ),
    "a strided bias, and rows that see no key": Call(
        "bias[q][k] + score - 0.25", "q % 7 != 3 && (k % 2 == 0 || h > 1)", {"bias": BIAS},
        lambda s, b, h, q, k: s + BIAS.double()[q, k] - 0.25,
        lambda b, h, q, k: (q % 7 != 3) & ((k % 2 == 0) | (h > 1)),
    ),
}  # fmt: skip


def operands(rows: int, dtype: Any, head: int = 32) -> tuple[Any, ...]:
    """Two heads of queries share a head of keys."""
    q = draw.seeded(1).normal(2, rows, 4, head).to(dtype).transpose(1, 2)
    k, v = (draw.seeded(n).normal(2, 2, 90, head).to(dtype) for n in (2, 3))
    return q, k, v


def exact(tensors: tuple[Any, ...], call: Call) -> Any:
    """The same in float64: what torch's flex_attention is defined to compute."""
    q, k, v = (x.double() for x in tensors)
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    at = torch.meshgrid(*(torch.arange(n) for n in scores.shape), indexing="ij")
    scores = call.score_mod(scores, *at).masked_fill(~call.mask_mod(*at), -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


def flexible(tensors: tuple[Any, ...], call: Call, **options: Any) -> Any:
    return weft.ops.flex_attention(
        *tensors, call.score, call.mask, call.tensors, enable_gqa=True, **options
    )


TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.mark.parametrize(
    ("call", "dtype"), list(zip(CALLS, [torch.bfloat16] * 2 + [torch.float32] * 2, strict=True))
)
def test_forward(call: str, dtype: Any) -> None:
    tensors, how = operands(70, dtype), CALLS[call]
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(
        flexible(tensors, how).double(), exact(tensors, how), rtol=tolerance, atol=tolerance
    )


def test_few_queries() -> None:
    """Heads are rows of one tile, and keys are those of several blocks."""
    tensors, how = operands(3, torch.bfloat16), CALLS["a slope of each head"]
    expected = exact(tensors, how)
    torch.testing.assert_close(flexible(tensors, how).double(), expected, rtol=2e-2, atol=2e-2)


def test_keys_that_are_skipped() -> None:
    tensors, how = operands(70, torch.bfloat16), CALLS["documents"]
    expected = exact(tensors, how)
    for options in ({"is_causal": True}, {"window": (25, 0)}):
        made = flexible(tensors, how, **options)
        torch.testing.assert_close(made.double(), expected, rtol=2e-2, atol=2e-2)


def test_by_tma(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel for Hopper, with heads as rows of a unit and without."""
    tile = TmaTile(warpgroups=2, keys=16, stages=2, slots=2, reach=1.0)
    monkeypatch.setattr(tma_model, "TILES", {32: (tile,)})
    monkeypatch.setattr(forward, "LISTED", 1000)
    how = CALLS["a slope of each head"]
    for rows in (70, 5):
        tensors = operands(rows, torch.bfloat16)
        given = (*tensors, SLOPE, None, None, None)
        request = library.function("flex_attention_lse").request(
            *given, "slope", how.score, how.mask, False, None, True, None
        )
        request = dataclasses.replace(request, target=dataclasses.replace(request.target, sms=3))
        one = next(c for c in flex.DEFINITIONS[0].candidates(request) if "TMA" in c.name)
        out, _ = runner(one.build(), len(given), tensors[0].device)(*given)
        torch.testing.assert_close(out.double(), exact(tensors, how), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("call", "dtype"),
    [("documents", torch.bfloat16), ("a strided bias, and rows that see no key", torch.float32)],
)
def test_gradients(call: str, dtype: Any) -> None:
    tensors = tuple(x.detach().requires_grad_() for x in operands(70, dtype))
    how, slope = CALLS[call], draw.seeded(4).normal(2, 4, 70, 32)
    ours = torch.autograd.grad(flexible(tensors, how), tensors, slope.to(dtype))
    expected = torch.autograd.grad(exact(tensors, how), tensors, slope.to(dtype).double())
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=2 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("score", "right"),
    [
        ("", True),
        ("score", True),
        ("score + slope[h] * (k - q)", True),
        ("bias[q][k] + score - 1", True),
        ("2 * score", False),
        ("score * 2", False),
        ("bias[q][k] - score", False),
        ("-score", False),
        ("-(score + 1)", False),
        ("- +score", False),
        ("score + score", False),
        ("score + (score > 0)", False),
        ("score + k < q", False),
        ("k < q ? score : 0.0", False),
        ("cap * tanh(score / cap)", False),
        ("1", False),
        ("2 * -k + score", True),
    ],
)
def test_scores_that_are_only_added_to(score: str, right: bool) -> None:
    assert only_added_to(score) == right


def test_a_gradient_that_there_is_not() -> None:
    q, k, v = operands(5, torch.float32)
    cap = {"cap": CAP}
    with pytest.raises(ArgumentError, match="no gradient through this score"):
        given = (q.clone().requires_grad_(), k, v)
        weft.ops.flex_attention(*given, CALLS["a cap"].score, "", cap, enable_gqa=True)
    with pytest.raises(ArgumentError, match="no gradient of tensor 'slope'"):
        named = {"slope": SLOPE.clone().requires_grad_()}
        weft.ops.flex_attention(q, k, v, "score + slope[h]", "", named, enable_gqa=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "score + slop[h]"}, "score has the unknown name 'slop'"),
        ({"mask": "score > 0"}, "mask has the unknown name 'score'"),
        ({"score": "score; x"}, "score cannot be read"),
        ({"score": 'score + "x"'}, "score cannot be read"),
        ({"named": {"q": SLOPE}}, "a tensor cannot have the name 'q'"),
        ({"named": {"not a name": SLOPE}}, "cannot have the name 'not a name'"),
        ({"named": [SLOPE]}, "named must be a dictionary"),
        ({"named": dict.fromkeys("vwxyz", SLOPE)}, "at most 4 tensors"),
        ({"named": {"slope": SLOPE.to(torch.complex64)}}, "'slope' cannot be read"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    q, k, v = operands(5, torch.float32)
    with pytest.raises(ArgumentError, match=message):
        weft.ops.flex_attention(q, k, v, enable_gqa=True, **options)


def test_shapes_are_checked() -> None:
    q, k, v = operands(5, torch.float32)
    with pytest.raises(ArgumentError, match="query must have four dimensions"):
        weft.ops.flex_attention(q[0], k, v)
    with pytest.raises(ArgumentError, match="incompatible batches or heads"):
        weft.ops.flex_attention(q, k, v)


def test_an_expression_that_is_no_cpp() -> None:
    q, k, v = operands(5, torch.float32)
    with pytest.raises(CompileError, match="expression"):
        weft.ops.flex_attention(q, k, v, "score + (k", enable_gqa=True)
