"""Elementwise ops, permutations and copies of `weft.ops`: every kernel against torch."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import devices
import draw
import weft

torch = pytest.importorskip("torch")

from weft.ops.core import layouts, library  # noqa: E402  (they need torch)
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.elementwise import expressions, jobs, pointwise  # noqa: E402  (they need torch)
from weft.ops.sweep import run  # noqa: E402

SEED = 3
SIM = devices.current.name == "sim"
DEVICE = "cpu" if SIM else "cuda"


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    generator = draw.seeded(math.prod(shape) + len(shape))
    return generator.normal(*shape).to(DEVICE).to(dtype)


def every_way(name: str, *args: Any) -> dict[str, Any]:
    """The results of a call by the widest and the narrowest vectors and by tiles."""
    function = library.function(name)
    candidates = function.definition.candidates(function.request(*function.bound(args, {})))
    strided = [c for c in candidates if "strided" in c.name]
    rest = [c for c in candidates if c not in strided]
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return {
        c.name: runner(c.build(), len(tensors), tensors[0].device)(*tensors)
        for c in (*strided[:1], *strided[1:][-1:], *rest)
    }


# ---- every kernel ------------------------------------------------------------------------------
def gap(x: Any, columns: int) -> Any:
    """The same values in rows that are further apart."""
    wide = torch.empty(*x.shape[:-1], x.shape[-1] + columns, dtype=x.dtype, device=x.device)
    view = wide[..., : x.shape[-1]]
    view.copy_(x)
    return view


def transposed(x: Any) -> Any:
    """The same values with the last two dimensions in the other order in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


WAYS = {
    "gap": ("add", lambda: (gap(numbers(9, 21), 1), numbers(9, 21))),
    "short row": ("mul", lambda: (numbers(50, 7, dtype=torch.bfloat16), numbers(7))),
    "order": ("sub", lambda: (numbers(2, 3, 16).movedim(0, 1).contiguous().movedim(1, 0),
                              numbers(2, 3, 16))),
    "transposed": ("add", lambda: (numbers(37, 66), transposed(numbers(37, 66)))),
    "both transposed": ("fma", lambda: (transposed(numbers(2, 8, 12)), numbers(12),
                                    transposed(numbers(2, 8, 12)))),
    "row and column": ("mul", lambda: (numbers(12, 1), numbers(1, 8))),
    "every second": ("add", lambda: (numbers(10, 14)[:, ::2], numbers(10, 1))),
}  # fmt: skip
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
SLOW_WAYS = {"both transposed", "order", "every second", "row and column"}


def rows(table: Any, slow: Any) -> list[Any]:
    return [pytest.param(n, id=n, marks=[pytest.mark.slow] if n in slow else []) for n in table]


@pytest.mark.parametrize("name", rows(WAYS, SLOW_WAYS))
def test_every_way_gives_what_torch_gives(name: str) -> None:
    op, make = WAYS[name]
    tensors = make()
    want = OPERATORS[op](*tensors)
    for way, got in every_way(op, *tensors).items():
        assert got.dtype == want.dtype, way
        torch.testing.assert_close(got, want, msg=lambda m, way=way: f"{way}: {m}")


COPIES = {
    "matrix": ((68, 72), (1, 0), torch.float32),
    "odd": ((67, 65), (1, 0), torch.float32),
    "halves": ((64, 72), (1, 0), torch.float16),
    "odd halves": ((33, 70), (1, 0), torch.float16),
    "bytes": ((130, 48), (1, 0), torch.uint8),
    "longs": ((10, 36), (1, 0), torch.int64),
    "channels last": ((2, 3, 40), (0, 2, 1), torch.float32),
    "channels first": ((2, 40, 3), (0, 2, 1), torch.float16),
    "batches": ((3, 4, 5, 6), (2, 0, 3, 1), torch.float32),
    "rows": ((3, 4, 8), (1, 0, 2), torch.bfloat16),
    "six": ((2, 3, 2, 3, 2, 3), (5, 3, 1, 4, 2, 0), torch.int16),
}
SLOW_COPIES = {
    "halves",
    "bytes",
    "channels last",
    "odd halves",
    "longs",
    "channels first",
    "batches",
    "rows",
    "six",
    "odd",
}


@pytest.mark.parametrize("name", rows(COPIES, SLOW_COPIES))
def test_every_way_permutes(name: str) -> None:
    shape, dims, dtype = COPIES[name]
    x = (100 * numbers(*shape)).to(dtype)
    for way, got in every_way("permute", x, dims).items():
        assert got.is_contiguous(), way
        assert torch.equal(got, x.permute(dims)), way


def test_copies_keep_the_bits() -> None:
    bits = torch.tensor([[0x7F81, 0x7FC1, -1], [-32768, 0, 1]], dtype=torch.int16, device=DEVICE)
    for dtype in (torch.bfloat16, torch.float16):  # signalling NaNs among them
        got = weft.ops.transpose(bits.view(dtype))
        assert torch.equal(got.view(torch.int16), bits.t())
    eight = torch.arange(6, dtype=torch.uint8, device=DEVICE).view(2, 3).view(torch.float8_e5m2)
    assert torch.equal(
        weft.ops.permute(eight, (1, 0)).view(torch.uint8), eight.view(torch.uint8).t()
    )


@pytest.mark.parametrize("bits", [32, 64])
def test_division_by_magic_numbers(bits: int) -> None:
    rng = random.Random(bits)
    most = 2 ** (bits - 1) - 1
    sizes = [2, 3, 7, 87, 2**16, 2**30, 2**31 - 1, *(rng.randrange(2, 2**31) for _ in range(50))]
    for size in sizes:
        magic, shift = layouts.divisor(size, bits)
        assert magic < 2**bits
        around = [0, 1, size - 1, size, most // size * size - 1, most // size * size, most]
        for x in [*around, *(rng.randrange(most + 1) for _ in range(50))]:
            assert (x * magic >> bits) >> shift == x // size, (x, size)


def test_offsets_that_need_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels that more than 2^31 elements need, on few."""
    monkeypatch.setattr(pointwise, "INT32_INDICES", 0)
    x, y = gap(numbers(9, 21), 1), numbers(9, 21)
    for way, got in every_way("add", x, y).items():
        assert torch.equal(got, x + y), way


# ---- the sweep at small sizes ------------------------------------------------------------------
OPS = ("add", "mul", "fma", "div", "maximum", "less", "exp", "tanh", "permute", "transpose",
       "contiguous")  # fmt: skip


@pytest.mark.parametrize("op", rows(OPS, set(OPS) - {"permute", "add"}))
def test_calls_drawn_at_random(op: str) -> None:
    (case,) = run.cases([op])
    count = 4 if op in ("permute", "add") else 12
    for call in run.calls(case, SEED, count, 3000):
        result, _ = run.check(case, call, DEVICE, SEED)
        assert result.right, f"seed {SEED}: {call}: {result.plan}, error {result.error}"


@pytest.mark.skipif(not SIM, reason="the sanitizer watches the simulated GPU")
def test_no_access_is_out_of_bounds() -> None:
    with weft.sanitize():
        weft.ops.sub(gap(numbers(3, 9), 1), numbers(3, 9))
        every_way("transpose", numbers(37, 35))


# ---- coalescing --------------------------------------------------------------------------------
SIZES = [
    pytest.param(t, id=str(t), marks=[] if t is torch.float32 else [pytest.mark.slow])
    for t in (torch.float32, torch.float16, torch.int64, torch.uint8)
]


@pytest.mark.skipif(not SIM, reason="counted on the simulated GPU")
@pytest.mark.parametrize("dtype", SIZES)
def test_tiles_are_coalesced_and_meet_no_bank_twice(dtype: Any) -> None:
    x, y = torch.zeros(128, 128, dtype=dtype), torch.zeros(128, 128, dtype=dtype)
    function = library.function("transpose")
    choice = function.choice(function.request(x, 0, 1))
    assert choice.used.name == "transposed along 0"
    (step,) = choice.used.build().steps
    profile = weft.profile(step.kernel[step.grid, step.block], x, x, x, y, *step.args[4:])
    of = {name.removeprefix("sim:l1tex__"): n for name, n in profile.totals.items()}
    for op in ("ld", "st"):  # 16 bytes per lane: 512 bytes per request, in whole sectors
        requests = x.nbytes // 512
        assert of[f"t_requests_pipe_lsu_mem_global_op_{op}.sum"] == requests
        assert of[f"t_sectors_pipe_lsu_mem_global_op_{op}.sum"] == 16 * requests
        assert of[f"data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] == 0


# ---- values, numbers, dtypes -------------------------------------------------------------------
def test_every_row_gives_what_torch_gives() -> None:
    """One row in this run; `--slow` runs all."""
    check_row(next(r for r in expressions.ROWS if r.name == "maximum"), (torch.float32,))


@pytest.mark.slow
@pytest.mark.parametrize("row", expressions.ROWS, ids=lambda r: r.name)
def test_rows_give_what_torch_gives(row: Any) -> None:
    check_row(row, (torch.float32, torch.float16, torch.int32))


def check_row(row: Any, dtypes: Any) -> None:
    if row.name in ("fma", "axpy"):
        return  # torch has no op of this name; other tests call them
    torch_names = {"equal": "eq", "relu": "relu"}
    reference = getattr(torch, torch_names.get(row.name, row.name))
    for dtype in dtypes:
        tensors = [(numbers(40, 3) * 3).abs().to(dtype), (numbers(40, 1) * 2).abs().to(dtype)]
        tensors = tensors[: len(row.operands)]
        got, want = getattr(weft.ops, row.name)(*tensors), reference(*tensors)
        assert got.dtype == want.dtype, dtype
        torch.testing.assert_close(got, want, equal_nan=True)


def test_numbers_as_operands() -> None:
    x, whole = numbers(33), torch.arange(5, device=DEVICE)
    torch.testing.assert_close(weft.ops.add(x, 2.5), x + 2.5)
    torch.testing.assert_close(weft.ops.sub(2, x), 2 - x)
    for two in (2, 2.0):  # equal numbers, but the results have other dtypes
        got, want = weft.ops.add(whole, two), whole + two
        assert got.dtype == want.dtype
        assert torch.equal(got, want)
    torch.testing.assert_close(weft.ops.axpy(0.5, x, x), 1.5 * x)
    x.requires_grad_()
    (slope,) = torch.autograd.grad(weft.ops.div(3.0, x).sum(), x)
    torch.testing.assert_close(slope, -3 / (x * x))


def test_dtypes_are_promoted_as_in_torch() -> None:
    kinds = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    row = next(r for r in expressions.ROWS if r.name == "add")
    for (a, b), (m, n) in itertools.product(
        itertools.product(kinds, kinds), itertools.product(((2,), ()), ((2,), ()))
    ):
        x, y = torch.zeros(m, dtype=a), torch.zeros(n, dtype=b)
        assert expressions.dtypes(row, (x, y))[1] == (x + y).dtype, (a, b, m, n)
    for a, number in itertools.product(kinds, (True, 2, 2.5)):
        by_number = expressions.with_number(row, False)
        x = torch.zeros(2, dtype=a)
        assert expressions.dtypes(by_number, (x, number))[1] == (x + number).dtype, (a, number)


def test_where() -> None:
    """Broadcasting, numbers and 0-d tensors as operands, and dtypes as torch promotes them."""
    x, y = numbers(5, 8), numbers(8) * 3
    chosen = x > 0
    for pair in (
        (x, y),
        (x.half(), torch.tensor(2.0, device=DEVICE)),
        (x.bfloat16(), y.half()),
        (x.long(), y.long() > 1),
        (x, 1),
        (x.long(), 1.5),
        (True, y.long()),
        (1, 2.0),
        (True, False),
        (x > 1, y > 1),
    ):
        made, wanted = weft.ops.where(chosen, *pair), torch.where(chosen, *pair)
        assert made.dtype is wanted.dtype and torch.equal(made, wanted)
    column = chosen[:, :1]
    assert torch.equal(weft.ops.where(column, y, 0.0), torch.where(column, y, 0.0))
    none = chosen[:0]
    assert weft.ops.where(none, y, y).shape == (0, 8)


def test_gradients_of_where() -> None:
    chosen = numbers(5, 8) > 0
    ours, theirs = ([numbers(5, 1), numbers(8)] for _ in range(2))
    for function, pair in ((weft.ops.where, ours), (torch.where, theirs)):
        for x in pair:
            x.requires_grad_()
        y = function(chosen, *pair) + function(chosen, pair[0], 2) * function(chosen, 3.0, pair[1])
        y.pow(2).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    batched = torch.vmap(lambda c, a: weft.ops.where(c, a, 0.5))(chosen, numbers(5, 8))
    assert torch.equal(batched, torch.where(chosen, numbers(5, 8), 0.5))
    compiled = torch.compile(
        lambda a: weft.ops.where(chosen, a, 0.5), backend="aot_eager", fullgraph=True
    )
    assert torch.equal(compiled(numbers(5, 8)), batched)
    with pytest.raises(weft.ArgumentError, match="must be boolean"):
        weft.ops.where(chosen.int(), 1, 2)


def test_outer_product() -> None:
    a, b = numbers(5), numbers(9, dtype=torch.float16)
    torch.testing.assert_close(weft.ops.ger(a, b), torch.outer(a, b.float()))


# ---- unusual tensors ---------------------------------------------------------------------------
def test_tensors_without_elements_or_dimensions() -> None:
    assert weft.ops.transpose(numbers(0, 4)).shape == (4, 0)
    assert weft.ops.permute(numbers(3, 0, 2), [2, 0, 1]).shape == (2, 3, 0)
    assert weft.ops.add(numbers(0, 4), numbers(4)).shape == (0, 4)
    one = torch.tensor(3.0, device=DEVICE)
    assert torch.equal(weft.ops.permute(one, []), one)
    assert torch.equal(weft.ops.add(one, one), one + one)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_misaligned_operands_are_read_in_shifted_vectors(dtype: Any) -> None:
    """Wherever they begin, with the first and the last vectors of a tensor."""
    size, function = torch.empty((), dtype=dtype).itemsize, library.function("add")
    b = numbers(523, dtype=dtype)
    for offset in range(1, 16 // size):
        a = torch.empty(523 + offset, dtype=dtype, device=DEVICE)[offset:].copy_(b.flip(0))
        candidates = function.definition.candidates(function.request(a, b))
        plan = next(c for c in candidates if c.name == f"strided by {16 // size}").build()
        assert f"{jobs.SHIFTED}, {jobs.LINEAR}" in plan.steps[0].kernel.name
        torch.testing.assert_close(runner(plan, 2, a.device)(a, b), a + b, rtol=0, atol=0)


def test_misaligned_and_negated_views() -> None:
    x = numbers(68 * 5 + 1)[1:].view(5, 68)
    assert torch.equal(weft.ops.transpose(x), x.t())
    imag = torch.complex(numbers(4, 6), numbers(6, 4).t()).conj().imag
    assert imag.is_neg()
    assert torch.equal(weft.ops.transpose(imag), imag.t().contiguous())
    assert torch.equal(weft.ops.add(imag, imag), imag + imag)


def test_contiguous_returns_what_is_contiguous() -> None:
    x = numbers(4, 6)
    assert weft.ops.contiguous(x) is x
    y = weft.ops.contiguous(x.t())
    assert y.is_contiguous()
    assert torch.equal(y, x.t())


ERRORS = {
    "twice": (lambda: weft.ops.permute(numbers(2, 3), [0, 0]), "name each dimension once"),
    "too few": (lambda: weft.ops.permute(numbers(2, 3), [0]), "an order of [0, 1]"),
    "no such": (lambda: weft.ops.transpose(numbers(2, 3), 0, 2), "dim 2 of 2 dimensions"),
    "vector": (lambda: weft.ops.transpose(numbers(3)), "dim 1 of 1 dimensions"),
    "complex": (
        lambda: weft.ops.transpose(torch.zeros(2, 2, dtype=torch.complex64)),
        "that are not complex",
    ),
    "shapes": (lambda: weft.ops.add(numbers(3), numbers(4)), "[3], [4]"),
    "dtype": (lambda: weft.ops.exp(torch.zeros(2, dtype=torch.complex64)), "torch.complex64"),
    "matrix": (lambda: weft.ops.ger(numbers(2, 2), numbers(3)), "both operands must be vectors"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_arguments(name: str) -> None:
    call, said = ERRORS[name]
    with pytest.raises(weft.ArgumentError) as caught:
        call()
    assert said in str(caught.value)


# ---- torch -------------------------------------------------------------------------------------
def real(*shape: int) -> Any:
    return numbers(*shape).abs().add(0.5).requires_grad_()


VERIFIED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "permute": lambda: (real(2, 3, 4), [2, 0, 1]),
    "transpose": lambda: (real(3, 4),),
    "contiguous": lambda: (real(3, 4).t(),),
    "mul": lambda: (real(3, 4), real(4)),
    "ger": lambda: (real(3), real(4)),
    "axpy": lambda: (0.5, real(3, 4), real(4)),
    "mul_number": lambda: (real(5), 2.0),
    "number_pow": lambda: (2.0, real(5)),
    **{
        row.name: (lambda row=row: tuple(real(2, 3) for _ in row.operands))  # type: ignore[misc]
        for row in expressions.ROWS
        if row.gradients and row.name not in ("mul", "axpy", "maximum", "minimum")
    },
}


@pytest.mark.parametrize("name", rows(VERIFIED, set(VERIFIED) - {"permute", "mul"}))
def test_verify(name: str) -> None:
    assert library.call(name).verify(*VERIFIED[name]()).passed


def test_batched_and_compiled() -> None:
    x, y = numbers(3, 4, 5), numbers(5)
    got = torch.vmap(weft.ops.mul, in_dims=(1, None))(x, y)
    torch.testing.assert_close(got, x.movedim(1, 0) * y)
    got = torch.vmap(lambda a: weft.ops.permute(a, [1, 0]), in_dims=2)(x)
    assert torch.equal(got, x.permute(2, 1, 0))

    def several(a: Any) -> Any:
        return weft.ops.contiguous(weft.ops.transpose(weft.ops.add(a, 2.0)).t())

    compiled = torch.compile(several, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x[0]), x[0] + 2)


@pytest.mark.sim
def test_sanitized_with_an_operand_in_another_order() -> None:
    """Its indices stay below 200, and its registers are so many that the code runs in strips."""
    a = torch.zeros(2, 3, 9, 3, dtype=torch.bfloat16).permute(0, 3, 2, 1).contiguous()
    b = torch.zeros(2, 3, 9, 3, dtype=torch.bfloat16)
    with weft.sanitize():
        weft.ops.add(a.permute(0, 3, 2, 1), b)


# ---- expressions of the user -------------------------------------------------------------------
def test_expressions() -> None:
    a, b, c = numbers(3, 5), numbers(5), numbers(3, 1)
    op = weft.ops.elementwise
    torch.testing.assert_close(op("a * b + sin(c)", a, b, c), a * b + c.sin())
    leaky = op("a > C(0) ? a : C(0.1) * a", a)
    torch.testing.assert_close(leaky, torch.nn.functional.leaky_relu(a, 0.1))
    torch.testing.assert_close(torch.vmap(lambda x: op("a * b", x, b))(a), a * b)
    compiled = torch.compile(lambda x: op("a * b", x, b) + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(a), a * b + 1)


@pytest.mark.parametrize("text", ["", "a; b", "a + c", "a } {", '"a"'])
def test_expressions_that_are_none(text: str) -> None:
    with pytest.raises(weft.ArgumentError, match="is not an expression of the tensors"):
        weft.ops.elementwise(text, numbers(4), numbers(4))


def test_expressions_that_do_not_compile() -> None:
    with pytest.raises(weft.CompileError, match='identifier "foo" is undefined'):
        weft.ops.elementwise("foo(a)", numbers(4))
    with pytest.raises(weft.ArgumentError, match="'b' is left out"):
        weft.ops.elementwise("a * c", numbers(4), None, numbers(4))
