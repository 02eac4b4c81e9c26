"""Random numbers and optimisers on a real GPU: torch's bits, its generators, and CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from weft.ops.core.native import build  # noqa: E402

pytestmark = pytest.mark.gpu

WHOLE = [8, 4096, 270_336, 10**6, 2_162_688 * 4 + 8]
"""Sizes of whole vectors of 16 bytes: less, as many and more than torch has threads."""
ANY = [1, 7, 1001, 30_000_003]


def both(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """The results of two functions from one state of the generator, which both move alike."""
    results, offsets = [], []
    for function in (ours, theirs):
        torch.manual_seed(2**63 + 5)
        results.append(function())
        offsets.append(torch.cuda.default_generators[0].get_offset())
    assert offsets[0] == offsets[1] > 0
    return results[0], results[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", WHOLE)
def test_dropout_has_the_bits_of_torch(n: int, dtype: Any) -> None:
    x = torch.randn(n, device="cuda").to(dtype)
    ours, theirs = both(
        lambda: weft.ops.dropout(x, 0.3), lambda: torch.nn.functional.dropout(x, 0.3)
    )
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [*WHOLE, *ANY])
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_new_tensors_have_the_bits_of_torch(name: str, n: int, dtype: Any) -> None:
    def made(library: Any) -> Any:
        return getattr(library, name)(n, device="cuda", dtype=dtype)

    assert torch.equal(*both(lambda: made(weft.ops), lambda: made(torch)))


def test_initialisers_have_the_bits_of_torch() -> None:
    def made(library: Any) -> Any:
        return library.kaiming_uniform_(torch.empty(300, 200, device="cuda"))

    assert torch.equal(*both(lambda: made(weft.init), lambda: made(torch.nn.init)))


@pytest.mark.parametrize("n", [4096, 10**6])
def test_calls_by_the_compiled_code_draw_what_torch_draws(n: int) -> None:
    """Several in a row, with a gradient and without: both move the generator alike."""
    assert build.started().wait() is not None, build.started().failure
    leaf = torch.ones(n, device="cuda", requires_grad=True)

    def dropped(dropout: Any) -> Any:
        result = dropout(leaf, 0.3)
        return torch.autograd.grad(result, leaf, torch.ones_like(leaf))[0]

    rows = [
        (lambda: weft.ops.randn(n, device="cuda"), lambda: torch.randn(n, device="cuda")),
        (lambda: weft.ops.dropout(leaf.detach(), 0.3), lambda: functional.dropout(leaf, 0.3)),
        (lambda: dropped(weft.ops.dropout), lambda: dropped(functional.dropout)),
    ]
    for ours, theirs in rows:
        ours(), ours()
        in_a_row = [lambda f=f: torch.stack([f() for _ in range(3)]) for f in (ours, theirs)]
        assert torch.equal(*both(*in_a_row))


def test_a_graph_draws_anew_in_each_replay() -> None:
    x = torch.ones(4096, device="cuda")
    graph = torch.cuda.CUDAGraph()
    weft.ops.dropout(x)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = weft.ops.dropout(x)
    graph.replay()
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y) and 0.4 < (y != 0).float().mean() < 0.6


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_a_graph_holds_a_step(name: str) -> None:
    """Also one with gradients that are made in the graph, and with the clipping of their norm."""
    options = {"lr": 1e-2} if name == "AdamW" else {"lr": 1e-2, "momentum": 0.9}
    ours = [torch.nn.Parameter(torch.randn(n, device="cuda")) for n in (5, 1000, 70_001)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    mine = getattr(weft.optim, name)(ours, **options, max_grad_norm=0.5)
    other = getattr(torch.optim, name)(theirs, **options, fused=True)

    def filled(params: list[Any]) -> None:
        for p in params:
            p.grad = torch.full_like(p, 0.3)

    filled(ours)
    mine.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        filled(ours)
        mine.step()
    for _ in range(4):
        graph.replay()
    for _ in range(5):
        filled(theirs)
        torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        other.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_new_parameters_are_refused_in_a_capture() -> None:
    p = torch.nn.Parameter(torch.ones(8, device="cuda"))
    p.grad = torch.ones_like(p)
    optimiser = weft.optim.SGD([p], lr=0.1)
    torch.cuda.synchronize()
    with (
        pytest.raises(weft.ArgumentError, match="captured"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        optimiser.step()


def test_a_scaled_loss() -> None:
    layer = torch.nn.Linear(8, 8, device="cuda")
    optimiser = weft.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    before = layer.bias.detach().clone()
    scaler.scale(layer(torch.ones(2, 8, device="cuda")).sum()).backward()
    scaler.step(optimiser)
    torch.testing.assert_close(layer.bias.detach(), before - 0.2)
