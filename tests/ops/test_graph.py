"""`weft.graph`: what it refuses, which calls share a graph, and that replays are the step.

Graphs are captured under `weft run`, whose `torch.cuda` is simulated.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

import weft
from limits import PROCESS_SECONDS

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from weft.ops.graph.watch import Watch  # noqa: E402

pytestmark = pytest.mark.sim


def linear() -> Any:
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(torch.arange(8.0).view(2, 4) / 8)
        model.bias.zero_()
    return model


def sgd(model: Any, lr: Any = 0.1) -> Any:
    return weft.optim.SGD(model.parameters(), lr=lr)


X = torch.ones(3, 4)


# ---- refusals ----------------------------------------------------------------------------------
class Batch:
    """Tensors in an object that nothing looks into."""

    x = X


def read(x: Any) -> Any:
    return x * float(x.sum())


def branch(x: Any) -> Any:
    return x if (x > 0).all() else -x


def mask(x: Any) -> Any:
    return x[x > 0]


def write(x: Any) -> Any:
    return x.add_(1)


COUNT = 0


def count(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x * COUNT


class Counting:
    def __init__(self) -> None:
        self.done = 0

    def step(self, x: Any) -> Any:
        self.done += 1
        return x


def scheduled(x: Any) -> Any:
    optimiser, scheduler = SCHEDULED
    optimiser.zero_grad()
    optimiser.param_groups[0]["params"][0].grad = torch.ones(2)
    optimiser.step()
    scheduler.step()
    return x


def _scheduled() -> tuple[Any, Any]:
    optimiser = weft.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=torch.tensor(0.1))
    return optimiser, torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)


SCHEDULED = _scheduled()
REFUSED = {
    "a number is read": (read, (X.clone(),), "reads a value"),
    "control flow": (branch, (X.clone(),), "reads a value"),
    "a size that depends on data": (mask, (X.clone(),), "reads a value"),
    "a gradient of an argument": (lambda x: x, (X.clone().requires_grad_(),), "requires a grad"),
    "an argument is written": (write, (X.clone(),), "writes to an argument"),
    "an object with tensors": (lambda b: b.x, (Batch(),), "may change without being seen"),
    "a global number changes": (count, (X.clone(),), "changes a Python value"),
    "an attribute changes": (Counting().step, (X.clone(),), "changes a Python value"),
    "a schedule inside of the step": (scheduled, (X.clone(),), "scheduler sets the learning rate"),
    "a sparse argument": (lambda x: x, (X.to_sparse(),), "not a dense tensor"),
}


@pytest.mark.parametrize("subject", REFUSED)
def test_refused(subject: str) -> None:
    step, args, reason = REFUSED[subject]
    with pytest.raises(weft.CaptureError, match=reason):
        weft.graph(step)(*args)


def test_a_refusal_names_the_line() -> None:
    with pytest.raises(weft.CaptureError) as caught:
        weft.graph(read)(X.clone())
    line = read.__code__.co_firstlineno + 1
    assert caught.value.where.endswith(f"test_graph.py:{line}")


def test_an_optimiser_that_reads_numbers_is_refused() -> None:
    """torch's Adam keeps the number of steps for the host, unless it is capturable."""
    model = linear()
    optimiser = torch.optim.Adam(model.parameters(), foreach=False)

    @weft.graph
    def step(x: Any) -> Any:
        model(x).sum().backward()
        optimiser.step()

    with pytest.raises(weft.CaptureError, match="reads a value"):
        step(X)


@pytest.mark.parametrize(
    "given",
    [{"step": 3}, {"step": read, "warmup": 2}, {"step": read, "most": 0}],
    ids=["no function", "no warm-up", "no graphs"],
)
def test_invalid_arguments(given: dict[str, Any]) -> None:
    with pytest.raises(weft.ArgumentError, match=r"weft\.graph"):
        weft.graph(**given)


def test_a_scheduler_beside_the_step_is_not_refused() -> None:
    """It wraps the method of its optimiser, whose operations are not its own."""
    model = linear()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)

    @weft.graph
    def step(x: Any) -> Any:
        model(x).sum().backward()
        optimiser.step()

    for _ in range(3):
        step(X)
        schedule.step()


def test_a_tensor_on_the_cpu_is_refused_beside_the_gpu() -> None:
    """With fake tensors of a GPU. The first call may copy what is made once."""
    with FakeTensorMode():
        x, host = torch.empty(3, device="cuda"), torch.empty(3)
        number, copy = torch.empty(()), torch.ops.aten._to_copy.default
        with Watch(False):
            assert copy(host, device=torch.device("cuda")).device.type == "cuda"
        for watch, call in (
            (Watch(True), lambda: copy(host, device=torch.device("cuda"))),
            (Watch(True), lambda: copy(x, device=torch.device("cpu"))),
            (Watch(False), lambda: x * number),
        ):
            with pytest.raises(weft.CaptureError, match="a tensor on the CPU takes part"), watch:
                call()


# ---- on the simulated GPU ----------------------------------------------------------------------
def test_the_step_is_called() -> None:
    """Every call is one step, with the results of the step itself."""
    curves = []
    for wrap in (lambda f: f, weft.graph(most=4)):
        model = linear()
        optimiser = sgd(model)

        def step(x: Any, *, scale: float = 1.0, model: Any = model, own: Any = optimiser) -> Any:
            own.zero_grad()
            loss = (model(x) * scale).square().mean()
            loss.backward()
            own.step()
            return {"loss": loss.detach()}

        made = wrap(step)
        curves.append([made(X[: 1 + i % 2], scale=1.0 + i % 2)["loss"] for i in range(6)])
    assert torch.equal(torch.stack(curves[0]), torch.stack(curves[1]))
    assert made.__name__ == "step" and made.captures == 0


def test_calls_of_too_many_kinds() -> None:
    """A warning says what has changed, and the calls go on."""
    model = linear()
    optimiser = sgd(model)

    @weft.graph(most=2)
    def step(x: Any) -> Any:
        optimiser.zero_grad()
        model(x).sum().backward()
        optimiser.step()

    with pytest.warns(UserWarning, match="an option of SGD"):
        for i in range(4):
            optimiser.param_groups[0]["lr"] = 0.1 / (i + 1)
            step(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(X)  # it is said once

    @weft.graph(most=1)
    def numbered(x: Any, number: int) -> Any:
        return x * number

    with pytest.warns(UserWarning, match="argument 1"):
        assert [float(numbered(X, i).sum()) for i in range(3)] == [0, 12, 24]


# ---- simulated graphs --------------------------------------------------------------------------
BEGIN = """
import torch, weft
from torch import nn
from torch.nn import functional as F

def data(count):
    generator = torch.Generator().manual_seed(1)
    for i in range(count):
        rows = 6 if i % 4 else 3
        x = torch.rand(rows, 8, generator=generator).cuda()
        yield x, torch.randint(0, 4, (rows,), generator=generator).cuda()

def network():
    torch.manual_seed(0)
    layers = nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)
    return weft.nn.convert(nn.Sequential(*layers).cuda())

def compare(make, count=16, captures=2):
    curves, ends = [], []
    for graphed in (False, True):
        step, after, model = make()
        step = weft.graph(step) if graphed else step
        losses = []
        for i, (x, y) in enumerate(data(count)):
            losses.append(step(x, y))
            after(i)
        curves.append([float(loss) for loss in losses])
        ends.append([p.detach().clone() for p in model.parameters()])
        ends[-1] += [p.grad for p in model.parameters()]
    assert curves[0] == curves[1], curves
    assert all(torch.equal(a, b) for a, b in zip(*ends))
    assert len(set(curves[1])) == count  # results are not overwritten by later calls
    assert step.captures == captures, step.captures
"""
SCRIPTS = {
    "clipping, a rate in a tensor and two shapes": """
def make():
    model, rate = network(), torch.tensor(1e-2, device="cuda")
    optimiser = weft.optim.AdamW(model.parameters(), lr=rate, max_grad_norm=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
    def step(x, y):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        return loss.detach()
    return step, lambda i: schedule.step(), model
compare(make)
""",
    "mixed precision with a gradient scaler": """
def make():
    model, scaler = network(), torch.amp.GradScaler("cuda")
    optimiser = weft.optim.AdamW(model.parameters(), lr=1e-2)
    def step(x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        return loss.detach()
    return step, lambda i: None, model
compare(make)
""",
    "gradients that are added up, and zeroed by the loop": """
def make():
    model = network()
    optimiser = weft.optim.SGD(model.parameters(), lr=1e-2)
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()
    def after(i):
        if i % 3 == 2:
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
    return step, after, model
compare(make)
def dropping():
    step, _, model = make()
    optimiser = weft.optim.SGD(model.parameters(), lr=1e-2)
    def after(i):
        optimiser.step()
        optimiser.zero_grad()
    return step, after, model
def last():
    step, after, model = dropping()
    return step, lambda i: after(i) if i < 15 else None, model
compare(last)
""",
    "an optimiser that uses the gradients of the call before": """
import warnings
warnings.simplefilter("ignore")
def make():
    model = network()
    optimiser = weft.optim.SGD(model.parameters(), lr=1e-2)
    def step(x, y):
        optimiser.step()
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()
    return step, lambda i: None, model
compare(make, captures=8)
""",
    "modes, learning rates and memory that change": """
model = network()
model.append(nn.Dropout(0.5))
optimiser = torch.optim.SGD(model.parameters(), lr=1e-2)
@weft.graph
def step(x):
    optimiser.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimiser.step()
    return loss.detach()
x = torch.ones(4, 8, device="cuda")
for expected, change in enumerate([
    lambda: None,
    lambda: model.eval(),
    lambda: optimiser.param_groups[0].update(lr=2e-2),
    lambda: setattr(model[0].weight, "data", model[0].weight.data.clone()),
    lambda: model[0].weight.requires_grad_(False),
], 1):
    change()
    for _ in range(5):
        before = model[3].weight.detach().clone()
        step(x)
        assert not torch.equal(model[3].weight, before)
    assert step.captures == expected, (step.captures, expected)
model.train()
model[0].weight.requires_grad_()
step.reset()
assert step.captures == 0
losses = [float(step(x)) for _ in range(6)]
assert len(set(losses)) == 6  # the graph draws random numbers anew
""",
    "a graph that is dropped in a cycle": """
import gc
class Graph:
    def __init__(self):
        self.own = self
    def __del__(self):
        collected.append(torch.cuda.is_current_stream_capturing())
@weft.graph
def step(x):
    Graph()
    rows = [[] for _ in range(20 * gc.get_threshold()[0])]
    return x * len(rows)
collected = []
x = torch.ones(3, device="cuda")
for _ in range(4):
    step(x)
assert step.captures == 1
gc.collect()
assert collected and not any(collected), collected
""",
    "a capture that fails": """
@weft.graph
def step(x):
    if torch.cuda.is_current_stream_capturing():
        x.sum().item()
    return x * 2
x = torch.ones(3, device="cuda")
step(x), step(x), step(x)
try:
    step(x)
except weft.CaptureError as error:
    assert "not permitted" in error.got
else:
    raise AssertionError
""",
}


def test_replays_are_the_step(tmp_path: Path) -> None:
    """One process runs all scripts: it imports torch once."""
    parts = [f"def part():{textwrap.indent(text, '    ')}\npart()" for text in SCRIPTS.values()]
    script = tmp_path / "script.py"
    script.write_text("\n".join([BEGIN, *parts]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", str(script)],
        capture_output=True, text=True, encoding="utf-8", timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
