"""quantise: rows and groups to int8 and fp8, each with its scale."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft
from candidates import by

torch = pytest.importorskip("torch")

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
MOST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
E4M3 = torch.float8_e4m3fn


def tensor(*shape: int, dtype: Any = F32) -> Any:
    return (3 * draw.seeded(1).normal(*shape)).to(dtype)


def expected(x: Any, dtype: Any, group: int | None = None) -> tuple[Any, Any]:
    """The definition, one operation of single precision after another."""
    parts = x.float().unflatten(-1, (-1, group or x.shape[-1]))
    most = parts.abs().amax(-1, keepdim=True)
    scale = torch.where(most == 0, 1.0, most / MOST[dtype]).clamp(min=2.0**-126)
    made = parts * (1 / scale)
    made = made.round() if dtype is torch.int8 else made
    return made.to(dtype).view(x.shape), scale.squeeze(-1)


def compare(x: Any, dtype: Any, group: int | None = None, name: str = "") -> None:
    if name:
        q, scale = by(name, "quantise", x, dtype, group)
    else:
        q, scale = weft.ops.quantise(x, dtype, group)
    want, its_scale = expected(x, dtype, group)
    assert q.dtype is dtype and q.shape == x.shape and scale.dtype is F32
    assert torch.equal(scale, its_scale)
    assert torch.equal(q.view(torch.uint8), want.view(torch.uint8))


@pytest.mark.parametrize("dtype", MOST)
@pytest.mark.parametrize("of", [F32, F16, BF16])
def test_rows(of: Any, dtype: Any) -> None:
    compare(tensor(3, 2, 320, dtype=of), dtype)


@pytest.mark.parametrize("group", [32, 96, 128, 384])
@pytest.mark.parametrize("of", [F32, BF16])
def test_groups(of: Any, group: int) -> None:
    compare(tensor(5, 384, dtype=of), torch.int8, group)


@pytest.mark.parametrize("n", [1, 2, 7, 33, 1030, 4096, 9000])
def test_lengths_of_rows(n: int) -> None:
    """A lane, a part of a warp, a warp, and a block for a row; rows that begin anywhere."""
    compare(tensor(3, n, dtype=F16), torch.int8)


@pytest.mark.parametrize("dtype", [torch.int8, E4M3])
@pytest.mark.parametrize(("rows", "n", "group"), [(2, 5000, None), (3, 4097, None), (2, 512, 256)])
def test_two_passes(rows: int, n: int, group: int | None, dtype: Any) -> None:
    compare(tensor(rows, n, dtype=BF16), dtype, group, "two passes")


def test_rows_longer_than_registers() -> None:
    """One row has several blocks."""
    x = tensor(1, 70_000)
    found = weft.ops.explain(weft.ops.quantise, x, torch.int8).choice
    assert found.used.name == "two passes" and not found.others
    compare(x, torch.int8)


def test_layouts() -> None:
    """Rows with gaps are read where they lie; others are copied."""
    compare(tensor(6, 40)[:, :32], torch.int8)
    compare(tensor(6, 41, dtype=F16)[:, 1:], torch.int8)
    compare(tensor(64, 6, dtype=BF16).t(), torch.int8, 32)
    compare(tensor(4, 6, 32).transpose(0, 1), E4M3)
    compare(tensor(1, 48).expand(3, 48), torch.int8)
    compare(tensor(77), torch.int8)


def test_zeros_and_the_smallest_numbers() -> None:
    x = torch.zeros(4, 64)
    x[1, 3], x[2, 5] = 1e-45, -2e-38
    x[3] = -0.0
    for dtype in MOST:
        q, scale = weft.ops.quantise(x, dtype)
        assert scale.flatten().tolist()[::3] == [1, 1] and scale.min() >= 2.0**-126
        assert torch.isfinite(q.float()).all()
        compare(x[:3], dtype)


@pytest.mark.parametrize("name", ["resident", "two passes"])
@pytest.mark.parametrize("dtype", MOST)
def test_rows_that_are_not_finite(dtype: Any, name: str) -> None:
    """They have the scale NaN or infinity; other rows are as they were."""
    x = tensor(5, 96)
    x[0, 3], x[1, 95], x[2, 1] = float("nan"), float("inf"), -float("inf")
    x[3, 7], x[3, 9] = float("inf"), float("nan")
    q, scale = by(name, "quantise", x, dtype, None)
    kinds = [str(v) for v in scale.flatten().tolist()[:4]]
    assert kinds == ["nan", "inf", "inf", "nan"]
    assert (q[:4].float() * scale[:4]).isnan().all()
    values = q.float()[:4]
    if dtype is torch.int8:
        assert (values == 0).all()
    else:
        assert torch.equal(values.isnan(), ~torch.isfinite(x[:4]))
        assert (values[torch.isfinite(x[:4])] == 0).all()
    want, its_scale = expected(x[4:], dtype)
    assert torch.equal(q[4:].float(), want.float()) and torch.equal(scale[4:], its_scale)


def test_the_largest_numbers() -> None:
    """Their scale is finite, and no element exceeds the largest number."""
    x = torch.tensor([[3.4e38, -3.4e38, 1e30, 0.0]])
    for dtype in MOST:
        q, scale = weft.ops.quantise(x, dtype)
        assert torch.isfinite(scale).all()
        assert q.float().tolist()[0][:2] == [MOST[dtype], -MOST[dtype]]


def test_calls() -> None:
    """By torch's dispatcher, with fake tensors, and without rows."""
    x = tensor(2, 3, 64)
    q, scale = torch.ops.weft.quantise(x, torch.int8, 32)
    assert torch.equal(q, weft.ops.quantise(x, torch.int8, 32)[0]) and scale.shape == (2, 3, 2)
    q, scale = torch.ops.weft.quantise(x.to("meta"), E4M3)
    assert q.dtype is E4M3 and scale.shape == (2, 3, 1)
    q, scale = weft.ops.quantise(x[:0], torch.int8, 32)
    assert q.shape == (0, 3, 64) and scale.shape == (0, 3, 2)


def test_its_results_are_operands_of_scaled_mm() -> None:
    x, weight = tensor(5, 64, dtype=BF16), tensor(16, 64, dtype=BF16)
    (a, left), (b, right) = (weft.ops.quantise(t, torch.int8) for t in (x, weight))
    made = weft.ops.scaled_mm(a, b.T, left, right.T, out_dtype=F32)
    want = (a.double() * left) @ (b.double() * right).T
    torch.testing.assert_close(made.double(), want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "dtype", "group", "words"),
    [
        (torch.zeros(2, 8, dtype=torch.int32), torch.int8, None, "'x' has a dtype"),
        (torch.zeros(2, 8), torch.int16, None, "dtype is none that"),
        (torch.zeros(()), torch.int8, None, "rows of at least one element"),
        (torch.zeros(2, 0), torch.int8, None, "rows of at least one element"),
        (torch.zeros(2, 96), torch.int8, 64, "does not consist of such groups"),
        (torch.zeros(2, 96), torch.int8, 16, "does not consist of such groups"),
        (torch.zeros(2, 96), torch.int8, -32, "does not consist of such groups"),
    ],
)
def test_what_is_refused(x: Any, dtype: Any, group: int | None, words: str) -> None:
    with pytest.raises(weft.ArgumentError, match=words):
        weft.ops.quantise(x, dtype, group)


def test_no_findings() -> None:
    x = tensor(3, 400, dtype=F16)
    with weft.sanitize() as session:
        for name in ("resident", "two passes"):
            by(name, "quantise", x, torch.int8, None)
        weft.ops.quantise(x[:, :320], E4M3, 32)
    assert not session.findings
