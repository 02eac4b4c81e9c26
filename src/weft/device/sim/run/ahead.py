"""Compiles the kernels of a piece of code before it runs, several at the same time.

A program that launches kernel after kernel compiles one after the other, because a launch waits for
its code. Inside of `compile_ahead()` launches of this thread run nothing: each only starts to
compile its kernel, on all cores. The block ends when all are compiled. The results of the launches
are undefined, so the code inside works on copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from weft.device.sim.run import settings
from weft.device.sim.run.host_threads import thread_count

if TYPE_CHECKING:
    from weft.device.base import Dim3
    from weft.device.sim.run.module import SimModule
    from weft.device.sim.run.tiers.kernel_code import TieredCode


class _Ahead:
    """A session that compiles launches instead of running them."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.compiled: dict[tuple[SimModule, str, Dim3], Future[TieredCode]] = {}

    def run(self, asked: settings.LaunchRequest) -> None:
        plan = asked.plan
        place = plan.sim, plan.entry, plan.config.block
        if place not in self.compiled:
            work = partial(plan.sim.code, plan.entry, plan.config.block)
            # `draft.chosen` asks a context variable of the caller.
            self.compiled[place] = self._pool.submit(copy_context().run, work)


@contextmanager
def compile_ahead() -> Iterator[None]:
    """Compile the launches inside instead of running them; return when all are compiled.

    Raises what one of the compilations raised.
    """
    pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="weft")
    session = _Ahead(pool)
    try:
        with settings.in_this_thread(session):
            yield
        for future in session.compiled.values():
            future.result()
    finally:
        # After an error or Ctrl-C, tasks that have not begun are cancelled.
        pool.shutdown(wait=False, cancel_futures=True)
