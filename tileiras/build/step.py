"""What one stage is to do for one unit, and how that went, as the processes of a build tell each other.

`execute` performs steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileiras import diagnostics as messages
from tileiras import pipeline
from tileiras.build import overrides
from tileiras.bytecode.versions import is_bytecode
from tileiras.diagnostics import CompileError, Diagnostic
from tileiras.files import digest_if_there, read_if_there
from tileiras.named_tuple import NamedTuple
from tileiras.options import CompileOptions
from tileiras.pipeline import Stage


class Step:
    """What one stage is to do for one unit."""

    __slots__ = ("stage", "input", "stem", "wanted", "source_name", "source_path", "options", "entry", "locations",
                 "next", "override", "overridden")  # fmt: skip

    def __init__(
        self,
        stage: Stage,
        input: str,
        stem: str,
        wanted: Iterable[str],
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
        """What every suffix is appended to: `build/sm_90/O3/saxpy` for a file, `.../saxpy/ENTRY` for an entry."""
        self.wanted = tuple(wanted)
        """The suffixes of the artifacts to write."""
        self.source_name = source_name
        self.source_path = source_path
        self.options = options
        self.entry = entry
        self.locations = tuple(locations)
        """The location files from the input's own up to the one that holds positions in the source."""
        self.override: str | None = None
        """The file that takes the place of what the stage makes (`overrides`)."""
        self.overridden: tuple[str, ...] = ()
        """The stages up to this one whose places overrides take."""
        self.next: Step | None = None
        """The step whose input this one's product is, when there is one and no other."""

    def is_as(self, other: Step) -> bool:
        """Whether two steps do the same, whatever follows them."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("stage", "input", "stem", "wanted", "source_name", "source_path", "entry", "locations",
                         "override", "overridden")
        ) and dict(self.options) == dict(other.options)

    @property
    def outputs(self) -> list[str]:
        return [self.stem + suffix for suffix in self.wanted]

    @property
    def beside(self) -> dict[str, str]:
        """The side artifacts of the input that the stage is given as well: suffix -> path; and the override.

        None for an input that is not named as the stage before names it, where nothing is known to belong to it.
        """
        found = {overrides.BESIDE: self.override} if self.override is not None else {}
        if not self.stage.reads_beside:
            return found
        suffix = pipeline.before(self.stage).suffix
        if not self.input.endswith(suffix):
            return found
        stem = self.input.removesuffix(suffix)
        return {**found, **{own: stem + own for own in self.stage.reads_beside}}


class Outcome:
    """How a step went: `error` is None when its artifacts were written."""

    __slots__ = ("cached", "diagnostics", "error", "key", "made", "seconds")

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
        """What running the stage took; of a cached one, when it ran."""
        self.key: str | None = None
        """What the artifacts are named by; None when the step's inputs could not be read."""
        self.made: dict[str, str] = {}
        """The digests of the artifacts that were written, by suffix."""


class Report(NamedTuple):
    """An Outcome as plain data: its diagnostics rendered, `code` 0 when the artifacts were written."""

    stem: str
    stage: str
    key: str | None
    cached: bool
    code: int
    text: str
    seconds: float
    made: Mapping[str, str] = {}
    """The digests of the artifacts that were written, by suffix."""


class Standing(NamedTuple):
    """How the artifacts of a step stand to what is noted of its last run."""

    made: Mapping[str, str] | None
    """Their digests by suffix, when the step need not be performed; else None."""
    damaged: str | None = None
    """An artifact that is not as the same step made it."""


def read_beside(step: Step) -> dict[str, bytes]:
    """The content of the side artifacts that a step's stage is given, as far as they are there."""
    found = {suffix: read_if_there(path) for suffix, path in step.beside.items()}
    return {suffix: content for suffix, content in found.items() if content is not None}


def lie_there(step: Step, made: Mapping[str, str]) -> bool:
    """Whether the artifacts of a step have the digests that it made them with."""
    return all(digest_if_there(step.stem + suffix) == made.get(suffix, "") for suffix in step.wanted)


def report(outcome: Outcome, step: Step) -> Report:
    """An outcome as plain data."""
    code = int(outcome.error.code) if outcome.error is not None else 0
    text = render(outcome.diagnostics, step) if outcome.diagnostics else ""
    return Report(
        step.stem, step.stage.name, outcome.key, outcome.cached, code, text, outcome.seconds,
        outcome.made,
    )  # fmt: skip


def render(diagnostics: Iterable[Diagnostic], step: Step) -> str:
    """Diagnostics for a terminal, with lines of the source as it is now."""
    sources: Mapping[str, str] = {}
    content = read_if_there(step.source_path)
    if content is not None and not is_bytecode(content):
        sources = {step.source_name: content.decode(errors="replace")}
    return messages.render(diagnostics, sources)


def warn_on_stderr(message: str) -> None:
    import sys

    print(f"warning: {message}", file=sys.stderr)
