"""The schedules of a training step on several GPUs, layer by layer."""

from __future__ import annotations

from weft.measure.parallel.simulation import messages
from weft.measure.parallel.simulation.messages import Network
from weft.values.time.parallel import Schedule, Step


def _layers(work: Step, parts: int = 1) -> tuple[list[float], list[float]]:
    """The seconds of each layer forward and backward, divided by `parts`."""
    forward = work.forward / work.layers / parts
    backward = (work.seconds - work.forward) / work.layers / parts
    return [forward] * work.layers, [backward] * work.layers


def tensor(net: Network, work: Step, *, scattered: bool) -> None:
    """Compute half a layer, exchange sums, and so on; backward in the same way."""
    size = work.tokens * work.width * work.activation
    ends = net.start()
    for seconds in (each for direction in _layers(work, net.fabric.gpus) for each in direction):
        for _ in ("attention", "feed-forward"):
            ends = _after(net, seconds / 2, ends)
            if scattered:
                ends = messages.all_gather(net, size, messages.reduce_scatter(net, size, ends))
            else:
                ends = messages.all_reduce(net, size, ends)


def data(net: Network, work: Step, schedule: Schedule) -> None:
    """Buckets fill as layers go backward; a full one is added after those before it."""
    forward, backward = _layers(work)
    computed = net.start()
    for seconds in forward:
        computed = _after(net, seconds, computed)
    added = computed
    filled = 0.0
    for number, seconds in enumerate(backward, 1):
        computed = _after(net, seconds, computed)
        filled += work.parameters * work.gradient / work.layers
        while filled >= schedule.bucket or (number == work.layers and filled > _DUST):
            size = min(filled, schedule.bucket)
            filled -= size
            added = messages.all_reduce(net, size, _both(net, added, computed))


_DUST = 0.5
"""Bytes that only rounding leaves in a bucket."""


def fsdp(net: Network, work: Step) -> None:
    """Gather the weights of one layer ahead; forget them after use; scatter the gradients."""
    size = work.parameters * work.gradient / work.layers
    forward, backward = _layers(work)
    computed = linked = net.start()
    for seconds in forward:
        linked = messages.all_gather(net, size, linked)
        computed = _after(net, seconds, computed, linked)
    gathered = linked = messages.all_gather(net, size, computed)
    for number, seconds in enumerate(backward, 1):
        ahead = messages.all_gather(net, size, linked) if number < work.layers else linked
        computed = _after(net, seconds, computed, gathered)
        linked = messages.reduce_scatter(net, size, _both(net, ahead, computed))
        gathered = ahead


def _both(net: Network, one: list[int], other: list[int]) -> list[int]:
    return [net.meet(*ends) for ends in zip(one, other, strict=True)]


def _after(net: Network, seconds: float, *before: list[int]) -> list[int]:
    return [net.compute(r, seconds, *ends) for r, ends in enumerate(zip(*before, strict=True))]


def pipeline(net: Network, work: Step, schedule: Schedule, *, alternate: bool) -> None:
    """Each stage runs its micro-batches in its order; results are sent on when they are there."""
    stages, batches = net.fabric.gpus, schedule.micro_batches
    size = work.tokens * work.width * work.activation
    f, b = work.forward / stages, (work.seconds - work.forward) / stages
    orders = [_order(stages - s if alternate else batches, batches) for s in range(stages)]
    last: list[int] = net.start()
    arrived: dict[tuple[int, str, int], int] = {(0, "forward", k): last[0] for k in range(batches)}
    places = [0] * stages
    while any(place < 2 * batches for place in places):
        for stage in range(stages):
            while places[stage] < 2 * batches:
                direction, k = orders[stage][places[stage]]
                if (stage, direction, k) not in arrived:
                    break
                before = arrived[stage, direction, k]
                done = net.compute(stage, f if direction == "forward" else b, last[stage], before)
                last[stage] = done
                places[stage] += 1
                _send_on(net, arrived, stage, direction, k, size, done)


def _send_on(
    net: Network,
    arrived: dict[tuple[int, str, int], int],
    stage: int,
    direction: str,
    k: int,
    size: float,
    done: int,
) -> None:
    """Send a result to the next stage; the last one turns around."""
    to = stage + (1 if direction == "forward" else -1)
    if to == net.fabric.gpus:
        arrived[stage, "backward", k] = done
    elif to >= 0:
        arrived[to, direction, k] = net.send(stage, to, size, done)


def _order(ahead: int, batches: int) -> list[tuple[str, int]]:
    """Go forward `ahead` times, then backward and forward in turn, then backward."""
    ahead = min(ahead, batches)
    order = [("forward", k) for k in range(ahead)]
    for k in range(batches):
        order.append(("backward", k))
        if ahead + k < batches:
            order.append(("forward", ahead + k))
    return order
