"""conv1d and conv2d: forward and backward against float64, every kernel, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402
from weft.ops.core.runner import runner  # noqa: E402
from weft.ops.families.conv import model, winograd  # noqa: E402
from weft.ops.families.matmul import model as matmul_model  # noqa: E402

FUNCTIONS = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d}
LIMITS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}


class Call(NamedTuple):
    """A convolution: shapes of input and weight, and options."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    dtype: Any = torch.float32


CALLS = {
    "plain": Call((2, 3, 6, 7), (4, 3, 3, 3)),
    "same": Call((1, 3, 6, 5), (4, 3, 3, 4), {"padding": "same"}),
    "full": Call((1, 2, 5, 4), (3, 2, 3, 2), {"padding": (2, 1)}),
    "padding of each side": Call((1, 2, 5, 4), (3, 2, 3, 2), {"padding": (0, 2, 1, 0)}),
    "stride": Call((2, 4, 9, 8), (6, 4, 3, 3), {"stride": 2, "padding": 1}),
    "stride beyond the taps": Call((2, 2, 11, 13), (3, 2, 2, 2), {"stride": (3, 5)}),
    "dilation": Call((1, 3, 12, 9), (2, 3, 3, 2), {"dilation": (2, 3), "stride": (3, 2)}),
    "groups": Call((2, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": Call((2, 6, 6, 5), (12, 1, 3, 3), {"groups": 6, "padding": 1}),
    "1 x 1": Call((2, 7, 5, 3), (9, 7, 1, 1)),
    # Most of the gradient is zeros that no tap computes.
    "1 x 1, stride": Call((2, 7, 5, 4), (9, 7, 1, 1), {"stride": 2}),
    "many taps": Call((1, 2, 9, 9), (3, 2, 7, 6), {"padding": 3}),
    "more padding than taps": Call((1, 2, 4, 4), (3, 2, 2, 2), {"padding": 3}),
    "one dimension": Call((3, 4, 30), (5, 4, 5), {"stride": 2, "padding": 2}),
    "one dimension, same": Call((3, 4, 12), (6, 2, 4), {"padding": "same", "groups": 2}),
    "no batch": Call((3, 6, 5), (2, 3, 3, 3)),
    "one dimension, no batch": Call((3, 12), (2, 3, 5)),
    "float16": Call((2, 3, 6, 7), (4, 3, 3, 3), {"padding": 1}, torch.float16),
    "bfloat16": Call((2, 4, 6, 7), (4, 2, 3, 3), {"groups": 2, "stride": 2}, torch.bfloat16),
}


def drawn(shape: tuple[int, ...], seed: int, dtype: Any = torch.float32) -> Any:
    generator = draw.seeded(seed)
    return generator.normal(shape).to(dtype)


def conv(weight: Any) -> Any:
    return weft.ops.conv1d if weight.dim() == 3 else weft.ops.conv2d


def relative(ours: Any, theirs: Any) -> float:
    return float((ours.double() - theirs).norm() / theirs.norm().clamp(min=1e-30))


def both(call: Call) -> tuple[list[Any], list[Any]]:
    """Results and gradients: ours, and torch's in float64."""
    tensors = [drawn(call.x, 1), drawn(call.weight, 2), drawn(call.weight[:1], 3)]
    tensors = [t.to(call.dtype) for t in tensors]
    ours = [t.clone().requires_grad_() for t in tensors]
    theirs = [t.double().requires_grad_() for t in tensors]
    y = conv(ours[1])(*ours, **call.options)
    padding = call.options.get("padding", 0)
    options = call.options
    if not isinstance(padding, str) and isinstance(padding, tuple) and len(padding) == 4:
        top, bottom, left, right = padding
        padded = torch.nn.functional.pad(theirs[0], (left, right, top, bottom))
        wanted = torch.nn.functional.conv2d(padded, *theirs[1:])
    else:
        wanted = FUNCTIONS[theirs[1].dim()](*theirs, **options)
    dy = drawn(tuple(wanted.shape), 4, call.dtype)
    y.backward(dy)
    wanted.backward(dy.double())
    return [y, *(t.grad for t in ours)], [wanted, *(t.grad for t in theirs)]


@pytest.mark.filterwarnings("ignore:Using padding=:UserWarning")  # torch's, of even filters
@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward(name: str) -> None:
    call = CALLS[name]
    for ours, theirs in zip(*both(call), strict=True):
        assert ours.shape == theirs.shape and ours.dtype is call.dtype
        assert relative(ours.detach(), theirs.detach()) < LIMITS[call.dtype]


# ---- every kind of kernel ----------------------------------------------------------------------
class Kind(NamedTuple):
    """Kernels that the cost model may not choose for tensors of this size.

    name     the first word of their candidates
    tables   names of tables of tiles in the cost model, of which the smallest tile is used
    ordered  True if there are kernels for channels_last tensors as well
    weight   True if there are kernels for the gradient of the weight
    """

    name: str
    call: Call
    tables: tuple[str, ...] = ()
    limit: float = 2e-6
    ordered: bool = True
    weight: bool = True


GROUPS = Call((2, 6, 9, 8), (10, 3, 3, 3), {"padding": [1, 1], "groups": 2})
TAPS = Call((1, 2, 12, 12), (3, 2, 7, 6), {"stride": [2, 1], "padding": [3, 2]})
DEEP = Call((1, 12, 9, 8), (9, 12, 5, 5), {"stride": [1, 2], "padding": [2, 2]})
ONE = Call((2, 72, 4, 6), (24, 72, 1, 1), {"padding": [0, 0]})
NINE = Call((2, 6, 9, 8), (10, 6, 3, 3), {"padding": [1, 2]})
# Two rows of taps: too few for parts of the depth, which are kernels of their own.
SIX = NINE._replace(weight=(10, 6, 2, 3))
FEW = Call((2, 3, 9, 8), (4, 3, 3, 5), {"stride": [2, 1], "padding": [1, 2]})
EACH = Call((2, 3, 9, 8), (3, 1, 3, 5), {"padding": [1, 2], "groups": 3})
HALF = torch.bfloat16
IMPLICIT = ("IMPLICIT_TILES",)
TENSOR = ("TENSOR_TILES", "TENSOR_WEIGHT_TILES")
SHARED_TAPS = ("TAPS_TILES", "TAPS_WEIGHT_TILES")
POINTWISE = ("POINTWISE_TILES", "POINTWISE_WEIGHT_TILES")
STRIDED = {"stride": [2, 3], "dilation": [1, 2], "padding": [1, 1], "groups": 2}
KINDS = {
    "products": Kind("32 x", GROUPS, IMPLICIT),
    # More than 32 taps: their places are compared instead of being bits of a mask.
    "products of many taps": Kind("32 x", TAPS, IMPLICIT),
    "bfloat16": Kind("tensor", DEEP._replace(dtype=HALF), TENSOR, 4e-3),
    "tf32": Kind("tensor", GROUPS, TENSOR, 1e-3),
    "taps": Kind("taps", SIX._replace(dtype=HALF), SHARED_TAPS, 4e-3),
    "taps, tf32": Kind("taps", GROUPS, SHARED_TAPS, 1e-3),
    "one tap": Kind("one tap", ONE._replace(dtype=HALF), POINTWISE, 4e-3, ordered=False),
    "one tap, tf32": Kind("one tap", ONE, POINTWISE, 1e-3, ordered=False),
    "winograd": Kind("winograd", NINE, ("GEMM_TILES",)),
    "direct": Kind("direct", GROUPS._replace(dtype=torch.float16), limit=1e-3),
    "gathered": Kind("gathered", DEEP._replace(dtype=torch.float16), limit=1e-3, weight=False),
    "gathered groups": Kind("gathered", GROUPS._replace(options=STRIDED), weight=False),
    "few channels": Kind("few", FEW, weight=False),
    "depthwise": Kind("depthwise", EACH, ordered=False),
}

SLOW = {"products of many taps", "tf32", "taps, tf32", "one tap, tf32"}
"""Kinds whose kernels differ from the others in a line or a type."""


def smallest_tiles(monkeypatch: Any, *tables: str) -> None:
    """Leave the smallest tile in these tables of the cost models."""
    for table in tables:
        of = matmul_model if table == "GEMM_TILES" else model
        monkeypatch.setattr(of, table, getattr(of, table)[-1:])


def candidates(name: str, args: tuple[Any, ...]) -> dict[str, Any]:
    """The result of each candidate, by its name; kernels are made as they are asked for."""
    function = library.function(name)
    request = function.request(*function.bound(args, {}))
    count = len(function.tensors)
    return {
        c.name: lambda c=c: runner(c.build(), count, torch.device("cpu"))(*args[:count])
        for c in function.definition.candidates(request)
    }


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in KINDS]
)
def test_kinds_of_kernels(name: str, last: bool, monkeypatch: Any) -> None:
    """Every pass by this kind, in one part and in several parts of the depth."""
    kind = KINDS[name]
    smallest_tiles(monkeypatch, *kind.tables)
    order = torch.channels_last if last else torch.contiguous_format
    x = drawn(kind.call.x, 1, kind.call.dtype).contiguous(memory_format=order)
    weight = drawn(kind.call.weight, 2, kind.call.dtype)
    options = {"stride": [1, 1], "dilation": [1, 1], "groups": 1, **kind.call.options}
    wide, wide_weight = x.double().requires_grad_(), weight.double().requires_grad_()
    y = torch.nn.functional.conv2d(wide, wide_weight, None, **options)
    dy = drawn(tuple(y.shape), 3, kind.call.dtype).contiguous(memory_format=order)
    y.backward(dy.double())
    calls = {
        "conv2d": ((x, weight, None), y.detach()),
        "conv_backward_input": ((dy, weight, list(x.shape)), wide.grad),
        "conv_backward_weight": ((dy, x, list(weight.shape)), wide_weight.grad),
    }
    rest = (*(options[o] for o in ("stride", "padding", "dilation", "groups")), "tf32")
    for op, (args, wanted) in calls.items():
        made = {
            n: run for n, run in candidates(op, (*args, *rest)).items() if n.startswith(kind.name)
        }
        assert made or (last and not kind.ordered) or ("weight" in op and not kind.weight)
        for candidate, run in made.items():
            assert relative(run(), wanted) < kind.limit, (op, candidate)


@pytest.mark.parametrize("op", ["conv2d", "conv_backward_input"])
def test_winograd_takes_some_images_at_a_time(op: str, monkeypatch: Any) -> None:
    """Three of five images fit into the scratch; the last pass has two."""
    monkeypatch.setattr(winograd, "WORKSPACE", 4 * 36 * ((2 + 3) * 3 * 4 + 2 * 3))
    x, weight = drawn((5, 2, 8, 5), 1), drawn((3, 2, 3, 3), 2)
    wide = x.double().requires_grad_()
    y = torch.nn.functional.conv2d(wide, weight.double(), padding=1)
    dy = drawn(tuple(y.shape), 3)
    y.backward(dy.double())
    rest = ([1, 1], [1, 1], [1, 1], 1, "fp32")
    args, wanted = (
        ((x, weight, None, *rest), y.detach())
        if op == "conv2d"
        else ((dy, weight, list(x.shape), *rest), wide.grad)
    )
    made = {n: run for n, run in candidates(op, args).items() if n.startswith("winograd")}
    assert made and all(n.endswith(", 2 times") for n in made)
    assert relative(next(iter(made.values()))(), wanted) < 2e-6


def test_winograd_sums_many_channels_in_parts(monkeypatch: Any) -> None:
    """The error of sums in a row would be 3.4e-6, as on a GPU that tiles fill without parts of K.

    It would grow with the channels.
    """
    monkeypatch.setattr(matmul_model, "split_k", lambda p, *_: [(1, p.k)])
    x, weight = drawn((1, 1280, 12, 12), 1), drawn((8, 1280, 3, 3), 2)
    wanted = torch.nn.functional.conv2d(x.double(), weight.double(), padding=1)
    args = (x, weight, None, [1, 1], [1, 1], [1, 1], 1, "fp32")
    made = {n: run for n, run in candidates("conv2d", args).items() if n.startswith("winograd")}
    assert made and max(relative(run(), wanted) for run in made.values()) < 2e-6


STRIPS = {
    # The last strip is not whole, and the last row belongs to one phase alone.
    "stride": (Call((2, 3, 9, 15), (5, 3, 3, 3), {"stride": [2, 2], "padding": [1, 1]}), True),
    "half": (Call((9, 2, 12, 32), (12, 2, 3, 5), {"padding": [1, 2]}, torch.bfloat16), True),
    # Few strips and many channels: the warps of a block divide the channels.
    "shared": (Call((1, 10, 12, 12), (1, 10, 3, 3), {"padding": [1, 1]}), False),
}


@pytest.mark.parametrize("name", STRIPS)
def test_few_channels_by_strips(name: str) -> None:
    call, back = STRIPS[name]
    x, weight = drawn(call.x, 1, call.dtype), drawn(call.weight, 2, call.dtype)
    options = {"stride": [1, 1], **call.options}
    wide = x.double().requires_grad_()
    y = torch.nn.functional.conv2d(wide, weight.double(), None, **options)
    dy = drawn(tuple(y.shape), 3, call.dtype)
    y.backward(dy.double())
    rest = (options["stride"], options["padding"], [1, 1], 1, "fp32")
    op, args, wanted = (
        ("conv_backward_input", (dy, weight, list(x.shape), *rest), wide.grad)
        if back
        else ("conv2d", (x, weight, None, *rest), y.detach())
    )
    assert relative(candidates(op, args)["few channels, strips"](), wanted) < LIMITS[call.dtype]


def test_large_filters_take_fourier_transforms() -> None:
    x, weight = torch.empty(1, 1, 2048, 2048), torch.empty(1, 1, 128, 128)
    assert (
        str(weft.ops.explain(weft.ops.conv2d, x, weight)).splitlines()[1].startswith("-> fourier")
    )
    small = weft.ops.explain(weft.ops.conv2d, x, weight[..., :3, :3])
    assert "fourier" not in str(small)


# ---- tensors of other layouts, and what torch does with ops ------------------------------------
def test_strided_and_misaligned_tensors() -> None:
    x, weight = drawn((2, 3, 6, 7), 1), drawn((4, 3, 3, 3), 2)
    wanted = weft.ops.conv2d(x, weight)
    shifted = torch.empty(x.numel() + 1)[1:].view(x.shape).copy_(x)
    turned = x.transpose(2, 3).contiguous().transpose(2, 3)
    gaps = torch.zeros(2, 3, 6, 9)[..., :7].copy_(x)
    weights = weight.permute(3, 2, 0, 1).contiguous().permute(2, 3, 1, 0)
    for other in (shifted, turned, gaps):
        torch.testing.assert_close(weft.ops.conv2d(other, weight), wanted)
    torch.testing.assert_close(weft.ops.conv2d(x, weights), wanted)


def test_channels_last_results_have_the_channels_last() -> None:
    x = drawn((2, 3, 6, 7), 1).contiguous(memory_format=torch.channels_last)
    weight = drawn((4, 3, 3, 3), 2)
    y = weft.ops.conv2d(x, weight)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, weft.ops.conv2d(x.contiguous(), weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_gradient_of_a_weight_has_its_order(dtype: Any) -> None:
    """Else autograd would copy it before it is added to the parameter's."""
    x, weight = (t.to(dtype) for t in (drawn((2, 8, 6, 7), 1), drawn((16, 8, 3, 3), 2)))
    last = weight.contiguous(memory_format=torch.channels_last)
    found = []
    for w, of in ((weight, x), (last, x.contiguous(memory_format=torch.channels_last))):
        y = weft.ops.conv2d(of, w.requires_grad_())
        found += torch.autograd.grad(y, w, torch.ones_like(y))
        assert found[-1].stride() == w.stride()
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-2)


def test_no_batch_has_no_results_and_zero_gradients() -> None:
    x, weight = torch.empty(0, 3, 6, 7, requires_grad=True), drawn((4, 3, 3, 3), 2)
    weight, bias = weight.requires_grad_(), torch.ones(4, requires_grad=True)
    y = weft.ops.conv2d(x, weight, bias)
    assert y.shape == (0, 4, 4, 5)
    y.sum().backward()
    assert x.grad.shape == x.shape and not weight.grad.any() and not bias.grad.any()


def test_zero_times_infinity_at_the_border_is_nan_as_in_torch() -> None:
    x, weight = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)
    weight[0, 0, 0, 0] = float("inf")
    ours = weft.ops.conv2d(x, weight, padding=1)
    torch.testing.assert_close(
        ours, torch.nn.functional.conv2d(x, weight, padding=1), equal_nan=True
    )


def test_gradients_of_gradients() -> None:
    x, weight, other = drawn((2, 3, 6, 7), 1), drawn((4, 3, 3, 3), 2), drawn((2, 4, 4, 5), 3)

    def second(function: Any) -> list[Any]:
        points = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
        first = torch.autograd.grad((function(*points) * other).sum(), points, create_graph=True)
        return list(torch.autograd.grad(sum(g.pow(2).sum() for g in first), points))

    ours, theirs = second(weft.ops.conv2d), second(torch.nn.functional.conv2d)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_torch_accepts_the_ops() -> None:
    """torch's own checks: schema, fake tensors, autograd, compilation for fixed and any sizes."""
    x, weight = drawn((2, 3, 6, 7), 1).requires_grad_(), drawn((4, 3, 3, 3), 2).requires_grad_()
    torch.library.opcheck(torch.ops.weft.conv2d, (x, weight, None, [1, 1], [0, 0], [1, 1], 1))
    y = drawn((2, 4, 4, 5), 3)
    size = list(x.shape)
    torch.library.opcheck(torch.ops.weft.conv_backward_input, (y, weight.detach(), size))
    last = x.detach().contiguous(memory_format=torch.channels_last)
    torch.library.opcheck(
        torch.ops.weft.conv2d, (last, weight.detach()), test_utils="test_faketensor"
    )


def test_compiled() -> None:
    x, weight = drawn((2, 3, 6, 7), 1), drawn((4, 3, 3, 3), 2).requires_grad_()
    function = torch.compile(
        lambda v, w: weft.ops.conv2d(v, w, padding="same").relu(),
        backend="aot_eager",
        fullgraph=True,
    )
    function(x, weight).sum().backward()
    theirs = weight.detach().clone().requires_grad_()
    torch.nn.functional.conv2d(x, theirs, padding="same").relu().sum().backward()
    torch.testing.assert_close(weight.grad, theirs.grad, rtol=1e-4, atol=1e-4)


def test_autocast_converts_as_for_torch() -> None:
    x, weight = drawn((2, 3, 6, 7), 1), drawn((4, 3, 3, 3), 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = weft.ops.conv2d(x, weight, padding=1)
    assert y.dtype is torch.bfloat16


@pytest.mark.slow
def test_sanitized(monkeypatch: Any) -> None:
    """No kernel reads what nothing wrote, or races."""
    smallest_tiles(monkeypatch, *IMPLICIT, *TENSOR, *SHARED_TAPS, "GEMM_TILES")
    x, weight, y = drawn((1, 12, 6, 5), 1), drawn((9, 12, 3, 3), 2), drawn((1, 9, 6, 5), 3)
    rest = ([1, 1], [1, 1], [1, 1], 1, "tf32")
    calls = [
        ("conv2d", (x, weight, None, *rest)),
        ("conv_backward_input", (y, weight, list(x.shape), *rest)),
        ("conv_backward_weight", (y, x, list(weight.shape), *rest)),
        ("conv2d", (x, weight[:, :1].repeat(2, 1, 1, 1)[:12], None, *rest[:3], 12, "fp32")),
        ("conv_backward_weight", (x, x, [12, 1, 3, 3], *rest[:3], 12, "fp32")),
        ("conv2d", (x, drawn((3, 12, 5, 5), 4), None, *rest[:4], "fp32")),
    ]
    with weft.sanitize() as session:
        for op, args in calls:
            for run in candidates(op, args).values():
                run()
    assert not session.findings


# ---- refusals ----------------------------------------------------------------------------------
PLAIN = ((1, 3, 6, 7), (4, 3, 3, 3))
REFUSED = {
    "rank": ((3, 6), (4, 3, 3, 3), {}, "wrong number of dimensions"),
    "rank of the weight": ((1, 3, 6, 7), (4, 3, 3), {}, "wrong number of dimensions"),
    "channels": ((1, 3, 6, 7), (4, 2, 3, 3), {}, "incompatible channels"),
    "groups": ((1, 3, 6, 7), (4, 1, 3, 3), {"groups": 3}, "incompatible channels"),
    "no group": (*PLAIN, {"groups": 0}, "groups must be at least 1, got 0"),
    "filter": ((1, 3, 2, 7), (4, 3, 3, 3), {}, "the filter is larger than the padded input"),
    "dilated filter": (*PLAIN, {"dilation": 3}, "the filter is larger than the padded input"),
    "padding": (*PLAIN, {"padding": -1}, "padding is invalid"),
    "padding of three sides": (*PLAIN, {"padding": (1, 1, 1)}, "padding is invalid"),
    "a word": (*PLAIN, {"padding": "full"}, "unknown padding 'full'"),
    "same with a stride": (*PLAIN, {"padding": "same", "stride": 2}, "needs stride 1"),
    "stride": (*PLAIN, {"stride": 0}, "stride is invalid"),
    "dilation": (*PLAIN, {"dilation": (1, 0)}, "dilation is invalid"),
    "precision": (*PLAIN, {"precision": "fp8"}, "unknown precision 'fp8'"),
    "bias": (*PLAIN, {"bias": torch.ones(3)}, r"bias has shape \(3,\), expected \(4,\)"),
    "dtype of the bias": (*PLAIN, {"bias": torch.ones(4).half()}, "has an unsupported dtype"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refusals(subject: str) -> None:
    x, weight, options, message = REFUSED[subject]
    with pytest.raises(weft.ArgumentError, match=message):
        weft.ops.conv2d(torch.ones(x), torch.ones(weight), **options)


def test_dtypes_are_refused() -> None:
    x, weight = torch.ones(1, 3, 6, 7), torch.ones(4, 3, 3, 3)
    for a, b in ((x.double(), weight.double()), (x.half(), weight), (x.int(), weight.int())):
        with pytest.raises(weft.ArgumentError, match="has an unsupported dtype"):
            weft.ops.conv2d(a, b)


def test_a_bias_with_gaps() -> None:
    x, weight, bias = drawn((1, 2, 6), 1), drawn((4, 2, 3), 2), drawn((8,), 3)[::2]
    wanted = torch.nn.functional.conv1d(x.double(), weight.double(), bias.double())
    got = weft.ops.conv1d(x, weight, bias)
    torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-5)
