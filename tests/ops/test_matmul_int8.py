"""scaled_mm of int8: exact sums, against int64."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")

import test_matmul_scaled  # noqa: E402

from weft.ops.families.matmul.pipelined_model import PipelinedTile  # noqa: E402

HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
Size = tuple[int, int, int]


def operands(size: Size) -> tuple[Any, Any]:
    """Integers from -128 to 127, b with contiguous columns."""
    m, n, k = size
    a = draw.seeded(1).integers(-128, 128, (m, k)).to(torch.int8)
    return a, draw.seeded(2).integers(-128, 128, (n, k)).to(torch.int8).T


def scales(kind: str, size: Size) -> tuple[Any, Any]:
    """Positive scales of operands or of rows, with other strides than those of a new tensor."""
    shapes = ((1, 1), (1, 1)) if kind == "operands" else ((size[0], 1), (1, size[1]))
    left, right = (draw.seeded(3 + i).normal(s).abs() + 0.5 for i, s in enumerate(shapes))
    return left.repeat(1, 2)[:, :1], right


def rounded(a: Any, b: Any, left: Any, right: Any, bias: Any = None) -> Any:
    """The result in single precision: sums of int64, one rounding for each operation."""
    made = (a.long() @ b.long()).float() * (left * right)
    return made if bias is None else made + bias


def run(tile: PipelinedTile | None, turned: bool, *given: Any, dtype: Any = FLOAT) -> Any:
    """The result of a tile; None: of the kernel for any GPU."""
    return test_matmul_scaled.run(tile, turned, *given, dtype=dtype, plain="64 x 64, int8")


@pytest.mark.parametrize(
    ("kind", "tile", "turned"),
    [
        ("operands", PipelinedTile(64, 32), False),
        ("rows", PipelinedTile(64, 48, 2), True),
        ("rows", PipelinedTile(128, 32, splits=2), False),
        ("rows", PipelinedTile(64, 208), False),
    ],
)
def test_every_bit_is_right(kind: str, tile: PipelinedTile, turned: bool) -> None:
    """Ragged tiles, more steps than stages, more tiles than blocks, and parts of K in a cluster."""
    size = (150, 144, 400)
    given = *operands(size), *scales(kind, size)
    assert torch.equal(run(tile, turned, *given), rounded(*given))


@pytest.mark.parametrize("dtype", [HALF, BFLOAT, FLOAT])
def test_a_bias_is_added_before_rounding(dtype: Any) -> None:
    size = (70, 40, 160)
    given = *operands(size), *scales("rows", size)
    bias = draw.seeded(9).normal((40,)).to(dtype)
    want = rounded(*given, bias.float()).to(dtype)
    for tile in (None, PipelinedTile(64, 32)):
        got = run(tile, False, *given, bias, dtype=dtype)
        # The multiplication by scales and the addition may be one operation.
        torch.testing.assert_close(got, want, rtol=2 * torch.finfo(dtype).eps, atol=1e-3)


@pytest.mark.parametrize("size", [(70, 72, 336), (3, 5, 7), (65, 1, 300)])
@pytest.mark.parametrize("kind", ["operands", "rows"])
def test_any_gpu(kind: str, size: Size) -> None:
    """Rows that are whole vectors, and others."""
    given = *operands(size), *scales(kind, size)
    assert torch.equal(run(None, False, *given), rounded(*given))


@pytest.mark.parametrize("names", ["a", "ab"])
def test_rows_that_begin_anywhere_are_copied_first(names: str) -> None:
    """One operand, or both, to rows of whole vectors."""
    a, b = operands((70, 40, 333))
    if names == "a":  # columns of b have a pitch
        b = torch.nn.functional.pad(b.T, (0, 3)).T[:333]
    given = a, b, *scales("rows", (70, 40, 333))
    what = "aligned copies" if names == "ab" else f"aligned copy of {names}"
    with weft.sanitize() as session:
        got = test_matmul_scaled.run(None, False, *given, dtype=FLOAT, plain=f"{what}, .*pipelined")
    assert not session.findings
    assert torch.equal(got, rounded(*given))


def test_long_rows_that_begin_anywhere_use_hopper_s_kernels() -> None:
    a, b = torch.empty(1024, 2049, dtype=torch.int8), torch.empty(2048, 2049, dtype=torch.int8).T
    chosen = weft.ops.explain(weft.ops.scaled_mm, a, b, torch.ones(1), torch.ones(1)).choice.used
    assert chosen.name.startswith("aligned copies") and chosen.name.endswith("int8, pipelined")


@pytest.mark.parametrize("tile", [None, PipelinedTile(64, 16)])
def test_the_largest_sums(tile: PipelinedTile | None) -> None:
    """Sums above 2^24, which single precision would round on the way."""
    a = torch.full((3, 2048), -128, dtype=torch.int8)
    a[1], a[2, 1:] = 127, 1
    b = torch.full((8, 2048), -128, dtype=torch.int8).T
    given = a, b, torch.ones(1), torch.ones(1)
    assert torch.equal(run(tile, False, *given), rounded(*given))


def test_calls() -> None:
    """By the op, by torch's dispatcher, with fake tensors, and without elements."""
    size = (20, 32, 256)
    given = *operands(size), *scales("rows", size)
    assert torch.equal(weft.ops.scaled_mm(*given), rounded(*given).bfloat16())
    again = torch.ops.weft.scaled_mm(*given, out_dtype=FLOAT, use_fast_accum=True)
    assert torch.equal(again, rounded(*given))
    meta = [x.to("meta") for x in given]
    assert torch.ops.weft.scaled_mm(*meta, out_dtype=HALF).dtype is HALF
    for m, n, k in ((0, 16, 16), (16, 0, 16), (4, 8, 0)):
        empty = *operands((m, n, k)), *scales("operands", (m, n, k))
        assert torch.equal(weft.ops.scaled_mm(*empty), torch.zeros(m, n, dtype=BFLOAT))


@pytest.mark.parametrize("m", [1, 64, 4096])
def test_layers_of_a_transformer_use_hopper_s_kernels(m: int) -> None:
    a, b = torch.empty(m, 4096, dtype=torch.int8), torch.empty(4096, 4096, dtype=torch.int8).T
    chosen = weft.ops.explain(weft.ops.scaled_mm, a, b, torch.ones(m, 1), torch.ones(1, 4096))
    assert "int8, pipelined" in chosen.choice.used.name


def test_other_gpus_have_a_kernel() -> None:
    one = torch.ones(1)
    chosen = weft.ops.explain(
        weft.ops.scaled_mm, *operands((9, 8, 64)), one, one, device="sim:a100"
    )
    assert chosen.choice.used.name == "64 x 64, int8" and not chosen.choice.others


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": lambda a: a.to(torch.float8_e5m2)}, "dtypes that no kernel multiplies"),
        ({"b": lambda b: b.float().to(torch.float8_e4m3fn)}, "dtypes that no kernel multiplies"),
        ({"scale_a": lambda _: torch.ones(16, 2)}, "scale_a has a shape of no scaling"),
        ({"scale_b": lambda _: torch.ones(2, 32)}, "scale_b has a shape of no scaling"),
        ({"a": lambda a: a.to(torch.uint8)}, "'a' has a dtype that no kernel takes"),
    ],
)
def test_what_is_refused(change: Any, words: str) -> None:
    test_matmul_scaled.refused(*operands((16, 32, 256)), change, words)


@pytest.mark.sim
@pytest.mark.parametrize("schedule", ["last", "random:3"])
def test_every_schedule_gives_the_same(schedule: str) -> None:
    size = (40, 40, 640)
    given = *operands(size), *scales("rows", size)
    with weft.schedule(schedule):
        got = run(PipelinedTile(64, 16, splits=2), False, *given)
    assert torch.equal(got, rounded(*given))


def test_the_sanitizer_finds_nothing() -> None:
    size = (40, 40, 640)
    given = *operands(size), *scales("rows", size)
    with weft.sanitize() as session:
        run(PipelinedTile(64, 16, splits=2), False, *given)
        run(None, False, *given)
    assert not session.findings
