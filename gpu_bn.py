"""Times batch norm of float16 in training: kernels in graphs, variants of the blocks, beside torch."""
import json, os, random, statistics, sys, time, threading, functools
import torch
from weft.ops.core import library
from weft.ops.core.runner import runner
from weft.ops.families.norm import model
from weft.ops.sweep.time import as_called
import weft.ops
threading.Timer(float(os.environ.get("LIMIT", "60")), lambda: os._exit(3)).start()
DEV = os.environ.get("DEV", "cuda")
def plan(op, args, count):
    f = library.function(op); r = f.request(*f.bound(args, {}))
    c = min(f.definition.candidates(r), key=lambda c: c.cost)
    tensors = [a for a in args if a is None or isinstance(a, torch.Tensor)]
    run = runner(c.build(), len(tensors), tensors[0].device)
    return functools.partial(run, *tensors), c.why
def timed(runs, launches=8, rounds=9):
    graphs = {}
    for name, run in runs.items():
        run(); torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(launches): run()
        g.replay(); graphs[name] = g
    samples = {n: [] for n in graphs}
    for _ in range(rounds):
        turns = list(graphs); random.shuffle(turns)
        for n in turns:
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record(); graphs[n].replay(); b.record(); b.synchronize()
            samples[n].append(a.elapsed_time(b) * 1e3 / launches)
    return {n: round(statistics.median(s), 2) for n, s in samples.items()}
out = open(os.path.join(os.environ.get("OUT", "/tmp"), "bn.jsonl"), "a")
for last in (True, False):
    for c, size in ((64, 112), (256, 56), (512, 28), (1024, 14), (2048, 7)):
        fmt = torch.channels_last if last else torch.contiguous_format
        x = torch.randn(64, c, size, size, device=DEV).half().contiguous(memory_format=fmt)
        dy = torch.randn(64, c, size, size, device=DEV).half().contiguous(memory_format=fmt)
        w, b = torch.rand(c, device=DEV), torch.rand(c, device=DEV)
        rm, rv = torch.zeros(c, device=DEV), torch.ones(c, device=DEV)
        mean, var = library.call("batch_norm_statistics")(x, rm, rv, 0.1)
        runs, whys = {}, {}
        for vectors in (8, 16, 32):
            for blocks in (4, 8):
                model.CHANNEL_VECTORS, model.CHANNEL_BLOCKS_PER_SM = vectors, blocks
                tag = f"{vectors}/{blocks}"
                if vectors == 8:
                    runs["stats " + tag], whys["stats " + tag] = plan("batch_norm_statistics", (x, rm, rv, 0.1), 3)
                    runs["back " + tag], _ = plan("batch_norm_backward", (dy, x, mean, var, w, True, 1e-5, True), 5)
                if blocks == 4:
                    runs["apply " + tag], whys["apply " + tag] = plan("batch_norm_apply", (x, mean, var, w, b, True, 1e-5), 5)
                    if vectors > 8:
                        runs["back " + tag], _ = plan("batch_norm_backward", (dy, x, mean, var, w, True, 1e-5, True), 5)
        model.CHANNEL_VECTORS, model.CHANNEL_BLOCKS_PER_SM = 8, 4
        torch_f = lambda: torch.nn.functional.batch_norm(x, rm, rv, w, b, True, 0.1, 1e-5)
        y, m, v, r, i = torch.ops.aten._batch_norm_impl_index(x, w, b, rm, rv, True, 0.1, 1e-5, True)
        torch_b = lambda: torch.ops.aten._batch_norm_impl_index_backward(i, x, dy, w, rm, rv, m, v, True, 1e-5, [True] * 3, r)
        runs["torch"], runs["torch back"] = torch_f, torch_b
        us = timed(runs)
        eager = [round(1e6 * t, 2) for t in as_called([lambda: weft.ops.batch_norm(x, rm, rv, w, b, training=True), torch_f])]
        got = weft.ops.batch_norm(x, rm, rv, w, b, training=True).float(); want = torch.nn.functional.batch_norm(x.float(), None, None, w, b, True)
        err = float((got - want).norm() / want.norm())
        row = {"x": f"{c} x {size}^2 {'cl' if last else 'nchw'}", "us": us, "eager": eager, "err": err, "floor": round(x.numel() * 6 / 4.28e6, 1), "why": whys}
        out.write(json.dumps(row) + "\n"); out.flush()
        print(row["x"], f"floor {row['floor']} err {err:.1e} eager {eager} ({eager[1]/eager[0]:.2f})", us, flush=True)
os._exit(0)
