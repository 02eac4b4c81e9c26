"""`weft.explain` and `weft explain`: the kernels of a model, without running them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import weft
from commands import run_weft
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):  # type: ignore[misc]
    """A product, elementwise operations, a norm with statistics, and a sort that weft leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(64, 128)
        self.norm = torch.nn.BatchNorm1d(128)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        y = torch.tanh(self.up(x)) * scale + 1
        return torch.cumprod(self.norm(y), 0)


@pytest.fixture(scope="module")
def model() -> Any:
    return Net()


@pytest.fixture(scope="module")
def found(model: Any) -> Any:
    return weft.explain(model, torch.ones(32, 64), scale=2.0)


def step(graph: Any, word: str) -> Any:
    (only,) = (s for s in graph.steps if word in s.name)
    return only


def test_graphs_of_a_training_step(found: Any) -> None:
    assert [graph.kind for graph in found.graphs] == ["forward", "backward"]
    forward, backward = found.graphs
    product = step(forward, "linear")
    assert (product.kind, product.layer) == ("op", "up")
    assert product.flops == 2 * 32 * 64 * 128
    assert product.bytes == 4 * (32 * 64 + 64 * 128 + 128 + 32 * 128)
    assert product.seconds > 0 and product.limit in ("DRAM", "fp32")
    fused = step(forward, "tanh")
    assert fused.kind == "fused" and "mul" in fused.name and "add" in fused.name
    assert any("matmul" in s.name and s.layer == "up" for s in backward.steps)
    assert found.seconds == pytest.approx(sum(g.seconds for g in found.graphs))


def test_what_is_left_to_pytorch_has_a_reason(found: Any) -> None:
    left = step(found.graphs[0], "cumprod")
    assert left.kind == "torch" and left.why
    assert any("cumprod" in name for name in found.left)


def test_neighbours_that_are_not_one_kernel_have_a_reason(found: Any) -> None:
    forward = found.graphs[0]
    why = {(pair.first, pair.second): pair.why for pair in forward.apart}
    product, fused, norm = (step(forward, w).name for w in ("linear", "tanh", "batch_norm"))
    own = "is apart: an op with kernels of its own"
    assert why[product, fused] == f"linear {own}"
    assert why[norm, step(forward, "cumprod").name] == f"batch_norm_training {own}"
    assert f"{product} → {fused}: linear {own}" in str(found)


def explained(function: Any, *inputs: Any) -> dict[str, int]:
    """The reasons of a function without products, and how often each is given."""
    with torch.no_grad():
        (graph,) = weft.explain(function, *inputs).graphs
    return {pair.why: pair.count for pair in graph.apart}


def test_reasons_are_those_of_the_decision() -> None:
    x = torch.ones(64, 128)
    assert explained(lambda x: torch.tanh(x + 1) * 2, x) == {}  # one kernel
    reduced = explained(lambda x: (x + 1).amax(0) * 2, x)
    assert set(reduced) == {"amax is apart: a reduction along other dimensions than the last ones"}
    reshaped = explained(lambda x: torch.tanh(x.exp().view(128, 64).softmax(-1)), x)
    assert "the view of [64, 128] as [128, 64] is no broadcast to the kernel's shape" in reshaped
    later = explained(lambda x: (x.exp() + 1) * x.sum(0).sum(), x)
    assert "its other operand, made by add, is not there yet" in later


def test_model_and_gradients_stay_as_they_are(model: Any, found: Any) -> None:
    assert all(p.grad is None for p in model.parameters())
    assert int(model.norm.num_batches_tracked) == 0
    assert model.norm.running_mean.abs().sum() == 0


def test_inference_and_another_gpu(model: Any, found: Any) -> None:
    with torch.no_grad():
        other = weft.explain(model.eval(), torch.ones(32, 64), device="sim:t4")
    model.train()
    (graph,) = other.graphs
    assert graph.kind == "inference" and "T4" in other.gpu
    slow, fast = step(graph, "linear"), step(found.graphs[0], "linear")
    assert slow.seconds > fast.seconds and slow.bytes == fast.bytes


def test_text_and_page(found: Any, tmp_path: Path) -> None:
    text = str(found)
    assert "Net on H200 SXM 141 GB, forward:" in text and "Left to PyTorch" in text
    found.html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('class="step"') == sum(len(g.steps) for g in found.graphs)
    assert "weft.linear" in page and "{{" not in page
    assert page.count("Not fused") == sum(bool(g.apart) for g in found.graphs)
    assert found.graphs[0].apart[0].why in page


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="a module or a function"):
        weft.explain(3, torch.ones(2))
    with pytest.raises(ArgumentError, match="no operation that"):
        weft.explain(lambda x: x, torch.ones(2))


SCRIPT = """\
import sys
import torch

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU())
try:
    print(model(input=torch.ones(4, 16, device="cuda")))
except Exception:
    print("caught")
raise ValueError("not reached")
"""


def test_command(tmp_path: Path) -> None:
    """The script ends at the first call, whose arguments may have names."""
    (tmp_path / "net.py").write_text(SCRIPT)
    (tmp_path / "none.py").write_text("import torch\ntorch.nn.ReLU()(torch.ones(3))\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return run_weft("explain", *words, folder=tmp_path)

    done = run("net.py", "--json", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [graph["kind"] for graph in data["graphs"]] == ["forward", "backward"]
    assert data["graphs"][0]["steps"][0]["name"] == "weft.linear"
    pair = data["graphs"][0]["apart"][0]
    assert (pair["first"], pair["second"], pair["count"]) == ("weft.linear", "gelu", 1)
    assert pair["why"].startswith("linear is apart")
    assert "caught" not in done.stderr and (tmp_path / "page.html").is_file()
    none = run("none.py")
    assert none.returncode == 1 and "calls no model of PyTorch" in none.stderr
