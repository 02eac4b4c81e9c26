"""`weft nvcc`: takes nvcc's command line, and builds for the simulated GPU.

Objects are ordinary object files whose device code is PTX. A program is a file that starts itself
under weft (executable.py). A library with `-shared` is loaded by ctypes or as an extension module.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.device.selection import select
from weft.errors import Error
from weft.frontends.program import executable, stubs
from weft.frontends.program import flags as user_flags
from weft.frontends.program.build import LINES, device_options, linked
from weft.frontends.program.nvcc import command_line, toolkit_folder
from weft.frontends.program.nvcc.command_line import (
    COMPILE,
    DEVICE_LINK,
    FATBIN,
    SHARED,
    CommandLine,
)
from weft.source import toolkit

_PASSED_ON = (
    "-E", "--preprocess", "-M", "-MM", "--generate-dependencies", "-ptx", "--ptx", "-cubin",
    "--cubin", "-lib", "--lib", "--version", "-V", "--help", "-h",
    "--list-gpu-arch", "--list-gpu-code", "--dryrun", "-dryrun", "-cuda", "--cuda",
)  # fmt: skip
"""With one of these nvcc makes no program: it runs as it is."""
_VERBOSE = ("-v", "--verbose")
TOOLKIT = "--toolkit"
"""Weft's own flag: makes a folder like that of a CUDA toolkit."""


def compile(arguments: Sequence[str]) -> int:
    """Run nvcc's command line; return an exit code."""
    if len(arguments) == 2 and arguments[0] == TOOLKIT:
        print(toolkit_folder.make(Path(arguments[1])))
        return 0
    tools = toolkit.find()
    if arguments and arguments[0] == toolkit_folder.HOST_LINKER:
        return _link_as_host(arguments[1:])
    arguments = user_flags.versioned(arguments)
    if not arguments or any(word in _PASSED_ON for word in arguments):
        command = [tools.nvcc, *toolkit.DEVICE_LIBRARY_OPTIONS, *arguments]
        return subprocess.run(command).returncode
    if any(word in _VERBOSE for word in arguments):
        arguments = [word for word in arguments if word not in _VERBOSE]
        if refused := toolkit_folder.print_steps(arguments, tools):
            return refused
    line = command_line.read(arguments)
    options = device_options(select("sim").simulated.compile_for)
    flags = user_flags.wanted(line.flags)
    if line.mode in DEVICE_LINK:  # weft links device code when it is loaded: nothing to do now
        empty = ["-x", "c++", "-c", "/dev/null", "-o", line.output or "a_dlink.o"]
        tools.run(empty, what="make an empty object")
        return 0
    if line.mode in COMPILE or line.mode in FATBIN:
        relocatable = ["-rdc=true"] if line.mode in COMPILE[2:4] else []
        named = ["-o", line.output] if line.output else []
        output = "-fatbin" if line.mode in FATBIN else "-c"
        command = [tools.nvcc, *options, *LINES, *relocatable, *flags, output]
        return subprocess.run([*command, *line.sources, *named]).returncode
    if not line.sources and not line.objects:
        raise Error(
            "nvcc was given no file", got=" ".join(arguments), next="weft nvcc prog.cu -o prog"
        )
    _link(line, [tools.nvcc, *options, *LINES, *flags], flags, tools)
    return 0


def _link_as_host(arguments: Sequence[str]) -> int:
    """Run a command line of g++ that links. The first word may be the compiler to link with.

    What calls no function of CUDA is linked by that compiler: it needs neither weft nor Python.
    """
    compiler = arguments[0] if arguments and os.access(arguments[0], os.X_OK) else None
    words = command_line.of_host_linker(arguments[1:] if compiler else arguments)
    if compiler is not None:
        objects = [Path(path) for path in command_line.read(words).objects]
        if not stubs.calls_cuda(stubs.Called.by(objects)):
            return subprocess.run(arguments).returncode
    if "-v" in arguments:
        toolkit_folder.print_linker(arguments)
    return compile(words)


def _link(
    line: CommandLine, command: Sequence[str], flags: Sequence[str], tools: toolkit.Toolkit
) -> None:
    """Compile the sources and link them with the objects; write the output."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        objects = [Path(path) for path in line.objects]
        for i, source in enumerate(line.sources):
            out = Path(folder) / f"{i}.o"
            output = tools.call([*command, "-c", source, "-o", str(out)], what=f"compile {source}")
            if output:
                print(output)
            objects.append(out)
        main = line.mode != SHARED
        data, parts = linked(objects, user_flags.for_linking(flags), tools, main=main)
    path = Path(line.output or "a.out")
    if main:
        sources = tuple(os.path.abspath(source) for source in line.sources)
        data = executable.wrapped(executable.Executable(data, parts, sources))
    path.write_bytes(data)
    path.chmod(0o755)
