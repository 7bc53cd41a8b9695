"""Tasks that take turns: the tile blocks of a grid that wait for each other, the agents of a tile block, its CTAs.

One task runs at a time, until it waits for a condition that does not hold yet; then the next one runs.  Tasks run in
the order in which they were begun, so that runs are deterministic.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any


class Stuck(Exception):
    """Deadlock: every task waits for a condition that no other task will establish."""


class Task:
    """One program, and the condition that it waits for."""

    def __init__(self, program: Callable[[], Any]) -> None:
        self.program = program
        self.ready: Callable[[], bool] = lambda: True
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.is_done = False
        self.error: BaseException | None = None
        self.copies: list[Any] = []
        """Copies since the last group."""
        self.groups: list[list[Any]] = []
        """Groups of copies that have not been waited for."""


class Crew:
    """The tasks of a grid, or of one tile block."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.current = Task(lambda: None)
        self._back = threading.Semaphore(0)
        self._is_over = False
        self._takes_turns = False

    def alone(self, program: Callable[[], Any]) -> None:
        """Run a single program."""
        program()

    def begin(self, program: Callable[[], Any]) -> Task:
        task = Task(program)
        self.tasks.append(task)
        return task

    def run(self, programs: list[Callable[[], Any]]) -> None:
        """Run programs, and those that they begin, to their ends.  Raises the exception of one of them."""
        self._takes_turns = True
        for program in programs:
            self.begin(program)
        try:
            while waiting := [task for task in self.tasks if not task.is_done]:
                ready = [task for task in waiting if task.ready()]
                # If no task is ready, the youngest raises Stuck: the others wait for those that they have begun.
                for task in ready or waiting[-1:]:
                    if task.ready() or not ready:
                        self._give_turn(task)
                    if task.error is not None:
                        raise task.error
        finally:
            self._is_over = True
            for task in self.tasks:
                if task.thread is not None and not task.is_done:
                    self._give_turn(task)

    def _give_turn(self, task: Task) -> None:
        self.current = task
        if task.thread is None:
            context = contextvars.copy_context()
            task.thread = threading.Thread(target=context.run, args=(self._body, task), daemon=True)
            task.thread.start()
        else:
            task.turn.release()
        self._back.acquire()

    def _body(self, task: Task) -> None:
        try:
            task.program()
        except BaseException as error:
            task.error = error
        task.is_done = True
        self._back.release()

    def wait(self, holds: Callable[[], bool]) -> None:
        """Let other tasks run until the condition holds.  Raises Stuck if no task can make progress."""
        if holds():
            return
        if not self._takes_turns:
            raise Stuck("waits for a condition that no operation brings about")
        task = self.current
        task.ready = holds
        self._back.release()
        task.turn.acquire()
        task.ready = lambda: True
        if self._is_over or not holds():
            raise Stuck("waits for a condition that no agent brings about")

    def pause(self) -> None:
        """Let each other task that is ready run until it waits or pauses."""
        if self._takes_turns:
            task = self.current
            self._back.release()
            task.turn.acquire()
            if self._is_over:
                raise Stuck("is given up")
