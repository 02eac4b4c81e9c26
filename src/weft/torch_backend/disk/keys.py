"""The key of a compiled graph: a digest of everything that it depends on.

The graph of Dynamo and the layouts of its inputs are written as text. A graph with a part whose
text does not say all about it, such as a function of the user or a tensor's contents, has no key
and is compiled in every process.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node

from weft import cache
from weft.ops.core import library
from weft.ops.core.native.trace import NAMESPACE
from weft.ops.core.target import target
from weft.torch_backend.layers import place_of
from weft.torch_backend.sizes import has_symbols

_SOURCES = ("torch_backend", "ops")
"""Folders of weft whose code decides what a graph becomes."""
_PACKAGES = ("torch", "_operator", "math", "builtins")
"""Packages whose functions are what their names and versions say."""
_NAMESPACES = ("aten", "prims", "prim")
"""Namespaces of PyTorch's own operators; others have formulas of the user."""
_HIGHER_ORDER = ("tag_activation_checkpoint",)
"""Operators on graphs that depend on nothing but these graphs."""
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)
_CONSTANTS = (
    bool, int, float, complex, str, type(None), type(Ellipsis), slice,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip


class NoKey(Exception):
    """A graph has a part whose text does not say all about it."""


def key_of(module: GraphModule, inputs: Sequence[Any]) -> str:
    """The key of a graph of Dynamo, before it is changed; "" if it has none."""
    try:
        parts = [list(_graphs(module)), _inputs(inputs), _settings(inputs)]
    except (NoKey, RuntimeError):  # PyTorch refuses to tell settings of which two disagree
        return ""
    return cache.key(_versions(), *parts)


def places_of(module: GraphModule) -> str:
    """A digest of the layers and lines of a graph, which warnings name."""
    graphs = [each for each in module.modules() if isinstance(each, GraphModule)]
    return cache.key(*(place_of(node) for each in graphs for node in each.graph.nodes))


# ---- the graph ---------------------------------------------------------------------------------
def _graphs(module: GraphModule) -> Iterator[str]:
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise NoKey("hooks of saved tensors")
    for name, each in module.named_modules():
        if not isinstance(each, GraphModule):
            raise NoKey("a module that is no graph")
        if any(True for _ in (*each.parameters(recurse=False), *each.buffers(recurse=False))):
            raise NoKey("a tensor of the graph itself")
        if each.meta.get("_checkpoint_context_fn") is not None:
            raise NoKey("a function of the user that chooses what is saved")
        numbers = {n: i for i, n in enumerate(each.graph.nodes)}
        yield f"graph {name}"
        for node in each.graph.nodes:
            yield _line(each, node, numbers)


def _line(module: GraphModule, node: Node, numbers: dict[Node, int]) -> str:
    """A node as text: nodes are numbers, names of values have no effect."""
    if has_symbols(node.meta.get("example_value")):
        raise NoKey("sizes that are symbols")
    if node.op == "call_function":
        name = _function(node.target)
    elif node.op == "call_method":
        name = str(node.target)
    elif node.op == "get_attr":
        name = str(node.target)
        if not isinstance(getattr(module, name, None), GraphModule):
            raise NoKey("a constant of the graph")
    elif node.op in ("placeholder", "output"):
        name = ""
    else:
        raise NoKey(f"a node {node.op}")
    return f"{node.op} {name} {_value(node.args, numbers)} {_value(node.kwargs, numbers)}"


def _function(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        known = target.namespace in _NAMESPACES
        if target.namespace == NAMESPACE:
            known = target._schema.name.partition("::")[2] in library.definitions()
        if not known:
            raise NoKey("an operator of the user")
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        if target.name() not in _HIGHER_ORDER:
            raise NoKey("an operator on graphs")
        return str(target.name())
    name = getattr(target, "__name__", "")
    for owner in _owners(target):
        if getattr(owner, name, None) is target:
            return f"{owner.__name__}:{name}"
    found = _functional().get(target)
    if found is None:
        raise NoKey("a function of the user")
    return found


def _owners(target: Any) -> list[Any]:
    """The modules of PyTorch and Python in which a function may be found by its name."""
    module = str(getattr(target, "__module__", None))
    own = sys.modules.get(module) if module.partition(".")[0] in _PACKAGES else None
    c = torch._C
    return [*([own] if own else []), torch, c, c._nn, c._fft, c._linalg, c._special, operator]


@functools.cache
def _functional() -> dict[Any, str]:
    """The functions of torch.nn.functional whose own names are others."""
    functions = vars(torch.nn.functional).items()
    return {f: f"torch.nn.functional:{name}" for name, f in functions if inspect.isroutine(f)}


def _value(value: Any, numbers: dict[Node, int]) -> str:
    """An argument as text."""
    if isinstance(value, Node):
        return f"%{numbers[value]}"
    if isinstance(value, slice):
        return f"slice{_value((value.start, value.stop, value.step), numbers)}"
    if isinstance(value, tuple | list):
        inside = ", ".join(_value(v, numbers) for v in value)
        return f"{'list' if isinstance(value, list) else 'tuple'}({inside})"
    if isinstance(value, dict):
        inside = ", ".join(f"{k!r}: {_value(v, numbers)}" for k, v in value.items())
        return f"{{{inside}}}"
    if type(value) not in _CONSTANTS:
        raise NoKey("an argument without a text")
    return f"{type(value).__name__} {value!r}"


# ---- its inputs --------------------------------------------------------------------------------
def _inputs(inputs: Sequence[Any]) -> list[str]:
    """The layouts of inputs, and which of them share memory."""
    storages: dict[int, int] = {}
    return [_input(x, storages) for x in inputs]


def _input(x: Any, storages: dict[int, int]) -> str:
    if not isinstance(x, torch.Tensor):
        return _value(x, {})
    if type(x) not in _TENSORS or x.layout is not torch.strided or has_symbols(x):
        raise NoKey("a tensor of another kind")
    storage = storages.setdefault(x.untyped_storage()._cdata, len(storages))
    flags = [x.requires_grad, x.is_leaf, x.is_conj(), x.is_neg(), x.is_inference(), x._is_view()]
    where = x.device, x.dtype, tuple(x.shape), x.stride(), x.storage_offset()
    return f"{where} {flags} in {storage} {isinstance(x, torch.nn.Parameter)}"


# ---- the process -------------------------------------------------------------------------------
def _settings(inputs: Sequence[Any]) -> list[str]:
    """The settings of the process, and its GPUs."""
    devices = sorted({str(x.device) for x in inputs if isinstance(x, torch.Tensor)})
    kinds = sorted({torch.device(d).type for d in devices} | {"cpu"})
    matmul, cuda = torch.backends.cuda.matmul, torch.backends.cuda
    found = [
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        [(k, torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in kinds],
        torch.is_autocast_cache_enabled(), torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(), torch.get_default_device(),
        torch.get_float32_matmul_precision(), matmul.allow_tf32, torch.backends.cudnn.allow_tf32,
        cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(), torch._functorch.config.get_hash(),
        [repr(target(torch.device(d))) for d in devices],
        sorted((n, v) for n, v in os.environ.items() if _matters(n)),
    ]  # fmt: skip
    return [repr(x) for x in found]


def _matters(name: str) -> bool:
    return name.startswith("WEFT_") and name != "WEFT_CACHE_DIR"


@functools.cache
def _versions() -> str:
    """The versions of weft, torch and Python."""
    digest = blake2b(digest_size=32)
    home = Path(__file__).parents[2]
    paths = [home / "__init__.py"]  # it has weft's version
    for folder in _SOURCES:
        paths += sorted((home / folder).rglob("*.py"))
    for path in paths:
        digest.update(f"{path.relative_to(home)}\0".encode() + path.read_bytes())
    versions = torch.__version__, torch.version.git_version, sys.version
    return f"{versions} {digest.hexdigest()}"
