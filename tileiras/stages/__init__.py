"""The stages of the compiler: list this folder to see them, `tileiras.pipeline` for their order.

A stage is a module with one function:

    def run(source, options: StageOptions, context: StageContext) -> StageResult

`source` is what the stage before made: a module operation, or bytes where the stage's input is bytes (`.py`,
`.tileirbc`, `.mlir`, `.ll`, `.ptx`).  A stage may change the module that it is given.  It reports what it has to say to
`context.engine`, and fails by raising CompileError.  It reads no global state: everything that its result depends on is
in `source`, in the options it declares in the pipeline, in the tools it declares there, and in `context.inputs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tileiras.diagnostics import DiagnosticEngine, Locatable

if TYPE_CHECKING:
    from tileiras.codegen.child_process import WaitingProgram
    from tileiras.inputs import Input
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation


class UndeclaredOption(Exception):
    """A stage asked for an option that its row in the pipeline does not list: a mistake in the compiler."""


class StageOptions:
    """The declared options of one stage, as attributes (`options.gpu_name`) or items (`options["gpu-name"]`)."""

    __slots__ = ("_stage", "_values")

    def __init__(self, stage: str, names: Iterable[str], values: Mapping[str, Any]) -> None:
        self._stage = stage
        self._values = {name: values[name] for name in names}

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise UndeclaredOption(
                f"stage '{self._stage}' reads option '{name}', which its row in tileiras/pipeline.py does not list"
            ) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name.replace("_", "-")]

    def __repr__(self) -> str:
        return f"StageOptions({self._stage}, {self._values!r})"


class ByteStore(Protocol):
    """Bytes by name, for what a stage derives from its tools and may keep between runs.  A miss is None."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class StageContext:
    """What a stage is told besides its input and options."""

    __slots__ = (
        "engine", "location", "source_name", "source_path", "store", "inputs", "instrumentation",
        "beside", "entry_locations", "meanwhile", "postpone", "kept_ptx", "program", "ptx_version",
    )  # fmt: skip

    def __init__(
        self,
        engine: DiagnosticEngine | None = None,
        *,
        location: Locatable | None = None,
        source_name: str = "<input>",
        source_path: str | None = None,
        store: ByteStore | None = None,
        instrumentation: Sequence[PassInstrumentation] = (),
        beside: Mapping[str, bytes] | None = None,
        entry_locations: Mapping[str, Locatable] | None = None,
    ) -> None:
        self.engine = engine if engine is not None else DiagnosticEngine()
        self.location = location
        """Where the unit being compiled stands in the user's source, for what has no better place."""
        self.source_name = source_name
        """The user's file as messages name it: relative, with forward slashes."""
        self.source_path = source_path
        """The user's file on disk, None when the source never was a file."""
        self.store = store
        self.inputs: list[Input] = []
        """What the result depends on besides the stage's input, options and tools, as it was read."""
        self.instrumentation = instrumentation
        """What watches the passes inside the stage."""
        self.beside = beside or {}
        """The side artifacts that the stage's row in the pipeline names (`reads_beside`), as far as there are any."""
        self.entry_locations = entry_locations or {}
        """Where entries stand, for stages that work on several."""
        self.kept_ptx: str | None = None
        """The file with the PTX that is assembled, where somebody keeps it."""
        self.ptx_version = ""
        """The version of PTX that is asked for, if any.  It may decide what a stage before `ptx` refuses and in which
        words, since the stage `ptx` refuses that, too; not what it makes, since no key of theirs has it."""
        self.meanwhile: Callable[[], None] | None = None
        """For a stage to call while it waits for another process: has something done that is needed later."""
        self.program: WaitingProgram | None = None
        """What the function `starts` of the stage's row in the pipeline has started."""
        self.postpone: Callable[[Callable[[], None]], None] | None = None
        """Takes a check of the output that can as well be made while the next stage waits."""

    def check(self, made: Callable[[], None]) -> None:
        """Has a check of the output made, now or later."""
        if self.postpone is not None:
            self.postpone(made)
        else:
            made()

    @property
    def dependencies(self) -> list[str]:
        """The files and folders among the inputs."""
        if not self.inputs:
            return []
        from tileiras.inputs import kinds

        return kinds.files(self.inputs, os.path.dirname(os.path.realpath(self.source_path or self.source_name)))


class StageResult:
    """What a stage makes: `output` goes to the next stage, `artifacts` (suffix -> bytes) beside it to the user.

    `output` is a module operation, which is printed where an artifact is wanted, or bytes.  An artifact may be given as
    the function that makes it: a compilation in one process takes few of them.
    """

    __slots__ = ("output", "_artifacts")

    def __init__(
        self, output: Operation | bytes, artifacts: Mapping[str, bytes | Callable[[], bytes]] | None = None
    ) -> None:
        self.output = output
        self._artifacts = artifacts or {}

    @property
    def artifacts(self) -> dict[str, bytes]:
        """To be taken before the next stage changes `output`."""
        return {suffix: made() if callable(made) else made for suffix, made in self._artifacts.items()}
