"""Parses the output of compute-sanitizer into findings of the simulator's format.

A report is a headline and indented lines after it, all of which begin with `=========`:

    ========= Invalid __global__ write of size 4 bytes
    =========     at scale(float *, int)+0x60 in scale.cu:4
    =========     by thread (31,0,0) in block (7,0,0)

Manual: https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from weft.device.sim.tools.sanitizer.layout import FindingKind
from weft.device.sim.tools.sanitizer.texts import TEXTS
from weft.values.findings import Access, Dims, Finding

_PREFIX = "========="
_PLACES = (
    re.compile(r"(?P<name>.+?)\+0x[0-9a-f]+(?: in (?P<file>.+):(?P<line>\d+))?"),
    re.compile(r"0x[0-9a-f]+ in (?:(?P<file>[^:()]+):(?P<line>\d+):)?(?P<name>.+)"),  # before 2023
)
_BY = re.compile(r"by thread (\([\d,]+\)) in block (\([\d,]+\))")
_FRAME = re.compile(r"Device Frame: ?(.+)")
_RACE = re.compile(r"(?:between|and) (?P<verb>\w+) access (?:by .*?)?at (?P<place>.+?)")
_HAZARDS = re.compile(r"(?P<rest>.*?)(?: \[(?P<times>[\d,]+) hazards?\])?")

Quote = Callable[[str, int], str]
"""(file, line) -> its text, or nothing."""


@dataclass(frozen=True)
class _Block:
    """A headline and its detail lines."""

    head: str
    lines: Sequence[str]

    def matching(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return next((m for line in self.lines if (m := pattern.fullmatch(line))), None)


def findings(text: str, quote: Quote = lambda file, line: "") -> list[Finding]:
    """The findings of one run; equal ones are merged with a count."""
    merged: dict[object, Finding] = {}
    later: list[Finding] = []
    for block in _blocks(text):
        for pattern, make in _HEADLINES:
            if match := pattern.match(block.head):
                for finding in make(match, block, quote):
                    # Kept apart: usually a consequence of another finding.
                    if finding.kind == _FAILED:
                        later.append(finding)
                        continue
                    key = (finding.kind, tuple((a.verb, a.line) for a in finding.accesses))
                    old = merged.get(key)
                    times = finding.times + (old.times if old else 0)
                    merged[key] = replace(old or finding, times=times)
                break
    return (
        list(merged.values()) or later[:1]
    )  # a failed API call is only a consequence of an earlier finding


def complete(text: str) -> bool:
    """True if a tool has finished: it prints a total even if it found nothing."""
    return re.search(rf"^{_PREFIX} (?:ERROR|RACECHECK) SUMMARY: ", text, re.M) is not None


def _blocks(text: str) -> Iterator[_Block]:
    head, lines = "", list[str]()
    for row in text.splitlines():
        if not row.startswith(_PREFIX):
            continue
        rest = row.removeprefix(_PREFIX)
        if rest.startswith("  "):
            lines.append(rest.strip())
            continue
        if head:
            yield _Block(head, lines)
        head, lines = rest.strip(), []
    if head:
        yield _Block(head, lines)


# ---- places -------------------------------------------------------------------------------------
def _place(text: str) -> tuple[str, str, int]:
    """The function, the file and the line of `name+0x60 in file:4`."""
    for pattern in _PLACES:
        if match := pattern.fullmatch(text):
            return match["name"], match["file"] or "", int(match["line"] or 0)
    return text, "", 0


def _access(verb: str, at: str, block: _Block, quote: Quote) -> tuple[Access, str]:
    """One access of a finding, and the kernel: the outermost inlined frame."""
    frames = [_place(at)]
    frames += [_place(m[1]) for row in block.lines if (m := _FRAME.fullmatch(row))]
    kernel = frames[-1][0].partition("(")[0]
    by = block.matching(_BY)
    thread, owner = (_dims(by[1]), _dims(by[2])) if by else (None, None)
    # Prefer a line of the user's file to one in a toolkit header.
    frame = next((f for f in frames if quote(*f[1:])), frames[0])
    _, file, line = frame
    if not file:
        return Access(
            verb, f"{kernel}, compiled without -lineinfo", kernel, 0, owner, thread
        ), kernel
    source_text = quote(file, line)
    others = [f"{f}:{n}" for _, f, n in frames[: frames.index(frame)]]
    callers = [f"{f}:{n}" for _, f, n in frames[frames.index(frame) + 1 :] if f]
    where = (
        f"{file}:{line}"
        + (f"  `{source_text}`" if source_text else "")
        + "".join(f", in {place}" for place in others[:1])
        + "".join(f", called from {place}" for place in callers)
    )
    return Access(verb, where, file, line, owner, thread), kernel


def _dims(text: str) -> Dims:
    x, y, z = map(int, text.strip("()").split(","))
    return x, y, z


# ---- headlines ----------------------------------------------------------------------------------
def _one(kind: str, what: str, verb: str, next: str) -> _Make:
    """Make findings with one access; `{}` is replaced by groups of the headline."""

    def make(match: re.Match[str], block: _Block, quote: Quote) -> Iterator[Finding]:
        at = block.matching(re.compile(r"at (.+)"))
        access, kernel = _access(verb or match["verb"], at[1] if at else "?", block, quote)
        place = ", ".join(
            row for row in block.lines if row.startswith(("Address", "Access", "and"))
        )
        words = what.format(*match.groups())
        yield Finding(kind, f"{kind}: {words}", kernel, (access,), 1, next, place)

    return make


def _invalid(match: re.Match[str], block: _Block, quote: Quote) -> Iterator[Finding]:
    misaligned = any("misaligned" in row for row in block.lines)
    kind = "misaligned" if misaligned else "out of bounds"
    advice = "align the address to the size of the access" if misaligned else "check the index"
    return _one(kind, "a {1} of {2} bytes of {0} memory", "", advice)(match, block, quote)


def _simulator_words(kind: int) -> _Make:
    """Make findings with the simulator's wording."""
    text = TEXTS[kind]
    return _one(text.name, text.what, text.verbs[0], text.next)


_RACES = {
    ("Read", "Write"): FindingKind.READ_AFTER_WRITE,
    ("Write", "Read"): FindingKind.WRITE_AFTER_READ,
    ("Write", "Write"): FindingKind.WRITE_AFTER_WRITE,
}


def _race(match: re.Match[str], block: _Block, quote: Quote) -> Iterator[Finding]:
    """Make findings of a race: the headline has one access, each detail line the other one.

    racecheck does not report threads.
    """
    alone = _Block(block.head, [])
    first = _RACE.fullmatch(match["pair"])
    for row in block.lines:
        hazards = _HAZARDS.fullmatch(row)
        other = hazards and _RACE.fullmatch(hazards["rest"])
        if first is None or hazards is None or not other:
            continue
        pair = (first["verb"], other["verb"])
        text = TEXTS[_RACES.get(pair, FindingKind.WRITE_AFTER_WRITE)]
        first_access, kernel = _access(pair[0].lower(), first["place"], alone, quote)
        second_access, _ = _access(pair[1].lower(), other["place"], alone, quote)
        times = int((hazards["times"] or "1").replace(",", ""))
        yield Finding(
            text.name, f"{text.name}: {text.what}", kernel, (first_access, second_access), times,
            "__syncthreads() between the two, or __syncwarp() within a warp", "shared memory",
        )  # fmt: skip


def _host(kind: str, what: str, next: str) -> _Make:
    """Make findings about host calls, without kernel and line."""

    def make(match: re.Match[str], block: _Block, quote: Quote) -> Iterator[Finding]:
        groups = match.groupdict()
        access = Access(groups.get("call") or "allocated", "host code", "host code", 0, None, None)
        yield Finding(kind, f"{kind}: {what}", "", (access,), 1, next, match["place"])

    return make


_FAILED = "failed call"
_Make = Callable[[re.Match[str], _Block, Quote], Iterator[Finding]]
_HEADLINES: Sequence[tuple[re.Pattern[str], _Make]] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"Invalid __(\w+)__ (?P<verb>\w+) of size (\d+)", _invalid),
        (r"Uninitialized __(\w+)__ memory read", _simulator_words(FindingKind.UNINITIALISED)),
        (r"(?i:Error|Warning): Race reported (?P<pair>between .+)", _race),
        (r"Barrier error detected\. Divergent", _simulator_words(FindingKind.BARRIER_SPLIT)),
        (
            r"Barrier error detected\. Invalid arguments",
            _simulator_words(FindingKind.MISSING_LANES),
        ),
        (r"Barrier error detected\. (.+)", _one("barrier misuse", "{0}", "barrier",
                                               "see synccheck in the tool's manual")),
        (r"Malloc/Free error encountered : (.+)", _one("double free", "{0}", "free",
                                                      "free each pointer of malloc() once")),
        (r"Leaked (?P<place>.+)", _host("leak", "memory that is never freed",
                                        "free it before the program ends")),
        (r"Program hit (?P<place>.+) on CUDA API call to (?P<call>cu\w*Free\w*)",
         _host("double free", "what is freed is not allocated, or was freed before",
               "free each allocation once")),
        (r"Program hit (?P<place>.+) on CUDA API call to (?P<call>\w+)",
         _host(_FAILED, "a call of CUDA's API returns an error", "look at what was done before")),
    )
)  # fmt: skip
