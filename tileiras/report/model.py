"""Data model of a report, shown by its panels; `as_json` produces the output of `--format json`."""

from __future__ import annotations

from typing import Any

from tileiras.support.named_tuple import NamedTuple

FORMAT = 1
"""Version of a report's JSON."""

LEVELS = ("source", "cuda_tile", "tileaa", "tileas", "llvm", "ptx", "sass")
"""The panels of code, from the user's source to the code that the GPU executes."""


class Place(NamedTuple):
    """A line of the user's source, or of an imported file, to which generated code is attributed."""

    file: str
    line: int
    """From 1."""


class Level(NamedTuple):
    """The text of a kernel at one level, and the source places of each of its lines."""

    name: str
    file: str
    """Name of the artifact."""
    text: str
    places: tuple[tuple[int, ...], ...]
    """For each line of the text, positions in `Kernel.places`; innermost first where calls were inlined."""
    ptx_lines: tuple[int, ...] = ()
    """Of machine code: for each line, the 1-based line of the PTX that it was assembled from; 0 if unknown."""


class Stage(NamedTuple):
    """Outcome of the last run of a stage."""

    name: str
    outcome: str
    """`ran`, `served from the store`, `cut off`, `failed`, `overridden`, or `not reached`."""
    seconds: float | None
    """Duration of a run; None if it was not recorded."""
    why: tuple[str, ...]
    """Changed inputs, for a stage that ran in a build directory."""


class Layout(NamedTuple):
    """Which thread holds which element of a tile, or which byte of shared memory.

    `bases` are those of the linear map: for every bit of `register`, `lane`, `warp` and `block` (or of `offset`, in
    elements) the coordinates that it adds by exclusive or.
    """

    name: str
    kind: str
    """`registers` or `shared memory`."""
    shape: tuple[int, ...]
    element: str
    bits: int
    """Of an element in storage."""
    bases: dict[str, tuple[tuple[int, ...], ...]]
    lines: tuple[int, ...]
    """Lines of the level `tileas` that define values of this layout."""


class Conversion(NamedTuple):
    """Data movement of a layout conversion."""

    line: int
    """Of `tileas`."""
    places: tuple[int, ...]
    source: str
    target: str
    kind: str
    """`registers`, `shuffles`, `shared memory` or `none`."""
    bytes: int
    """Bytes of shared memory that it uses."""
    store_wavefronts: int
    """Of a warp, for all of its stores; 0 without shared memory."""
    store_least: int
    """The same without bank conflicts."""
    load_wavefronts: int
    load_least: int


class SharedUse(NamedTuple):
    """Access of threads to a tile in shared memory."""

    line: int
    places: tuple[int, ...]
    what: str
    layout: str
    vector_bytes: int
    wavefronts: int
    """Of a warp, for the whole tile."""
    least: int


class Area(NamedTuple):
    """An area of the arena of shared memory, and its live range in the program."""

    kind: str
    """`buffer`, `ring`, `scratch` or `mbarriers`."""
    what: str
    offset: int
    bytes: int
    first: int
    """Lines of `tileas`."""
    last: int
    places: tuple[int, ...]


class Columns(NamedTuple):
    """Columns of tensor memory of a tile, and their live range in the program."""

    what: str
    column: int
    """The first column."""
    columns: int
    first: int
    """Lines of `tileas`."""
    last: int
    places: tuple[int, ...]


class Memory(NamedTuple):
    """Shared and tensor memory over the program, and registers along the machine code."""

    areas: tuple[Area, ...]
    total: int
    """Bytes of shared memory of a CTA."""
    limit: int
    """Bytes that a CTA of this target can have; 0 for an unknown target."""
    registers: tuple[tuple[int, int], ...]
    """Line of `sass` -> general registers in use there, as nvdisasm counts them."""
    allocated: int
    """Registers allocated to a thread."""
    tensor: tuple[Columns, ...] = ()
    tensor_columns: int = 0
    """Columns that a CTA allocates of the SM's 512; 0 without tensor memory."""


class Obstacle(NamedTuple):
    """A suboptimal choice of the compiler, its reason, and its remedy."""

    kind: str
    """`access`, `product`, `occupancy`, `conversion`, `loop` or `kernel`."""
    places: tuple[int, ...]
    what: str
    why: str
    remedy: str
    code: str
    """Code of the cause that the remedy removes; of the choice itself without a known cause."""


class Cause(NamedTuple):
    """The obstacle to a better choice, by its code (docs/reasons.md)."""

    code: str
    code_arguments: dict[str, int | str]
    remedy: str


class Choice(NamedTuple):
    """A remark of the compiler."""

    kind: str
    category: str
    places: tuple[int, ...]
    code: str
    code_arguments: dict[str, int | str]
    message: str
    arguments: dict[str, str]
    """Printed as given."""
    reason: str
    causes: tuple[Cause, ...]


class PassChange(NamedTuple):
    """Changes by a pass of the stage `tileas`."""

    name: str
    why: str
    """Reason for its position."""
    seconds: float
    changed: bool
    operations: dict[str, int]
    """Operation -> change of its count; negative if there are fewer."""
    difference: str
    """Unified diff of the module's text, cut off after `DIFFERENCE_LINES`."""


class StallAt(NamedTuple):
    """Stalls at a line of the source."""

    places: tuple[int, ...]
    file: str
    line: int
    share: float
    """Of the total time of all warps."""
    reasons: dict[str, float]


class Roofline(NamedTuple):
    """Throughput of a launch relative to the peaks of the busiest compute unit and of the memories, for the SMs with
    work. Arithmetic intensity, in units of the ridge point, is `compute` / `dram`."""

    unit: str
    compute: float
    l2: float
    dram: float


class Timing(NamedTuple):
    """An estimate of one launch."""

    gpu: str
    grid: tuple[int, ...]
    summary: str
    estimate: dict[str, Any]
    """`Estimate.to_json()`; the panel shows its numbers."""
    stalls: tuple[StallAt, ...]
    tracks: tuple[dict[str, Any], ...]
    """Of the timeline: `name` and `spans`, each span as [start, length, activity] in microseconds."""
    roofline: Roofline


class Said(NamedTuple):
    """A finding of a check, a case that no launch reached, or a statement on the order of sums."""

    kind: str
    places: tuple[int, ...]
    message: str


class Verdict(NamedTuple):
    """Result of a check of the kernel's PTX."""

    status: str
    launches: int
    right: int
    worst_ulps: float
    coverage: dict[str, tuple[int, int]]
    """Kind of case -> (reached, total)."""
    findings: tuple[Said, ...]
    uncovered: tuple[Said, ...]


class Kernel(NamedTuple):
    """All data of one kernel for one target."""

    name: str
    source: str
    """Name of the source in diagnostics."""
    target: str
    opt_level: int | None
    options: dict[str, Any]
    """Options with a value other than their default."""
    places: tuple[Place, ...]
    levels: dict[str, Level]
    sources: tuple[str, ...]
    """Files of the level `source`, in the order of their first lines."""
    launch: dict[str, Any] | None
    """The entry's row of NAME.json."""
    resources: dict[str, Any] | None
    """The entry's row of NAME.resources.json."""
    layouts: tuple[Layout, ...]
    conversions: tuple[Conversion, ...]
    shared_uses: tuple[SharedUse, ...]
    memory: Memory | None
    choices: tuple[Choice, ...]
    obstacles: tuple[Obstacle, ...]
    passes: tuple[PassChange, ...]
    stages: tuple[Stage, ...]
    timing: Timing | None
    missing: tuple[str, ...]
    """Absent data, and how to get it."""
    verdict: Verdict | None = None
    order: tuple[Said, ...] = ()
    """The certificate of order: each output with its causes and sums."""

    @property
    def key(self) -> str:
        """Identity of a kernel within a report and across reports."""
        return f"{self.source}:{self.name}:{self.target}"


class Report(NamedTuple):
    """Kernels of a source or of a build."""

    title: str
    version: str
    """Of the compiler that wrote the report."""
    kernels: tuple[Kernel, ...]
    missing: tuple[str, ...]


def as_json(value: Any) -> Any:
    """Convert a report or a part of it to plain data; a report includes its format."""
    if isinstance(value, Report):
        return {"format": FORMAT, **{name: as_json(each) for name, each in value._asdict().items()}}
    if hasattr(value, "_fields"):
        return {name: as_json(each) for name, each in zip(value._fields, value)}
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(each) for each in value]
    return value
