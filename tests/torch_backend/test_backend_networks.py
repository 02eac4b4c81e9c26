"""Networks compiled with the backend "weft": a training step equals that of eager PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from rounded import Rounded  # noqa: E402  it needs torch
from weft.networks.network import Network, names, network  # noqa: E402  they need torch
from weft.torch_backend import compile_graph, reports  # noqa: E402

SAMPLES = 3
"""Steps in float64 whose operations are rounded."""
SPREAD = 2.0
"""The error of a step over the largest of the samples: one of few is not the largest there is."""


def step(net: Network, module: Any, run: Any, autocast: bool = False) -> Any:
    """One step of an optimiser; returns the loss."""
    batch = net.batch(2)
    dtype = next(module.parameters()).dtype
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in batch.inputs]
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = net.loss(run(*inputs), batch.target)
    loss.backward()
    optimiser.step()
    return loss.detach()


def alike(ours: Any, torchs: Any, tolerance: float) -> None:
    """Compare gradients, parameters and buffers of two modules."""
    most = max(float(p.grad.norm()) for p in torchs.parameters() if p.grad is not None)
    for (name, p), q in zip(ours.named_parameters(), torchs.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            # Others may be zero but for rounding.
            error = float((p.grad - q.grad).norm()) / max(float(q.grad.norm()), 1e-3 * most)
            assert error < tolerance, f"{name}: {error}"
            assert p.grad.is_contiguous() == q.grad.is_contiguous(), name
        torch.testing.assert_close(p, q, rtol=tolerance, atol=tolerance)
    for (name, b), c in zip(ours.named_buffers(), torchs.buffers(), strict=True):
        torch.testing.assert_close(b, c, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("name", names())
def test_a_step(name: str) -> None:
    net = network(name, "tiny")
    ours, torchs = net.module.train(), copy.deepcopy(net.module).train()
    run = torch.compile(ours, backend=compile_graph)
    for _ in range(2):  # the second one runs without tracing
        losses = step(net, ours, run), step(net, torchs, torchs)
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    alike(ours, torchs, 2e-3)
    forward = reports()[-2]
    assert forward.kind == "forward" and not forward.left
    assert any(s.kind == "op" for s in forward.steps)


def results(module: Any, loss: Any) -> dict[str, Any]:
    """The loss of a step, gradients and buffers, in float64."""
    found = {"loss": loss, **{n: p.grad for n, p in module.named_parameters()}}
    return {n: x.double() for n, x in {**found, **dict(module.named_buffers())}.items()}


def rounded_step(net: Network, seed: int) -> dict[str, Any]:
    """The results of a step in float64 with weights and operations rounded as to bfloat16."""
    module = copy.deepcopy(net.module).double().train()
    mode = Rounded(torch.bfloat16, seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(mode.rounded(p))
    with mode:
        return results(module, step(net, module, module))


@pytest.mark.parametrize("name", ["gpt2", pytest.param("resnet", marks=pytest.mark.slow)])
def test_a_step_under_autocast(name: str) -> None:
    """The step differs from that in float64 no more than if each operation were rounded."""
    net = network(name, "tiny")
    ours = copy.deepcopy(net.module).train()
    run = torch.compile(ours, backend=compile_graph)
    found = results(ours, step(net, ours, run, True))
    module = copy.deepcopy(net.module).double().train()
    exact = results(module, step(net, module, module))
    samples = [rounded_step(net, seed) for seed in range(SAMPLES)]
    for each, wanted in exact.items():
        most = max(float((s[each] - wanted).norm()) for s in samples)
        error = float((found[each] - wanted).norm())
        assert error <= SPREAD * most, f"{each}: {error}, by rounding {most}"


@pytest.mark.parametrize("name", ["gpt2", "resnet", "convnext"])
def test_inference(name: str) -> None:
    net = network(name, "tiny")
    ours = net.module.eval()
    batch = net.batch(2)
    run = torch.compile(ours, backend=compile_graph)
    with torch.inference_mode():
        torch.testing.assert_close(run(*batch.inputs), ours(*batch.inputs), rtol=1e-4, atol=1e-4)
    assert reports()[-1].kind == "inference"
    with torch.no_grad():
        torch.testing.assert_close(run(*batch.inputs), ours(*batch.inputs), rtol=1e-4, atol=1e-4)
