"""LLVM: from text to machine code in this process, cached on disk as an object file."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.device import half_calls
from weft.errors import Error
from weft.memory_errors import unloadable
from weft.records import dataclass

try:
    import llvmlite
    import llvmlite.binding as llvm
    from llvmlite.binding import ffi
except (ImportError, OSError, MemoryError) as error:
    raise unloadable("LLVM", error, "pip install 'llvmlite>=0.50,<0.51'") from error

PASSES = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_store_elimination")
"""A handful of light passes: the whole O3 pipeline takes longer and gains nothing here."""
DRAFT_PASSES = ("sroa", "simplify_cfg")
"""The subset of these passes that saves LLVM more time than it costs."""

OPTIONS = (
    "-enable-misched=false",
    "-enable-post-misched=false",
    "-instcombine-code-sinking=false",
    "-disable-machine-sink",
    "-disable-machine-licm",
    "-has-predecessor-max-steps=32",
    "-grow-region-complexity-budget=1000",
    "-global-isel=0",
)
"""Wide vectors make the machine schedulers quadratic, and sinking undoes the order of the code. All
warps of a block run in one loop: what is moved out of it must be kept in memory meanwhile. In
the long blocks of unrolled loops instruction selection asks for each load what comes before it. The
register allocator looks for a place to split each long live range among all blocks, which is
quadratic in kernels with thousands of branches; in others it does not reach the budget. On
AArch64 a draft would go through another instruction selection first, which gives up at vectors of
32 lanes or puts all their constants at the function's start."""


NONE_SAVED = "preserve_nonecc "
"""The calling convention of functions that save no registers: in full code."""

_ELF = struct.Struct("<16xH22xQ10xHH2x")
"""Fields of a 64-bit ELF header: its type, the section headers' offset, size and number."""
_RELOCATABLE = 1


class BadObject(Error):
    """Error: bytes that are not an object file."""


_linking = threading.Lock()
"""Held while LLVM is set up, while it loads code, and by a thread that forks."""


def _initialise() -> None:
    with _linking:
        _set_up()


@functools.cache
def _set_up() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the host counter is read by inline assembly
    for option in OPTIONS:
        llvm.set_option("", option)


def folder() -> str:
    """The folder of LLVM's package, for a process with a search path of its own."""
    return str(Path(llvmlite.__file__).absolute().parents[1])


HOST_CPU = "WEFT_HOST_CPU"
"""The environment variable that names another CPU of this architecture to make code for."""


@functools.cache
def host() -> tuple[str, str]:
    """The CPU that code is made for, and its features: this one, unless WEFT_HOST_CPU names one."""
    _initialise()
    if chosen := os.environ.get(HOST_CPU):
        return chosen, ""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def identity() -> str:
    """The properties, besides its source, that machine code depends on."""
    return "|".join((*host(), llvmlite.__version__, *OPTIONS, *PASSES, *DRAFT_PASSES))


def _machine(level: int = 2) -> llvm.TargetMachine:
    # The default for JIT compilers assumes that parts of an object file may be far apart: a call
    # takes five instructions, and quick instruction selection refuses it. On AArch64 llvmlite loads
    # an object file into one piece of memory. Elsewhere it does not.
    near = platform.machine().lower() in ("arm64", "aarch64")
    cpu, features = host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=level, jit=True, codemodel="small" if near else "jitdefault"
    )


@dataclass(slots=True)
class LoadedCode:
    """Machine code that is loaded; keep it as long as its function may be called."""

    run: Callable[[int, int], int]
    engine: object
    libraries: Sequence[LoadedLibrary] = ()


def compile_object(text: str, *, draft: bool = False, passes: Sequence[str] | None = None) -> bytes:
    """IR text to an object file; a draft is made in a fraction of the time and runs slowly.

    passes  of LLVM: by default those of drafts, or of full code
    """
    _initialise()
    if passes is None:
        passes = DRAFT_PASSES if draft else PASSES
    if draft:
        # On AArch64, quick instruction selection passes the arguments of a call as C does, whatever
        # the convention of the function.
        text = text.replace(NONE_SAVED, "")
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as e:
        raise Error(
            "LLVM refuses the code that weft made for this kernel",
            got=str(e).partition("\n")[2][:200],
            next="this is a fault of weft: please report it with the kernel's PTX",
        ) from e
    machine = _machine(0 if draft else 2)
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    # Inlining comes first, so that the function passes see the code of the callees. One call for
    # all: after each, this thread waits for others that run Python.
    manager = llvm.create_new_module_pass_manager()
    for name in ("always_inliner", *passes):
        getattr(manager, f"add_{name}_pass")()
    _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)
    return _emit(machine, module)


def _unlocked(name: str) -> Callable[..., Any]:
    """A function of LLVM without llvmlite's lock, which admits one thread at a time.

    LLVM allows several threads that share no context. Each compilation has a context of its own,
    so kernels are compiled at the same time.
    """
    function: Callable[..., Any] = getattr(ffi.lib, name)
    unlocked: Callable[..., Any] = getattr(function, "_cfn", function)
    return unlocked


def _emit(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The object file of a module, as `machine.emit_object`, without the lock."""
    with ffi.OutputString() as error:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise Error("LLVM cannot emit the code of this kernel", got=str(error))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def load_object(data: bytes, libraries: Sequence[LoadedLibrary] = ()) -> LoadedCode:
    """An object file to a callable `run(context, worker)`; raises BadObject.

    libraries  have the functions that it calls; they are freed after it
    """
    engine = _engine(data, libraries)
    address = engine.get_function_address("run")
    if not address:
        raise BadObject("an object file has no function `run`")
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return LoadedCode(kind(address), engine, libraries)


@dataclass(slots=True, weakref_slot=True, eq=False)
class LoadedLibrary:
    """Functions that other code may call; the code keeps it."""

    engine: object
    addresses: Mapping[str, int]
    libraries: Sequence[LoadedLibrary] = ()


def load_library(
    data: bytes, names: Sequence[str], libraries: Sequence[LoadedLibrary] = ()
) -> LoadedLibrary:
    """The functions of an object file by their names; raises BadObject."""
    engine = _engine(data, libraries)
    addresses = {name: engine.get_function_address(name) for name in names}
    for name, address in addresses.items():
        if not address:
            raise BadObject(f"an object file has no function `{name}`")
    return LoadedLibrary(engine, addresses, libraries)


def _engine(data: bytes, libraries: Sequence[LoadedLibrary]) -> llvm.ExecutionEngine:
    machine = _machine()
    libraries = (*libraries, *_half_calls())
    # LLVM knows one address for a name: that of the library which this code keeps.
    with _linking:
        for library in libraries:
            for name, address in library.addresses.items():
                llvm.add_symbol(name, address)
        return _linked(data, machine)


@functools.cache
def _half_calls() -> tuple[LoadedLibrary, ...]:
    """The functions that LLVM calls for halves where the CPU has no instruction for them."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if not x86 or "+f16c" in host()[1].split(","):
        return ()
    data = compile_object(half_calls.TEXT, passes=())
    with _linking:
        engine = _linked(data, _machine())
    addresses = {name: engine.get_function_address(name) for name in half_calls.NAMES}
    return (LoadedLibrary(engine, addresses),)


def _linked(data: bytes, machine: llvm.TargetMachine) -> llvm.ExecutionEngine:
    _check_object(data)  # LLVM ends the process where it cannot read a file
    # MCJIT must be given a module; the code comes from the object file alone.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return engine


def _check_object(data: bytes) -> None:
    """Refuse an incomplete ELF object file; other formats pass."""
    if llvm.get_object_format() != "ELF":
        return
    if data[:4] != b"\x7fELF" or len(data) < _ELF.size:
        raise BadObject("not an ELF file", got=f"{len(data)} bytes")
    kind, table, size, count = _ELF.unpack_from(data)
    if kind != _RELOCATABLE:
        raise BadObject("not an object file", got=f"an ELF file of type {kind}")
    if table + size * count > len(data):
        raise BadObject("an object file that was cut off", got=f"{len(data)} bytes")


def _acquire(lock: Any) -> None:
    lock._lock.acquire()
    try:
        for acquired, _ in lock._cblist:
            acquired()
    except BaseException:
        lock._lock.release()
        raise


def _release(lock: Any, *_: object) -> None:
    try:
        for _, released in lock._cblist:
            released()
    finally:
        lock._lock.release()


# Numba's callbacks may fail, as when the garbage collector frees code at the limit of recursion.
# llvmlite would keep its lock then, and compilations in other threads would not end.
_LLVM_LOCK: Any = type(ffi.lib._lock)
_LLVM_LOCK.__enter__, _LLVM_LOCK.__exit__ = _acquire, _release


# A child has no threads of its parent: a lock that one of them holds would never be free. Ctrl-C
# comes between instructions of Python code: a Python function here might end before a release.
if hasattr(os, "register_at_fork"):
    for _held in (ffi.lib._lock._lock, _linking):  # acquired in the opposite order
        os.register_at_fork(
            before=_held.acquire, after_in_parent=_held.release, after_in_child=_held.release
        )
