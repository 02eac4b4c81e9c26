"""The backend "weft" with what programs do beside calling layers: results equal eager PyTorch."""

from __future__ import annotations

import copy
import importlib.metadata
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from compiled_models import compiled, normal, same  # noqa: E402
from weft.torch_backend import compile_graph, left, reports, sizes  # noqa: E402
from weft.torch_backend.patterns import calls  # noqa: E402


class Small(nn.Module):
    """Two linear layers with a norm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm = nn.LayerNorm(16)
        for i, p in enumerate(self.parameters()):
            with torch.no_grad():
                p.copy_(normal(*p.shape, seed=i + 1) * 0.3)

    def forward(self, x: Any) -> Any:
        return self.down(F.gelu(self.norm(self.up(x)))) + x


# ---- how torch finds it ------------------------------------------------------------------------
def test_the_entry_point_names_the_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    value = project["project"]["entry-points"]["torch_dynamo_backends"]["weft"]
    point = importlib.metadata.EntryPoint("weft", value, "torch_dynamo_backends")
    assert point.load() is compile_graph


@pytest.mark.parametrize(
    ("options", "said"),
    [({"mode": "fast"}, "unknown mode 'fast'"), ({"options": {"a": 1}}, "unknown options")],
)
def test_options_it_does_not_have(options: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said) as raised:
        compile_graph(torch.fx.symbolic_trace(lambda x: x + 1), [torch.ones(1)], **options)
    assert isinstance(raised.value, ArgumentError)


# ---- programs ----------------------------------------------------------------------------------
def test_several_inputs_and_results() -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        return a @ b, (a + c).sum(-1), F.softmax(a * c, -1)

    same(function, normal(4, 8), normal(8, 8, seed=1), normal(4, 8, seed=2))


def test_sizes_that_change() -> None:
    module = Small()
    run = compiled(module, dynamic=True)
    for count in (2, 3, 5, 3):
        x = normal(count, 4, 8, seed=count)
        ours, torchs = copy.deepcopy(x).requires_grad_(), x.clone().requires_grad_()
        torch.testing.assert_close(run(ours), module(torchs), rtol=1e-4, atol=1e-4)
        run(ours).square().sum().backward()
        module(torchs).square().sum().backward()
        torch.testing.assert_close(ours.grad, torchs.grad, rtol=1e-4, atol=1e-4)


# Dynamo looks at the gradient of a tensor that the first part has computed.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_graph_that_breaks() -> None:
    module = Small()

    def function(x: Any) -> Any:
        y = module(x)
        torch._dynamo.graph_break()
        return module(y) * 2

    same(function, normal(3, 8))


def test_inputs_that_are_changed() -> None:
    def function(x: Any, total: Any) -> Any:
        total.add_(x.detach().sum(0))
        y = F.relu(x * 2)
        y.mul_(3)
        return y

    run = compiled(function)
    ours, torchs = torch.zeros(8), torch.zeros(8)
    for seed in range(2):
        x = normal(4, 8, seed=seed)
        torch.testing.assert_close(run(x, ours), function(x, torchs))
        torch.testing.assert_close(ours, torchs)


@pytest.mark.parametrize("offset", [0, 1])
def test_small_inputs_are_written_by_kernels(offset: int) -> None:
    """Also inputs whose address is no multiple of 16 bytes."""

    def function(x: Any, a: Any, b: Any) -> Any:
        a.copy_(a * 0.5 + x.sum(0))
        b.copy_(b + x.mean(0))
        return x * 2

    run = compiled(function)
    room = [normal(20, seed=i) for i in range(4)]
    ours, torchs = (tuple(t.clone()[offset : offset + 16] for t in room[:2]) for _ in range(2))
    for seed in range(2):
        x = normal(4, 16, seed=seed)
        torch.testing.assert_close(run(x, *ours), function(x, *torchs))
        torch.testing.assert_close(ours, torchs)
    steps = reports()[-1].steps
    assert not [s for s in steps if "copy_" in s.name]


def test_a_sum_that_changes_before_its_norm() -> None:
    weight = normal(8, seed=3)

    def function(a: Any, b: Any) -> Any:
        total = a + b
        total.mul_(2)
        return F.layer_norm(total, (8,), weight), total

    same(function, normal(4, 8), normal(4, 8, seed=1))


def test_norms_of_sums_are_one_op() -> None:
    weight, bias = normal(8, seed=3), normal(8, seed=4)

    def function(a: Any, b: Any) -> Any:
        total = a + b
        return F.layer_norm(total, (8,), weight, bias) * 2, total

    same(function, normal(4, 8), normal(4, 8, seed=1))
    names = [s.name for r in reports()[-2:] for s in r.steps]
    assert "weft.add_layer_norm_forward" in names


def test_autocast_inside_the_graph() -> None:
    module = Small()

    def function(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = module(x)
        with torch.autocast("cpu", enabled=False):
            return module(y.float())

    same(function, normal(4, 8), tolerance=6e-2)


def test_without_gradients() -> None:
    module, x = Small(), normal(4, 8)
    run = compiled(module)
    with torch.no_grad():
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)
    assert reports()[-1].kind == "inference"
    with torch.inference_mode():
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)


def test_checkpoints_of_activations() -> None:
    module = Small()

    def function(x: Any) -> Any:
        return checkpoint(module, x, use_reentrant=False) * 2

    same(function, normal(4, 8))
    backward = [s.name for s in reports()[-1].steps]
    assert "weft.linear" in backward  # it is computed again


def test_dropout_has_one_mask_in_both_passes() -> None:
    def function(x: Any) -> Any:
        return F.dropout(x * 3, 0.25, True)

    x = torch.ones(64, 64, requires_grad=True)
    y = compiled(function)(x)
    y.sum().backward()
    kept = y != 0
    assert 0.7 < kept.float().mean() < 0.8
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 4.0))
    torch.testing.assert_close(x.grad, kept * 4.0)
    assert not torch.equal(compiled(function)(x) != 0, kept)  # new numbers in each call


class Lacking(nn.Module):
    """A layer in float64, and an operation that no kernel has."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(8, 4, dtype=torch.float64)

    def forward(self, x: Any) -> Any:
        return torch.cumprod(self.wide(x.double()).float(), 0)


def test_what_weft_lacks_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one warning for both passes, which names the layers; an equal model has no other."""
    monkeypatch.setattr(left, "_WARNED", set())
    module = Lacking()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        same(module, normal(3, 8))
        assert reports()[-1].left == {"linear": "the dtype float64 of input"}
        torch._dynamo.reset()
        same(Lacking(), normal(3, 8))
    (ours,) = [str(w.message) for w in caught if "weft" in str(w.message)]
    assert ours.startswith('torch.compile(backend="weft"): PyTorch computes linear in wide: the ')
    assert "; cumprod in test_backend_behaviour.py:" in ours  # of the model itself: its line


def test_sizes_that_change_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is made for each; there is one warning when they are too many to be kept."""
    monkeypatch.setattr(left, "_WARNED", set())
    monkeypatch.setattr(sizes, "REMEMBERED", 2)
    module = Small()
    run = compiled(module, dynamic=True)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        for count in (2, 3, 4, 5, 6, 7):
            x = normal(count, 8, seed=count)
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-4)
    (warning,) = [str(w.message) for w in caught if "weft" in str(w.message)]
    assert "the graph of up was called with more than 2 combinations of sizes" in warning


def test_a_graph_that_changes_in_each_call(caplog: pytest.LogCaptureFixture) -> None:
    """PyTorch warns of it once, with the function, and runs the function as it is."""
    weight = normal(8, 8, seed=1) * 0.1

    def repeated(x: Any, count: int) -> Any:
        for _ in range(count):
            x = F.linear(x, weight) + 1
        return x

    run = compiled(repeated, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for count in range(1, 6):
            x = normal(2, 8, seed=count)
            torch.testing.assert_close(run(x, count), repeated(x, count), rtol=1e-4, atol=1e-4)
    said = [r.getMessage() for r in caplog.records if "recompile_limit" in r.getMessage()]
    assert len(said) == 1 and "repeated" in said[0]


def test_a_tensor_on_another_device() -> None:
    """PyTorch's own error, with the devices and the line."""
    module = Small()
    with pytest.raises(RuntimeError, match="meta") as raised:
        compiled(module)(torch.empty(3, 8, device="meta"))
    assert "self.up(x)" in str(raised.value)
    x = normal(3, 8)
    torch.testing.assert_close(compiled(module)(x), module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{"mode": "reduce-overhead"}, {"options": {"cuda_graph": True}}]
)
def test_graphs_that_cannot_be_captured_run_as_they_are(options: dict[str, Any]) -> None:
    same(Small(), normal(4, 8), **options)  # on the simulated GPU there are none


def test_integers_and_masks() -> None:
    table = normal(10, 8, seed=1)

    def function(x: Any, index: Any) -> Any:
        rows = F.embedding(index, table) * (index > 3).unsqueeze(-1)
        return torch.where(rows > 0, rows, x) + index.float().mean()

    same(function, normal(5, 8), torch.tensor([0, 3, 4, 9, 4]))


def test_a_constant_of_the_function() -> None:
    same(lambda x: x @ torch.tensor([[1.0, 2.0], [3.0, 4.0]]) + torch.arange(2), normal(3, 2))


def test_views_of_inputs_and_results() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y.t(), x.view(-1), y.unsqueeze(0).expand(3, -1, -1)

    same(function, normal(4, 6))


def test_memory_formats() -> None:
    weight = normal(4, 3, 3, 3, seed=1)

    def function(x: Any) -> Any:
        y = F.conv2d(x.contiguous(memory_format=torch.channels_last), weight, padding=1)
        return F.relu(y + 1) * 2

    same(function, normal(2, 3, 5, 5))


def test_gradients_that_are_accumulated() -> None:
    ours = Small()
    torchs = copy.deepcopy(ours)
    run = compiled(ours)
    for seed in range(2):
        x = normal(4, 8, seed=seed)
        run(x).sum().backward()
        torchs(x).sum().backward()
    for p, q in zip(ours.parameters(), torchs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)


def test_parameters_that_are_frozen() -> None:
    ours = Small()
    ours.up.requires_grad_(False)
    torchs = copy.deepcopy(ours)
    x = normal(4, 8)
    compiled(ours)(x).square().sum().backward()
    torchs(x).square().sum().backward()
    assert ours.up.weight.grad is None
    torch.testing.assert_close(ours.down.weight.grad, torchs.down.weight.grad)


@pytest.mark.parametrize("least", [1, 1 << 24])
def test_the_loss_of_a_linear_layer(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the logits in memory."""
    monkeypatch.setattr(calls, "MANY_LOGITS", least)
    weight, labels = normal(12, 8, seed=1), torch.tensor([1, 11, 0, -100, 5, 7])

    def function(x: Any, w: Any) -> Any:
        return F.cross_entropy(F.linear(x, w).view(-1, 12), labels) * 3

    same(function, normal(2, 3, 8), weight)


def test_an_activation_waits_for_the_product_beside_it() -> None:
    gate, up = normal(8, 8, seed=1), normal(8, 8, seed=2)
    same(lambda x: F.silu(x @ gate) * (x @ up), normal(4, 8))
    forward = [s.name for s in reports()[-2].steps]
    assert forward == ["weft.matmul", "weft.matmul", "silu, mul"]


def test_divided_tensors_are_put_together_in_one_copy() -> None:
    def function(x: Any) -> Any:
        k, q, v = x.view(2, 4, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 4, 16)

    same(function, normal(2, 4, 48))  # attention would write them side by side in its own order
    backward = [s.name for s in reports()[-1].steps]
    assert backward == ["weft.attention_backward", "weft.cat_3"]


def test_a_view_is_not_written_twice() -> None:
    weight = normal(16, 8, seed=1)
    same(lambda x: F.linear(F.gelu(x), weight), normal(3, 8))
    assert [s.bytes for s in reports()[-2].steps if s.name == "gelu"] == [2 * 3 * 8 * 4]


# ---- modules -----------------------------------------------------------------------------------
class Tied(nn.Module):
    """The first and the last layer have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(6, 8), nn.Linear(8, 6, bias=False)
        self.tokens.weight = self.head.weight
        with torch.no_grad():
            self.head.weight.copy_(normal(6, 8, seed=1) * 0.3)

    def forward(self, tokens: Any) -> Any:
        return self.head(F.gelu(self.tokens(tokens)))


class Counting(nn.Module):
    """Buffers that are changed in place and replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_(normal(*p.shape, seed=i) * 0.3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("last", torch.zeros(3, 8))

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        self.calls += 1
        self.mean.mul_(0.9).add_(y.detach().mean(0) * 0.1)
        self.last = torch.cat([self.last[1:], self.mean[None]])
        return y * self.mean


@pytest.mark.parametrize(
    ("kind", "x"), [(Tied, torch.tensor([[1, 2], [2, 0]])), (Counting, normal(4, 8))]
)
def test_modules_that_train(kind: Any, x: Any) -> None:
    ours = kind()
    torchs = copy.deepcopy(ours)
    run = compiled(ours)
    for module, call in ((ours, run), (torchs, torchs)):
        optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
        for _ in range(3):
            optimiser.zero_grad()
            call(x).square().sum().backward()
            optimiser.step()
    values = zip(ours.state_dict().values(), torchs.state_dict().values(), strict=True)
    for one, two in values:
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_inputs_that_share_memory() -> None:
    """One of them is changed: in the same tensor, and in parts of one that overlap."""

    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    run = compiled(function)
    for parts in (lambda t: (t, t), lambda t: (t[:2], t[2:]), lambda t: (t[:3], t[1:])):
        ours, torchs = normal(4, 8), normal(4, 8)
        torch.testing.assert_close(run(*parts(ours)), function(*parts(torchs)))
        torch.testing.assert_close(ours, torchs)


def test_a_checkpoint_around_a_compiled_module() -> None:
    """The dropout of the repeated pass has the mask of the first one."""
    module = nn.Linear(8, 8, bias=False)
    run = compiled(lambda x: F.dropout(module(x), 0.5))
    x = normal(16, 8).requires_grad_()
    y = checkpoint(run, x, use_reentrant=False)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y != 0) * 2.0 @ module.weight.detach())
