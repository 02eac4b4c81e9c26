"""Messages and collectives as tasks: every message of every GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from weft.measure.parallel.simulation.engine import Graph, run
from weft.values.time.parallel import Fabric

Ends = Sequence[int]
"""The last task of each GPU."""


class Network:
    """A graph of tasks on the GPUs of a fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.graph = Graph()

    def compute(self, gpu: int, seconds: float, *after: int) -> int:
        """Add a computation on a GPU."""
        return self.graph.add(seconds, [("computes", gpu)], after)

    def meet(self, *after: int) -> int:
        """Add a task without work, at the time when others have ended."""
        return self.graph.add(0.0, (), after)

    def send(self, a: int, b: int, size: float, *after: int) -> int:
        """Add a message; GPU `a` sends and GPU `b` receives nothing else meanwhile."""
        seconds = self.fabric.link(a, b).seconds(size)
        return self.graph.add(seconds, [("sends", a), ("receives", b)], after)

    def start(self) -> list[int]:
        """Add the task with which each GPU begins."""
        return [self.meet() for _ in range(self.fabric.gpus)]


def _turn(net: Network, ring: Sequence[int], part: float, after: list[int]) -> None:
    """Send parts along a ring, one step less than it has GPUs; `after` becomes the last tasks."""
    for _ in range(len(ring) - 1):
        sent = [
            net.send(a, b, part, after[a], after[b])
            for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)
        ]
        for i, gpu in enumerate(ring):
            after[gpu] = net.meet(sent[i], sent[i - 1])  # sent its part, and got the one before


def _rings(fabric: Fabric) -> tuple[list[range], list[range]]:
    """The GPUs of each node, and those with the same place in every node."""
    n, every = fabric.local, fabric.gpus
    return [range(k, k + n) for k in range(0, every, n)], [range(k, every, n) for k in range(n)]


def all_gather(net: Network, size: float, after: Ends) -> list[int]:
    """Gather between nodes, then inside each."""
    ends = list(after)
    inside, across = _rings(net.fabric)
    for ring in across:
        _turn(net, ring, size / net.fabric.gpus, ends)
    for ring in inside:
        _turn(net, ring, size / net.fabric.local, ends)
    return ends


def reduce_scatter(net: Network, size: float, after: Ends) -> list[int]:
    """Add inside each node, then between nodes."""
    ends = list(after)
    inside, across = _rings(net.fabric)
    for ring in inside:
        _turn(net, ring, size / net.fabric.local, ends)
    for ring in across:
        _turn(net, ring, size / net.fabric.gpus, ends)
    return ends


def ring_all_reduce(net: Network, size: float, after: Ends) -> list[int]:
    """Add parts, then gather them."""
    return all_gather(net, size, reduce_scatter(net, size, after))


def _up(net: Network, group: Sequence[int], size: float, ends: list[int]) -> None:
    distance = 1
    while distance < len(group):
        for place in range(0, len(group) - distance, 2 * distance):
            to, of = group[place], group[place + distance]
            ends[to] = ends[of] = net.send(of, to, size, ends[to], ends[of])
        distance *= 2


def _down(net: Network, group: Sequence[int], size: float, ends: list[int]) -> None:
    distance = 1 << (len(group) - 1).bit_length() >> 1
    while distance:
        for place in range(0, len(group) - distance, 2 * distance):
            of, to = group[place], group[place + distance]
            ends[to] = ends[of] = net.send(of, to, size, ends[to], ends[of])
        distance //= 2


def tree_all_reduce(net: Network, size: float, after: Ends) -> list[int]:
    """Add up a tree in each node and up one of the nodes' first GPUs, then go back down."""
    ends = list(after)
    inside, across = _rings(net.fabric)
    for group in inside:
        _up(net, group, size, ends)
    _up(net, across[0], size, ends)
    _down(net, across[0], size, ends)
    for group in inside:
        _down(net, group, size, ends)
    return ends


def all_reduce(net: Network, size: float, after: Ends) -> list[int]:
    """Add by rings or by a tree, whichever is faster on links that nothing else uses."""
    add = tree_all_reduce if _tree_is_faster(net.fabric, size) else ring_all_reduce
    return add(net, size, after)


@functools.lru_cache(64)
def _tree_is_faster(fabric: Fabric, size: float) -> bool:
    by_ring, by_tree = Network(fabric), Network(fabric)
    ring_all_reduce(by_ring, size, by_ring.start())
    tree_all_reduce(by_tree, size, by_tree.start())
    return run(by_tree.graph).seconds < run(by_ring.graph).seconds


def all_to_all(net: Network, size: float, after: Ends) -> list[int]:
    """Each GPU sends to all others in turn; in a round, all messages stay in nodes or none does."""
    n, nodes = net.fabric.local, net.fabric.nodes
    gpus = range(net.fabric.gpus)
    last = list(after)
    arrived = [[end] for end in after]
    for away, place in ((k, i) for k in range(nodes) for i in range(n) if (k, i) != (0, 0)):
        for a in gpus:
            b = (a // n + away) % nodes * n + (a % n + place) % n
            last[a] = net.send(a, b, size / len(gpus), last[a], after[b])
            arrived[b].append(last[a])
    return [net.meet(last[a], *arrived[a]) for a in gpus]
