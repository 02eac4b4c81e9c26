"""Norms and rotary embeddings under autocast, whose results are converted to half precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from compiled_models import compiled, normal  # noqa: E402
from weft.torch_backend import reports  # noqa: E402

pytestmark = pytest.mark.sim
WIDE = normal(16, 8, seed=1)
FILTERS = normal(16, 8, 1, 1, seed=2).contiguous(memory_format=torch.channels_last)


@pytest.fixture(params=["cpu", "cuda"], ids="autocast of {}".format)
def rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """The norms of autocast: those of GPUs have results of float32."""
    if request.param == "cpu":
        yield
        return
    made = torch.library.Library("aten", "IMPL")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def single(op: Any) -> Any:
        def call(*args: Any) -> Any:
            floats = [a.float() if isinstance(a, torch.Tensor) else a for a in args]
            with torch._C._ExcludeDispatchKeyGuard(keys):
                return op(*floats)

        return call

    for name in ("layer_norm", "group_norm"):
        made.impl(name, single(getattr(torch.ops.aten, name).default), "AutocastCPU")
    yield
    made._destroy()


def alone(x: Any, w: Any, b: Any) -> Any:
    return F.linear(F.layer_norm(x, (8,), w, b), WIDE)


def of_sum(x: Any, w: Any, b: Any) -> Any:
    """A residual connection: the sum is read again; three products read the norm."""
    total = x + x.sin()
    normed = F.layer_norm(total, (8,), w, b)
    return F.linear(normed, WIDE) * F.linear(normed, WIDE + 1) + F.linear(total, WIDE)


def of_groups(x: Any, w: Any, b: Any) -> Any:
    return F.conv2d(F.group_norm(x, 2, w, b), FILTERS)


def read_twice(x: Any, w: Any, b: Any) -> Any:
    """A sum reads the norm as well, in the dtype that autocast gives it."""
    normed = F.layer_norm(x, (8,), w, b)
    return F.linear(normed, WIDE).sum(-1, keepdim=True) + normed


def last(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


CASES = {
    "alone": (alone, "layer_norm"),
    "sum": (of_sum, "add_layer_norm"),
    "groups": (of_groups, "group_norm"),
    "read twice": (read_twice, "layer_norm"),
}


@pytest.mark.filterwarnings("ignore:.*overrid")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("weights", [torch.float32, None], ids=["single", "half"])
def test_norms_of_halves(case: str, dtype: Any, weights: Any, rules: None) -> None:
    function, name = CASES[case]
    x = normal(2, 3, 5, 8).to(dtype)
    x = (last(x) if case == "groups" else x).requires_grad_()
    w, b = ((normal(8, seed=i) + 1).to(weights or dtype).requires_grad_() for i in (3, 4))
    found = []
    for run in (compiled(function), function):
        with torch.autocast("cpu", dtype):
            y = run(x, w, b)
        found.append((y, *torch.autograd.grad(y.float().square().mean(), (x, w, b))))
    for ours, wanted in zip(*found, strict=True):
        assert ours.dtype is wanted.dtype
        assert (ours - wanted).float().norm() / wanted.float().norm() < 2e-2
    steps = {r.kind: [s.name for s in r.steps] for r in reports()[-2:]}
    if case != "read twice":
        assert f"weft.{name}_forward" in steps["forward"]
        backward = steps["backward"]
        at = backward.index(f"weft.{name.removeprefix('add_')}_backward")
        assert "_to_copy" not in backward[:at]  # of what the norm's kernel reads


def test_a_norm_of_singles_that_a_sum_reads_as_well(rules: None) -> None:
    """One kernel writes it in both dtypes, and the sum before it."""

    def function(x: Any, r: Any, w: Any, b: Any) -> Any:
        normed = F.layer_norm(x + F.linear(r, WIDE.T), (8,), w, b)
        return F.linear(normed, WIDE).sum(-1, keepdim=True) + normed

    inputs = [normal(2, 3, n, seed=i).requires_grad_() for i, n in enumerate((8, 16))]
    inputs += [normal(8, seed=i).requires_grad_() for i in (3, 4)]
    found = []
    for run in (compiled(function), function):
        with torch.autocast("cpu", torch.bfloat16):
            y = run(*inputs)
        found.append((y, *torch.autograd.grad(y.float().square().mean(), inputs)))
    for ours, wanted in zip(*found, strict=True):
        assert ours.dtype is wanted.dtype
        assert (ours - wanted).float().norm() / wanted.float().norm() < 2e-2
    (forward,) = (r for r in reports()[-2:] if r.kind == "forward")
    kernels = [s.name for s in forward.steps if "rsqrt" in s.name]
    assert len(kernels) == 1 and kernels[0].startswith("add, mean")


def pre_norm(x: Any, w: Any, b: Any) -> Any:
    """A residual connection beside the norm, whose result three products read."""
    total = x + F.linear(F.linear(x, WIDE), WIDE.T)
    normed = F.layer_norm(total, (8,), w, b)
    return total + F.linear(sum(F.linear(normed, WIDE * i) for i in (1, 2, 3)), WIDE.T)


def post_norm(x: Any, w: Any, b: Any) -> Any:
    """A residual connection behind the norm."""
    normed = F.layer_norm(F.linear(F.linear(x, WIDE), WIDE.T) + x, (8,), w, b)
    return normed + F.linear(F.linear(normed, WIDE), WIDE.T)


def rms(x: Any, w: Any, b: Any) -> Any:
    total = x + F.linear(F.linear(x, WIDE), WIDE.T) + b
    return total + F.linear(F.linear(F.rms_norm(total.float(), (8,), w), WIDE), WIDE.T)


@pytest.mark.filterwarnings("ignore:.*overrid")
@pytest.mark.parametrize("function", [pre_norm, post_norm, rms])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_norms_beside_products(function: Any, dtype: Any, rules: None) -> None:
    """The norm's kernel converts and adds the gradients of products, and stores its own twice."""
    inputs = [normal(2, 3, 5, 8, seed=1), normal(8, seed=2) + 1, normal(8, seed=3)]
    found = []
    for run in (compiled(function), function):
        given = [t.clone().requires_grad_() for t in inputs]
        with torch.autocast("cpu", dtype):
            y = run(*given)
        found.append((y, *torch.autograd.grad(y.float().square().mean(), given)))
    for ours, wanted in zip(*found, strict=True):
        assert ours.dtype is wanted.dtype
        assert (ours - wanted).float().norm() / wanted.float().norm() < 1e-2
    (backward,) = (r for r in reports()[-2:] if r.kind == "backward")
    steps = [s.name for s in backward.steps]
    at = next(i for i, s in enumerate(steps) if "norm_backward" in s)
    assert steps[at].endswith("_backward_mixed")
    assert "_to_copy" not in steps[at:]
    assert not any("add" in s for s in steps[:at])


# ---- rotary embeddings -------------------------------------------------------------------------
def rotated(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attended(x: Any, read_again: bool) -> Any:
    """Attention of queries and keys that angles of float32 have turned."""
    angles = torch.outer(torch.arange(x.shape[1]).float(), 0.3 ** torch.arange(4).float())
    cos, sin = (f(torch.cat((angles, angles), -1)) for f in (torch.cos, torch.sin))
    q, k, v = (F.linear(x, WIDE + i).unflatten(-1, (2, 8)).transpose(1, 2) for i in range(3))
    q, k = rotated(q, cos, sin), rotated(k, cos, sin)
    y = F.scaled_dot_product_attention(q, k, v)
    return y + q if read_again else y


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("read_again", [False, True])
def test_rotary_embeddings_by_angles_of_float32(dtype: Any, read_again: bool) -> None:
    """They are turned in half precision, by the op, where only attention reads them."""
    x = (normal(2, 6, 8) / 8).requires_grad_()
    function = lambda x: attended(x, read_again)  # noqa: E731
    found = []
    for run in (compiled(function), function):
        with torch.autocast("cpu", dtype):
            y = run(x)
        found.append((y, *torch.autograd.grad(y.float().square().mean(), x)))
    for ours, wanted in zip(*found, strict=True):
        assert ours.dtype is wanted.dtype
        assert (ours - wanted).float().norm() / wanted.float().norm() < 2e-2
    steps = [s.name for r in reports()[-2:] for s in r.steps]
    assert ("weft.rotary" in steps) is not read_again
