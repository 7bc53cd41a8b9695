"""The data of a report: everything that its panels show.  `as_json` is what `--format json` writes."""

from __future__ import annotations

from typing import Any

from tileiras.named_tuple import NamedTuple

FORMAT = 1
"""Of the JSON of a report."""

LEVELS = ("source", "cuda_tile", "tileaa", "tileas", "llvm", "ptx", "sass")
"""The panels of code, from what the user wrote to what the GPU executes."""


class Place(NamedTuple):
    """A line of the user's source, or of what it imports, that something was made of."""

    file: str
    line: int
    """From 1."""


class Level(NamedTuple):
    """The text of a kernel at one level, and for each of its lines where it is from."""

    name: str
    file: str
    """What the artifact is called."""
    text: str
    places: tuple[tuple[int, ...], ...]
    """For each line of the text, positions in `Kernel.places`; innermost first where calls were inlined."""
    ptx_lines: tuple[int, ...] = ()
    """Of machine code: for each line the line of the PTX, counted from 1, that it was made of; 0 for none."""


class Stage(NamedTuple):
    """How a stage went when it was last looked at."""

    name: str
    outcome: str
    """`ran`, `served from the store`, `cut off`, `failed`, `overridden`, or `not reached`."""
    seconds: float | None
    """What running it takes; None where nobody has noted it."""
    why: tuple[str, ...]
    """What was not as it was before, for a stage that ran in a build directory."""


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
    """Of an element as it is stored."""
    bases: dict[str, tuple[tuple[int, ...], ...]]
    lines: tuple[int, ...]
    """Lines of the level `tileas` on which values of this layout are made."""


class Conversion(NamedTuple):
    """What a change of layout moves."""

    line: int
    """Of `tileas`."""
    places: tuple[int, ...]
    source: str
    target: str
    kind: str
    """`registers`, `shuffles`, `shared memory` or `none`."""
    bytes: int
    """Of shared memory that it goes through."""
    store_wavefronts: int
    """Of a warp, for all of its stores; 0 without shared memory."""
    store_least: int
    """The same without bank conflicts."""
    load_wavefronts: int
    load_least: int


class SharedUse(NamedTuple):
    """How threads reach a tile in shared memory."""

    line: int
    places: tuple[int, ...]
    what: str
    layout: str
    vector_bytes: int
    wavefronts: int
    """Of a warp, for the whole tile."""
    least: int


class Area(NamedTuple):
    """A stretch of the arena of shared memory, and where in the program it is in use."""

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
    """Columns of tensor memory that a tile has, and where in the program it has them."""

    what: str
    column: int
    """The first."""
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
    """Bytes that a CTA of this target can have; 0 for a target that is not known."""
    registers: tuple[tuple[int, int], ...]
    """Line of `sass` -> general registers in use there, as nvdisasm counts them."""
    allocated: int
    """Registers that a thread has."""
    tensor: tuple[Columns, ...] = ()
    tensor_columns: int = 0
    """That a CTA allocates of the SM's 512; 0 where it has no tensor memory."""


class Obstacle(NamedTuple):
    """Something that is not as good as it could be, why, and what would change it."""

    kind: str
    """`access`, `product`, `occupancy`, `conversion`, `loop` or `kernel`."""
    places: tuple[int, ...]
    what: str
    why: str
    remedy: str


class Choice(NamedTuple):
    """A remark of the compiler."""

    kind: str
    category: str
    places: tuple[int, ...]
    message: str
    arguments: dict[str, str]
    reason: str


class PassChange(NamedTuple):
    """What a pass of the stage `tileas` changed."""

    name: str
    why: str
    """Why it stands where it stands."""
    seconds: float
    changed: bool
    operations: dict[str, int]
    """Operation -> how many more there are behind it; fewer are negative."""
    difference: str
    """The module's text before and after, as a unified diff, cut off after `DIFFERENCE_LINES`."""


class StallAt(NamedTuple):
    """Waiting at a line of the source."""

    places: tuple[int, ...]
    file: str
    line: int
    share: float
    """Of all the time of all warps."""
    reasons: dict[str, float]


class Roofline(NamedTuple):
    """How near a launch comes to the peaks of the busiest unit that computes and of the memories, as shares of what the
    SMs with work have of them.  Work for a byte, in units of the ridge point, is `compute` / `dram`."""

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
    """`Estimate.to_json()`: the numbers of the panel are its."""
    stalls: tuple[StallAt, ...]
    tracks: tuple[dict[str, Any], ...]
    """Of the timeline: `name` and `spans`, of which each is [start, length, what] in microseconds."""
    roofline: Roofline


class Said(NamedTuple):
    """A finding of a check, a case that no launch reached, or a statement on the order of sums."""

    kind: str
    places: tuple[int, ...]
    message: str


class Verdict(NamedTuple):
    """What a check says of the kernel's PTX."""

    status: str
    launches: int
    right: int
    worst_ulps: float
    coverage: dict[str, tuple[int, int]]
    """Kind of case -> how many were reached, of how many."""
    findings: tuple[Said, ...]
    uncovered: tuple[Said, ...]


class Kernel(NamedTuple):
    """Everything that is known of one kernel for one target."""

    name: str
    source: str
    """What messages call the source."""
    target: str
    opt_level: int | None
    options: dict[str, Any]
    """Those that differ from their defaults."""
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
    """What is not here, and how to get it."""
    verdict: Verdict | None = None
    order: tuple[Said, ...] = ()
    """The certificate of order: each output with its causes and sums."""

    @property
    def key(self) -> str:
        """What tells kernels of a report apart, and finds the same one in another report."""
        return f"{self.source}:{self.name}:{self.target}"


class Report(NamedTuple):
    """Kernels of a source or of a build."""

    title: str
    version: str
    """Of the compiler that made the report."""
    kernels: tuple[Kernel, ...]
    missing: tuple[str, ...]


def as_json(value: Any) -> Any:
    """Plain data of a report or a part of it; a report has its format with it."""
    if isinstance(value, Report):
        return {"format": FORMAT, **{name: as_json(each) for name, each in value._asdict().items()}}
    if hasattr(value, "_fields"):
        return {name: as_json(each) for name, each in zip(value._fields, value)}
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(each) for each in value]
    return value
