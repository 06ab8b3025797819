"""The process behind `make watch`: torch, a lesson's suite and the reference's answers are loaded; each run is a fork.

It is sent a message for each run, {"run": 3, "lessons": [...]} or {"run": 3, "explain": 17}, and sends back
{"run": 3, "case": 17, "status": "failed", ...} for each case, {"run": 3, "ended": ...} for each process that ends.
"""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ...catalog import lesson as read_lesson
from .. import Result

FORK = multiprocessing.get_context("fork")
PARTS = min(2, os.cpu_count() or 1)


class Warm:
    """Serves one `make watch`, which ends it by closing its end of the connection.

    Args:
        folder: of the student's lessons.
    """

    def __init__(self, folder: Path, watch: Connection) -> None:
        from ...oracle import Reference
        from ...suite import Remembering

        self.folder, self.watch = folder, watch
        self.reference = Reference(Remembering)
        self.prepared: list[str] = []
        self.children: dict[Any, BaseProcess] = {}
        """The connection to each running fork -> its process."""
        self.run, self.lessons = 0, [""]
        self.steps: Iterator[None] = iter(())

    def serve(self) -> None:
        idle = False
        while True:
            ready = wait([self.watch, *self.children], None if idle or self.children else 0.0)
            if not ready:
                idle = next(self.steps, self) is self
            if self.watch in ready:
                try:
                    self._start(self.watch.recv())
                except EOFError:
                    return
                idle = False
            for pipe in [pipe for pipe in self.children if pipe in ready]:
                self._forward(pipe)

    def _say(self, **message: Any) -> None:
        self.watch.send({"run": self.run, **message})

    def _start(self, asked: dict[str, Any]) -> None:
        from ...suite import keep_what_is_loaded

        self.kill()
        self.run = asked["run"]
        if "explain" in asked:
            self._fork(self._explain, asked["explain"])
            return
        self.lessons = asked["lessons"]
        for lesson in self.lessons:
            self._prepare(lesson)
        self._say(started=PARTS)
        gc.collect()
        keep_what_is_loaded()
        # What is still to be run, two bytes a case: the forks take from one pipe, so that none waits for the other.
        waiting, end = os.pipe()
        os.write(end, b"".join(number.to_bytes(2) for number in range(len(self._all_cases()))))
        os.close(end)
        for _ in range(PARTS):
            self._fork(self._work, waiting)
        os.close(waiting)

    def _prepare(self, lesson: str) -> None:
        """Compute the reference's answers to everything that a run of the lesson asks."""
        if lesson in self.prepared:
            return
        from ...diagnosis import NoExplanation
        from ...suite import Engine, cases

        self._say(loading=lesson)
        with Engine(self.reference.evaluator, reference=self.reference, explanation=NoExplanation).active():
            for case in cases(lesson):
                case.run()
        self.prepared.append(lesson)
        self.steps = self._warm_up(lesson)

    def _warm_up(self, lesson: str) -> Iterator[None]:
        """Compute the answers that an explanation compares with, one wrong answer per step."""
        from ...oracle import wrong_answers

        for wrong in wrong_answers(lesson):
            self.reference.answers_of(lesson, wrong, wrong.exercise)
            yield

    def _fork(self, work: Callable[[int, Any], None], number: int) -> None:
        pipe, end = FORK.Pipe(duplex=False)
        self.children[pipe] = process = FORK.Process(target=_quietly, args=(work, number, end.send))
        process.start()
        end.close()

    def _forward(self, pipe: Connection) -> None:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            process = self.children.pop(pipe)
            process.join()
            pipe.close()
            message = {"ended": process.exitcode}
        self._say(**message)

    def kill(self) -> None:
        for pipe, process in self.children.items():
            process.kill()
            process.join()
            pipe.close()
        self.children.clear()

    def _engine(self, send: Any, **options: Any) -> Any:
        from ...execution import executor
        from ...suite import Engine

        def unstoppable(request: Any) -> None:
            send({"text": f"{request.exercise} never ends, and catches whatever would stop it."})
            os._exit(3)

        subject = executor.student(self.folder, executor.Terms(unstoppable=unstoppable))
        return Engine(subject, reference=self.reference, impatient=True, **options)

    def _all_cases(self) -> list[Any]:
        from ...suite import cases

        def place(case: Any) -> tuple[int, bool]:
            return self.lessons.index(case.entry.lesson), not case.entry.is_basic

        return sorted((case for lesson in self.lessons for case in cases(lesson)), key=place)

    def _work(self, waiting: int, send: Any) -> None:
        from ...diagnosis import NoExplanation

        broken: set[tuple[str, str]] = set()
        cases = self._all_cases()
        with self._engine(send, explanation=NoExplanation).active():
            while taken := os.read(waiting, 2):
                case = cases[number := int.from_bytes(taken)]
                node, entry = case.node, case.entry
                file = entry.lesson, read_lesson(entry.lesson).file_of(entry.exercise)
                result, text, is_of_file = (Result("waiting"), "", False) if file in broken else _verdict(case)
                broken |= {file} if is_of_file else set()
                found = {"case": number, "result": result, "text": text, "node": node, "label": case.label}
                send({**found, "lesson": entry.lesson, "exercise": entry.exercise})

    def _explain(self, number: int, send: Any) -> None:
        with self._engine(send).active():
            send({"explained": number, "text": _verdict(self._all_cases()[number])[1]})


def _quietly(work: Callable[[int, Any], None], number: int, send: Any) -> None:
    """The body of a fork, its standard streams closed to the terminal."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    work(number, send)


def _verdict(case: Any) -> tuple[Result, str, bool]:
    """Result, text of the report, and whether the file itself cannot be loaded."""
    from ...report import CheckFailed, NotStarted, Waiting
    from ...suite import current

    current().begin_test()
    try:
        if (verdict := case.run()) is None:
            current().end_test()
    except Waiting as waits:
        verdict = waits
    except Exception as error:
        return Result("failed"), f"{case.node}: {type(error).__name__}: {error}", False
    if verdict is None:
        return Result("passed"), "", False
    if isinstance(verdict, NotStarted):
        return Result("not started"), str(verdict), False
    if isinstance(verdict, Waiting):
        return Result("waiting", waits_for=verdict.waits_for), str(verdict), False
    raised = verdict.outcome.error if isinstance(verdict, CheckFailed) and verdict.outcome else None
    return Result("failed"), str(verdict), bool(raised and raised.is_of_file)


def serve(folder: Path, watch: Connection) -> None:
    """The main function of the process."""
    # A fork of a process with threads, or with a GPU in use, cannot compute.
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
    import torch

    torch.set_num_threads(1)
    server = Warm(folder, watch)
    try:
        server.serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # It has gone.
    finally:
        server.kill()
