"""Compiles a CUDA source in nvcc's own steps, those of the host beside those of the device.

nvcc runs one step after the other. Its dry run lists them. The source is preprocessed and read
twice, for the host and for the device; neither needs the other's result. For sources with large
headers, such as Thrust's, this is most of the time.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from weft.source.toolkit import Toolkit, failure

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)")
_MODULE_ID = re.compile(r'--module_id_file_name "([^"]+)"')
_GENERATES_ID = "--gen_module_id_file "


@dataclass
class _Plan:
    """The steps of a compilation: commands of a shell, and their environment."""

    host: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def compile(
    command: Sequence[str], source: str, out: Path, toolkit: Toolkit
) -> tuple[str, list[Path]]:
    """Compile a source to an object; return what the compilers print, and lists of the files that
    they read (in Make's syntax, beside the object)."""
    what = f"compile {source}"
    files = ["-c", source, "-o", str(out)]
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        dry = ["--dryrun", "--keep", "--keep-dir", folder]
        plan = None
        if command[0] == toolkit.nvcc and source.endswith(".cu") and (os.cpu_count() or 1) > 1:
            done = subprocess.run(
                [*command, *dry, *files], capture_output=True, text=True, encoding="utf-8"
            )
            plan = _plan(done.stderr) if done.returncode == 0 else None
        if plan is None:
            listing = out.with_suffix(".d")
            listed = ["-MMD", "-MF", str(listing)]
            return toolkit.call([*command, *listed, *files], what=what), [listing]
        return _run(plan, source, out, what)


def _run(plan: _Plan, source: str, out: Path, what: str) -> tuple[str, list[Path]]:
    listings = [out.with_suffix(".host.d"), out.with_suffix(".device.d")]
    for steps, listing in zip((plan.host, plan.device), listings, strict=True):
        steps[0] += f" -MMD -MF '{listing}'"
    _name_module(plan, source)

    def follow(steps: Sequence[str]) -> str:
        return "".join(_step(step, plan.environment, what) for step in steps)

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(follow, steps) for steps in (plan.host, plan.device)]
    # An error of the source is found on both sides: the host's is shown, as nvcc does.
    printed = "".join(side.result() for side in both)
    return (printed + follow(plan.last)).strip(), listings


def _step(step: str, environment: dict[str, str], what: str) -> str:
    done = subprocess.run(
        step,
        shell=True,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        encoding="utf-8",
    )
    output = done.stderr + done.stdout
    if done.returncode:
        raise failure("nvcc", what, output.strip())
    return output


def _name_module(plan: _Plan, source: str) -> None:
    """Write the name of the module, which the host's front end makes for the device's."""
    plan.host = [step.replace(_GENERATES_ID, "") for step in plan.host]
    match = _MODULE_ID.search(plan.device[1])
    assert match  # `_plan` has looked
    name = re.sub(r"\W", "_", os.path.basename(source))
    digest = hashlib.sha256(os.path.abspath(source).encode()).hexdigest()[:8]
    Path(match[1]).write_text(f"_{digest}_{len(name)}_{name}", encoding="utf-8")


def _plan(text: str) -> _Plan | None:
    """The steps of a dry run; None for those of other shapes, which nvcc runs itself."""
    plan = _Plan(environment=dict(os.environ))
    for line in text.splitlines():
        step = line.removeprefix("#$ ")
        if step == line or step.startswith("--"):
            return None
        assigned = _ASSIGNMENT.fullmatch(step)
        if assigned:
            plan.environment[assigned[1]] = assigned[2]
        elif " -E " in step:
            (plan.device if "-D__CUDA_ARCH__=" in step else plan.host).append(step)
        elif step.startswith("cudafe++ "):
            plan.host.append(step)
        elif step.startswith(('"$CICC_PATH/cicc" ', "ptxas ", "fatbinary ")):
            plan.device.append(step)
        elif not step.startswith("rm "):
            plan.last.append(step)
    shapes = [_shape(steps) for steps in (plan.host, plan.device, plan.last)]
    is_usual = shapes[0] == "Ef" and re.fullmatch("Edo*", shapes[1]) and shapes[2] == "c"
    named = is_usual and _GENERATES_ID in plan.host[1] and _MODULE_ID.search(plan.device[1])
    return plan if named else None


def _shape(steps: Sequence[str]) -> str:
    """A letter for each step: preprocesses, front end, device compiler, compiles, other."""
    letters = ((" -E ", "E"), ("cudafe++ ", "f"), ('/cicc" ', "d"), (" -c -x c++ ", "c"))
    found = (next((letter for word, letter in letters if word in s), "o") for s in steps)
    return "".join(found)
