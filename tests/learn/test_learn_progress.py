"""A learner's progress: the log, the map of the course, hints and reviews."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import weft
from limits import PROCESS_SECONDS
from weft.cli import app
from weft.learn import chapter, progress
from weft.learn.folder import Folder
from weft.report.learn import pages
from weft.tasks.learn.course_map import course_map
from weft.tasks.learn.options import LearnOptions
from weft.tasks.learn.review import AT_ONCE, review

FIRST, SECOND = chapter.find(1).exercises
START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def learn(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["learn", *arguments, "--in", str(folder)])


def line(do: str, exercise: str = FIRST.title, days: float = 0, **more: object) -> str:
    at = (START + timedelta(days=days)).isoformat()
    return json.dumps({"v": 1, "at": at, "do": do, "exercise": exercise, **more})


def log(folder: Path, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / progress.FILE).write_text("".join(f"{one}\n" for one in lines), "utf-8")


# ---- the log -------------------------------------------------------------------------------------
def test_the_state_follows_from_the_lines(tmp_path: Path) -> None:
    facts = {"writing threads": 192}
    log(
        tmp_path, line("try", passed=False), line("hint"), line("hint"),
        line("try", passed=True, facts=facts), line("try", SECOND.title, passed=False),
    )  # fmt: skip
    known = progress.read(tmp_path)
    state = known.of(FIRST.title)
    assert (state.passed, state.tries, state.hints, dict(state.facts)) == (True, 2, 2, facts)
    assert state.first == START and state.due == START + timedelta(days=1)
    assert known.passed == {FIRST.title} and known.of("never tried") == progress.State()


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[]",
        b"\xff\xfe\x00",
        b'{"v": "one"}',
        b'{"v": 1, "at": "yesterday", "do": "hint", "exercise": "01 places"}',
        b'{"v": 1, "at": "2026-03-01T09:30:00", "do": "dance", "exercise": "01 places"}',
        b'{"v": 1, "at": "2026-03-01T09:30:00", "do": "try", "exercise": "01 places"}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_costs_only_itself(tmp_path: Path, bad: bytes) -> None:
    log(tmp_path, line("hint"), line("try", passed=True))
    file = tmp_path / progress.FILE
    file.write_bytes(file.read_bytes().replace(b"\n", b"\n" + bad + b"\n", 1))
    known = progress.read(tmp_path)
    assert known.damaged == (2,) and known.of(FIRST.title).hints == 1
    assert known.passed == {FIRST.title}
    # A line without an end, as a full disk leaves it, does not swallow the next one.
    file.write_bytes(file.read_bytes() + b'{"v": 1, "at')
    Folder(tmp_path).note(SECOND, True)
    assert progress.read(tmp_path).damaged == (2, 4)
    assert progress.read(tmp_path).passed == {FIRST.title, SECOND.title}


def test_a_damaged_line_is_named_by_the_map(tmp_path: Path) -> None:
    log(tmp_path, line("try", passed=True), "{")
    said = learn(tmp_path, "map").output
    assert "damaged lines" in said and "were skipped: 2" in said
    assert json.loads(learn(tmp_path, "map", "--json").output)["damaged_lines"] == [2]


def test_a_log_of_a_newer_weft_is_refused(tmp_path: Path) -> None:
    log(tmp_path, line("hint"), line("hint").replace('"v": 1', '"v": 2'))
    with pytest.raises(weft.ArgumentError, match="written by a newer weft") as refused:
        progress.read(tmp_path)
    assert refused.value.where.endswith("progress.jsonl:2") and refused.value.got == "version 2"
    log(tmp_path)
    (tmp_path / progress.FILE).unlink()
    (tmp_path / progress.FILE).mkdir()
    with pytest.raises(weft.ArgumentError, match="the progress cannot be read"):
        progress.read(tmp_path)


def test_two_terminals_write_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from weft.learn import progress\n"
        "for _ in range(200): progress.add(Path(sys.argv[1]), 'hint', sys.argv[2])"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    both = [subprocess.Popen([*command, title]) for title in ("01 places", "01 parallel")]
    assert [one.wait(PROCESS_SECONDS) for one in both] == [0, 0]
    known = progress.read(tmp_path)
    assert not known.damaged
    assert [known.of(title).hints for title in ("01 places", "01 parallel")] == [200, 200]


# ---- hints ---------------------------------------------------------------------------------------
def test_hints_come_in_steps_and_are_counted(tmp_path: Path) -> None:
    seen = [json.loads(learn(tmp_path, "hint", "01/parallel", "--json").output) for _ in range(4)]
    assert [one["number"] for one in seen] == [1, 2, 3, 3]
    assert [one["hint"] for one in seen[:3]] == list(SECOND.hints)
    assert progress.read(tmp_path).of(SECOND.title).hints == 3, "the last one counts once"
    assert "no such exercise" in learn(tmp_path, "hint", "01/paralel").output


# ---- the map -------------------------------------------------------------------------------------
def test_the_map_shows_what_is_done_and_what_comes_first(tmp_path: Path) -> None:
    log(tmp_path, *(line("try", e.title, passed=True) for e in chapter.find(1).exercises))
    found = course_map(LearnOptions(tmp_path))
    first, second, third = found.chapters[:3]
    assert first.done and pages.state(first) == "done" and found.following == second
    assert (pages.state(second), second.missing) == ("ready", ())
    assert (pages.state(third), third.missing) == ("later", (2,))
    assert found.exercises == (2, sum(len(c.exercises) for c in chapter.chapters()))
    said = learn(tmp_path, "map").output
    assert "2 of 2" in said and "due for a review" in said and "Next: weft learn start 02" in said


def test_the_page_of_the_map(tmp_path: Path) -> None:
    log(tmp_path, line("try", passed=True), line("hint"))
    page = tmp_path / "map.html"
    assert f"wrote {page}" in " ".join(learn(tmp_path, "map", "--html", str(page)).output.split())
    text = page.read_text("utf-8")
    assert text.count("<rect") == len(chapter.chapters()) and "<script" not in text
    assert text.count("<path") == sum(len(c.needs) for c in chapter.chapters())
    assert text.count('class="passed"') == 1 and 'class="begun"' in text
    assert FIRST.title in text.split("Due for a review")[1]


def test_chapters_lie_right_of_what_they_need(tmp_path: Path) -> None:
    found = course_map(LearnOptions(tmp_path)).chapters
    places = pages._places(found)
    assert len(set(places.values())) == len(found), "no two chapters lie on each other"
    assert all(places[n][0] < places[c.chapter][0] for c in found for n in c.needs)


# ---- reviews -------------------------------------------------------------------------------------
def due(folder: Path, days: float) -> list[str]:
    found = review(LearnOptions(folder), START + timedelta(days=days))
    return [item.exercise for item in found.items]


def test_waits_grow_and_begin_again(tmp_path: Path) -> None:
    log(tmp_path, line("try", passed=True))
    assert not due(tmp_path, 0.9) and due(tmp_path, 1.0) == [FIRST.title]
    passed = [line("try", passed=True), line("review", days=1, passed=True)]
    log(tmp_path, *passed)
    assert not due(tmp_path, 3.9) and due(tmp_path, 4.0) == [FIRST.title]
    log(tmp_path, *passed, line("review", days=4, passed=False))
    assert due(tmp_path, 4.1) == [FIRST.title], "a review that fails stays due"
    log(tmp_path, *passed, *(line("review", days=4, passed=p) for p in (False, True)))
    assert not due(tmp_path, 4.9) and due(tmp_path, 5.0) == [FIRST.title]
    many = [line("review", days=day, passed=True) for day in (1, 4, 11, 32, 92, 152)]
    log(tmp_path, line("try", passed=True), *many)
    state = progress.read(tmp_path).of(FIRST.title)
    assert state.due == START + timedelta(days=152 + progress.DAYS[-1]) and state.reviews == 6
    log(tmp_path, line("try", passed=True), line("reset"))
    assert not due(tmp_path, 99)


def test_a_review_takes_a_few_at_once_those_that_wait_longest(tmp_path: Path) -> None:
    every = [e for c in chapter.chapters()[:3] for e in c.exercises]
    log(tmp_path, *(line("try", e.title, -k, passed=True) for k, e in enumerate(every)))
    found = review(LearnOptions(tmp_path), START + timedelta(days=2))
    assert [i.exercise for i in found.items] == [e.title for e in every[::-1][:AT_ONCE]]
    assert found.waiting == len(every) - AT_ONCE
    early = review(LearnOptions(tmp_path / "new"), START)
    assert not early.items and not early.following


def test_a_review_from_start_to_end(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(FIRST, FIRST.solution.read_text("utf-8"))
    log(tmp_path, line("try", passed=True))
    assert "there is no review to check" in learn(tmp_path, "check", "review").output
    said = learn(tmp_path, "review").output
    assert "01 places, due 2026-03-02" in said and "weft learn check review" in said
    copy = folder.review.file(FIRST)
    assert copy.read_text("utf-8") == FIRST.text
    assert learn(tmp_path, "check", "review").exit_code == 1
    copy.write_text(FIRST.solution.read_text("utf-8"), "utf-8")
    learn(tmp_path, "review")
    assert copy.read_text("utf-8") != FIRST.text, "a review that was begun is kept"
    passed = learn(tmp_path, "check", "review")
    assert passed.exit_code == 0 and not copy.exists()
    assert copy.with_name(f"{copy.name}.old").is_file()
    assert folder.file(FIRST).read_text("utf-8") == FIRST.solution.read_text("utf-8")
    state = progress.read(tmp_path).of(FIRST.title)
    assert (state.reviews, state.tries, state.passed) == (1, 1, True)
    later = json.loads(learn(tmp_path, "review", "--json").output)
    assert later["items"] == [] and later["following"] == state.due.date().isoformat()
