"""Control flow of one function: basic blocks, an order for reconvergence, liveness.

The order is a weak topological order (after Bourdoncle): loops are contiguous and everything a
loop leads to comes after it. A warp that always runs its lowest pending block therefore
reconverges at the immediate post-dominator or earlier, for irreducible graphs too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from typing import TypeVar

from weft.ptx.isa import control_of
from weft.ptx.isa.columns import Control
from weft.ptx.model import Instruction, Label, Mem, Not, Operand, Pair, Reg, Sym, Vec
from weft.records import dataclass

EXIT = -1
N = TypeVar("N", bound=Hashable)
_ENDS = (Control.BRANCH, Control.TABLE, Control.RETURN, Control.EXIT)
"""Control flow that ends a block; a trap is inside one."""


@dataclass(slots=True)
class BasicBlock:
    """Straight-line code; `last` is its branch, if it ends in one."""

    index: int
    code: list[Instruction] = field(default_factory=list)
    last: Instruction | None = None
    successors: list[int] = field(default_factory=list)
    loops: tuple[int, ...] = ()


@dataclass(slots=True)
class Graph:
    """Reachable blocks in execution order; block 0 is the entry."""

    blocks: list[BasicBlock]
    post_dominator: list[int]
    live_in: list[set[str]]
    loops: dict[int, set[int]]
    labels: dict[str, int] = field(default_factory=dict)


def build(
    body: Iterable[Instruction | Label],
    tables: dict[str, tuple[str, ...]],
    splits: Callable[[Instruction], bool],
    defs: Callable[[Instruction], list[str]],
    uses: Callable[[Instruction], list[str]],
    starts: Callable[[Instruction], bool] = lambda ins: False,
) -> Graph:
    """The graph of a body; a block ends after every instruction for which `splits` holds, and one
    begins at every instruction for which `starts` holds."""
    blocks, labels = _cut(body, splits, starts)
    _connect(blocks, labels, tables)
    order, loops = _order(blocks)
    graph = _renumber(blocks, order, loops)
    new = {old: i for i, old in enumerate(order)}
    graph.labels = {name: new[b] for name, b in labels.items() if b in new}
    graph.post_dominator = _post_dominators(graph.blocks)
    graph.live_in = _liveness(graph.blocks, defs, uses)
    return graph


def _cut(
    body: Iterable[Instruction | Label],
    splits: Callable[[Instruction], bool],
    starts: Callable[[Instruction], bool],
) -> tuple[list[BasicBlock], dict[str, int]]:
    blocks = [BasicBlock(0)]
    labels: dict[str, int] = {}

    def start() -> None:
        blocks.append(BasicBlock(len(blocks)))

    for item in body:
        if isinstance(item, Label):
            # Several labels may stand at one place: they share a block.
            if blocks[-1].code or blocks[-1].last:
                start()
            labels[item.name] = len(blocks) - 1
        elif control_of(item.parts) in _ENDS:
            blocks[-1].last = item
            start()
        else:
            if starts(item) and (blocks[-1].code or blocks[-1].last):
                start()
            blocks[-1].code.append(item)
            if splits(item):
                start()
    return blocks, labels


def _targets(last: Instruction, tables: dict[str, tuple[str, ...]]) -> list[str]:
    """Label names a branch may go to."""
    if control_of(last.parts) is Control.BRANCH:
        return [_symbol(last.operands[0])]
    if control_of(last.parts) is Control.TABLE:
        return list(tables[_symbol(last.operands[1])])
    return []


def _symbol(operand: Operand) -> str:
    assert isinstance(operand, Sym)
    return operand.name


def _connect(
    blocks: list[BasicBlock], labels: dict[str, int], tables: dict[str, tuple[str, ...]]
) -> None:
    for b in blocks:
        following = b.index + 1 if b.index + 1 < len(blocks) else EXIT
        if b.last is None:
            b.successors = [following]
            continue
        ends = [labels[t] for t in _targets(b.last, tables)] or [EXIT]
        if b.last.guard is not None:
            ends.append(following)
        if control_of(b.last.parts) is Control.TABLE:
            ends = list(dict.fromkeys(reversed(ends)))[::-1]  # where a guard leads stays last
        b.successors = ends


def strong_components(roots: Iterable[N], edges: Callable[[N], Iterable[N]]) -> list[list[N]]:
    """Strongly connected components, each after all that it reaches; its entry is the last node.

    Tarjan's algorithm, iterative: the graphs of hostile PTX are deep.
    """
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    on: set[N] = set()
    found: list[list[N]] = []
    work: list[tuple[N, Iterator[N]]] = []

    def enter(node: N) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        work.append((node, iter(edges(node))))

    for root in roots:
        if root not in index:
            enter(root)
        while work:
            v, rest = work[-1]
            for s in rest:
                if s not in index:
                    enter(s)
                    break
                if s in on:
                    low[v] = min(low[v], index[s])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    part: list[N] = []
                    while not part or part[-1] != v:
                        part.append(stack.pop())
                    on.difference_update(part)
                    found.append(part)
    return found


def _order(blocks: list[BasicBlock]) -> tuple[list[int], dict[int, set[int]]]:
    """A weak topological order of the reachable blocks and the loops by head."""
    loops: dict[int, set[int]] = {}

    def components(nodes: set[int], roots: list[int], skip: int | None) -> list[list[int]]:
        def edges(v: int) -> list[int]:
            return [s for s in blocks[v].successors if s in nodes and s != skip]

        return strong_components(roots, edges)[::-1]

    out: list[int] = []

    def expand(nodes: set[int], roots: list[int], skip: int | None) -> list[object]:
        items: list[object] = []
        for part in components(nodes, roots, skip):
            head = part[-1]  # Tarjan pops the root of the component last: its entry
            if len(part) == 1 and (head not in blocks[head].successors or skip == head):
                items.append(head)
            else:
                loops[head] = set(part)
                items.append((set(part), head))
        return items

    everything = set(range(len(blocks)))
    work: list[object] = expand(everything, [0], None)[::-1]
    while work:
        item = work.pop()
        if isinstance(item, int):
            out.append(item)
            continue
        assert isinstance(item, tuple)
        nodes, head = item
        out.append(head)
        inner = nodes - {head}
        if inner:
            # Without its head, a loop is entered at the head's successors. Starting there makes the
            # entry of an inner loop its head.
            roots = [s for s in blocks[head].successors if s in inner] + sorted(inner)
            work.extend(expand(inner, roots, head)[::-1])
    return out, loops


def _renumber(blocks: list[BasicBlock], order: list[int], loops: dict[int, set[int]]) -> Graph:
    new = {old: i for i, old in enumerate(order)}
    new[EXIT] = EXIT
    out = []
    for old in order:
        b = blocks[old]
        out.append(BasicBlock(new[old], b.code, b.last, [new[s] for s in b.successors]))
    renamed = {new[h]: {new[x] for x in body} for h, body in loops.items()}
    for head, members in renamed.items():
        for m in members:
            out[m].loops += (head,)
    return Graph(out, [], [], renamed)


def _post_dominators(blocks: list[BasicBlock]) -> list[int]:
    """Immediate post-dominator of each block (EXIT for none), by the usual iteration."""
    n = len(blocks)
    preds: list[list[int]] = [[] for _ in range(n + 1)]
    for b in blocks:
        for s in b.successors:
            preds[n if s == EXIT else s].append(b.index)
    number: dict[int, int] = {}
    post: list[int] = []
    seen = {n}
    stack = [(n, iter(preds[n]))]
    while stack:
        v, it = stack[-1]
        for p in it:
            if p not in seen:
                seen.add(p)
                stack.append((p, iter(preds[p])))
                break
        else:
            stack.pop()
            number[v] = len(post)
            post.append(v)
    idom: dict[int, int] = {n: n}

    def meet(a: int, b: int) -> int:
        while a != b:
            while number[a] < number[b]:
                a = idom[a]
            while number[b] < number[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for v in reversed(post[:-1]):
            new = None
            for s in blocks[v].successors:
                s = n if s == EXIT else s
                if s in idom:
                    new = s if new is None else meet(new, s)
            if new is not None and idom.get(v) != new:
                idom[v] = new
                changed = True
    # A block of an endless loop reaches no exit and has no post-dominator: EXIT as well.
    return [EXIT if idom.get(v, n) == n else idom[v] for v in range(n)]


def _liveness(
    blocks: list[BasicBlock],
    defs: Callable[[Instruction], list[str]],
    uses: Callable[[Instruction], list[str]],
) -> list[set[str]]:
    gen: list[set[str]] = []
    kill: list[set[str]] = []
    for b in blocks:
        g: set[str] = set()
        k: set[str] = set()
        for ins in [*b.code, *([b.last] if b.last else [])]:
            g |= {r for r in uses(ins) if r not in k}
            if ins.guard is None:
                k.update(defs(ins))
            else:  # where the guard is false the old value lives on
                g |= {r for r in defs(ins) if r not in k}
        gen.append(g)
        kill.append(k)
    live = [set(g) for g in gen]
    preds: list[list[int]] = [[] for _ in blocks]
    for b in blocks:
        for s in b.successors:
            if s != EXIT:
                preds[s].append(b.index)
    # Taken from the end: liveness flows backwards, so the last blocks settle first.
    work = list(range(len(blocks)))
    pending = set(work)
    while work:
        i = work.pop()
        pending.discard(i)
        out: set[str] = set()
        for s in blocks[i].successors:
            if s != EXIT:
                out |= live[s]
        new = gen[i] | (out - kill[i])
        # The sets only grow, so equal sizes mean equal sets.
        if len(new) != len(live[i]):
            live[i] = new
            for p in preds[i]:
                if p not in pending:
                    pending.add(p)
                    work.append(p)
    return live


def registers(operand: Operand) -> list[str]:
    """All registers named inside an operand."""
    if type(operand) is Reg:  # most are, and a match takes longer
        return [operand.name]
    match operand:
        case Vec(items):
            return [r for x in items for r in registers(x)]
        case Pair(a, b):
            return registers(a) + registers(b)
        case Mem(base, _):
            return registers(base)
        case Not(of):
            return registers(of)
    return []
