"""Compares two profiles, counter by counter and line by line.

Lines are matched by text, in order, as `diff` does. Unmatched lines are added or removed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from weft.device import models
from weft.measure.profile.sections import sections
from weft.values.analysis import Change, Differences, LineChange
from weft.values.profile import LINE_COUNTERS, UNIT_COUNTERS, Line, Profile


class Changes(Differences):
    """The differences between two profiles: `before.compare(after)`.

    names      the two launches
    sections   (name of a section, its metrics that differ), each with the value before and after
    lines      source lines whose counters differ

    >>> changes = p.compare(weft.profile(module.scale[1, 64], x, 1.0, 4))
    >>> print(changes.names[1])
    scale, grid 1 x 1 x 1, block 64 x 1 x 1, h200
    """

    def _repr_html_(self) -> str:
        """The notebook's view: the page of the comparison."""
        from weft.report import changes

        return changes.framed(self)


def diff(a: Profile, b: Profile) -> Changes:
    """The changes from a to b."""
    return Changes(
        names=(_name(a), _name(b)), sections=tuple(_sections(a, b)), lines=tuple(_lines(a, b))
    )


def _name(p: Profile) -> str:
    grid, block = (" x ".join(str(n) for n in d) for d in (p.launch.grid, p.launch.block))
    return f"{p.launch.kernel}, grid {grid}, block {block}, {p.gpu}"


def _sections(a: Profile, b: Profile) -> list[tuple[str, tuple[Change, ...]]]:
    first, second = (
        {s.name: {m.label: m for m in s.metrics} for s in sections(p, models.get(p.gpu))}
        for p in (a, b)
    )
    out = []
    for name, old in first.items():
        new, rows = second[name], []
        for label in dict.fromkeys([*old, *new]):
            was, now = (m[label].value if label in m else 0 for m in (old, new))
            unit = (old.get(label) or new[label]).unit
            if was != now and not isinstance(was, str) and not isinstance(now, str):
                rows.append(Change(label, was, now, unit))
        if rows:
            out.append((name, tuple(rows)))
    return out


def _lines(a: Profile, b: Profile) -> list[LineChange]:
    one, two = a.lines, b.lines
    texts = [[line.quote.strip() for line in lines] for lines in (one, two)]
    out = []
    # autojunk would ignore frequent lines such as a closing brace.
    matcher = difflib.SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    for _, i, j, k, m in matcher.get_opcodes():
        if texts[0][i:j] == texts[1][k:m]:
            pairs = list(zip(one[i:j], two[k:m], strict=True))
            out += [x for p, q in pairs if (x := _pair(p, q)).counters]
        else:
            out += [_pair(line, None) for line in one[i:j]]
            out += [_pair(None, line) for line in two[k:m]]
    return out


def _pair(a: Line | None, b: Line | None) -> LineChange:
    line = a or b
    assert line is not None
    return LineChange(
        file=line.file,
        quote=line.quote.strip(),
        before=a.number if a else None,
        after=b.number if b else None,
        counters=tuple(_counters(a, b)),
    )


def _counters(a: Line | None, b: Line | None) -> Sequence[Change]:
    out = []
    for what, of in (*LINE_COUNTERS.items(), *UNIT_COUNTERS.items()):
        was, now = (None if line is None else of(line) for line in (a, b))
        if was != now and (was or now):
            out.append(Change(what, was, now))
    return out
