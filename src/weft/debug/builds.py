"""The build of a kernel that is debugged: from the same source, with debug information."""

from __future__ import annotations

import weakref

from weft.device.base import Program
from weft.device.sim.device import SimDevice
from weft.device.sim.run.module import SimModule
from weft.errors import CompileError
from weft.ptx.debug_info import DebugInfo, read

_builds: weakref.WeakKeyDictionary[Program, Program] = weakref.WeakKeyDictionary()
_infos: weakref.WeakKeyDictionary[Program, DebugInfo] = weakref.WeakKeyDictionary()


def debug_build(sim: SimModule) -> SimModule:
    """The module with debug information; the same module where there is no other build.

    It shares the variables and the heap of the module: it is loaded as an instance of it.
    """
    program = sim.program
    if info_of(sim).functions or program.rebuild is None:
        return sim
    if program not in _builds:
        try:
            ptx = program.rebuild(["-G"], None)
        except CompileError:  # the source compiles only without the option
            return sim
        _builds[program] = Program(ptx, base=program.base or program)
    _builds[program].kernels.update(program.kernels)  # some may have been found since
    loaded = _builds[program].on(SimDevice(sim.model, sim.fast))
    assert isinstance(loaded, SimModule)
    return loaded


def info_of(sim: SimModule) -> DebugInfo:
    """The debug information of a module; empty where it has none."""
    program = sim.program
    if program not in _infos:
        _infos[program] = read(program.ptx.text)
    return _infos[program]
