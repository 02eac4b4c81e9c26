"""Loads and links device code that a program brings at run time: modules, cuLink, nvJitLink.

The result of a link is PTX, which takes the place of a cubin. Errors are those of NVIDIA's driver;
their text is for the log that the program has given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft import cache
from weft.device.models import GpuModel
from weft.device.version import generator
from weft.errors import CompileError, Error, PtxError
from weft.frontends.program.images import fatbin, linked
from weft.source.toolkit import Toolkit

INVALID_IMAGE, NO_BINARY, INVALID_PTX = 200, 209, 218


class RefusedImage(Error):
    """Device code that cannot be loaded; `code` is the driver's error."""

    def __init__(self, code: int, error: Error) -> None:
        Exception.__init__(self, str(error))
        self.code = code


class DeviceImage(NamedTuple):
    """Device code in memory, and its name in messages."""

    data: bytes
    name: str


def link(images: Sequence[DeviceImage], model: GpuModel, toolkit: Toolkit) -> str:
    """Link device code to one PTX module."""
    pieces = [(text, image.name) for image in images for text in chosen(image, model)]
    for text, name in pieces:
        check(text, name, model, toolkit)
    try:
        return linked.link([text for text, _ in pieces])
    except PtxError as error:
        raise RefusedImage(INVALID_PTX, error) from None


def chosen(image: DeviceImage, model: GpuModel) -> list[str]:
    """The PTX that a GPU takes: that of the newest architecture which is not newer than itself."""
    try:
        texts, others = fatbin.contents(image.data)
    except Error as error:
        raise RefusedImage(INVALID_IMAGE, error) from None
    if not texts:
        absent = PtxError(
            "there is no PTX in this device code",
            where=image.name,
            got=others or "no device code",
            next="compile it with PTX: -gencode arch=compute_80,code=compute_80",
        )
        raise RefusedImage(NO_BINARY, absent)
    return newest(texts, model)


def newest(texts: Sequence[str], model: GpuModel) -> list[str]:
    """The texts of the newest architecture that a GPU can run; all where none is old enough."""
    major, minor = model.compute_capability
    fitting = [text for text in texts if fatbin.architecture(text) <= 10 * major + minor]
    wanted = max(map(fatbin.architecture, fitting), default=0)
    return [text for text in fitting if fatbin.architecture(text) == wanted] or list(texts)


def check(text: str, name: str, model: GpuModel, toolkit: Toolkit) -> None:
    """Raise for text that is not PTX.

    What weft cannot read may be newer than weft: then NVIDIA's assembler decides.
    """
    key = cache.key("checked PTX", generator(), toolkit.identity, text)
    if cache.get("checked", key) is not None:
        return
    unreadable = _fault(text, name)
    if unreadable is not None:
        _assemble(text, model.machine, toolkit, unreadable)
    cache.put("checked", key, b"1")


def _fault(text: str, name: str) -> PtxError | None:
    """The first line that weft cannot read, or None."""
    from weft.ptx import isa  # what was checked before needs nothing of the parser
    from weft.ptx.model import Instruction
    from weft.ptx.parse import parse

    try:
        module = parse(text, name=name)
    except PtxError as error:
        return error
    known = {row.base for row in isa.rows()}
    for each in (each for function in module.functions.values() for each in function.body):
        if isinstance(each, Instruction) and each.parts[0] not in known:
            return PtxError(
                f"{each.opcode} is no instruction of PTX",
                where=f"{name}:{each.ptx_line}",
                got=each.text,
            )
    return None


def _assemble(text: str, arch: str, toolkit: Toolkit, unreadable: PtxError) -> None:
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        ptx = Path(folder) / "module.ptx"
        ptx.write_text(text, encoding="utf-8")
        arguments = ["-cubin", f"-arch={arch}", "-rdc=true", str(ptx), "-o", f"{ptx}.cubin"]
        try:
            toolkit.run(arguments, what="assemble the PTX")
        except CompileError:
            raise RefusedImage(INVALID_PTX, unreadable) from None
