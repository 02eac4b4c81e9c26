"""Pages of the course: the map, the exercises below the text of a chapter, and the puzzles."""

from __future__ import annotations

from site_markdown import code, folded, indented, plain

from weft.learn import drawing
from weft.learn.chapter import Chapter, chapters
from weft.learn.exercise import Exercise
from weft.learn.export.site import without_marks
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, Puzzle, puzzles


def pages() -> dict[str, str | bytes]:
    """The map and the puzzles."""
    return {"course/index.md": _map(), **{page(one): _puzzle(one) for one in puzzles()}}


def page(puzzle: Puzzle) -> str:
    """The page of a puzzle."""
    return f"course/puzzles/p{puzzle.number:02}_{puzzle.name}.md"


def exercises(chapter: Chapter) -> str:
    """The end of a chapter: its exercises with hints and solutions, and links to its puzzles."""
    number = f"{chapter.number:02}"
    parts = ["## Exercises", f"`weft learn start {number}` copies them into your folder."]
    for one in chapter.exercises:
        parts += [f"### {one.name}", plain(one.goal), _answer(one, f"{number} --only {one.name}")]
    mine = [one for one in puzzles() if one.name in chapter.puzzles]
    if mine:
        parts.append(f"Puzzles: {', '.join(map(_link, mine))}.")
    return "\n\n".join(parts)


def _link(puzzle: Puzzle) -> str:
    """A link from a page of the course."""
    return f"[{puzzle.name}]({page(puzzle).removeprefix('course/')})"


def _map() -> str:
    count = sum(len(one.exercises) for one in chapters())
    rows = [
        f"| {one.number} | [{one.title}]({one.folder.name}.md) | {len(one.exercises)} |"
        for one in chapters()
    ]
    tasks = [f"| {one.number} | {_link(one)} | {plain(one.goal)} |" for one in puzzles()]
    return "\n".join(
        [
            "# The course\n",
            f"A course on GPU kernels that needs no GPU: {len(rows)} chapters with {count} "
            f"exercises, and {len(tasks)} puzzles. Kernels run on the simulated GPU, and your "
            "files are graded by results, races and counters. [The course](../learn.md) explains "
            "the commands.\n",
            "```sh\nweft learn start 01     # copies chapter 1 into ./learn",
            "weft learn check 01     # grades your files\n```\n",
            "| chapter | | exercises |",
            "|--:|---|--:|",
            *rows,
            "\n## Puzzles\n",
            "Short tasks in CUDA C++, Triton and Numba, in the manner of Sasha Rush's GPU "
            "Puzzles.\n",
            "| puzzle | | |",
            "|--:|---|---|",
            *tasks,
        ]
    )


def _puzzle(puzzle: Puzzle) -> str:
    threads = puzzle.answers["cuda"]
    drawn = drawing.svg(picture(threads, threads.solution))
    parts = [
        f"# {puzzle.number}. {puzzle.name}",
        f"**{plain(puzzle.goal)}**",
        plain(puzzle.idea),
        "What each thread of a solution in CUDA C++ reads and writes, for "
        f"`{threads.op.cases[0]!r}`; recorded by the simulated GPU. Point at a thread, or tap it.",
        f'<div class="picture">{drawn.replace(chr(10), " ")}</div>',
    ]
    for key, one in puzzle.answers.items():
        answer = _answer(one, f"{puzzle.name} --language {key}")
        parts.append(f'=== "{LANGUAGES[key].name}"\n\n{indented(answer)}')
    return "\n\n".join(parts)


def _answer(exercise: Exercise, words: str) -> str:
    """A file to complete, the command that grades it, hints and the solution."""
    language = "python" if exercise.file.endswith(".py") else "cuda"
    hints = "\n".join(f"1. {plain(hint)}" for hint in exercise.hints)
    solution = without_marks(exercise.solution.read_text("utf-8"))
    return "\n\n".join(
        [
            code(exercise.text, language, exercise.file),
            f"`weft learn check {words}` grades it.",
            folded("tip", "Hints", hints),
            folded("success", "Solution", code(solution, language)),
        ]
    )
