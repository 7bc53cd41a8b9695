"""Worker processes, one case at a time each.  A worker that ends before its verdict, as one that the system kills for
its memory, is a failure of its case; another takes its place."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

_MOST_CASES = 200
"""Cases after which a worker is replaced: memory that libraries keep grows."""


class Ended(NamedTuple):
    """A worker that ended within a case."""

    number: int
    exit_code: int

    def __str__(self) -> str:
        if self.exit_code >= 0:
            return f"the worker ended with code {self.exit_code}"
        return f"the worker was killed by {signal.Signals(-self.exit_code).name}"


class _Worker:
    def __init__(self, judge: Callable[[int], Any], others: Sequence[_Worker]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, other = context.Pipe()
        # Ends of the parent that the process inherits would keep its own and other workers from seeing an end.
        inherited = [self.connection, *(each.connection for each in others)]
        self.process = context.Process(target=_work, args=(judge, other, inherited), daemon=True)
        self.process.start()
        other.close()
        self.number: int | None = None
        self.cases = 0

    def begin(self, number: int) -> None:
        self.number = number
        self.cases += 1
        with contextlib.suppress(BrokenPipeError):  # the end of the worker is seen when it is waited for
            self.connection.send(number)

    def end(self) -> Any:
        """The result of the case, or `Ended`."""
        number, self.number = self.number, None
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return Ended(number or 0, self.process.exitcode or 0)

    def stop(self) -> None:
        self.connection.close()
        self.process.join()


def _work(judge: Callable[[int], Any], connection: Connection, inherited: Sequence[Connection]) -> None:
    for each in inherited:
        each.close()
    while True:
        try:
            number = connection.recv()
        except EOFError:
            return
        connection.send(judge(number))


def judged(judge: Callable[[int], Any], numbers: Iterable[int], jobs: int) -> Iterator[Any]:
    """The results of `judge` as they come, `Ended` for a case whose worker ended.

    A number is drawn only when a worker is free.
    """
    waiting, workers = iter(numbers), list[_Worker]()
    for _ in range(jobs):
        workers.append(_Worker(judge, workers))
    try:
        busy = [worker for worker in workers if _begin(worker, waiting)]
        while busy:
            for connection in wait([worker.connection for worker in busy]):
                worker = next(each for each in busy if each.connection is connection)
                busy.remove(worker)
                result = worker.end()
                if isinstance(result, Ended) or worker.cases >= _MOST_CASES:
                    worker.stop()
                    workers.remove(worker)
                    worker = _Worker(judge, workers)
                    workers.append(worker)
                if _begin(worker, waiting):
                    busy.append(worker)
                yield result
    finally:
        for worker in workers:
            if worker.number is not None:
                worker.process.terminate()
            worker.stop()


def _begin(worker: _Worker, numbers: Iterator[int]) -> bool:
    number = next(numbers, None)
    if number is not None:
        worker.begin(number)
    return number is not None
