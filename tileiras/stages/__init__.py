"""The stages of the compiler: list this folder to see them, `tileiras.pipeline` for their order.

A stage is a module with one function:

    def run(source, options: StageOptions, context: StageContext) -> StageResult

`source` is the output of the previous stage: a module operation, or bytes where the stage's input is bytes (`.py`,
`.tileirbc`, `.mlir`, `.ll`, `.ptx`).  A stage may modify its input module.  It emits diagnostics and remarks to
`context.engine`, and fails by raising CompileError.  It reads no global state: its result depends only on `source`, on
the options and tools that its row in the pipeline declares, and on `context.inputs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tileiras
from tileiras.diagnostics import DiagnosticEngine, Locatable
from tileiras.support.lazy import lazy_names

if TYPE_CHECKING:
    from tileiras.inputs import Input
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation
    from tileiras.processes.programs import WaitingProgram


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
    """Cache, by name, of bytes that a stage derives from its tools and may keep between runs.  A miss is None."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class StageContext:
    """The environment of a stage: everything but its input and options."""

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
        """Location of the compiled unit in the user's source, for diagnostics without a more precise one."""
        self.source_name = source_name
        """The user's file as messages name it: relative, with forward slashes."""
        self.source_path = source_path
        """The user's file on disk, None when the source never was a file."""
        self.store = store
        self.inputs: list[Input] = []
        """Dependencies of the result besides the stage's input, options and tools, in their state when read."""
        self.instrumentation = instrumentation
        """Instrumentation of the passes of the stage."""
        self.beside = beside or {}
        """Those side artifacts that the stage's row in the pipeline names (`reads_beside`) and that exist."""
        self.entry_locations = entry_locations or {}
        """Locations of entries, for stages that work on several."""
        self.kept_ptx: str | None = None
        """The file that contains the assembled PTX, if it is kept; None otherwise."""
        self.ptx_version = ""
        """The requested version of PTX, or an empty string.  Stages before `ptx` may use it to reject, with their own
        messages, a module that the stage `ptx` would reject too.  Their output must not depend on it: their cache keys
        omit it."""
        self.meanwhile: Callable[[], None] | None = None
        """Hook: run background work, needed later, while the stage is blocked on another process."""
        self.program: WaitingProgram | None = None
        """The process started by the function `starts` of the stage's row in the pipeline."""
        self.postpone: Callable[[Callable[[], None]], None] | None = None
        """Defers a check of the output until the next stage waits."""

    def check(self, verification: Callable[[], None]) -> None:
        """Run a check of the output, now or later."""
        if self.postpone is not None:
            self.postpone(verification)
        else:
            verification()

    @property
    def dependencies(self) -> list[str]:
        """The files and folders among the inputs."""
        if not self.inputs:
            return []
        return tileiras.inputs.kinds.files(
            self.inputs, os.path.dirname(os.path.realpath(self.source_path or self.source_name))
        )


class StageResult:
    """The result of a stage: `output` is the input of the next stage; `artifacts` (suffix -> bytes) are for the user.

    `output` is a module operation, which is printed if it is an artifact, or bytes.  An artifact may be a function that
    returns the bytes: a compilation in one process uses few artifacts.
    """

    __slots__ = ("output", "_artifacts")

    def __init__(
        self, output: Operation | bytes, artifacts: Mapping[str, bytes | Callable[[], bytes]] | None = None
    ) -> None:
        self.output = output
        self._artifacts = artifacts or {}

    @property
    def artifacts(self) -> dict[str, bytes]:
        """The bytes of the artifacts; to be read before the next stage modifies `output`."""
        return {suffix: artifact() if callable(artifact) else artifact for suffix, artifact in self._artifacts.items()}


__getattr__ = lazy_names(__name__, globals())
