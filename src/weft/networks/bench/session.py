"""The contenders of cases, each in a process of its own, take turns on the GPU."""

from __future__ import annotations

import math
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from weft.networks.bench import worker
from weft.networks.bench.contenders import CONTENDERS
from weft.values.networks import NetworkCase, NetworkTime, StepTimes

TURN = 0.15
"""Seconds of a turn, if a step does not take longer."""
FEWEST, MOST = 2, 100
"""Steps of a turn."""
GRACE = 5.0
"""Seconds in which a process ends by itself: it removes what it has shared with others."""
MEMORY = "OutOfMemoryError"
LOST = "the process ended"
LATE = "not finished in time"


@dataclass(frozen=True)
class Method:
    """The settings of a run.

    rounds   turns of each contender
    losses   steps whose losses are compared
    graphs   capture the steps as CUDA graphs, too
    second   time the first call of a second process, too
    kernels  list the kernels of a step
    jobs     processes that make their first steps at the same time
    limit    seconds after which no turn is begun
    """

    rounds: int = 5
    losses: int = 10
    graphs: bool = True
    kernels: bool = False
    second: bool = False
    jobs: int = 1
    limit: float = math.inf
    device: str = "cuda"


class Unanswered(Exception):
    """A contender cannot do what was asked, and why."""


@dataclass(eq=False)
class Player:
    """A contender in its process, and its results so far."""

    case: NetworkCase
    name: str
    device: str
    result: StepTimes = field(default_factory=StepTimes)
    process: Any = None
    pipe: Connection | None = None
    busy: bool = False

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, self.case, self.name, self.device)
        self.process = context.Process(target=worker.serve, args=arguments)
        self.process.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        """Ask for something without waiting for the answer."""
        assert self.pipe is not None
        self.busy = True
        self.pipe.send((method, arguments))

    def receive(self, until: float) -> Any:
        """The answer to what was asked; raises Unanswered."""
        assert self.pipe is not None
        try:
            if not self.pipe.poll(max(0.0, min(until - time.monotonic(), 1e6))):
                raise Unanswered(LATE)
            right, value = self.pipe.recv()
            self.busy = False
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise Unanswered(f"{LOST}, exit code {self.process.exitcode}") from None
        if not right:
            raise Unanswered(value)
        return value

    def ask(self, until: float, method: str, *arguments: Any) -> Any:
        """Ask and wait."""
        self.send(method, *arguments)
        return self.receive(until)

    def fail(self, reason: str) -> None:
        """End the contender."""
        self.result = replace(self.result, failed=reason)
        self.end()

    def dismiss(self) -> None:
        """Tell the process to end."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None

    def end(self) -> None:
        """End the process; one that works, or that hangs after a CUDA error, is killed."""
        self.dismiss()
        if self.process is not None:
            self.process.join(0.0 if self.busy else GRACE)
            self.process.kill()
            self.process.join()
            self.process = None

    @property
    def plays(self) -> bool:
        return self.process is not None


def measured(
    cases: Sequence[NetworkCase],
    names: Sequence[str],
    method: Method,
    notify: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[NetworkTime]:
    """The results of each case as soon as it is finished."""
    until = time.monotonic() + method.limit
    together = max(1, method.jobs // max(1, len(names)))
    for first in range(0, len(cases), together):
        wave = cases[first : first + together]
        players = {case: [Player(case, name, method.device) for name in names] for case in wave}
        try:
            _prepare([p for case in wave for p in players[case]], method, until)
            for case in wave:
                if time.monotonic() >= until or stop():
                    return
                notify(case.words)
                yield _case(case, players[case], method, until)
        finally:
            _end([p for some in players.values() for p in some])


def _case(case: NetworkCase, players: list[Player], method: Method, until: float) -> NetworkTime:
    """The turns of a case. A contender that others leave too little memory plays after them."""
    _play([p for p in players if p.plays], method, until)
    _end(players)
    for player in players:
        if MEMORY in player.result.failed and time.monotonic() < until:
            player.result = StepTimes(alone=True)
            _prepare([player], method, until)
            _play([player] if player.plays else [], method, until)
            player.end()
    if method.second:
        for player in players:
            if not player.result.failed and time.monotonic() < until:
                _second(player, until)
    return NetworkTime(case, {p.name: p.result for p in players})


def _second(player: Player, until: float) -> None:
    """Time the first call of another process, which finds compiled code in the caches."""
    other = Player(player.case, player.name, player.device)
    other.start()
    try:
        seconds, _ = other.ask(until, "prepare", 1)
        player.result = replace(player.result, second=seconds)
    except Unanswered as reason:
        player.result = replace(player.result, failed=f"in a second process: {reason}")
    finally:
        other.end()


def _end(players: Sequence[Player]) -> None:
    """End the processes, which take leave of the GPU at the same time."""
    for player in players:
        player.dismiss()
    for player in players:
        player.end()


def _prepare(players: Sequence[Player], method: Method, until: float) -> None:
    """The first steps of all contenders, `jobs` at a time."""
    for first in range(0, len(players), method.jobs):
        some = players[first : first + method.jobs]
        for player in some:
            player.start()
            player.send("prepare", method.losses)
        for player in some:
            try:
                seconds, losses = player.receive(until)
                player.result = replace(player.result, first=seconds, losses=tuple(losses))
            except Unanswered as reason:
                player.fail(str(reason))


def _play(players: list[Player], method: Method, until: float) -> None:
    """Time the steps as called, then as graphs, then list their kernels."""
    _turns(players, method.rounds, until, _called)
    if method.graphs:
        captured = [p for p in players if p.plays and CONTENDERS[p.name].captures]
        _turns([p for p in captured if _capture(p, until)], method.rounds, until, _graphed)
    if method.kernels:
        for player in (p for p in players if p.plays):
            if time.monotonic() < until:
                _list(player, until)


def _turns(
    players: Sequence[Player], rounds: int, until: float, turn: Callable[[Player, float], None]
) -> None:
    """Let contenders take turns, in a new order every round."""
    order = random.Random(1)
    for _ in range(rounds):
        playing = [p for p in players if p.plays]
        order.shuffle(playing)
        for player in playing:
            if time.monotonic() < until:
                turn(player, until)


def _steps(known: Sequence[float]) -> int:
    """The steps of a turn; few, while the time of a step is not known."""
    return min(MOST, max(FEWEST, round(TURN / min(known)))) if known else FEWEST


def _called(player: Player, until: float) -> None:
    result = player.result
    try:
        seconds, memory, reserved = player.ask(until, "time", _steps(result.seconds))
    except Unanswered as reason:
        player.fail(str(reason))
        return
    player.result = replace(
        result,
        seconds=(*result.seconds, seconds),
        memory=max(result.memory, memory),
        reserved=max(result.reserved, reserved),
    )


def _capture(player: Player, until: float) -> bool:
    """Capture a graph; a step that cannot be captured has broken its process."""
    try:
        apart = player.ask(until, "capture")
        player.result = replace(player.result, graph_apart=apart)
    except Unanswered as reason:
        player.result = replace(player.result, graph_failed=str(reason))
        player.end()
    return player.plays


def _graphed(player: Player, until: float) -> None:
    result = player.result
    try:
        seconds = player.ask(until, "replay", _steps(result.graph))
    except Unanswered as reason:
        player.result = replace(result, graph_failed=str(reason))
        player.end()
        return
    player.result = replace(result, graph=(*result.graph, seconds))


def _list(player: Player, until: float) -> None:
    try:
        kernels = player.ask(until, "kernels")
    except Unanswered as reason:  # the times are there
        kernels = [(str(reason), 0, 0.0)]
        player.end()
    player.result = replace(player.result, kernels=tuple(map(tuple, kernels)))
