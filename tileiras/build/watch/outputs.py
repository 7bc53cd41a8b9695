"""Builds the consumers of kernels in watch mode: headers, objects and other nodes that are not stages.

After kernels were built, the build that declared them runs in a process of its own, while the watch waits for the next
save.  Saves during the run cause one more run.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

_LEFT_OUT = ("scons: `", "tileiras: ")
"""Prefixes of output lines that are dropped: the watch has already reported the stages."""


class Consumers:
    """Runs a command in a folder on request, one run at a time."""

    def __init__(
        self,
        command: Sequence[str],
        folder: str,
        out: Callable[[str], None],
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`turn` holds the locks of the build directories while the command runs."""
        self._command = list(command)
        self._folder = folder
        self._out = out
        self._turn = turn
        self._asked = threading.Event()
        self._closed = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="tileiras-consumers", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        self._asked.set()

    def close(self) -> None:
        """Terminate a running command and end the thread."""
        self._closed = True
        process = self._process
        if process is not None:
            process.terminate()
        self._asked.set()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._closed:
                return
            with self._turn():
                self._once()

    def _once(self) -> None:
        start = time.perf_counter()
        # A watch builds often: with the file-system monitor, a run examines only the files that the watch has written.
        environment = {**os.environ, "TILEIRAS_SERVER": os.environ.get("TILEIRAS_SERVER") or "auto"}
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
        )  # fmt: skip
        assert self._process.stdout is not None
        result = 0
        for line in self._process.stdout:
            line = line.rstrip("\n")
            if line and not line.startswith(_LEFT_OUT) and not line.endswith(" (cached)"):
                result += 1
                self._out(line)
        code = self._process.wait()
        self._process = None
        if self._closed:
            return
        if code:
            self._out(f"the build ended with exit code {code}")
        elif result:
            self._out(f"the files built from the kernels are up to date  {time.perf_counter() - start:.1f} s")
