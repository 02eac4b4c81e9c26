"""scaled_mm: products of fp8 with scales, against float64 of the decoded operands."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.core.target import named  # noqa: E402
from weft.ops.families.matmul import scaled  # noqa: E402
from weft.ops.families.matmul.pipelined_model import PipelinedTile  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
STAGES = 2
"""Few, so that a small product goes around the ring."""
Size = tuple[int, int, int]


def operands(size: Size, a: Any = E4M3, b: Any = E4M3) -> tuple[Any, Any]:
    m, n, k = size
    left, right = draw.seeded(1).normal((m, k)), draw.seeded(2).normal((n, k))
    return left.to(a), right.to(b).T


def scales(kind: str, size: Size) -> tuple[Any, Any]:
    """Scales of a kind, each of other strides."""
    m, n, k = size
    k_blocks, m_blocks, n_blocks = (-(-extent // 128) for extent in (k, m, n))
    shapes = {
        "operands": ((1, 1), (1, 1)),
        "rows": ((m, 1), (1, n)),
        "1 x 128": ((m, k_blocks), (k_blocks, n)),
        "128 x 128": ((m, k_blocks), (k_blocks, n_blocks)),
        "128 x 128 of a": ((m_blocks, k_blocks), (k_blocks, n)),
    }[kind]
    left, right = (draw.seeded(3 + i).normal(s).abs() + 0.5 for i, s in enumerate(shapes))
    return left.T.contiguous().T, right


def exact(a: Any, b: Any, left: Any, right: Any) -> Any:
    """In float64."""
    m, k = a.shape
    n = b.shape[1]

    def each(x: Any, dim: int, extent: int) -> Any:
        if x.shape[dim] in (1, extent):
            return x
        return x.repeat_interleave(128, dim).narrow(dim, 0, extent)

    left, right = each(each(left, 0, m), 1, k), each(each(right, 1, n), 0, k)
    return (a.double() * left.double()) @ (b.double() * right.double())


def run(
    tile: PipelinedTile | None,
    turned: bool,
    *given: Any,
    fast: bool = False,
    dtype: Any = HALF,
    plain: str = ".*converted.*",
) -> Any:
    """The result of a tile; None: of the kernel for any GPU, named `plain`."""
    given = (*given, *(None,) * (5 - len(given)))
    request = library.function("scaled_mm").request(*given, dtype, fast)
    made = scaled.scaled_product(request)
    gpu = dataclasses.replace(named("sim:h200"), sms=1)
    if tile is None:
        choice = library.function("scaled_mm").choice(request)
        found = (choice.used, *choice.others)
        plan = next(c for c in found if re.fullmatch(plain, c.name)).build()
    else:
        plan = scaled.plan(made.transposed() if turned else made, tile, STAGES, gpu)
    return runner(plan, 5, torch.device("cpu"))(*given)


def refused(a: Any, b: Any, change: Any, words: str) -> None:
    """Call with changed arguments, which has an error with these words."""
    given = {"a": a, "b": b, "scale_a": torch.ones(1, 1), "scale_b": torch.ones(1, 1)}
    given |= {name: make(given.get(name)) for name, make in change.items()}
    with pytest.raises(weft.ArgumentError, match=words):
        weft.ops.scaled_mm(**given)


def close(result: Any, want: Any, most: float = 5e-4) -> None:
    assert (result.double() - want).norm() / want.norm() < most


@pytest.mark.parametrize(
    ("kind", "tile", "turned", "types"),
    [
        ("operands", PipelinedTile(64, 32), False, (E4M3, E4M3)),
        ("rows", PipelinedTile(64, 48, 2), True, (E4M3, E5M2)),
        ("1 x 128", PipelinedTile(64, 80), False, (E5M2, E4M3)),
        ("128 x 128", PipelinedTile(64, 64), False, (E4M3, E4M3)),
        ("128 x 128", PipelinedTile(64, 48), True, (E4M3, E5M2)),
        ("128 x 128 of a", PipelinedTile(128, 32, splits=2), False, (E4M3, E4M3)),
    ],
)
def test_scales(kind: str, tile: PipelinedTile, turned: bool, types: Any) -> None:
    """Ragged tiles and blocks, more steps than stages, and more tiles than blocks."""
    size = (150, 144, 400)
    given = *operands(size, *types), *scales(kind, size)
    bias = draw.seeded(9).normal((size[1],)).to(HALF)
    close(run(tile, turned, *given, bias), exact(*given) + bias.double())


@pytest.mark.parametrize("kind", ["operands", "128 x 128"])
def test_long_sums_of_wide_tiles(kind: str) -> None:
    """Several blocks of K, and the rest of it."""
    size = (40, 104, 128 * 5 + 16)
    given = *operands(size), *scales(kind, size)
    close(run(PipelinedTile(64, 96), False, *given), exact(*given))


@pytest.mark.parametrize("size", [(70, 72, 336), (3, 5, 7)])
def test_any_gpu(size: Size) -> None:
    """Rows that are whole vectors, and others."""
    for kind in ("operands", "rows", "1 x 128", "128 x 128", "128 x 128 of a"):
        given = *operands(size, E4M3, E5M2), *scales(kind, size)
        close(run(None, False, *given, dtype=FLOAT), exact(*given), 1e-6)


def test_rows_that_begin_anywhere_are_copied_first() -> None:
    """Operands of two dtypes, by one launch."""
    size = (40, 24, 301)
    for kind in ("rows", "1 x 128"):
        given = *operands(size, E4M3, E5M2), *scales(kind, size)
        close(run(None, False, *given, plain="aligned copies, .*pipelined"), exact(*given))


@pytest.mark.parametrize("splits", [1, 2])
def test_fast_sums(splits: int) -> None:
    """They lose bits that sums of parts keep."""
    size = (64, 32, 2048)
    given = *operands(size), *scales("rows", size)
    tile, want = PipelinedTile(64, 32, splits=splits), exact(*given)
    fast, parts = (run(tile, False, *given, fast=f, dtype=FLOAT).double() for f in (True, False))
    errors = [float((got - want).norm() / want.norm()) for got in (fast, parts)]
    assert errors[1] < errors[0] / 2 < 1e-3


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("n", [40, 37])
def test_results_in_single_precision(turned: bool, n: int) -> None:
    size = (21, n, 128)
    given = *operands(size), *scales("rows", size)
    bias = draw.seeded(5).normal((n,))
    got = run(PipelinedTile(64, 32), turned, *given, bias, dtype=FLOAT)
    close(got, exact(*given) + bias.double(), 2e-4)


@pytest.mark.parametrize("types", [(E4M3, E5M2), (E5M2, E4M3)])
def test_every_number_is_read_as_it_is(types: Any) -> None:
    """All bytes, with NaN and infinity, by both kernels."""
    a = torch.zeros(256, 128, dtype=torch.uint8)
    a[:, 5] = torch.arange(256, dtype=torch.uint8)
    b = torch.zeros(16, 128)
    b[:, 5] = 1
    given = a.view(types[0]), b.to(types[1]).T, torch.ones(1, 1), torch.ones(1, 1)
    want = a.view(types[0])[:, 5:6].float().expand(256, 16)
    for tile in (None, PipelinedTile(64, 16)):
        got = run(tile, False, *given, dtype=FLOAT)
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_calls() -> None:
    """By the op, by torch's dispatcher, with fake tensors, and without elements."""
    size = (20, 32, 256)
    given = *operands(size), *scales("operands", size)
    result = weft.ops.scaled_mm(*given)
    assert result.dtype is BFLOAT
    close(result, exact(*given), 4e-3)
    again = torch.ops.weft.scaled_mm(*given, out_dtype=HALF, use_fast_accum=True)
    assert again.dtype is HALF
    meta = [x.to("meta") for x in given]
    assert torch.ops.weft.scaled_mm(*meta, out_dtype=FLOAT).dtype is FLOAT
    for m, n, k in ((0, 16, 16), (16, 0, 16), (4, 8, 0)):
        empty = *operands((m, n, k)), *scales("operands", (m, n, k))
        assert torch.equal(weft.ops.scaled_mm(*empty), torch.zeros(m, n, dtype=BFLOAT))


def test_other_gpus_have_a_kernel() -> None:
    a, b = operands((32, 32, 256))
    one = torch.ones(1)
    names = weft.ops.explain(weft.ops.scaled_mm, a, b, one, one, device="sim:a100")
    assert "converted" in names.choice.used.name and not names.choice.others


@pytest.mark.parametrize("m", [1, 64, 4096])
@pytest.mark.parametrize("fast", [False, True])
def test_layers_of_a_transformer_use_hopper_s_kernels(m: int, fast: bool) -> None:
    a, b = torch.empty(m, 4096, dtype=E4M3), torch.empty(4096, 4096, dtype=E4M3).T
    one = torch.ones(1)
    chosen = weft.ops.explain(weft.ops.scaled_mm, a, b, one, one, use_fast_accum=fast)
    assert "pipelined" in chosen.choice.used.name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b": lambda b: b.contiguous()}, "b is not contiguous along K"),
        ({"a": lambda a: a.T.contiguous().T}, "a is not contiguous along K"),
        ({"a": lambda a: a.to(HALF)}, "'a' has a dtype that no kernel takes"),
        ({"scale_a": lambda s: s.double()}, "'scale_a' has a dtype"),
        ({"scale_b": lambda s: s.expand(3, 1)}, "scale_b has a shape of no scaling"),
        ({"a": lambda a: a[:, :16]}, "incompatible shapes"),
        ({"bias": lambda _: torch.zeros(32)}, "bias has another shape or dtype"),
        ({"out_dtype": lambda _: torch.int32}, "out_dtype is a dtype that no kernel stores"),
    ],
)
def test_what_is_refused(change: Any, words: str) -> None:
    refused(*operands((16, 32, 256)), change, words)


def test_there_is_no_gradient() -> None:
    a, b = operands((16, 32, 256))
    result = weft.ops.scaled_mm(a, b, torch.ones(1).requires_grad_(), torch.ones(1))
    with pytest.raises(RuntimeError, match="no autograd formula"):
        result.sum().backward()


@pytest.mark.parametrize("kind", ["rows", "128 x 128"])
def test_the_sanitizer_finds_nothing(kind: str) -> None:
    size = (40, 40, 640)
    given = *operands(size), *scales(kind, size)
    with weft.sanitize() as session:
        run(PipelinedTile(64, 16, splits=2), False, *given)
        run(None, False, *given)
    assert not session.findings
