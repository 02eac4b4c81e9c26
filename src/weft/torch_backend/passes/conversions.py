"""Read gradients of 16 bits in the kernels of norms of float32, and store theirs in both dtypes.

Under autocast the products around a norm have 16 bits. Kernels of their own would convert and add
the gradients of those behind it, and convert the norm's for the one before it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.ops.families.norm.streamed.mixed import MOST
from weft.torch_backend.ahead import request_of
from weft.torch_backend.passes.casts import HALVES, widens
from weft.torch_backend.writer import Writer

aten = torch.ops.aten

_NAMES = {
    "weft::layer_norm_backward": "layer_norm_backward_mixed",
    "weft::rms_norm_backward": "rms_norm_backward_mixed",
}
"""The ops, and those that convert."""


def join(graph: Graph) -> None:
    """Replace gradients of norms that conversions surround."""
    for node in list(graph.nodes):
        name = _NAMES.get(getattr(getattr(node.target, "_schema", None), "name", ""))
        if name is not None:
            _replace(graph, node, name)
    graph.eliminate_dead_code()


def _replace(graph: Graph, node: Node, name: str) -> None:
    schema: Any = node.target._schema.arguments
    given: dict[str, Any] = dict(zip((a.name for a in schema), node.args, strict=True))
    items = {u.args[1]: u for u in node.users}
    x = given["x"]
    if x.meta["val"].dtype is not torch.float32 or not given["weights"] or 0 not in items:
        return
    narrow, wide = _gradients(given["dy"], x)
    casts = _conversions(items[0], [n.meta["val"].dtype for n in narrow])
    if not narrow and not casts:
        return
    statistics = [given[s] for s in ("mean", "rstd") if s in given]
    lowered = casts[0].meta["val"].dtype if casts else None
    library.function(name)
    op = getattr(torch.ops.weft, name).default
    with graph.inserting_before(node):
        made = Writer(graph)(
            op, x, given["weight"], *statistics, wide, *narrow, *[None] * (MOST - len(narrow)),
            given["dtotal"], given["normalized_shape"], lowered,
        )  # fmt: skip
    if not _has_kernel(made, x.meta["val"].device):
        graph.erase_node(made)
        return
    made.meta = {**node.meta, "val": made.meta["val"]}
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    if casts:
        last = len(made.meta["val"]) - 1
        with graph.inserting_after(made):
            low = graph.call_function(operator.getitem, (made, last))
        low.meta = {**casts[0].meta, "val": made.meta["val"][last]}
        for cast in casts:
            cast.replace_all_uses_with(low)


def _has_kernel(node: Node, device: torch.device) -> bool:
    request = request_of(node, device)
    return request is not None and bool(library.function(request.op).definition.candidates(request))


def _gradients(dy: Node, x: Node) -> tuple[list[Node], Node | None]:
    """The gradients of 16 bits, and the one of float32, that a gradient is the sum of."""
    addends = list(_addends(dy, x))
    converted = [n for n in addends if widens(n) and _is_alike(n, x)]
    narrow = [n.args[0] for n in converted]
    wide = [n for n in addends if n not in converted]
    dtypes = {n.meta["val"].dtype for n in narrow}
    if len(dtypes) > 1 or len(narrow) > MOST or len(wide) > 1:
        return [], dy
    return narrow, next(iter(wide), None)


def _addends(node: Node, x: Node) -> Iterator[Node]:
    """The operands of sums that nothing else reads."""
    whole = node.target is aten.add.Tensor and not node.kwargs and len(node.users) == 1
    if whole and all(_is_alike(n, x) for n in node.args):
        for n in node.args:
            yield from _addends(n, x)
    else:
        yield node


def _is_alike(node: Any, x: Node) -> bool:
    """True for a tensor of the dtype and the layout of another."""
    if not isinstance(node, Node) or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    value, other = node.meta["val"], x.meta["val"]
    return (
        value.shape == other.shape
        and value.dtype is other.dtype
        and value.is_contiguous()
        and value.device == other.device
    )


def _conversions(rows: Node, dtypes: Sequence[torch.dtype]) -> list[Node]:
    """The conversions of a norm's gradient to one dtype of 16 bits: the first of `dtypes`."""
    found = [
        u
        for u in rows.users
        if u.target is aten._to_copy.default
        and u.meta["val"].dtype in (dtypes[:1] or HALVES)
        and u.meta["val"].device == rows.meta["val"].device
        and u.meta["val"].is_contiguous()
    ]
    return [u for u in found if u.meta["val"].dtype is found[0].meta["val"].dtype]
