"""linear_quantised: products with weights of four and eight bits, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from candidates import by  # noqa: E402
from weft.device.sim import schedules  # noqa: E402
from weft.ops.core import library  # noqa: E402

HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
INT4, INT8 = torch.uint8, torch.int8
TOLERANCE = {FLOAT: 1e-6, HALF: 4e-4, BFLOAT: 3e-3}
"""Norms of errors relative to those of results: the roundings of results, and sums in float32."""


def quantised(
    kind: Any, n: int, k: int, groups: int = 1, scales: Any = FLOAT, zero: bool = False
) -> tuple[Any, Any, Any, Any]:
    """A weight, its scales and zero points, and the matrix in float64; groups 0: one scale."""
    drawn = draw.seeded(n + k)
    if kind is INT4:
        q = drawn.integers(0, 16, (n, k), dtype=torch.uint8)
        weight, values = q[:, 0::2] | q[:, 1::2] << 4, q.double() - 8
    elif kind is INT8:
        weight = drawn.integers(-128, 128, (n, k), dtype=torch.int8)
        values = weight.double()
    else:
        weight = drawn.normal(n, k).to(kind)
        values = weight.double()
    shape = (n, groups) if groups else (1, 1)
    scale = (drawn.uniform(shape) + 0.5).to(scales)
    zeros = (3 * drawn.normal(shape)).to(scales) if zero else None

    def each(x: Any) -> Any:
        return x.double().repeat_interleave(k // x.shape[1], 1)

    exact = (values - each(zeros)) * each(scale) if zeros is not None else values * each(scale)
    return weight, scale, zeros, exact


def close(got: Any, x: Any, exact: Any, bias: Any = None, most: float = 0) -> None:
    want = x.double() @ exact.T
    if bias is not None:
        want = want + bias.double()
    assert got.dtype is x.dtype and got.shape == want.shape
    assert (got.double() - want).norm() / want.norm() < (most or TOLERANCE[x.dtype])


def tokens(m: int, k: int, dtype: Any) -> Any:
    return draw.seeded(m).normal(m, k).to(dtype)


KERNELS = [
    # kernel, format, (m, n, k), groups, dtype of x, dtype of scales, zero points
    ("skinny, 2 rows", INT4, (1, 7, 2304), 18, BFLOAT, FLOAT, False),
    ("skinny, 4 rows", INT4, (1, 5, 1024), 16, HALF, HALF, True),
    ("skinny, 2 rows", INT4, (7, 21, 160), 5, HALF, FLOAT, True),
    ("skinny, 2 rows, 2 warps a row", INT8, (2, 11, 584), 1, BFLOAT, FLOAT, True),
    ("skinny, 4 rows, 8 warps a row", INT8, (3, 17, 1344), 21, HALF, FLOAT, False),
    ("skinny, 2 rows", E4M3, (1, 4, 528), 0, HALF, HALF, False),
    ("skinny, 2 rows", E5M2, (4, 9, 264), 1, BFLOAT, BFLOAT, False),
    ("skinny, 2 rows, 2 warps a row", INT8, (13, 19, 328), 1, BFLOAT, FLOAT, True),
    ("skinny, 4 rows", INT4, (9, 35, 512), 4, HALF, FLOAT, True),
    ("64 x 16, K in 3", INT4, (19, 70, 352), 11, BFLOAT, FLOAT, True),
    ("64 x 32", INT8, (17, 65, 144), 1, HALF, FLOAT, True),
    ("128 x 32", INT4, (17, 130, 160), 1, HALF, HALF, False),
    ("128 x 64, K in 2", E4M3, (70, 40, 320), 2, HALF, FLOAT, False),
    ("dots", INT4, (3, 9, 96), 3, FLOAT, FLOAT, True),
    ("dots, one by one", INT8, (9, 5, 77), 1, BFLOAT, FLOAT, True),
    ("dots, one by one", E4M3, (2, 5, 45), 1, FLOAT, FLOAT, False),
    ("dots, one by one", INT4, (2, 3, 50), 0, HALF, FLOAT, True),
]


QUICK = (0, 2, 3, 7, 8, 9, 10, 13, 14)
"""Rows of the default set: each kernel, format of integers and dtype, with zero points and not."""


def _rows(quick: tuple[int, ...], rows: Any) -> list[Any]:
    return [r if i in quick else pytest.param(r, marks=pytest.mark.slow) for i, r in rows]


@pytest.mark.parametrize(
    "kernel", _rows(QUICK, enumerate(KERNELS)), ids=lambda row: f"{row[0]}, {row[1]}"
)
def test_kernels(kernel: Any) -> None:
    """Parts of rows, of steps and of tiles; groups that end within a stage."""
    name, kind, (m, n, k), groups, dtype, scales, zero = kernel
    weight, scale, zeros, exact = quantised(kind, n, k, groups, scales, zero)
    x, bias = tokens(m, k, dtype), draw.seeded(8).normal(n).to(dtype)
    # Hopper has other kernels for the products of tiles.
    gpu = "sim:a100" if " x " in name else ""
    close(by(name, "linear_quantised", x, weight, scale, zeros, bias, gpu=gpu), x, exact, bias)


@pytest.mark.parametrize("op", ["linear_quantised", "linear_quantised_constant"])
def test_a_constant_weight_is_read_early(op: str) -> None:
    weight, scale, zeros, exact = quantised(INT4, 20, 512, 4, zero=True)
    x = tokens(3, 512, BFLOAT)
    with weft.sanitize():
        close(by("skinny, 2 rows", op, x, weight, scale, zeros), x, exact)


@pytest.mark.parametrize(
    ("kind", "k", "groups", "dtype"),
    [(INT4, 96, 3, BFLOAT), pytest.param(INT8, 77, 1, HALF, marks=pytest.mark.slow)],
)
def test_a_weight_is_converted_before_a_product(kind: Any, k: int, groups: int, dtype: Any) -> None:
    """It is rounded to the dtype of x, so the error is that of a layer in that dtype."""
    weight, scale, zeros, exact = quantised(kind, 40, k, groups, zero=True)
    x = tokens(33, k, dtype)
    got = by("dequantised", "linear_quantised", x, weight, scale, zeros)
    close(got, x, exact, most=2 * TOLERANCE[dtype])


@pytest.mark.parametrize("kind", [INT4, INT8, E4M3, E5M2])
@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_every_weight_is_converted_as_it_is(kind: Any, dtype: Any) -> None:
    """All bytes, with NaN and infinity of fp8."""
    weight = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    one = torch.ones(1, 1)
    if kind is INT4:
        values = torch.stack((weight & 15, weight >> 4), -1).reshape(16, 32).double() - 8
    else:
        weight = weight.view(kind)
        values = weight.double()
    got = library.call("dequantised_weight")(weight, one, None, dtype)
    torch.testing.assert_close(got, values.to(dtype), rtol=0, atol=0, equal_nan=True)


def test_calls() -> None:
    """By the op, by torch's dispatcher, with fake tensors, and without elements."""
    weight, scale, zeros, exact = quantised(INT4, 12, 64, 2, zero=True)
    x = tokens(6, 64, BFLOAT).reshape(2, 3, 64)
    close(weft.ops.linear_quantised(x, weight, scale, zeros), x, exact)
    assert torch.equal(
        torch.ops.weft.linear_quantised(x, weight, scale, zeros),
        weft.ops.linear_quantised(x, weight, scale, zeros),
    )
    meta = [t.to("meta") for t in (x, weight, scale)]
    assert torch.ops.weft.linear_quantised(*meta).shape == (2, 3, 12)
    assert weft.ops.linear_quantised(x[:0], weight, scale).shape == (0, 3, 12)
    assert weft.ops.linear_quantised(x, weight[:0], scale[:0]).shape == (2, 3, 0)
    bias = tokens(1, 12, BFLOAT)[0]
    nothing = weft.ops.linear_quantised(x[..., :0], weight[:, :0], scale[:, :1], None, bias)
    assert torch.equal(nothing, bias.expand(2, 3, 12))


def test_strides() -> None:
    """Tokens that are apart or out of line; rows, scales and a bias that are apart."""
    weight, scale, _, exact = quantised(INT8, 10, 64, 2)
    apart = torch.zeros(10, 80, dtype=torch.int8)
    apart[:, :64] = weight
    scale = scale.T.contiguous().T
    bias = draw.seeded(3).normal(10, 2).to(HALF)[:, 1]
    x = draw.seeded(4).normal(2, 3, 72).to(HALF)
    columns = draw.seeded(5).normal(64, 3).to(HALF).T
    for given in (x[..., 3:67], x[..., :64].transpose(0, 1), columns):
        got = weft.ops.linear_quantised(given, apart[:, :64], scale, None, bias)
        close(got, given, exact, bias)


@pytest.mark.parametrize(
    ("kind", "m", "words"),
    [
        (INT4, 1, "skinny"), (INT8, 8, "skinny"), (E4M3, 32, " x "), (INT4, 64, " x "),
        (INT4, 8192, "dequantised"),
    ],
)  # fmt: skip
def test_the_model_s_choice(kind: Any, m: int, words: str) -> None:
    x = torch.empty(m, 4096, dtype=BFLOAT)
    weight = torch.empty(4096, 4096 // (2 if kind is INT4 else 1), dtype=kind)
    scale = torch.empty(4096, 32)
    used = weft.ops.explain(weft.ops.linear_quantised, x, weight, scale).choice.used.name
    assert words in used and (words != " x " or "dequantised" not in used), used


def test_old_gpus_have_kernels() -> None:
    weight, scale, _, _ = quantised(INT4, 12, 64)
    x = tokens(2, 64, HALF)
    choice = weft.ops.explain(weft.ops.linear_quantised, x, weight, scale, device="sim:t4").choice
    names = [c.name for c in (choice.used, *choice.others)]
    assert all(n.startswith(("dots", "dequantised")) for n in names), names


@pytest.mark.parametrize("dtype", [BFLOAT, pytest.param(FLOAT, marks=pytest.mark.slow)])
def test_gradients_of_x_and_bias(dtype: Any) -> None:
    weight, scale, zeros, exact = quantised(INT4, 12, 64, 2, zero=True)
    x, bias = tokens(5, 64, dtype).requires_grad_(), tokens(1, 12, dtype)[0].requires_grad_()
    upstream = tokens(5, 12, dtype)
    weft.ops.linear_quantised(x, weight, scale, zeros, bias).backward(upstream)
    close(x.grad, upstream, exact.T, most=2 * TOLERANCE[dtype])
    torch.testing.assert_close(bias.grad, upstream.sum(0), rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["scale", "zero"])
def test_scales_have_no_gradient(name: str) -> None:
    weight, scale, zero, _ = quantised(INT8, 4, 32, zero=True)
    given = {"scale": scale, "zero": zero}
    given[name].requires_grad_()
    result = weft.ops.linear_quantised(tokens(2, 32, FLOAT), weight, **given)
    with pytest.raises(weft.ArgumentError, match=f"there is no gradient of {name}"):
        result.sum().backward()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": lambda x: x.double()}, "'x' has a dtype"),
        ({"x": lambda x: x[:, :32]}, "x and weight have incompatible shapes"),
        ({"weight": lambda w: w.int()}, "'weight' has a dtype"),
        ({"weight": lambda w: w.T.contiguous().T}, "no matrix of contiguous rows"),
        ({"weight": lambda w: w[0]}, "no matrix of contiguous rows"),
        ({"scale": lambda s: s.double()}, "'scale' has a dtype"),
        ({"scale": lambda s: s[:, 0]}, "scale has a shape of no groups"),
        ({"scale": lambda s: s.repeat(1, 2)}, "scale has a shape of no groups"),
        ({"scale": lambda s: s[:3]}, "scale has a shape of no groups"),
        ({"zero": lambda _: torch.zeros(4, 1)}, "zero has another shape or dtype than scale"),
        ({"zero": lambda _: torch.zeros(4, 2).half()}, "zero has another shape or dtype"),
        ({"bias": lambda _: torch.zeros(5)}, "bias has another shape or dtype"),
        ({"bias": lambda _: torch.zeros(4).half()}, "bias has another shape or dtype"),
    ],
)
def test_what_is_refused(change: Any, words: str) -> None:
    weight, scale, _, _ = quantised(INT8, 4, 64, 2)
    given = {"x": tokens(2, 64, FLOAT), "weight": weight, "scale": scale}
    given |= {name: make(given.get(name)) for name, make in change.items()}
    with pytest.raises(weft.ArgumentError, match=words):
        weft.ops.linear_quantised(**given)


@pytest.mark.sim
@pytest.mark.parametrize("row", [0, pytest.param(7, marks=pytest.mark.slow)])
def test_the_sanitizer_finds_nothing(row: int) -> None:
    """Nor do results depend on the order of warps."""
    name, kind, (m, n, k), groups, dtype, scales, zero = KERNELS[row]
    weight, scale, zeros, exact = quantised(kind, n, k, groups, scales, zero)
    x, bias = tokens(m, k, dtype), draw.seeded(8).normal(n).to(dtype)
    given = (name, "linear_quantised", x, weight, scale, zeros, bias)
    want = by(*given)
    close(want, x, exact, bias)
    with weft.sanitize() as session:
        by(*given)
    assert not session.findings
    for schedule in schedules.several(3):
        with weft.schedule(str(schedule)):
            assert torch.equal(by(*given), want), schedule
