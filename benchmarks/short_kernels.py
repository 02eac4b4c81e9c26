"""Time strategies of short kernels in CUDA graphs: norms of few rows, gradients, early launches.

    PYTHONPATH=src python benchmarks/short_kernels.py [seconds] [words of calls ...]

The contenders of a call take turns. Each result is compared with the first contender's. A JSON line
for each call goes to $OUT/short_kernels.jsonl. --chosen leaves out most strategies of norms that
the model does not choose; --build makes all plans on the simulated GPU and stops.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from short_timing import (
    BF16,
    DEVICE,
    F16,
    F32,
    Contender,
    Subject,
    chosen,
    drawn,
    late,
    time_all,
)

from weft.kernels import cdiv
from weft.ops.core import library
from weft.ops.core.plan import Buffer, Plan
from weft.ops.families.embedding import model as lists
from weft.ops.families.loss import model as loss_model
from weft.ops.families.norm import forward, layer_norm_backward
from weft.ops.families.norm import model as norm_model
from weft.ops.families.norm.forward import RowNorm
from weft.ops.families.norm.rows import RowStrategy, row_job

FEW = "--chosen" in sys.argv
THREADS = (32,) if FEW else (16, 32, 64, 128, 256, 512, 1024)
"""Threads of a row that are tried beside those that the model chooses."""
WIDTHS = (2, 4) if FEW else (2, 4, 8, 16)
"""Vectors beside each other of blocks that sum columns."""


# ---- norms -------------------------------------------------------------------------------------
FORWARD = (
    (RowNorm("add_rms_norm", False, True), 64, 8192, BF16),
    (RowNorm("add_rms_norm", False, True), 1, 4096, BF16),
    (RowNorm("add_rms_norm", False, True), 64, 3584, BF16),
    (RowNorm("add_rms_norm", False, True), 4, 896, BF16),
    (RowNorm("add_rms_norm", False, True), 16384, 2048, BF16),
    (RowNorm("add_layer_norm", True, True), 196, 384, F16),
    (RowNorm("add_layer_norm", True, True), 784, 768, BF16),
    (RowNorm("layer_norm", True, False), 512, 768, BF16),
    (RowNorm("layer_norm", True, False), 256, 1024, F32),
    (RowNorm("rms_norm", False, False), 591, 3584, BF16),
    (RowNorm("rms_norm", False, False), 2, 4096, F16),
    (RowNorm("layer_norm", True, False), 3072, 1024, BF16),
    (RowNorm("add_layer_norm", True, True), 197, 1024, F16),
    (RowNorm("layer_norm", True, False), 2048, 640, BF16),
)


def norms() -> Iterator[Subject]:
    for kind, count, n, dtype in FORWARD:
        rows = [drawn(count, n, dtype=dtype) for _ in range(kind.tensors)]
        weights = [drawn(n, dtype=dtype) for _ in range(1 + kind.centred)]
        function = library.function(kind.name)
        request = function.request(*function.bound((*rows, [n], *weights), {}))
        outputs = [Buffer((count, n), dtype)] * kind.tensors
        at = (range(kind.tensors), range(kind.tensors, len(request.inputs)))
        made = row_job(request, n, *at, outputs, forward=True)
        least = forward.threads_of(made.chunks, 8)[0]
        found = []
        for threads in THREADS:
            registers = cdiv(made.chunks, threads)
            if threads < least or registers > 8 or threads > 2 * made.chunks:
                continue
            for resident in (0, max(1, 2048 // max(threads, 128))):
                if resident and registers > 4:
                    continue
                strategy = RowStrategy(threads, registers, 0, resident)
                name = f"{threads} x {registers}{' cached' if resident else ''}"
                found.append(Contender(name, _rows(kind, made, strategy)))
        choice = chosen(kind.name, *rows, [n], *weights)[1]
        found.insert(0, Contender(f"chosen: {choice.used.why}", choice.used.build))
        found.insert(1, Contender("chosen, late", late(choice.used.build)))
        yield Subject(f"{kind.name} {count}x{n} {dtype}", (*rows, *weights), found)


def _rows(kind: RowNorm, made: Any, strategy: RowStrategy) -> Callable[[], Plan]:
    return lambda: forward.rows(kind, False, made, strategy)


BACKWARD = (
    (True, True, 128, 1024, BF16),
    (True, True, 147, 768, F16),
    (True, True, 197, 4544, BF16),
    (False, True, 384, 4096, F16),
    (False, False, 2048, 2048, F16),
    (False, True, 512, 8192, BF16),
    (True, True, 4096, 1024, F16),
    (True, False, 1500, 768, BF16),
    (True, False, 12608, 384, BF16),
    (False, False, 16384, 3072, BF16),
)


def gradients() -> Iterator[Subject]:
    for centred, added, count, n, dtype in BACKWARD:
        name = "layer_norm_backward" if centred else "rms_norm_backward"
        rows = [drawn(count, n, dtype=dtype) for _ in range(2)]
        statistics = [torch.ones(count, device=DEVICE) for _ in range(1 + centred)]
        total = drawn(count, n, dtype=dtype) if added else None
        args = (*rows, drawn(n, dtype=dtype), *statistics, total)
        tensors, choice = chosen(name, *args, [n], True)
        every = {c.name: c for c in (choice.used, *choice.others)}
        found = [Contender("rows", every["rows"].build)]
        found.append(Contender("rows, late", late(every["rows"].build)))
        found.append(Contender(f"joint: {every['rows and weights'].why}"
                               f"{' CHOSEN' if choice.used.name == 'rows and weights' else ''}",
                               every["rows and weights"].build))  # fmt: skip
        function = library.function(name)
        request = function.request(*function.bound((*args, [n], True), {}))
        outputs = (Buffer((count, n), dtype), *[Buffer((n,), dtype)] * (1 + centred))
        of_rows = (0, 1, len(request.inputs) - 1) if added else (0, 1)
        made = row_job(request, n, of_rows, (2,), outputs)
        for threads in THREADS:
            registers = cdiv(made.chunks, threads)
            if registers > 4 or threads > 2 * made.chunks:
                continue
            blocks = (256, 512, 1024) if threads <= 32 else (threads,)
            for width, block in itertools.product(WIDTHS, blocks):
                slabs = cdiv(made.chunks, width)
                if not 16 <= slabs <= 264 or (width == 16 and n < 4096):
                    continue
                strategy = RowStrategy(threads, registers, resident=1024 // block, least=block)
                plan = _joint(centred, made, strategy, width, slabs)
                name = f"joint {threads} x {registers}, width {width}, block {block}"
                found.append(Contender(name, plan))
        yield Subject(f"{name} {count}x{n} {dtype}{' added' if added else ''}", tensors, found)


def _joint(centred: bool, made: Any, strategy: RowStrategy, width: int, slabs: int) -> Any:
    return lambda: layer_norm_backward._joint(centred, made, strategy, width, slabs)


STREAMED = (
    (True, False, 8192, 768, BF16),
    (True, True, 8192, 768, BF16),
    (True, True, 12608, 768, BF16),
    (True, False, 16384, 1024, BF16),
    (False, True, 4096, 4096, BF16),
    (False, False, 16384, 3072, BF16),
    (True, False, 1500, 768, BF16),
    (True, False, 12608, 384, BF16),
    (True, False, 8192, 768, F32),
)
SHAPES: dict[str, dict[str, Any]] = {
    "": {},
    "256 threads": {"STREAM_BLOCKS": {32: (256, 2, 2), 256: (256, 2, 6), 512: (512, 1, 4)}},
    "512 for a row": {"STREAM_BLOCKS": {32: (512, 1, 3), 512: (512, 1, 6)}},
    "128 for a row": {"STREAM_BLOCKS": {32: (384, 1, 3), 128: (128, 4, 4), 512: (512, 1, 4)}},
}
"""Constants of the model that decide on blocks of streamed rows."""


def streams() -> Iterator[Subject]:
    for centred, added, count, n, dtype in STREAMED:
        op = "layer_norm_backward" if centred else "rms_norm_backward"
        dy, x = (drawn(count, n, dtype=dtype) for _ in range(2))
        wide = x.float()
        mean = wide.mean(1) * centred
        rstd = ((wide - mean[:, None]).square().mean(1) + 1e-5).rsqrt()
        w, total = drawn(n, dtype=dtype), drawn(count, n, dtype=dtype) if added else None
        args = (dy, x, w, *([mean] * centred), rstd, total, [n], True)
        tensors, choice = chosen(op, *args)
        every = {c.name: c for c in (choice.used, *choice.others)}
        found = [Contender(f"{c.name}{' CHOSEN' if c == choice.used else ''}", c.build)
                 for c in every.values() if c.name != "long rows"]  # fmt: skip
        known = set()
        for word, constants in SHAPES.items():
            made = _with_constants(op, args, constants)
            if made is not None and made.why not in known:
                known.add(made.why)
                found.append(Contender(f"streamed {word}: {made.why}", made.build))
        if centred and not added:
            found.append(Contender("torch", call=_torch_gradients(dy, x, mean, rstd, w)))
        yield Subject(f"streamed {op} {count}x{n} {dtype}{' added' * added}", tensors, found)


def _with_constants(op: str, args: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """The streamed candidate with other constants of the model; its plan keeps them."""
    before = {name: getattr(norm_model, name) for name in constants}
    for name, value in constants.items():
        setattr(norm_model, name, value)
    choice = chosen(op, *args)[1]
    for name, value in before.items():
        setattr(norm_model, name, value)
    return next((c for c in (choice.used, *choice.others) if c.name == "streamed rows"), None)


def _torch_gradients(dy: Any, x: Any, mean: Any, rstd: Any, w: Any) -> Callable[[], Any]:
    every = [True] * 3
    size = [x.shape[1]]
    statistics = mean[:, None], rstd[:, None]
    backward = torch.ops.aten.native_layer_norm_backward
    return lambda: backward(dy, x, size, *statistics, w, w, every)


# ---- others ------------------------------------------------------------------------------------
def others() -> Iterator[Subject]:
    last = torch.channels_last
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("add", (drawn(197, 768, dtype=BF16), drawn(197, 768, dtype=BF16))),
        ("add", (drawn(64, 1600), drawn(64, 1600))),
        ("relu", (drawn(512, 784, dtype=BF16),)),
        ("mean", (drawn(4, 2048, 7, 7, dtype=F16).to(memory_format=last), [2, 3])),
        ("mean", (drawn(8, 512, 7, 7).to(memory_format=last), [2, 3])),
        ("mean", (drawn(64, 960, 7, 7, dtype=F16), [2, 3])),
        (
            "avg_pool_backward",
            (drawn(1, 2048, 1, 1, dtype=F16), [1, 2048, 7, 7], 2, [1, 1], False, 0, True),
        ),
        ("avg_pool_backward", (drawn(8, 512, 1, 1), [8, 512, 7, 7], 2, [1, 1], False, 0, False)),
        ("max_pool2d", (drawn(3, 64, 112, 112, dtype=F16), [3], [2], [1])),
        ("softmax", (drawn(16, 32000, dtype=BF16), -1)),
        ("softmax", (drawn(64, 8, dtype=BF16), -1)),
        ("embedding", (torch.arange(32, device=DEVICE), drawn(51866, 1280, dtype=BF16))),
    ]
    for op, args in calls:
        tensors, choice = chosen(op, *args)
        found = [
            Contender(f"chosen: {choice.used.name}", choice.used.build),
            Contender("chosen, late", late(choice.used.build)),
        ]
        ranked = [c for c in choice.others if "copy" not in c.name][:4]
        found += [Contender(c.name, c.build) for c in ranked]
        yield Subject(f"{op} {tuple(args[0].shape)} {args[0].dtype}", tensors, found)


LOSSES = (
    (1, 1000, F16),
    (4, 1000, F16),
    (16, 1000, F16),
    (64, 1000, BF16),
    (128, 1000, F32),
    (256, 1000, BF16),
    (8, 32000, BF16),
    (16, 50257, BF16),
)
WARPS = (4, 8, 16, 32)
"""Warps of a block of few rows."""


def losses() -> Iterator[Subject]:
    for rows, classes, dtype in LOSSES:
        x, labels = drawn(rows, classes, dtype=dtype), torch.arange(rows, device=DEVICE)
        one = torch.ones((), device=DEVICE, dtype=dtype)
        for op, args in (
            ("cross_entropy", (x, labels)),
            ("cross_entropy_with_gradient", (x, labels, None)),
            ("cross_entropy_backward", (one, x, labels, None)),
        ):
            tensors, choice = chosen(op, *args)
            found = [Contender(f"chosen: {choice.used.name}", choice.used.build)]
            found.append(Contender("chosen, late", late(choice.used.build)))
            found += [Contender(c.name, c.build) for c in choice.others]
            if op == "cross_entropy" and any("few rows" in c.name for c in found):
                found += [Contender(f"{w} warps", _few(op, args, w)) for w in WARPS]
            yield Subject(f"{op} {rows}x{classes} {dtype}", tensors, found)


def _few(op: str, args: tuple[Any, ...], warps: int) -> Callable[[], Plan]:
    def made() -> Plan:
        before, loss_model.FEW_ROWS_WARPS = loss_model.FEW_ROWS_WARPS, (warps, warps)
        try:
            choice = chosen(op, *args)[1]
            every = (choice.used, *choice.others)
            return next(c for c in every if c.name == "few rows").build()
        finally:
            loss_model.FEW_ROWS_WARPS = before

    return made


TABLES = (
    (11200, 50257, 768, F32),
    (9856, 50272, 2048, F32),
    (1024, 250880, 1024, F32),
    (64, 30522, 1024, BF16),
    (24000, 50257, 768, BF16),
    (512, 30522, 768, BF16),
    (256, 30522, 768, BF16),
    (394, 128100, 768, BF16),
)


def tables() -> Iterator[Subject]:
    for positions, rows, columns, dtype in TABLES:
        index = torch.randint(rows, (positions,), device=DEVICE)
        if positions == 24000:  # as in texts: few tokens are half of all
            index = (index.double() / rows).pow(8).mul(rows - 1).long()
        dy = drawn(positions, columns, dtype=dtype)
        found = []
        for blocks in (128, 256, 512, 1024, 2048, 4096):
            found.append(Contender(f"listed by {blocks}", _listed(dy, index, rows, blocks)))

        def by_sorting(dy: Any = dy, index: Any = index, rows: int = rows) -> Any:
            keys, order = torch.sort(index, stable=True)
            return library.call("embedding_backward")(dy, keys, order, rows, -1)

        _, choice = chosen("embedding_backward_unsorted", dy, index, rows, -1)
        found.append(Contender(f"chosen: {choice.used.name}", choice.used.build))
        found.append(Contender("sorted", call=by_sorting))
        name = f"embedding_backward {positions} of {rows}x{columns} {dtype}"
        yield Subject(name, (dy, index), found)


def _listed(dy: Any, index: Any, rows: int, blocks: int) -> Callable[[], Plan]:
    def made() -> Plan:
        before, lists.LISTED_BLOCKS = lists.LISTED_BLOCKS, (blocks, blocks)
        try:
            return chosen("embedding_backward_unsorted", dy, index, rows, -1)[1].used.build()
        finally:
            lists.LISTED_BLOCKS = before

    return made


def main() -> None:
    torch.manual_seed(0)
    every = (norms, gradients, streams, others, losses, tables)
    time_all((s for make in every for s in make()), "short_kernels.jsonl")


if __name__ == "__main__":
    main()
