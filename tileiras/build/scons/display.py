"""Output of a build: a line per stage, a progress line on a terminal, and a summary at the end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tileiras
from tileiras import build
from tileiras.build.overrides import unused_files
from tileiras.build.step import Report, Step
from tileiras.diagnostics import ExitCode, plural

EVERY = 0.1
"""Seconds between two updates of the progress line."""

MOST_FAILURES = 20
"""Maximum number of failed kernels named in the summary."""


class Display:
    """One run of SCons; its methods are called from several threads."""

    def __init__(self, is_done: Callable[[Any], bool], out: Any = None, error: Any = None) -> None:
        """`is_done` returns whether the run has brought a node up to date."""
        self._is_done = is_done
        self._out = out if out is not None else sys.stdout
        self._error = error if error is not None else sys.stderr
        self._terminal = self._out.isatty()
        self._ending = False
        self.idle = False
        """Whether the run builds nothing (`scons -n`)."""
        self.silent = False
        """Whether only errors are printed (`scons -s`)."""
        self.overrides: dict[str, None] = {}
        """Folders of overrides."""
        self._lock = threading.RLock()
        self._kernels: list[tuple[Sequence[Step], dict[str, Any], list[Any]]] = []
        self._reports: dict[tuple[str, str], Report] = {}
        self._failures: dict[tuple[str, str], str] = {}
        """(source, target) -> the first error line."""
        self._without_files: set[tuple[str, str]] = set()
        """Sources and targets for which a file could not be read or written; their kernels have no error."""
        self._told: set[tuple[str, str]] = set()
        """Messages already printed for a source: most errors for one target recur for all targets."""
        self._pages: list[float] = []
        """Seconds that each report took."""
        self._running = 0
        self._drawn = 0.0
        self._summarised = False

    def add(self, steps: Sequence[Step], nodes: dict[str, Any], products: list[Any]) -> None:
        """Add a kernel of this run: its steps, its nodes by path, and the requested nodes."""
        self._kernels.append((steps, nodes, products))
        if not self.idle and (steps[0].options["emit-remarks"] or self.overrides):
            self._summarise()

    def begin(self) -> None:
        with self._lock:
            self._summarise()
            self._running += 1
            self._draw()

    def _summarise(self) -> None:
        """Register `summary` to be called once at exit."""
        if not self._ending:
            self._ending = True
            atexit.register(self.summary)

    def finished(self, step: Step, report: Report, line: str) -> None:
        """Add a performed step and print its `line`."""
        with self._lock:
            self._running -= 1
            self._reports[step.stem, step.stage.name] = report
            if report.code == ExitCode.USAGE:
                self._without_files.add((step.source_name, step.options["gpu-name"]))
            elif report.code:
                first = next((text for text in report.text.splitlines() if "error: " in text), report.text)
                self._failures.setdefault((step.source_name, step.options["gpu-name"]), first)
            if not self.silent:
                self._say(line, self._out)
            if report.text and (step.source_name, report.text) not in self._told:
                self._told.add((step.source_name, report.text))
                self._say(report.text, self._error)
            self._draw()

    def reported(self, seconds: float) -> None:
        """Add a report that was written, which is no stage."""
        with self._lock:
            self._summarise()
            self._pages.append(seconds)

    def note(self, line: str) -> None:
        """Print a line about the build itself."""
        with self._lock:
            if not self.silent:
                self._say(line, self._out)

    def _say(self, text: str, file: Any) -> None:
        # A single write: print() writes the line end separately, and another thread may write in between.
        if file is self._error:
            text = tileiras.diagnostics.colours.for_stream(text, file)
        file.write(("\r\x1b[K" if self._terminal else "") + text + "\n")
        file.flush()

    def _draw(self) -> None:
        if not self._terminal or self.silent or time.monotonic() < self._drawn + EVERY:
            return
        self._drawn = time.monotonic()
        count = sum(all(map(self._is_done, products)) for _, _, products in self._kernels)
        hits = sum(report.cached for report in self._reports.values())
        where = f"[{count}/{len(self._kernels)} kernels]"
        self._out.write(f"\r\x1b[K{where} {hits} stages from the store, {self._running} running")
        self._out.flush()

    def summary(self) -> None:
        """Print once the summary of the run, the requested remarks, and the failed kernels."""
        with self._lock:
            if self._summarised:
                return
            self._summarised = True
            self._tell_remarks()
            edited = self._overrides()
            for name in self._unused_overrides():
                self._say(f"tileiras: {name} replaces no artifact of this build", self._error)
            if not self._reports and not edited and not self._pages:
                return
            reports = self._reports.values()
            ran = [report for report in reports if not report.cached and not report.code]
            hits = [report for report in reports if report.cached]
            words = [f"{plural(len(ran), 'stage')} run in {_seconds(report.seconds for report in ran)}"]
            if hits:
                words.append(f"{len(hits)} from the store, which saved {_seconds(report.seconds for report in hits)}")
            if self._pages:
                words.append(f"{plural(len(self._pages), 'report')} in {_seconds(self._pages)}")
            cut = self._cut_off()
            if cut:
                words.append(f"{cut} cut off")
            failed = len({source for source, _ in self._failures})
            if failed:
                words.append(f"{plural(failed, 'kernel')} failed")
            if self._without_files:
                count = len({source for source, _ in self._without_files})
                words.append(f"{plural(count, 'kernel')} not built: a file could not be read or written")
            if edited:
                words.append(f"{len(edited)} overridden: {', '.join(edited)}")
            if not self.silent:
                self._say("tileiras: " + ", ".join(words), self._out)
            targets: dict[tuple[str, str], list[str]] = {}
            for (source, target), text in sorted(self._failures.items()):
                targets.setdefault((source, text), []).append(target)
            if len(targets) > 1:
                lines = [f"  {text} ({', '.join(where)})" for (_, text), where in targets.items()]
                if len(lines) > MOST_FAILURES:
                    lines[MOST_FAILURES:] = [f"  and {len(lines) - MOST_FAILURES} more"]
                self._say("\n".join([f"tileiras: {plural(failed, 'kernel')} failed:", *lines]), self._error)

    def _tell_remarks(self) -> None:
        """Print the remarks of all up-to-date kernels, built in this run or earlier, in a fixed order."""
        # A kernel may have been declared for several products.
        files: dict[tuple[str, str, int], dict[tuple[str, str], Step]] = {}
        for steps, nodes, _ in self._kernels if not self.idle else ():
            options = steps[0].options
            if options["emit-remarks"]:
                own = files.setdefault((steps[0].stem, options["gpu-name"], options["opt-level"]), {})
                performed = [step for step in steps if self._is_done(nodes[step.outputs[0]])]
                own.update(((step.stem, step.stage.name), step) for step in performed)
        for own in files.values():
            text = build.remark_files.remark_text(list(own.values()))
            if text:
                self._say(text, self._error)

    def _overrides(self) -> list[str]:
        """List the overrides used by up-to-date artifacts, whether or not a stage ran."""
        overrides: dict[str, None] = {}
        for steps, nodes, _ in self._kernels if not self.idle else ():
            for step in steps:
                if step.override is not None and self._is_done(nodes[step.outputs[0]]):
                    overrides[os.path.relpath(step.override)] = None
        return sorted(overrides)

    def _unused_overrides(self) -> list[str]:
        """List the files in the folders of overrides that match no declared step."""
        paths = [step.override for steps, _, _ in self._kernels for step in steps if step.override is not None]
        files = [os.path.join(folder, name) for folder in self.overrides for name in unused_files(folder, paths)]
        return [os.path.relpath(path) for path in files]

    def _cut_off(self) -> int:
        """Count the stages that need not run because an earlier stage reproduced its existing artifact."""
        result: set[tuple[str, str]] = set()
        for steps, nodes, _ in self._kernels:
            performed = [self._reports.get((step.stem, step.stage.name)) for step in steps]
            if any(report is not None and not report.code for report in performed):
                rest = [step for step, report in zip(steps, performed, strict=True) if report is None]
                result.update((step.stem, step.stage.name) for step in rest if self._is_done(nodes[step.outputs[0]]))
        return len(result)


def _seconds(times: Iterable[float]) -> str:
    seconds = sum(times)
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
