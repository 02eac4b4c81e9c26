"""Explains a failed answer: chooses the kind of mistake that fits the evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weft.errors import CheckFailed, CompileError, Deadlock, DeviceError, IllegalAddress, TimeLimit
from weft.learn.exercise import Exercise, KernelExercise
from weft.learn.explain import kinds
from weft.learn.explain.evidence import Evidence, gather
from weft.learn.explain.kinds import Kind
from weft.values.findings import Access, Finding
from weft.values.learn.mistake import Mistake

Rule = Callable[[Evidence], Kind | None]
_CAUSES = {
    "bound off by one": kinds.BOUND,
    "index off by one": kinds.SHIFTED,
    "transposed index": kinds.TRANSPOSED,
    "adds to its output": kinds.UNINITIALISED,
    "reads its output": kinds.UNINITIALISED,
    "uninitialised": kinds.UNINITIALISED,
    "overlapping writes": kinds.RACE,
    "missing synchronisation": kinds.RACE,
    "order of threads": kinds.RACE,
    "barrier divergence": kinds.DIVERGENCE,
    "out of bounds": kinds.OUT_OF_BOUNDS,
}
"""Likely causes of a check -> kinds."""
_FACTS = {
    "load sectors per request": kinds.UNCOALESCED,
    "store sectors per request": kinds.UNCOALESCED,
    "shared load wavefronts per request": kinds.CONFLICTS,
    "shared store wavefronts per request": kinds.CONFLICTS,
    "shared atomic wavefronts per request": kinds.CONFLICTS,
    "shared bank conflicts": kinds.CONFLICTS,
    "writing threads": kinds.TOO_FEW,
    "writing blocks": kinds.TOO_FEW,
    "reading threads": kinds.TOO_FEW,
    "reading blocks": kinds.TOO_FEW,
    "lanes per shared load": kinds.TOO_FEW,
}
"""Facts of rules -> kinds."""
_UNORDERED = ("data race", "missing wait")
"""Kinds of findings about accesses in no order."""


def explain(exercise: Exercise, path: Path) -> Mistake:
    """Explain why a file fails as an answer to an exercise."""
    found = gather(exercise, path)
    grade = found.judged.grade
    if grade.passed:
        return Mistake(exercise.title, "", "", grade.words, (), (), "", "")
    kind = next(kind for rule in _RULES if (kind := rule(found)) is not None)
    words = _filling(found)
    return Mistake(
        exercise.title,
        grade.stage,
        kind.name,
        _happened(found),
        found.wrong.first if found.wrong is not None else (),
        tuple(dict.fromkeys(_where(found, kind))),
        kind.cause.format(**words),
        kind.question.format(**words),
    )


# ---- the kind ------------------------------------------------------------------------------------
def _raised(found: Evidence) -> Kind | None:
    """An error that stops the file: it does not compile, or a kernel fails."""
    error = found.judged.error
    if isinstance(error, CompileError) or (found.stage == "compile" and error is not None):
        return kinds.COMPILE
    if isinstance(error, IllegalAddress):
        return kinds.OUT_OF_BOUNDS
    return kinds.DEADLOCK if isinstance(error, Deadlock | TimeLimit) else None


def _sanitized(found: Evidence) -> Kind | None:
    """A finding of the sanitizer: a race, a barrier, memory that was never written."""
    telling = _telling(found)
    if telling is None:
        return None
    if any(access.thread is None for access in telling.accesses) and telling.kind in _UNORDERED:
        return kinds.WAIT  # the work of a stream, or the host
    if telling.kind in _UNORDERED:
        return kinds.BARRIER if telling.place.startswith("shared") else kinds.RACE
    return _CAUSES.get(telling.kind)


def _telling(found: Evidence) -> Finding | None:
    """The finding that explains the failure: a barrier before the races that it makes."""
    ranked = sorted(found.judged.findings, key=lambda f: f.kind != "barrier divergence")
    return next((f for f in ranked if f.kind != "leak"), None)


def _host(found: Evidence) -> Kind | None:
    return kinds.HOST if found.exercise.by and found.stage == found.exercise.by else None


def _divided(found: Evidence) -> Kind | None:
    """A division of integers, unless the check has found elements that none writes."""
    spoiled = found.wrong is not None and bool(found.wrong.writers)
    return kinds.DIVISION if found.division is not None and spoiled else None


def _caused(found: Evidence) -> Kind | None:
    """The likely cause that the check has named."""
    return _CAUSES.get(found.cause)


def _unwritten(found: Evidence) -> Kind | None:
    """Elements that no thread writes: there are too few threads, or a condition stops them."""
    if found.wrong is None or found.wrong.writers:
        return None
    return kinds.TOO_FEW if found.wrong.threads < found.wrong.size else kinds.UNWRITTEN


def _counted(found: Evidence) -> Kind | None:
    """A rule that does not hold."""
    if found.stage in ("compile", "right", "sanitize"):
        return None
    if found.stage.startswith(("calls ", "the number depends on ")):
        return kinds.CALL
    if found.stage.startswith("imports "):
        return kinds.IMPORT
    return _FACTS.get(found.fact, kinds.RULE)


def _other(found: Evidence) -> Kind | None:
    return kinds.RESULT


_RULES: tuple[Rule, ...] = (
    _raised, _sanitized, _host, _counted, _divided, _caused, _unwritten, _other,
)  # fmt: skip
"""Rules from the most to the least specific; the first that names a kind wins."""


# ---- the words -----------------------------------------------------------------------------------
def _happened(found: Evidence) -> str:
    """The observation, in one or two sentences."""
    error, wrong, finding = found.judged.error, found.wrong, _telling(found)
    if wrong is not None:
        verb = "is" if wrong.count == 1 else "are"
        return f"For {wrong.case}, {wrong.count} of {wrong.size} elements {verb} wrong."
    if finding is not None:
        place = f" ({finding.place})" if finding.place else ""
        return f"The sanitizer found: {finding.what}{place}."
    if isinstance(error, DeviceError):
        got = error.got.partition(", address")[0]
        return f"A kernel failed: {error.what}" + (f", {got}." if got else ".")
    if isinstance(error, CheckFailed):
        return f"{error.what}: {error.got.splitlines()[0]}, where {error.allowed} is expected."
    return found.judged.grade.words


def _where(found: Evidence, kind: Kind) -> list[str]:
    """Threads and source lines."""
    error, wrong, worst = found.judged.error, found.wrong, found.judged.worst
    finding = _telling(found)
    if finding is not None:
        return [_accessed(a) for a in finding.accesses]
    if isinstance(error, DeviceError) and error.line:
        return [_thread(error.block, error.thread, error.line)]
    if kind is kinds.DIVISION and found.division is not None:
        return [f"line {found.division.line}: {found.division.text}"]
    if wrong is not None and wrong.writers:
        last, element = wrong.writers[-1], wrong.first[0].element
        return [f"{element} is written by {_thread(last.block, last.thread, last.line)}"]
    if wrong is not None:
        element = wrong.first[0].element
        return [f"no thread writes {element}; the launch has {wrong.threads} threads"]
    return [f"line {worst.number}: {worst.quote.strip()}"] if worst is not None else []


def _accessed(access: Access) -> str:
    if access.thread is None:
        return f"{access.verb}: {access.line}"
    return f"{access.verb} by {_thread(access.block, access.thread, access.line)}"


def _thread(
    block: tuple[int, int, int] | None, thread: tuple[int, int, int] | None, line: str
) -> str:
    return f"block {block}, thread {thread}: {line}" if thread is not None else line


def _filling(found: Evidence) -> dict[str, object]:
    """The words that causes and questions name."""
    first = found.wrong.first[0].element if found.wrong is not None else _result(found.exercise)
    divided = found.division
    return {
        "element": first,
        "line": divided.line if divided is not None else "",
        "above": divided.above if divided is not None else "",
        "below": divided.below if divided is not None else "",
    }


def _result(exercise: Exercise) -> str:
    """The name of the first result."""
    return exercise.op.outputs[0].name if isinstance(exercise, KernelExercise) else "the result"
