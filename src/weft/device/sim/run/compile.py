"""Machine code of a kernel for one block shape: from the cache, or made by LLVM."""

from __future__ import annotations

import functools
import hashlib
import json
import queue
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

from weft import cache, garbage, progress
from weft.device import jit, version
from weft.device.sim.code_info import CodeInfo
from weft.device.sim.run import shared_code
from weft.device.sim.run.host_threads import ThreadTasks
from weft.ir.outline import CannotOutline, Outlined, helpers, outline
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.device.base import Dim3
    from weft.device.sim.run.observation import Observer
    from weft.ptx.model import PtxModule


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Machine code for one kernel and block shape.

    ir       a digest of its IR: codes of the same IR have the same frames, so that one can go on
             with blocks that another has begun
    seconds  processor time that LLVM took, without shared code
    """

    info: CodeInfo
    code: jit.LoadedCode
    ir: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An object file, the processor time that LLVM took, and the shared code that it calls."""

    data: bytes
    seconds: float
    shared: Mapping[str, jit.LoadedLibrary] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """The IR of a kernel."""

    text: str
    info: CodeInfo
    digest: str

    def pack(self) -> Callable[[], Source]:
        """A function that returns the source again and takes little memory meanwhile."""
        packed, info, digest = zlib.compress(self.text.encode(), 1), self.info, self.digest
        return lambda: Source(zlib.decompress(packed).decode(), info, digest)


@dataclass(frozen=True, slots=True, eq=False)
class CompileJob:
    """A kernel to compile; `parsed` is only called if its code is not cached."""

    parsed: Callable[[], PtxModule]
    text: str
    entry: str
    shape: Dim3
    fast: bool = False
    observer: Observer | None = None
    scheduled: bool = False

    def cached(self, *, draft: bool) -> CompiledKernel | None:
        """The code in the cache; None if there is none that can be loaded."""
        data = cache.get("sim", self._key(draft))
        if not data:
            return None
        size = int.from_bytes(data[:4], "little")
        try:
            head: dict[str, Any] = json.loads(data[4 : 4 + size])
            libraries = shared_code.load(head["shared"])
            if libraries is None:
                return None
            code = jit.load_object(data[4 + size :], libraries)
            return CompiledKernel(CodeInfo(**head["info"]), code, head["ir"], head["seconds"])
        except (ValueError, TypeError, KeyError, jit.BadObject):
            return None

    def generate(self, early: Callable[[str], None] | None = None) -> Source:
        """The IR; raises what is wrong with the kernel. `early` is as in `emit.generate`."""
        load_compiler()
        from weft.device.sim.emit.generate import generate

        module, shape, fast, observer = self.parsed(), self.shape, self.fast, self.observer
        with garbage.paused():
            text, info = generate(
                module,
                self.entry,
                shape,
                fast=fast,
                observer=observer,
                scheduled=self.scheduled,
                early=early,
            )
        return Source(text, info, hashlib.sha256(text.encode()).hexdigest())

    def compile(self, *, draft: bool) -> tuple[CompiledKernel, Source]:
        """Generate the IR and compile it in this process."""
        with progress.compiling(f"{self.entry} for the simulated GPU"):
            if draft:
                with _Sharing() as sharing:
                    source = self.generate(sharing.early)
                    made = sharing.draft(source.text)
            else:
                source = self.generate()
                made = compile_full(source.text)
        return self.keep(source, made, draft=draft), source

    def keep(self, source: Source, made: ObjectFile, *, draft: bool) -> CompiledKernel:
        """Load the code made from `source`, and put it into the cache."""
        about = {
            "info": asdict(source.info),
            "ir": source.digest,
            "seconds": made.seconds,
            "shared": list(made.shared),
        }
        head = json.dumps(about).encode()
        cache.put("sim", self._key(draft), len(head).to_bytes(4, "little") + head + made.data)
        code = jit.load_object(made.data, list(made.shared.values()))
        return CompiledKernel(source.info, code, source.digest, made.seconds)

    def _key(self, draft: bool) -> str:
        seen = self.observer.key if self.observer is not None else ""
        more = ("draft",) * draft + ("scheduled",) * self.scheduled
        how = (self.fast, seen, *more)
        # `jit.identity` names the CPU: code for another one may not run here.
        return cache.key(
            "sim",
            version.generator(),
            jit.identity(),
            self.text,
            self.entry,
            repr(self.shape),
            *how,
        )


@functools.cache
def load_compiler() -> None:
    """Import the code generator. Cached code does not need it."""
    version.look_again()
    with garbage.paused(lasting=True):
        import weft.device.sim.emit.generate
        import weft.ptx.callgraph
        import weft.ptx.parse
        import weft.ptx.services  # noqa: F401

    version.generator()
    jit.identity()


def compile_full(text: str) -> ObjectFile:
    """Full code."""
    from weft.ir.cut import cut  # a draft does without

    begin = time.thread_time()
    data = jit.compile_object(cut(text))
    return ObjectFile(data, time.thread_time() - begin)


def compile_draft(text: str) -> ObjectFile:
    """A draft of IR that is complete."""
    with _Sharing() as sharing:
        return sharing.draft(text)


class _Sharing:
    """Compiles a draft, and in another thread the code that it shares with others.

    The helpers of a kernel are compiled while the rest of its IR is generated, and outlined
    instructions while LLVM makes its own code.
    """

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[Outlined | None] = queue.SimpleQueue()
        self._libraries: dict[str, jit.LoadedLibrary] = {}
        self._tasks = ThreadTasks([self._provide])

    def _provide(self) -> int:
        while (outlined := self._wanted.get()) is not None:
            self._libraries.update(shared_code.provide(outlined))
        return len(self._libraries)

    def __enter__(self) -> _Sharing:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        self._wanted.put(None)
        self._tasks.wait()  # LLVM must not be working when the process ends

    def early(self, text: str) -> None:
        """The functions of a module of which a part is generated."""
        if (outlined := helpers(text)).shared:
            self._wanted.put(outlined)

    def draft(self, text: str) -> ObjectFile:
        """The draft of the whole module; is called once."""
        try:
            with garbage.paused():
                outlined = outline(text)
        except CannotOutline:
            return _draft(text)  # the whole module
        self._wanted.put(outlined)
        # Calls are left, mostly: passes would take longer than they save.
        made = _draft(outlined.kernel, passes=())
        self._end()
        self._tasks.results()
        return replace(made, shared=self._libraries)


def _draft(text: str, passes: Sequence[str] | None = None) -> ObjectFile:
    begin = time.thread_time()
    data = jit.compile_object(text, draft=True, passes=passes)
    return ObjectFile(data, time.thread_time() - begin)
