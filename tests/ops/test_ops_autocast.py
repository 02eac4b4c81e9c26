"""Calls under `torch.autocast`: the dtypes of torch's own, and calls that are made in C++."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import draw
import native_ops
import weft

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional  # noqa: E402

from weft.ops.sweep import run  # noqa: E402
from weft.ops.sweep.case import as_tuple  # noqa: E402
from weft.ops.sweep.cases import CASES  # noqa: E402

FLOATS = ("float32", "float16", "bfloat16")
EXCEPT = {
    "add_layer_norm": "two ops of torch: the sum is in the input's dtype, here in float32",
    "add_rms_norm": "two ops of torch: the sum is in the input's dtype, here in float32",
    "batch_norm_relu": "a residual in float32 gives torch's sum its dtype; here it is the input's",
    "binary_cross_entropy": "torch refuses the call; it is computed in float32",
    "block_sparse_mm": "torch makes a sparse tensor, for which this build has no CUDA",
    "conv_bn_relu_pool": "four ops of torch with policies of their own; left as it is given",
    "csr_mm": "torch makes a sparse tensor, for which this build has no CUDA",
    "fft": "torch has no transform of bfloat16",
    "linear_cross_entropy": "torch's loss of 16-bit tensors is float32; here it is the input's",
    "linear_quantised": "several ops of torch with policies of their own; left as it is given",
    "linear_int8": "its scale is float32, and x is quantised as it is given",
    "rfft": "torch has no transform of bfloat16",
    "rfft2": "torch has no transform of bfloat16",
    "rotary": "torch's version slices, for which this build has no CUDA",
    "sample": "its settings have dtypes of their own",
    "scaled_mm": "scales are float32 for torch",
    "unique": "the shape of its result depends on contents, which fake tensors do not have",
    "uniform": "torch makes the tensor, for which this build has no CUDA",
}
"""Ops whose dtypes are not compared, and the reasons."""


@contextlib.contextmanager
def autocast(kind: str) -> Iterator[None]:
    """As `torch.autocast`, which is off for a device that is not there."""
    torch.set_autocast_enabled(kind, True)
    torch.set_autocast_dtype(kind, torch.bfloat16)
    try:
        yield
    finally:
        torch.set_autocast_enabled(kind, False)
        torch.clear_autocast_cache()


# ---- dtypes ------------------------------------------------------------------------------------
def first_calls() -> dict[str, Any]:
    """The first drawn call of each op that has floating-point tensors."""
    found: dict[str, Any] = {}
    for case in CASES:
        if case.backward or case.op in found:
            continue
        for call in run.calls(case, 1, 8, 600):
            if any(t is not None and t.dtype in FLOATS for t in call.tensors):
                found[case.op] = case, call
                break
    return found


CALLS = first_calls()
MIXES = {
    "all float32": lambda number: "float32",
    "all bfloat16": lambda number: "bfloat16",
    "the first is bfloat16": lambda number: "float32" if number else "bfloat16",
}


def mixed(call: Any, mix: str) -> Any:
    places = [i for i, t in enumerate(call.tensors) if t is not None and t.dtype in FLOATS]
    tensors = list(call.tensors)
    for number, place in enumerate(places):
        tensors[place] = dataclasses.replace(tensors[place], dtype=MIXES[mix](number))
    return dataclasses.replace(call, tensors=tuple(tensors))


def dtypes(function: Any, call: Any, device: str) -> list[Any]:
    """The dtypes of the results for fake tensors of a device, which need not be there."""
    with FakeTensorMode(), autocast(device):
        tensors = []
        for t in call.tensors:
            like = None if t is None else t.empty("meta")
            tensors.append(
                like
                if like is None
                else torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
            )
        return [t.dtype for t in as_tuple(function(*tensors, **call.options))]


@pytest.mark.sim
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [name for name in CALLS if name not in EXCEPT])
def test_dtypes_are_those_of_torch(op: str) -> None:
    """By torch's policies for CUDA, with which it treats fake tensors as well."""
    case, call = CALLS[op]
    for mix in MIXES:
        made = mixed(call, mix)
        if mix.startswith("the first") and made == mixed(call, "all bfloat16"):
            continue  # one tensor
        expected = dtypes(case.torch, made, "cuda")
        assert dtypes(case.call, made, "cpu") == expected, mix


def test_every_op_is_compared() -> None:
    assert len(CALLS) > 100 and set(EXCEPT) < set(CALLS)


# ---- results -----------------------------------------------------------------------------------
def drawn(*shape: int) -> Any:
    return draw.seeded(sum(shape) + len(shape)).normal(*shape).to(native_ops.where())


class TestInC:
    """Calls that the C++ code makes."""

    pytestmark = native_ops.MARKS

    @pytest.fixture(autouse=True)
    def on(self) -> Iterator[None]:
        with torch.autocast(native_ops.where(), dtype=torch.bfloat16):
            yield

    def test_a_learned_call_needs_no_python(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The call's tensors are converted, and gradients have the dtypes of those."""
        x, weight = drawn(4, 8), drawn(6, 8)
        x.requires_grad_(), weight.requires_grad_()
        for _ in range(2):
            weft.ops.linear(x, weight).sum().backward()

        def python(*args: Any) -> Any:
            raise AssertionError("Python has made the call")

        monkeypatch.setitem(weft.ops.linear.op.namespace, "dispatch", python)
        x.grad = weight.grad = None
        y = weft.ops.linear(x, weight)
        assert y.dtype is torch.bfloat16
        y.backward(torch.ones_like(y))
        assert x.grad.dtype is weight.grad.dtype is torch.float32
        want = functional.linear(x, weight)
        wanted = torch.autograd.grad(want, (x, weight), torch.ones_like(want))
        torch.testing.assert_close(y, want, rtol=0.02, atol=0.02)
        torch.testing.assert_close((x.grad, weight.grad), wanted, rtol=0.02, atol=0.02)

    @pytest.mark.parametrize(
        ("op", "given", "dtype"),
        [
            pytest.param("softmax", ("bfloat16",), torch.float32, id="to float32"),
            pytest.param("gelu", ("bfloat16",), torch.bfloat16, id="as it is"),
            pytest.param("matmul", ("float32", "bfloat16"), torch.bfloat16, id="to 16 bits"),
            pytest.param("matmul", ("float64", "float64"), None, id="float64 is left alone"),
        ],
    )
    def test_tensors_are_converted(self, op: str, given: Any, dtype: Any) -> None:
        tensors = [drawn(4, 4).to(getattr(torch, name)) for name in given]
        function = getattr(weft.ops, op)
        if dtype is None:
            with pytest.raises(weft.ArgumentError, match="float64"):
                function(*tensors)
            return
        results = [function(*tensors) for _ in range(3)]
        assert function.op.native.call(*function.op.bound(tensors, {})) is not NotImplemented
        assert all(r.dtype is dtype and torch.equal(r, results[0]) for r in results)

    def test_the_widest_dtype(self) -> None:
        index = torch.zeros(2, 3, dtype=torch.int64, device=native_ops.where())
        for src in (drawn(2, 3), drawn(2, 3).bfloat16()):
            base = drawn(2, 3).bfloat16()
            for _ in range(3):
                made = weft.ops.scatter_add(base, 0, index, src)
                assert made.dtype is src.dtype
                torch.testing.assert_close(made, base.to(src.dtype).scatter_add(0, index, src))

    def test_a_weight_is_converted_once(self) -> None:
        """By torch's cache: a call of torch's finds the same tensor."""
        x, weight = drawn(4, 8).bfloat16(), drawn(6, 8).requires_grad_()
        y = [weft.ops.linear(x, weight) for _ in range(4)][-1]
        casts = {id(f) for f in (_cast_of(r) for r in (y, weft.ops.linear(x, weight)))}
        assert len(casts) == 1
        torch.clear_autocast_cache()
        assert id(_cast_of(weft.ops.linear(x, weight))) not in casts

    def test_a_weight_that_changes_is_converted_again(self) -> None:
        """Also inside of one autocast region, where torch's cache does not see it."""
        x, weight = drawn(4, 8).bfloat16(), drawn(6, 8).requires_grad_()
        for _ in range(4):
            y = weft.ops.linear(x, weight)
            assert torch.equal(y, weft.ops.matmul(x, weight.detach().bfloat16().t()))
            with torch.no_grad():
                weight.add_(1)

    def test_a_cast_without_gradients_is_not_used_for_one_with(self) -> None:
        x, weight = drawn(4, 8).bfloat16(), drawn(6, 8).requires_grad_()
        for _ in range(3):
            torch.clear_autocast_cache()
            with torch.no_grad():
                weft.ops.linear(x, weight)
            y = weft.ops.linear(x, weight)
            assert torch.autograd.grad(y.sum(), weight)[0].any()

    def test_weights_are_converted_together(self) -> None:
        """From the second region on; gradients come back together, also of some of them."""
        x, weights = drawn(4, 8).bfloat16(), [drawn(6, 8).requires_grad_() for _ in range(3)]
        for _ in range(2):
            torch.clear_autocast_cache()
            results = [weft.ops.linear(x, w) for w in weights]
        assert len({id(_cast_of(r)) for r in results}) == 1
        for used in (results, results[1:2]):
            (sum(r.float().sum() for r in used)).backward(retain_graph=True)
        for w, times in zip(weights, (1, 2, 1), strict=True):
            expected = times * x.float().sum(0).expand(6, 8)
            assert w.grad.dtype is torch.float32
            torch.testing.assert_close(w.grad, expected, rtol=0.02, atol=0.02)

    def test_nothing_is_kept_after_the_region(self) -> None:
        x, weight = drawn(4, 8).bfloat16(), drawn(6, 8).requires_grad_()
        for _ in range(3):
            weft.ops.linear(x, weight)
        gone = weakref.ref(weight)
        del weight
        gc.collect()
        assert gone() is not None  # torch's cache keeps its casts as well
        torch.clear_autocast_cache()
        gc.collect()
        assert gone() is None

    def test_a_gradient_of_a_gradient(self) -> None:
        x, weight = drawn(4, 8).bfloat16(), drawn(6, 8).requires_grad_()
        for _ in range(3):
            y = weft.ops.linear(x, weight).float()
            (first,) = torch.autograd.grad(y.pow(2).sum(), weight, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), weight)
        wide = x.double()  # which autocast leaves alone
        expected = (2 * wide.t() @ wide).sum(0).expand(6, 8).float()
        torch.testing.assert_close(second, expected, rtol=0.05, atol=0.5)

    def test_inference(self) -> None:
        x, weight = drawn(4, 8), drawn(6, 8).requires_grad_()
        for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
            with mode():
                results = [weft.ops.linear(x, weight) for _ in range(3)]
            assert all(torch.equal(r, results[0]) and not r.requires_grad for r in results)

    def test_the_cache_may_be_off(self) -> None:
        x, weight = drawn(4, 8).bfloat16(), drawn(6, 8).requires_grad_()
        with torch.autocast(native_ops.where(), torch.bfloat16, cache_enabled=False):
            made = [weft.ops.linear(x, weight) for _ in range(4)]
            assert _cast_of(made[-1]) is not _cast_of(made[-2])

    def test_other_dtypes_have_other_plans(self) -> None:
        x, weight = drawn(4, 8), drawn(6, 8)
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16, torch.float16) * 2:
            with torch.autocast(native_ops.where(), dtype):
                assert weft.ops.linear(x, weight).dtype is dtype
        with torch.autocast(native_ops.where(), enabled=False):
            assert weft.ops.linear(x, weight).dtype is torch.float32

    def test_a_backward_pass_under_autocast(self) -> None:
        """Gradients have the dtypes of the forward pass; sums of float32 stay float32."""
        x = drawn(4, 8).requires_grad_()
        weight = drawn(6, 8).requires_grad_()
        for _ in range(3):
            y = weft.ops.softmax(weft.ops.linear(x, weight))
            found = torch.autograd.grad(y, (x, weight), torch.ones_like(y) * y.detach())
            with torch.autocast(native_ops.where(), enabled=False):
                again = weft.ops.softmax(weft.ops.linear(x.bfloat16(), weight.bfloat16()).float())
                expected = torch.autograd.grad(again, (x, weight), again.detach())
            torch.testing.assert_close(found, expected, rtol=0, atol=0)


def _cast_of(result: Any) -> Any:
    """The node that has converted the weight of a linear layer."""
    return result.grad_fn.next_functions[1][0]
