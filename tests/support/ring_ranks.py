"""Run attention on several ranks, and compare it with attention of the whole sequence in float64.

`python ring_ranks.py FOLDER [refused] WORLD...` forks the ranks of each world after it has imported
PyTorch and compiled the kernels once. FOLDER/WORLD.json has the largest error of each case, and
FOLDER/refused.json what each rank says to wrong arguments.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import draw
import ranks
import weft
from limits import PROCESS_SECONDS
from weft.distributed import gather, positions, ring_attention, shard, ulysses_attention
from weft.distributed.blocks import LAYOUTS
from weft.distributed.transport import Peers, host_group
from weft.ops.core import library

HEADS, SHARED, SIZE = 4, 2, 16
LATE = 2.0
"""Seconds that ranks wait for one that never answers."""
Case = Callable[[], Any]


def tokens(world: int) -> int:
    """A short sequence that all layouts divide."""
    return 12 if world == 3 else 16


def whole(world: int, dtype: Any = torch.float32) -> list[Any]:
    """Query, key, value and the gradient of the result, of the whole sequence."""
    made = draw.seeded(world)
    heads = (HEADS, SHARED, SHARED, HEADS)
    return [made.normal(2, h, tokens(world), SIZE).to(dtype) for h in heads]


def exact(tensors: list[Any], causal: bool, starts: list[int] | None = None) -> list[Any]:
    """The result and the gradients of query, key and value, in float64."""
    *given, dout = (x.double() for x in tensors)
    given = [x.requires_grad_() for x in given]
    bounds = starts or [0, given[0].shape[2]]
    parts = [
        torch.nn.functional.scaled_dot_product_attention(
            *(x[:, :, a:b] for x in given), is_causal=causal, enable_gqa=True
        )
        for a, b in itertools.pairwise(bounds)
    ]
    out = torch.cat(parts, 2)
    return [out, *torch.autograd.grad(out, given, dout)]


def difference(found: list[Any], want: list[Any]) -> float:
    """The largest relative error of the result and the gradients."""
    pairs = zip(found, want, strict=True)
    return max(
        float((a.detach().double() - b.detach()).norm() / b.detach().norm()) for a, b in pairs
    )


def ring(layout: str, causal: bool, dtype: Any = torch.float32) -> float:
    tensors = whole(dist.get_world_size(), dtype)
    q, k, v, dout = (shard(x, layout) for x in tensors)
    given = [x.requires_grad_() for x in (q, k, v)]
    out = ring_attention(*given, causal=causal, layout=layout)
    found = [out, *torch.autograd.grad(out, given, dout)]
    return difference([gather(x.detach(), layout) for x in found], exact(tensors, causal))


def lowered() -> float:
    """Under autocast, floats are multiplied in bfloat16."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        error = ring("zigzag", True)
        q, k, v, _ = (shard(x) for x in whole(dist.get_world_size()))
        assert ring_attention(q, k, v).dtype is torch.bfloat16
    return error


def other_sizes() -> float:
    """Values of another size, a scale, and views in the memory order of models."""
    made, n = draw.seeded(5), tokens(dist.get_world_size())
    q, k, v = (made.normal(1, n, HEADS, size).transpose(1, 2) for size in (SIZE, SIZE, 24))
    want = (q.double() @ k.double().mT * 0.3).softmax(-1) @ v.double()
    out = ring_attention(*(shard(x) for x in (q, k, v)), scale=0.3)
    return difference([gather(out)], [want])


def packed(causal: bool) -> float:
    """Sequences of one token, of none, within a shard and over several of them."""
    tensors = [x[:1] for x in whole(dist.get_world_size())]
    total = tensors[0].shape[2]
    starts = [0, 3, 3, 9, 10, total]
    q, k, v, dout = (shard(x[0].transpose(0, 1), dim=0) for x in tensors)
    given = [x.requires_grad_() for x in (q, k, v)]
    out = ring_attention(*given, causal=causal, cu_seqlens=torch.tensor(starts))
    found = [out, *torch.autograd.grad(out, given, dout)]
    rows = [gather(x.detach(), dim=0).transpose(0, 1)[None] for x in found]
    return difference(rows, exact(tensors, causal, starts))


def ulysses(causal: bool) -> float:
    tensors = whole(dist.get_world_size())
    q, k, v, dout = (shard(x) for x in tensors)
    given = [x.requires_grad_() for x in (q, k, v)]
    out = ulysses_attention(*given, causal=causal)
    found = [out, *torch.autograd.grad(out, given, dout)]
    return difference([gather(x.detach()) for x in found], exact(tensors, causal))


def both(layout: str) -> float:
    """Two rings of two ranks; the ranks of a pair exchange heads."""
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    rings = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    pair, around = pairs[rank // 2], rings[rank % 2]
    tensors = whole(4)
    q, k, v, dout = (shard(shard(x, layout, around), group=pair) for x in tensors)
    given = [x.requires_grad_() for x in (q, k, v)]
    out = ulysses_attention(*given, group=pair, ring_group=around, causal=True, layout=layout)
    found = [out, *torch.autograd.grad(out, given, dout)]
    joined = [gather(gather(x.detach(), group=pair), layout, around) for x in found]
    return difference(joined, exact(tensors, True))


def helpers() -> float:
    """Positions of all ranks, sums of gradients of gathered shards, messages of another group."""
    world, rank = dist.get_world_size(), dist.get_rank()
    x = draw.seeded(3).normal(3, tokens(world))
    wrong = 0.0
    for layout in LAYOUTS:
        mine = positions(tokens(world), layout)
        wrong += float((x[:, mine] != shard(x, layout, dim=1)).sum())
        part = shard(x, layout, dim=1).requires_grad_()
        joined = gather(part, layout, dim=1)
        wrong += float((joined != x).sum())
        (grad,) = torch.autograd.grad(joined, part, x * (rank + 1))
        wrong += float((grad - x[:, mine] * (world * (world + 1) / 2)).abs().max() > 1e-4)
    peers = Peers("test", host_group(range(world), None))
    got = torch.zeros(1)
    to, back = (rank + 1) % world, (rank - 1) % world
    if world > 1:
        peers.exchange([(to, torch.tensor([float(rank)]))], [(back, got)]).wait()
        wrong += float(got.item() != back)
    return wrong


def cases(world: int) -> dict[str, Case]:
    """The cases of a world by name."""
    made: dict[str, Case] = {"helpers": helpers}
    for causal in (False, True):
        mask = "causal" if causal else "full"
        for layout in LAYOUTS:
            made[f"{layout} {mask}"] = lambda a=layout, b=causal: ring(a, b)  # type: ignore[misc]
        made[f"packed {mask}"] = lambda b=causal: packed(b)  # type: ignore[misc]
        if HEADS % world == 0:
            made[f"ulysses {mask}"] = lambda b=causal: ulysses(b)  # type: ignore[misc]
    if world == 2:
        made["zigzag causal bfloat16"] = lambda: ring("zigzag", True, torch.bfloat16)
        made |= {"autocast": lowered, "other sizes": other_sizes}
    if world == 4:
        for layout in LAYOUTS:
            made[f"both {layout}"] = lambda a=layout: both(a)  # type: ignore[misc]
    return made


# ---- wrong arguments -------------------------------------------------------------------------
def zeros(rows: int = 4, batch: int = 1, dtype: Any = torch.float32, heads: int = 2) -> list[Any]:
    return [torch.zeros(batch, heads, rows, SIZE, dtype=dtype) for _ in range(3)]


def rows() -> list[Any]:
    """Tensors of packed sequences."""
    return [x[0].transpose(0, 1) for x in zeros()]


def one(rank: int, odd: list[Any], even: list[Any]) -> list[Any]:
    """`odd` on this rank, `even` on the others."""
    return odd if dist.get_rank() == rank else even


STARTS = {True: [0, 4, 8], False: [0, 5, 8]}
REFUSED: dict[str, Case] = {
    "shapes": lambda: ring_attention(*one(1, zeros(batch=3), zeros())),
    "dtypes": lambda: ring_attention(*one(1, zeros(dtype=torch.half), zeros())),
    "options": lambda: ring_attention(*zeros(), causal=dist.get_rank() == 1),
    "sequences": lambda: ring_attention(*rows(), cu_seqlens=STARTS[dist.get_rank() == 1]),
    "one empty": lambda: ring_attention(*one(1, zeros(0), zeros())),
    "empty": lambda: ring_attention(*zeros(0)),
    "layout": lambda: ring_attention(*zeros(), layout="spiral"),
    "odd rows": lambda: ring_attention(*zeros(3), layout="zigzag"),
    "packed layout": lambda: ring_attention(*rows(), layout="zigzag", cu_seqlens=[0, 8]),
    "packed shape": lambda: ring_attention(*zeros(), cu_seqlens=[0, 8]),
    "packed length": lambda: ring_attention(*rows(), cu_seqlens=[0, 7]),
    "packed number": lambda: ring_attention(*rows(), cu_seqlens=torch.tensor(8)),
    "key": lambda: ring_attention(*zeros()[:2], torch.zeros(1, 2, 5, SIZE)),
    "no tensor": lambda: ring_attention(None, *zeros()[1:]),  # type: ignore[arg-type]
    "heads": lambda: ulysses_attention(*zeros(heads=3)),
    "no ring": lambda: ulysses_attention(*zeros(), layout="zigzag"),
    "length": lambda: shard(torch.zeros(1, 1, 5)),
    "no tensor to shard": lambda: shard([1, 2]),  # type: ignore[arg-type]
    "dimension": lambda: gather(torch.zeros(2), dim=2),
    "positions": lambda: positions(6, "zigzag"),
    "timeout": lambda: ring_attention(*zeros(), timeout=0),
}
GONE: dict[str, Callable[[], Any]] = {
    "late": lambda: ring_attention(*zeros(), timeout=LATE),
    "late, unchecked": lambda: ring_attention(*zeros(), timeout=LATE, check=False),
    "dead": lambda: ring_attention(*zeros(), timeout=PROCESS_SECONDS),
    "dead, unchecked": lambda: ring_attention(*zeros(), timeout=PROCESS_SECONDS, check=False),
}
"""Calls that the last rank never makes: it waits, or ends."""


def said(call: Case) -> str:
    """The error of a call: its kind and its text."""
    try:
        call()
    except weft.Error as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# ---- processes -------------------------------------------------------------------------------
def warm() -> None:
    """Compile the kernels of all ranks before they are forked, without autograd's threads."""
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v, dout = whole(1, dtype)
        out, lse = weft.ops.attention_lse(q, k, v, enable_gqa=True)
        library.call("attention_merge")(out.float(), lse.clone(), out, lse)
        rest = (None, None, None, None, 0, 0, False, None, True, 0.0, 0, 0, None)
        library.call("attention_backward")(dout, None, q, k, v, out, lse, *rest)


def compared(rank: int, world: int, folder: Path) -> Any:
    ranks.join(rank, world, folder / "store")
    found = {name: case() for name, case in cases(world).items()}
    ranks.leave()
    return found


def refused(rank: int, world: int, folder: Path) -> Any:
    ranks.join(rank, world, folder / "store")
    found = {name: said(call) for name, call in REFUSED.items()}
    ranks.leave()
    return found


def wait_for(folder: Path, name: str, world: int) -> None:
    """Wait until all ranks but the last have their error: one that ends is an error to others."""
    while not all((folder / f"{name}{rank}").exists() for rank in range(world - 1)):
        time.sleep(0.05)


def left(name: str) -> Callable[[int, int, Path], Any]:
    """The ranks of a call that the last one never makes."""

    def rank_of(rank: int, world: int, folder: Path) -> Any:
        ranks.join(rank, world, folder / "store")
        dist.barrier()
        if rank < world - 1:
            found = said(GONE[name])
            (folder / f"{name}{rank}").touch()
            wait_for(folder, name, world)
            return found
        if name.startswith("late"):
            wait_for(folder, name, world)
        os._exit(0)

    return rank_of


def answers(work: Callable[[int, int, Path], Any], world: int, folder: Path) -> list[Any]:
    """Return the answer of each rank; None for one that has ended before."""
    folder.mkdir()
    return ranks.values_of(ranks.forked(lambda rank: work(rank, world, folder), world, folder))


def main(folder: Path, worlds: list[int], wrong: bool) -> None:
    warm()
    for world in worlds:
        found = answers(compared, world, folder / f"world{world}")
        worst = {name: max(errors[name] for errors in found) for name in found[0]}
        (folder / f"{world}.json").write_text(json.dumps(worst))
    if wrong:
        made = {"wrong": answers(refused, 2, folder / "refused")}
        made |= {name: answers(left(name), 3, folder / name.replace(", ", "_")) for name in GONE}
        (folder / "refused.json").write_text(json.dumps(made))


if __name__ == "__main__":
    words = sys.argv[2:]
    numbers = [int(word) for word in words if word != "refused"]
    main(Path(sys.argv[1]), numbers, "refused" in words)
