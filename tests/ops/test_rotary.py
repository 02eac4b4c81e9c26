"""rotary and rotary_qkv: both conventions, any strides, held against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LIMITS = {F32: 1e-6, F16: 1e-3, BF16: 6e-3}


def turned(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    """In the notation of complex numbers."""
    n = cos.shape[-1]
    part, rest = x[..., : 2 * n], x[..., 2 * n :]
    pairs = part.unflatten(-1, (n, 2)) if interleaved else torch.stack(part.chunk(2, -1), -1)
    angle = torch.complex(cos.double(), sin.double())
    angle = angle.unsqueeze(1) if angle.dim() == 3 else angle
    made = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * angle)
    made = made.flatten(-2) if interleaved else torch.cat(made.unbind(-1), -1)
    return torch.cat((made, rest), -1)


def angles(*shape: int, dtype: Any = F32) -> tuple[Any, Any]:
    found = 3 * draw.seeded(4).normal(*shape)
    return found.cos().to(dtype), found.sin().to(dtype)


def near(got: Any, want: Any, dtype: Any) -> None:
    assert got.dtype is dtype and got.shape == want.shape
    assert (got.double() - want).norm() <= LIMITS[dtype] * want.norm()


CASES: dict[str, Any] = {
    "halves": ((2, 4, 5, 16), 2, F32, False, {}),
    "interleaved": ((2, 4, 5, 16), 4, BF16, True, {}),
    "positions before heads": ((2, 4, 5, 16), 2, F16, False, {"before": True}),
    "interleaved, positions before heads": ((2, 3, 5, 16), 3, BF16, True, {"before": True}),
    "short vectors": ((2, 3, 5, 20), 3, F16, True, {}),
    "pairs alone": ((1, 2, 3, 6), 2, F32, True, {}),
    "a part of each head": ((1, 2, 3, 32), 2, BF16, False, {"n": 8}),
    "an odd part of each head": ((1, 2, 3, 12), 2, F16, True, {"n": 3}),
    "angles of a batch": ((2, 3, 5, 8), 3, F32, False, {"batched": True}),
    "angles of two bytes": ((2, 3, 5, 16), 3, BF16, False, {"angle": BF16}),
}


@pytest.mark.parametrize("case", CASES)
def test_queries_and_keys(case: str) -> None:
    (batch, heads, positions, size), others, dtype, interleaved, more = CASES[case]

    def drawn(count: int, seed: int) -> Any:
        if more.get("before"):
            made = draw.seeded(seed).normal(batch, positions, count, size).transpose(1, 2)
        else:
            made = draw.seeded(seed).normal(batch, count, positions, size)
        return made.to(dtype)

    lead = (batch,) if more.get("batched") else ()
    given = angles(*lead, positions, more.get("n", size // 2), dtype=more.get("angle", F32))
    ours = [drawn(heads, 1).requires_grad_(), drawn(others, 2).requires_grad_()]
    wide = [x.detach().double().requires_grad_() for x in ours]
    found = weft.ops.rotary(*ours, *given, interleaved)
    want = [turned(x, *given, interleaved) for x in wide]
    dy = [draw.seeded(5).normal(*x.shape).to(dtype) for x in want]
    back = torch.autograd.grad(found, ours, dy)
    expected = torch.autograd.grad(want, wide, [x.double() for x in dy])
    for got, x, true in zip(found, ours, want, strict=True):
        assert got.stride() == x.stride()
        near(got.detach(), true.detach(), dtype)
    for got, true in zip(back, expected, strict=True):
        near(got, true, dtype)


@pytest.mark.parametrize(
    ("heads", "others", "size", "dtype", "interleaved"),
    [(4, 2, 16, BF16, True), (3, None, 8, F32, False), (3, 1, 10, F16, False)],
)
def test_packed(heads: int, others: Any, size: int, dtype: Any, interleaved: bool) -> None:
    counts = (heads, others or heads, others or heads)
    x = draw.seeded(1).normal(2, 5, sum(counts) * size).to(dtype).requires_grad_()
    given = angles(5, size // 2)
    found = weft.ops.rotary_qkv(x, *given, heads, others, interleaved)
    wide = x.detach().double().requires_grad_()
    parts = wide.view(2, 5, -1, size).transpose(1, 2).split(counts, 1)
    want = [*(turned(p, *given, interleaved) for p in parts[:2]), parts[2]]
    dy = [draw.seeded(5 + i).normal(*p.shape).to(dtype) for i, p in enumerate(want)]
    (dx,) = torch.autograd.grad(found, x, dy)
    (true,) = torch.autograd.grad(want, wide, [p.double() for p in dy])
    for got, expected in zip(found, want, strict=True):
        near(got.detach(), expected.detach(), dtype)
    near(dx, true, dtype)
    assert torch.equal(found[2], parts[2].to(dtype))  # values are copied


def test_layouts() -> None:
    """Elements that are apart are copied first; a misaligned tensor takes shorter vectors."""
    given = angles(5, 4)
    x = draw.seeded(1).normal(2, 3, 5, 8)
    want = weft.ops.rotary(x, x, *given)[0]
    apart = torch.stack((x, x), -1)[..., 0]
    shifted = torch.empty(x.numel() + 1)[1:].view(x.shape).copy_(x)
    for same in (apart, shifted, x.transpose(0, 3).contiguous().transpose(0, 3)):
        for got in weft.ops.rotary(same, x, *given):
            torch.testing.assert_close(got, want)
    spread = [torch.stack((t, t), -1)[..., 0] for t in given]
    torch.testing.assert_close(weft.ops.rotary(x, x, *spread)[1], want)


def test_second_derivative() -> None:
    """The gradient is linear: its gradient turns forward again."""
    given = angles(3, 4)
    q = draw.seeded(1).normal(2, 2, 3, 8).requires_grad_()
    dy = draw.seeded(2).normal(2, 2, 3, 8).requires_grad_()
    y, _ = weft.ops.rotary(q, q.detach(), *given)
    (dq,) = torch.autograd.grad(y, q, dy, create_graph=True)
    v = draw.seeded(3).normal(2, 2, 3, 8)
    (again,) = torch.autograd.grad(dq, dy, v)
    torch.testing.assert_close(again, weft.ops.rotary(v, v, *given)[0])


def test_no_findings() -> None:
    x = draw.seeded(1).normal(2, 5, 5 * 10).to(F16).requires_grad_()
    with weft.sanitize() as session:
        q, k, v = weft.ops.rotary_qkv(x, *angles(5, 5), 3, 1)
        (q.sum() + k.sum() + v.sum()).backward()
    assert not session.findings


def test_under_compile() -> None:
    given = angles(5, 4)
    q = draw.seeded(1).normal(2, 5, 3, 8).transpose(1, 2)
    compiled = torch.compile(weft.ops.rotary, backend="aot_eager", fullgraph=True)
    for got, want in zip(compiled(q, q, *given), weft.ops.rotary(q, q, *given), strict=True):
        assert torch.equal(got, want) and got.stride() == want.stride()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": torch.zeros(2, 3, 4, 8)}, "q and k do not fit"),
        ({"q": torch.zeros(3, 5, 8)}, "q and k do not fit"),
        ({"cos": torch.zeros(4, 4)}, "cos and sin do not fit"),
        ({"cos": torch.zeros(5, 5), "sin": torch.zeros(5, 5)}, "n at most 4"),
        ({"cos": torch.zeros(5, 4, dtype=F16)}, "unsupported dtype"),
    ],
)
def test_bad_arguments(change: dict[str, Any], words: str) -> None:
    cos, sin = angles(5, 4)
    given = {"q": torch.zeros(2, 3, 5, 8), "k": torch.zeros(2, 3, 5, 8), "cos": cos, "sin": sin}
    with pytest.raises(weft.errors.ArgumentError, match=words):
        weft.ops.rotary(**{**given, **change})


def test_heads_that_do_not_fit() -> None:
    with pytest.raises(weft.errors.ArgumentError, match=r"does not have 3 \+ 2 \+ 2 heads"):
        weft.ops.rotary_qkv(torch.zeros(2, 5, 30), *angles(5, 2), 3, 2)


def test_no_gradient_of_angles() -> None:
    cos, sin = angles(5, 4)
    q = torch.zeros(2, 3, 5, 8)
    out = weft.ops.rotary(q, q, cos.requires_grad_(), sin)
    with pytest.raises(weft.errors.ArgumentError, match="no gradient of cos and sin"):
        out[0].sum().backward()
    out = weft.ops.rotary_qkv(torch.zeros(2, 5, 24), cos, sin, 1)
    with pytest.raises(weft.errors.ArgumentError, match="no gradient of cos and sin"):
        out[0].sum().backward()
