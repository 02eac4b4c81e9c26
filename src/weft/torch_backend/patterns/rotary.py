"""Replace rotary embeddings, as public code writes them, by one op for queries and keys.

Two forms are known: `x * cos + cat((-x2, x1), -1) * sin` with the halves x1 and x2 of x, and the
product of pairs as complex numbers. PyTorch would write the halves, their negatives and both
products to memory; the op reads queries and keys once and writes them once.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.torch_backend.patterns.changes import changed
from weft.torch_backend.patterns.halves import doubled, half_of
from weft.torch_backend.patterns.lowered import is_lowered

_SUMS = (operator.add, torch.add, "add")
_PRODUCTS = (operator.mul, torch.mul, "mul")
_JOINS = (torch.cat, torch.concat, torch.concatenate)
_NEGATIVES = (operator.neg, torch.neg, "neg", "__neg__")
_CASTS = ("float", "to", "type_as")
_SHAPES = ("reshape", "view", "unflatten", "flatten", torch.reshape, torch.flatten)


@dataclass(frozen=True)
class _Rotation:
    """A rotation in a graph.

    last   the node whose value is the result
    x      queries or keys, 4 dimensions
    cos    also the node of complex numbers
    heads  the dimension of x that heads are in: 1 or 2
    angles  the values that cos and sin come from, themselves first
    """

    last: Node
    x: Node
    cos: Node
    sin: Node
    heads: int
    angles: tuple[tuple[Node, ...], ...]

    @property
    def interleaved(self) -> bool:
        return self.cos is self.sin

    @property
    def is_tracked(self) -> bool:
        """False if a gradient ends at the result, as it does under torch.no_grad."""
        return bool(_value(self.last).requires_grad or not _value(self.x).requires_grad)

    def pairs_with(self, other: _Rotation) -> bool:
        """True if one op may compute both."""
        a, b = _value(self.x), _value(other.x)
        shapes = [[*v.shape[: self.heads], *v.shape[self.heads + 1 :]] for v in (a, b)]
        same = (self.cos, self.sin, self.heads) == (other.cos, other.sin, other.heads)
        same = same and self.is_tracked == other.is_tracked
        return same and shapes[0] == shapes[1] and a.dtype is b.dtype and a.device == b.device


# ---- what replaces the calls -------------------------------------------------------------------
def angles(cos: Any, sin: Any, heads: int, interleaved: bool) -> Any:
    """The angles of an op from those of a program: without heads, each once."""
    if interleaved:
        cos, sin = torch.view_as_real(cos).unbind(-1)
    return tuple(_of_positions(x, heads, interleaved) for x in (cos, sin))


def _of_positions(x: Any, heads: int, interleaved: bool) -> Any:
    whole = x[(None,) * (4 - x.dim())].squeeze(heads)
    if whole.shape[0] == 1:
        whole = whole.squeeze(0)
    return whole.contiguous() if interleaved else whole[..., : whole.shape[-1] // 2]


def rotary(q: Any, k: Any, cos: Any, sin: Any, heads: int, interleaved: bool) -> Any:
    """(queries, keys), turned."""
    given = [x if heads == 1 else x.transpose(1, 2) for x in (q, k)]
    made = library.call("rotary")(*given, cos, sin, interleaved)
    return made if heads == 1 else tuple(x.transpose(1, 2) for x in made)


# ---- the graph ---------------------------------------------------------------------------------
def join(graph: Graph) -> int:
    """Replace rotations of queries and keys; return how many pairs."""
    found = [r for r in map(_rotation, list(graph.nodes)) if r is not None]
    place = {n: i for i, n in enumerate(graph.nodes)}
    made: dict[tuple[Node, Node, int], Node] = {}
    count = 0
    while len(found) > 1:
        first, second, *rest = found
        if not first.pairs_with(second) or not _movable(first, second, place):
            found = found[1:]
            continue
        _replace(graph, first, second, made)
        found, count = rest, count + 1
    return count


def _movable(first: _Rotation, second: _Rotation, place: dict[Node, int]) -> bool:
    """True if the first result may be computed with the second one."""
    start = min((first.x, second.x), key=place.__getitem__)
    if any(place[u] < place[second.last] for u in first.last.users):
        return False
    if changed(start, second.last):
        return False
    # Angles are computed once for all layers, from values that stay as they are.
    return all(not changed(chain[-1], second.last, chain) for chain in first.angles)


def _replace(
    graph: Graph, first: _Rotation, second: _Rotation, made: dict[tuple[Node, Node, int], Node]
) -> None:
    key = first.cos, first.sin, first.heads
    options = first.heads, first.interleaved
    with graph.inserting_before(second.last):
        if key not in made:
            made[key] = graph.call_function(angles, (first.cos, first.sin, *options))
        turned = [graph.call_function(operator.getitem, (made[key], i)) for i in range(2)]
        both = graph.call_function(rotary, (first.x, second.x, *turned, *options))
        for i, each in enumerate((first, second)):
            item = graph.call_function(operator.getitem, (both, i))
            value = _value(each.last).to(_value(each.x).dtype)
            item.meta = dict(each.last.meta) | {"example_value": value}
            each.last.replace_all_uses_with(item)
    for each in (second, first):
        erase(graph, each.last)


def erase(graph: Graph, node: Node) -> None:
    """Remove an operation, and those of its operands that nothing else reads."""
    operands = node.all_input_nodes
    graph.erase_node(node)
    for n in operands:
        if not n.users and n.op in ("call_function", "call_method"):
            erase(graph, n)


# ---- the forms ---------------------------------------------------------------------------------
def _rotation(node: Node) -> _Rotation | None:
    found = _by_halves(node) if node.target in _SUMS else _by_complex(node)
    if found is None or not _supported(found):
        return None
    return found


def _by_halves(node: Node) -> _Rotation | None:
    """x * cos + cat((-x2, x1), -1) * sin."""
    if len(node.args) != 2 or node.kwargs:
        return None
    for plain, crossed in (node.args, node.args[::-1]):
        for turned, sin in _factors(crossed):
            x = _turned(turned)
            for same, cos in _factors(plain) if x is not None else ():
                heads = _heads(x, cos) if same is x else 0
                chains = doubled(cos), doubled(sin)
                if heads and _heads(x, sin) == heads and all(chains):
                    return _Rotation(node, x, cos, sin, heads, chains)
    return None


def _factors(node: Any) -> Sequence[tuple[Any, Any]]:
    """The factors of a product that nothing else reads, in both orders."""
    if not isinstance(node, Node) or node.target not in _PRODUCTS or len(node.users) > 1:
        return ()
    a, b = (*node.args, None, None)[:2]
    if not isinstance(a, Node) or not isinstance(b, Node) or node.kwargs:
        return ()
    return (a, b), (b, a)


def _turned(node: Node) -> Any:
    """The tensor whose halves are exchanged, the second one with its sign changed; or None."""
    if node.target not in _JOINS or len(node.users) > 1 or not node.args:
        return None
    parts: Any = node.args[0]
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if len(parts) != 2 or dim not in (-1, _value(node).dim() - 1):
        return None
    negative, first = parts
    if not isinstance(negative, Node) or negative.target not in _NEGATIVES:
        return None
    halves = half_of(first), half_of(negative.args[0])
    if None in halves:
        return None
    (x, one), (same, two) = halves  # type: ignore[misc]
    return x if x is same and (one, two) == (0, 1) else None


def _by_complex(node: Node) -> _Rotation | None:
    """view_as_real(view_as_complex(x in pairs) * angles), flattened, in the dtype of x."""
    if any(u.target in _CASTS for u in node.users):
        return None  # the conversion belongs to it
    flat = _before(node, _CASTS)
    turned = _before(flat, _SHAPES)
    if turned is flat or turned.target is not torch.view_as_real or not _alone(node, turned):
        return None
    for pairs, turns in _factors(turned.args[0]):
        if pairs.target is torch.view_as_complex and isinstance(pairs.args[0], Node):
            x = _before(_before(pairs.args[0], _SHAPES), _CASTS)
            heads = _heads(x, turns, 2)
            if heads and _value(pairs).shape == (*_value(x).shape[:3], _value(x).shape[3] // 2):
                return _Rotation(node, x, turns, turns, heads, ((turns,),))
    return None


def _before(node: Node, targets: tuple[Any, ...]) -> Node:
    """The operand of a call of one of these functions; another node itself."""
    if node.target in targets and node.args and isinstance(node.args[0], Node):
        return node.args[0]
    return node


def _alone(last: Node, first: Node) -> bool:
    """True if nothing else reads the values between two nodes of a chain."""
    node: Any = last
    while node is not first:
        node = node.args[0]
        if len(node.users) > 1:
            return False
    return True


def _heads(x: Node, cos: Node, share: int = 1) -> int:
    """The dimension of x that angles do not depend on: 1 or 2; 0 if they do not fit.

    share  elements of x that have one angle beside each other
    """
    a, b = _value(x), _value(cos)
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.dim() != 4:
        return 0
    shape = (*[1] * (4 - b.dim()), *b.shape)
    if b.dim() > 4 or shape[3] * share != a.shape[3] or shape[0] not in (1, a.shape[0]):
        return 0
    for heads, positions in ((1, 2), (2, 1)):
        if shape[heads] == 1 and shape[positions] == a.shape[positions]:
            return heads
    return 0


def _supported(found: _Rotation) -> bool:
    """True if the op computes a rotation in these dtypes, and no gradient of angles is needed."""
    x, made = _value(found.x), _value(found.last)
    turns = [_value(n) for n in (found.cos, found.sin)]
    allowed = (torch.complex64,) if found.interleaved else (torch.float32, x.dtype)
    fits = x.dtype in (torch.float32, torch.float16, torch.bfloat16)
    fits = fits and (made.dtype is x.dtype or is_lowered(found.last, x.dtype))
    fits = fits and made.shape == x.shape and x.numel() > 0 and x.shape[3] % 2 == 0
    same = turns[0].dtype is turns[1].dtype and turns[0].dtype in allowed
    return fits and same and not any(t.requires_grad or t.device != x.device for t in turns)


def _value(node: Node) -> Any:
    return node.meta.get("example_value")
