"""Checks a breakpoint against its kernel before there is a launch."""

from __future__ import annotations

from weft.debug.breakpoints import Breakpoint
from weft.debug.builds import debug_build, info_of
from weft.debug.inspection import Inspection
from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.run.module import SimModule
from weft.device.sim.tools.debugger.evaluate import Evaluator
from weft.device.sim.tools.debugger.layout import ShadowLayout
from weft.device.sim.tools.debugger.source_map import SourceMap
from weft.device.sim.tools.debugger.state import LaunchState
from weft.kernels.code import KernelCode

_ANY = (32, 1, 1)
"""A block; lines and names do not depend on it."""


def check(kernel: KernelCode, made: Breakpoint) -> None:
    """Raise for a line without code, and for a name that means nothing there."""
    loaded = kernel.program.on(kernel.simulator)
    assert isinstance(loaded, SimModule)
    sim = debug_build(loaded)
    program, info = prepare(sim.module, sim.function(kernel.entry), _ANY), info_of(sim)
    source = SourceMap(program, info, sim.ptx.sources)
    state = LaunchState(program, ShadowLayout(program), ())
    names = Evaluator(state, source, {}, (1, 1, 1), has_names=bool(info.functions))
    view = Inspection(state, source, names, kernel.name)
    for index in made.places(source):
        if made.node is not None:
            view.check_names(made.node, source.frame(source.code[index]))
