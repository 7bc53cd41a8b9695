"""Steps (one stage applied to one unit) and their outcomes, as the processes of a build exchange them.

`execute` performs steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileiras import diagnostics as messages
from tileiras import pipeline
from tileiras.build import overrides
from tileiras.bytecode.versions import is_bytecode
from tileiras.diagnostics import CompileError, Diagnostic
from tileiras.options import CompileOptions
from tileiras.pipeline import Stage
from tileiras.support.files import digest_if_there, read_if_there
from tileiras.support.named_tuple import NamedTuple


class Step:
    """One stage applied to one unit."""

    __slots__ = ("stage", "input", "stem", "suffixes", "source_name", "source_path", "options", "entry", "locations",
                 "next", "override", "overridden")  # fmt: skip

    def __init__(
        self,
        stage: Stage,
        input: str,
        stem: str,
        suffixes: Iterable[str],
        source_name: str,
        source_path: str,
        options: CompileOptions,
        entry: str | None = None,
        locations: Iterable[str] = (),
    ) -> None:
        self.stage = stage
        self.input = input
        """The file with the stage's input."""
        self.stem = stem
        """Path to which every suffix is appended: `build/sm_90/O3/saxpy` for a file, `.../saxpy/ENTRY` for an entry."""
        self.suffixes = tuple(suffixes)
        """The suffixes of the artifacts to write."""
        self.source_name = source_name
        self.source_path = source_path
        self.options = options
        self.entry = entry
        self.locations = tuple(locations)
        """The location files from the input's own up to the one that holds positions in the source."""
        self.override: str | None = None
        """The file that replaces the stage's product (`overrides`), or None."""
        self.overridden: tuple[str, ...] = ()
        """The stages up to this one whose products are replaced by overrides."""
        self.next: Step | None = None
        """The step that reads this one's product, if there is exactly one."""

    def is_as(self, other: Step) -> bool:
        """Whether two steps are equal except for `next`."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("stage", "input", "stem", "suffixes", "source_name", "source_path", "entry", "locations",
                         "override", "overridden")
        ) and dict(self.options) == dict(other.options)

    @property
    def outputs(self) -> list[str]:
        return [self.stem + suffix for suffix in self.suffixes]

    @property
    def beside(self) -> dict[str, str]:
        """Files that the stage reads besides its input, by suffix: side artifacts of the input, and the override.

        An input whose name lacks the suffix of the previous stage has no known side artifacts.
        """
        result = {overrides.BESIDE: self.override} if self.override is not None else {}
        if not self.stage.reads_beside:
            return result
        suffix = pipeline.before(self.stage).suffix
        if not self.input.endswith(suffix):
            return result
        stem = self.input.removesuffix(suffix)
        return {**result, **{own: stem + own for own in self.stage.reads_beside}}


class Outcome:
    """The result of a step: `error` is None if its artifacts were written."""

    __slots__ = ("cached", "diagnostics", "error", "key", "digests", "seconds")

    def __init__(
        self,
        cached: bool,
        diagnostics: list[Diagnostic],
        error: CompileError | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.cached = cached
        self.diagnostics = diagnostics
        self.error = error
        self.seconds = seconds
        """Duration of the stage's run; for a cached result, that of the original run."""
        self.key: str | None = None
        """The store key of the artifacts; None if the step's inputs could not be read."""
        self.digests: dict[str, str] = {}
        """The digests of the artifacts that were written, by suffix."""


class Report(NamedTuple):
    """An Outcome as plain data: its diagnostics rendered, `code` 0 if the artifacts were written."""

    stem: str
    stage: str
    key: str | None
    cached: bool
    code: int
    text: str
    seconds: float
    digests: Mapping[str, str] = {}
    """The digests of the artifacts that were written, by suffix."""


def read_beside(step: Step) -> dict[str, bytes]:
    """The contents of the existing files that a step's stage reads besides its input, by suffix."""
    result = {suffix: read_if_there(path) for suffix, path in step.beside.items()}
    return {suffix: content for suffix, content in result.items() if content is not None}


def lie_there(step: Step, digests: Mapping[str, str]) -> bool:
    """Whether the artifacts of a step exist with the recorded digests."""
    return all(digest_if_there(step.stem + suffix) == digests.get(suffix, "") for suffix in step.suffixes)


def report(outcome: Outcome, step: Step) -> Report:
    """An outcome as plain data."""
    code = int(outcome.error.code) if outcome.error is not None else 0
    text = render(outcome.diagnostics, step) if outcome.diagnostics else ""
    return Report(
        step.stem, step.stage.name, outcome.key, outcome.cached, code, text, outcome.seconds,
        outcome.digests,
    )  # fmt: skip


def render(diagnostics: Iterable[Diagnostic], step: Step) -> str:
    """Diagnostics for a terminal, with lines quoted from the present source."""
    sources: Mapping[str, str] = {}
    content = read_if_there(step.source_path)
    if content is not None and not is_bytecode(content):
        sources = {step.source_name: content.decode(errors="replace")}
    return messages.render(diagnostics, sources)


def warn_on_stderr(message: str) -> None:
    import sys

    print(f"warning: {message}", file=sys.stderr)
