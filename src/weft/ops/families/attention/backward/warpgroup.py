"""Plan the gradients of attention by warpgroups: the kernels for Hopper.

One kernel has keys and values and streams queries, another has queries and streams keys. Both
compute the scores.
"""

from __future__ import annotations

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.target import Target
from weft.ops.families.attention.backward import model
from weft.ops.families.attention.backward.job import AttentionBackwardJob
from weft.ops.families.attention.backward.model import StreamingKernel, WarpgroupKernel
from weft.ops.families.attention.warpgroup import CAPABILITY

THREADS = 384


def kernels(job: AttentionBackwardJob, gpu: Target) -> tuple[WarpgroupKernel, ...]:
    """The kernels of a call; none for other GPUs, for dropout and for other heads."""
    p = job.problem
    if gpu.capability != CAPABILITY or p.drop or job.fp32:
        return ()
    return model.WARPGROUP_KERNELS.get(p.head, ())


def stream(job: AttentionBackwardJob, kernel: WarpgroupKernel, gpu: Target) -> StreamingKernel:
    """The cost of a kernel in parts."""
    p = job.problem
    heads, rows, past, products = (
        (job.key_heads, p.keys, p.rows * p.group, 4)
        if kernel.of_keys
        else (p.batch * p.heads, p.rows, p.keys, 3)
    )
    fixed = kernel.fixed(p.head)
    work = 2 * products * fixed * past * p.head * p.share
    seconds = work * gpu.sms / (2 * gpu.tf32 * kernel.reach)
    sums = (2 if kernel.of_keys else 1) * heads * rows * p.head
    return StreamingKernel(cdiv(rows, fixed) * heads, cdiv(past, kernel.streamed), seconds, sums)


def compiled(job: AttentionBackwardJob, kernel: WarpgroupKernel) -> Kernel:
    """The CUDA kernel for the dtype, the head size and the mask of a call."""
    p = job.problem
    words = (p.head, kernel.streamed, kernel.stages, p.mask, str(kernel.of_keys).lower())
    text = ", ".join(map(str, (source.ctype(p.dtype), *words)))
    macros = job.expression.macros
    return source.kernel("attention/warpgroup_backward.cu", f"gradients<{text}>", **macros)
