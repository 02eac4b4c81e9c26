"""Compiled graphs on disk: a second process starts from them, and no other graph finds them."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import draw
from weft import cache
from weft.errors import CacheWarning

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from weft.torch_backend import compile_graph, graphs, left, reports  # noqa: E402
from weft.torch_backend.disk import entries, keys  # noqa: E402
from weft.torch_backend.report import REPORTS  # noqa: E402


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the cache for this test alone; kernels are found where they always are."""
    kind = f"graphs-{os.urandom(6).hex()}"
    monkeypatch.setattr(entries, "KIND", kind)
    yield cache.directory() / kind
    shutil.rmtree(cache.directory() / kind, ignore_errors=True)


def normal(*shape: int, seed: int = 0) -> Any:
    return draw.seeded(seed).normal(*shape)


def gated(x: Any, w: Any) -> Any:
    y = x @ w
    return F.silu(y) * y.sigmoid(), y.t()


def gradients(function: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Results, gradients and the inputs afterwards."""
    given = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    found = function(*given)
    results = found if isinstance(found, tuple) else (found,)
    loss = sum((r * r).sum() for r in results if r.is_floating_point())
    if loss.requires_grad:
        loss.backward()
    return [*(r.detach() for r in results), *(x.grad for x in given), *(x.detach() for x in given)]


def again(function: Callable[..., Any], *inputs: Any) -> list[Any]:
    """The results of a function after it was compiled as in a new process."""
    torch._dynamo.reset()
    return gradients(torch.compile(function, backend=compile_graph), *inputs)


def refuse(*given: Any) -> None:
    raise AssertionError("a graph was compiled again")


INPUTS = normal(4, 8).requires_grad_(), normal(8, 8, seed=1).requires_grad_()


# ---- graphs that are found ---------------------------------------------------------------------
def changed(x: Any, w: Any, seen: Any) -> Any:
    seen.add_(1)
    return (x @ w).relu() + seen


def checked(x: Any, w: Any) -> Any:
    return checkpoint(lambda a: (a @ w).tanh(), x, use_reentrant=False).sum(-1)


def under_autocast(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ w).float()


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (gated, INPUTS),
        (changed, (*INPUTS, torch.zeros(8))),
        (checked, INPUTS),
        (under_autocast, INPUTS),
        (lambda x, w: x.detach() @ w.detach(), INPUTS),
    ],
    ids=["views", "changed", "checkpoint", "autocast", "inference"],
)
def test_a_graph_is_compiled_once(
    function: Any, inputs: Any, monkeypatch: pytest.MonkeyPatch, on_disk: Path
) -> None:
    expected = gradients(function, *inputs)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if function is under_autocast else {}
    REPORTS.clear()
    torch.testing.assert_close(again(function, *inputs), expected, **tolerance)
    first = list(map(str, reports()))
    monkeypatch.setattr(graphs, "rewrite", refuse)
    monkeypatch.setattr(graphs, "by_passes", refuse)
    REPORTS.clear()
    torch.testing.assert_close(again(function, *inputs), expected, **tolerance)
    assert list(map(str, reports())) == first


def test_dropout_draws_new_numbers(monkeypatch: pytest.MonkeyPatch, on_disk: Path) -> None:
    x = torch.ones(64, 64)
    again(lambda x: F.dropout(x, 0.5), x)
    torch._dynamo.reset()
    monkeypatch.setattr(graphs, "rewrite", refuse)
    run = torch.compile(lambda x: F.dropout(x, 0.5), backend=compile_graph)
    first, second = run(x), run(x)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(first, second)


def cumulated_here(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x * 2, 0)


def cumulated_there(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x * 2, 0)


def test_a_warning_is_given_again_with_its_own_lines(
    monkeypatch: pytest.MonkeyPatch, on_disk: Path
) -> None:
    x = torch.ones(8, 8)
    warned: list[str] = []
    for function in (cumulated_here, cumulated_here, cumulated_there):
        monkeypatch.setattr(left, "_WARNED", set())  # as in another process
        torch._dynamo.reset()
        with pytest.warns(UserWarning, match="PyTorch computes cumsum") as caught:
            torch.compile(function, backend=compile_graph)(x)
        warned.append(str(caught[0].message))
    lines = [function.__code__.co_firstlineno + 1 for function in (cumulated_here, cumulated_there)]
    assert warned[0] == warned[1] and f":{lines[0]}" in warned[0]
    assert f":{lines[1]}" in warned[2]


PROCESS = """
import sys, torch
from weft.torch_backend import compile_graph, graphs
from weft.torch_backend.disk import entries

entries.KIND = sys.argv[1]
graphs.rewrite = None  # a call would fail
x, w = (torch.load(sys.argv[2], weights_only=True)[n].requires_grad_() for n in "xw")

def gated(x, w):
    y = x @ w
    return torch.nn.functional.silu(y) * y.sigmoid(), y.t()

first, second = torch.compile(gated, backend=compile_graph)(x, w)
((first * first).sum() + (second * second).sum()).backward()
torch.save([first.detach(), second.detach(), x.grad, w.grad], sys.argv[3])
"""


def test_a_second_process_starts_from_the_entry(on_disk: Path, tmp_path: Path) -> None:
    x, w = INPUTS
    expected = again(gated, x, w)[:4]
    torch.save({"x": x.detach(), "w": w.detach()}, tmp_path / "inputs")
    command = [sys.executable, "-c", PROCESS, on_disk.name, tmp_path / "inputs", tmp_path / "out"]
    subprocess.run(command, check=True)
    torch.testing.assert_close(torch.load(tmp_path / "out", weights_only=True), expected)


# ---- entries that are damaged or strange -------------------------------------------------------
def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def strange(path: Path) -> None:
    """An entry that weft itself has written, of another version of its classes."""
    cache.put(path.parents[1].name, path.name, pickle.dumps({"compiled_fw": None}))


@pytest.mark.parametrize("damage", [flipped, strange])
def test_a_damaged_entry_is_made_again(damage: Callable[[Path], None], on_disk: Path) -> None:
    expected = again(gated, *INPUTS)
    (path,) = (p for p in on_disk.rglob("*") if p.is_file())
    before = path.read_bytes()
    damage(path)
    warns = pytest.warns(CacheWarning, match="is made again")
    with warns if damage is strange else contextlib.nullcontext():
        torch.testing.assert_close(again(gated, *INPUTS), expected)
    assert len(path.read_bytes()) == len(before)  # written again


def test_without_caches_nothing_is_written(on_disk: Path) -> None:
    with torch._functorch.config.patch(enable_autograd_cache=False):
        again(gated, *INPUTS)
    assert not on_disk.exists()


# ---- keys --------------------------------------------------------------------------------------
def key(function: Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """The key of a function's graph."""
    found: list[str] = []

    def backend(module: Any, given: Any) -> Any:
        found.append(keys.key_of(module, given))
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, **options)(*inputs)
    assert len(found) == 1
    return found[0]


def scaled(factor: float) -> Callable[[Any], Any]:
    return lambda x: (x * factor).relu()


def test_equal_graphs_have_one_key() -> None:
    x = normal(4, 8)
    assert key(scaled(2.0), x) == key(scaled(2.0), normal(4, 8, seed=3)) != ""


def pair(x: Any, y: Any) -> Any:
    return x.add_(1) + y


whole = torch.zeros(2, 4, 8)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: key(scaled(2.5), x),
        lambda x: key(scaled(2), x),
        lambda x: key(lambda x: (2.0 * x).relu().relu(), x),
        lambda x: key(scaled(2.0), normal(8, 4)),
        lambda x: key(scaled(2.0), normal(8, 4).t()),
        lambda x: key(scaled(2.0), x.double()),
        lambda x: key(scaled(2.0), x.clone().requires_grad_()),
        lambda x: key(scaled(2.0), whole[1]),
        lambda x: key(scaled(2.0), nn.Parameter(x)),
    ],
    ids=["constant", "type", "graph", "shape", "strides", "dtype", "gradient", "view", "parameter"],
)
def test_other_graphs_and_inputs_have_other_keys(other: Callable[[Any], str]) -> None:
    x = normal(4, 8)
    assert key(scaled(2.0), x) != other(x) != ""


def test_inputs_that_share_memory_have_another_key() -> None:
    memory = torch.zeros(2, 4)
    assert key(pair, memory[0], memory[1]) != key(pair, memory[0], torch.zeros(2, 4)[1])


@contextlib.contextmanager
def set_to(setter: Callable[[Any], None], value: Any, before: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


@pytest.mark.parametrize(
    "setting",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: set_to(torch.set_default_dtype, torch.float64, torch.float32),
        lambda: set_to(torch.set_float32_matmul_precision, "medium", "highest"),
        lambda: set_to(torch.use_deterministic_algorithms, True, False),
        lambda: torch._functorch.config.patch(max_dist_from_bw=3),
    ],
    ids=["no_grad", "inference", "autocast", "dtype", "precision", "deterministic", "functorch"],
)
def test_other_settings_have_other_keys(setting: Callable[[], Any]) -> None:
    x = normal(4, 8)
    with setting():
        found = key(scaled(2.0), x)
    assert key(scaled(2.0), x) != found


def test_other_versions_have_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(4, 8)
    present = key(scaled(2.0), x)
    monkeypatch.setenv("WEFT_SOMETHING", "1")
    assert key(scaled(2.0), x) != present
    monkeypatch.delenv("WEFT_SOMETHING")
    for owner, name in ((torch, "__version__"), (sys, "version")):
        keys._versions.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, "0.0.0 of another day")
            assert key(scaled(2.0), x) != present
    keys._versions.cache_clear()
    assert key(scaled(2.0), x) == present


@torch.library.custom_op("weft_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: Any) -> Any:
    return torch.empty_like(x)


@torch._dynamo.allow_in_graph
def own(x: Any) -> Any:
    return x * 2


def doubled(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize(
    ("function", "options"),
    [(lambda x: twice(x), {}), (lambda x: own(x), {}), (doubled, {"dynamic": True})],
    ids=["op", "function", "sizes"],
)
def test_graphs_that_depend_on_more_have_no_key(function: Any, options: dict[str, Any]) -> None:
    assert key(function, normal(4, 8), **options) == ""


def test_hooks_of_saved_tensors_have_no_key() -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert key(doubled, normal(4, 8).requires_grad_()) == ""
