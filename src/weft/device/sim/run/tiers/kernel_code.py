"""The code of one kernel and block shape: the code that launches run now, and its replacement.

A kernel starts as a draft. Its full code is made in the background as soon as the draft's running
time says that this pays, and takes over between blocks: the workers of running launches leave the
draft (`Run.REPLACED`) and go on in the full code, in the same memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.device.sim.code_info import CodeInfo
from weft.device.sim.layout import Run, WorkerFields
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.compile import CompiledKernel, CompileJob, ObjectFile, Source
from weft.device.sim.run.draft import Tier
from weft.device.sim.run.tiers import background

FULL_COST = 15.0
"""Seconds that LLVM takes for full code, per second that it took for the draft's own code."""
SAVED = 0.5
"""The part of a draft's running time that full code saves, at the least."""


class TieredCode:
    """The code that launches run; it goes through the tiers."""

    def __init__(self, job: CompileJob, tier: Tier) -> None:
        self._lock = threading.Lock()
        self._running: list[Arena] = []
        self._spent = 0.0
        self._asked = 0  # the process that asked for full code: a fork of it has to ask again
        self._job: CompileJob | None = None
        self._source: Callable[[], Source] | None = None
        self.current = self._first(job, tier)

    @property
    def info(self) -> CodeInfo:
        return self.current.info

    @property
    def settled(self) -> bool:
        """True if nothing will replace the current code."""
        return self._job is None

    def _first(self, job: CompileJob, tier: Tier) -> CompiledKernel:
        if tier is not Tier.DRAFT and (full := job.cached(draft=False)) is not None:
            return full
        if tier is Tier.FULL:
            return job.compile(draft=False)[0]
        code, source = job.cached(draft=True), None
        if code is None:
            code, source = job.compile(draft=True)
        if tier is Tier.BOTH:
            self._job = job
            self._source = source.pack() if source is not None else None
        return code

    def run(self, arena: Arena, worker: int) -> int:
        """Run one worker of a launch to its end, in one code after the other."""
        result = Run.REPLACED
        while result == Run.REPLACED:
            compiled = self.current  # held: its memory is freed with it
            result = compiled.code.run(arena.address, arena.workers[worker].address)
        return result

    @contextmanager
    def serving(self, arena: Arena) -> Iterator[None]:
        """Allow the launch in this arena to be given other code while it runs."""
        if self.settled:
            yield
            return
        with self._lock:
            self._running.append(arena)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(arena)

    def spend(self, seconds: float, arena: Arena | None = None, total: int = 0) -> None:
        """Record running time of the draft, and request full code once that pays off.

        The rest of a launch follows from the blocks that have ended. Otherwise a kernel is expected
        to run for as long again as it has.
        """
        self._spent += seconds
        left = self._spent
        if arena is not None:
            done = sum(w[WorkerFields.PROGRESS] for w in arena.workers)
            left = self._spent * (total - done) / done if done else left
        worth = SAVED * max(left, self._spent)
        if worth > FULL_COST * self.current.seconds and self._asked != os.getpid():
            self._request_full()

    def _request_full(self) -> None:
        job = self._job
        with self._lock:
            if job is None or self._asked == os.getpid():
                return
            self._asked = os.getpid()
        # Not at hand where the draft came from the cache.
        make = self._source or job.generate
        source: Source | None = None

        def text() -> str:
            nonlocal source
            source = make()
            return source.text

        def done(data: bytes, seconds: float) -> None:
            assert source is not None
            made = ObjectFile(data, seconds)
            self._replace(job.keep(source, made, draft=False) if data else None)

        background.submit(text, done)

    def _replace(self, full: CompiledKernel | None) -> None:
        """Replace the draft by full code, unless there is none or its frames differ.

        They may differ for a draft from the cache. The next process finds the full code there.
        """
        with self._lock:
            self._job = self._source = None
            if full is None or full.ir != self.current.ir:
                return
            self.current = full
            for arena in self._running:
                for worker in arena.workers:
                    worker.fields[WorkerFields.REPLACE // 8] = 1
