"""The device code of a program: its translation units, kernels and variables.

The public methods that `interface.Ops` lists by name serve requests of the runtime library.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from weft.device.occupancy import active_clusters, occupancy
from weft.frontends.program.answers import INVALID_FUNCTION, UNKNOWN, answers
from weft.frontends.program.images import device_code, fatbin, linked
from weft.frontends.program.interface import ERROR, INFO, RESULT
from weft.frontends.program.textures import with_textures
from weft.frontends.program.unit import TranslationUnit


class ProgramCode:
    """Units, kernels and variables of one program; `say` prints to its error stream."""

    def __init__(
        self,
        library: ctypes.CDLL,
        make_unit: Callable[[str], TranslationUnit],
        say: Callable[[str], None],
    ) -> None:
        self.library, self.say = library, say
        self._make_unit = with_textures(make_unit)
        self._units: dict[int, list[TranslationUnit]] = {}
        self._linked: dict[int, str] = {}
        self._functions: dict[int, tuple[int, str]] = {}
        self._variables: dict[int, tuple[int, str]] = {}
        self.kernels: dict[int, tuple[TranslationUnit, str]] = {}

    # ---- what the program is made of --------------------------------------------------------
    @answers(0)
    def fat_binary(self, handle: int, data: int, size: int, relocatable: int) -> None:
        texts = fatbin.texts(ctypes.string_at(data, size))
        if relocatable:
            self._linked[handle] = "".join(texts)
        else:
            self._units[handle] = [self._make_unit(text) for text in texts]

    @answers(UNKNOWN)
    def load(self, handle: int, data: int, size: int, to: int, receive: Any) -> int:
        """Load a module of the driver API; return the error of one that is faulty."""
        target = self._make_unit("")  # a unit knows the GPU and the compilers

        def act() -> None:
            image = device_code.DeviceImage(ctypes.string_at(data, size), "ptx")
            texts = device_code.chosen(image, target.model)
            for text in texts:
                device_code.check(text, image.name, target.model, target.toolkit)
            self._units[handle] = [self._make_unit(text) for text in texts]

        return _reported(act, to, receive)

    @answers(UNKNOWN)
    def link(self, images: Any, sizes: Any, names: Any, count: int, to: int, receive: Any) -> int:
        """Link device code; `receive` takes the PTX, or what is wrong."""
        target = self._make_unit("")  # a unit knows the GPU and the compilers

        def act() -> None:
            pieces = [
                device_code.DeviceImage(ctypes.string_at(images[i], sizes[i]), names[i].decode())
                for i in range(count)
            ]
            ptx = device_code.link(pieces, target.model, target.toolkit)
            _send(receive, to, RESULT, ptx)
            names_of = ", ".join(piece.name for piece in pieces)
            _send(receive, to, INFO, f"info: linked {names_of} for {target.model.machine}")

        return _reported(act, to, receive)

    @answers(0)
    def function(self, handle: int, host: int, name: bytes) -> None:
        self._functions[host] = (handle, name.decode())

    @answers(0)
    def variable(self, handle: int, host: int, name: bytes) -> None:
        self._variables[host] = (handle, name.decode())

    def all_units(self) -> list[TranslationUnit]:
        return list(dict.fromkeys(unit for units in self._units.values() for unit in units))

    def _units_of(self, handle: int) -> list[TranslationUnit]:
        """The units of a file; relocatable units are linked at first use."""
        if handle in self._linked:
            whole = [self._make_unit(linked.link(list(self._linked.values())))]
            self._units |= dict.fromkeys(self._linked, whole)
            self._linked.clear()
        return self._units.get(handle, [])

    def _kernel(self, host: int) -> tuple[TranslationUnit, str] | None:
        if host not in self.kernels and host in self._functions:
            handle, name = self._functions[host]
            for unit in self._units_of(handle):
                if unit.entry(name) is not None:
                    self.kernels[host] = (unit, name)
        return self.kernels.get(host)

    @answers(-1)
    def parameters(self, host: int, pairs: Any, room: int) -> int:
        kernel = self._kernel(host)
        entry = kernel[0].entry(kernel[1]) if kernel else None
        if entry is None:
            return -1
        for i, p in enumerate(entry.params):
            pairs[2 * i], pairs[2 * i + 1] = p.offset, p.size
        return len(entry.params)

    # ---- variables --------------------------------------------------------------------------
    @answers(0)
    def symbol(self, host: int, size: Any) -> int:
        handle, name = self._variables.get(host, (0, ""))
        for unit in self._units_of(handle):
            if variable := unit.variable(name):
                size[0] = variable[1]
                return variable[0]
        return 0

    @answers(0)
    def variable_at(self, address: int, size: Any) -> int:
        for unit in self.all_units():
            for v in unit.variables():
                if v.address <= (address or 0) < v.address + v.nbytes:
                    size[0] = v.nbytes
                    return v.address
        return 0

    @answers(0)
    def heap(self, size: int) -> None:
        for unit in self.all_units():
            unit.set_heap(size)

    # ---- questions --------------------------------------------------------------------------
    @answers(INVALID_FUNCTION)
    def facts(self, host: int, out: Any, assembled: int) -> int:
        kernel = self._kernel(host)
        if kernel is None:
            return INVALID_FUNCTION
        unit, name = kernel
        entry, facts, major_minor = unit.entry(name), out[0], unit.model.compute_capability
        assert entry is not None
        facts.static_shared, facts.constant = entry.static_shared, unit.constant_bytes
        facts.ptx, facts.binary = unit.version, 10 * major_minor[0] + major_minor[1]
        most = entry.directives.get("maxntid") or entry.directives.get("reqntid")
        facts.most_threads = math.prod(most) if most else unit.model.max_threads_per_block
        facts.must_have_cluster = "explicitcluster" in entry.directives
        cluster = (*entry.directives.get("reqnctapercluster", ()), 0, 0, 0)
        facts.cluster = (ctypes.c_int64 * 3)(*cluster[:3])
        facts.registers = facts.local = 0
        if assembled:
            resources = unit.resources(name)
            facts.registers, facts.local = resources.registers, resources.local_bytes
        return 0

    @answers(-1)
    def blocks_per_sm(self, host: int, threads: int, shared: int) -> int:
        kernel = self._kernel(host)
        return -1 if kernel is None else self.blocks(*kernel, threads, shared)

    @answers(-1)
    def clusters(self, host: int, threads: int, shared: int, size: int) -> int:
        """The clusters that the GPU holds at once; -1 for a size that it cannot run."""
        kernel = self._kernel(host)
        if kernel is None or not 1 <= size <= kernel[0].model.max_cluster:
            return -1
        return active_clusters(kernel[0].model, self.blocks(*kernel, threads, shared), size)

    def blocks(self, unit: TranslationUnit, name: str, threads: int, shared: int) -> int:
        entry = unit.entry(name)
        assert entry is not None
        if threads > unit.model.max_threads_per_block:
            return 0
        return occupancy(
            unit.model,
            threads=threads,
            registers=unit.resources(name).registers,
            shared_bytes=entry.static_shared + shared,
        ).blocks


def _reported(act: Callable[[], None], to: int, receive: Any) -> int:
    """0, or the driver's error for device code; its text goes to the log of the caller."""
    try:
        act()
    except device_code.RefusedImage as refused:
        _send(receive, to, ERROR, f"error: {refused}")
        return refused.code
    return 0


def _send(receive: Any, to: int, what: int, text: str) -> None:
    data = text.encode()
    receive(to, what, data, len(data))
