"""Autotuning: compile candidate sets of options, reject those with wrong results, rank the others by time.

Times come from `tileiras.sim.estimate` or from a GPU.  Tuning works on top of `tileiras.compile`: no pass reads an
estimate, so an artifact stays a function of its source, its options and its target.  The result is a set of options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import tileiras
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.cpu import HOST, host

if TYPE_CHECKING:
    from tileiras.api import Artifact
    from tileiras.sim.estimate.images import Image
    from tileiras.sim.estimate.result import Estimate

RESOLUTION = 0.1
"""Smallest relative difference that the model of time can resolve."""

Grid = int | Sequence[int]
"""In tile blocks."""
GridOf = Grid | Callable[[Mapping[str, Any]], Grid]
"""A grid, or a function that computes it from the kernel's constants and arguments by name."""
Launch = tuple[Grid, Sequence[Any]]
"""A grid and arguments."""

ESTIMATE, CUDA = BACKENDS = ("estimate", "cuda")
"""Sources of the times by which candidates are ranked: the model, or this machine's GPU."""

_TOLERANCE = {2: 2e-2, 4: 1e-3, 8: 1e-9}
"""Bytes of a float element -> tolerance of the comparison with the interpreter, relative to the largest element of the
array: compiled code adds in another order, and on tensor cores."""


class Candidate(NamedTuple):
    """One set of options, and its result."""

    options: dict[str, Any]
    estimate: Estimate | None
    """None for a rejected candidate (see `why`) and for one that was measured."""
    why: str
    """The reason for its rejection; empty for an accepted candidate."""
    constants: Mapping[str, Any] = {}
    """The kernel's constants in which candidates differ."""
    measured: float | None = None
    """Microseconds on a GPU; None for a candidate that was not run there."""

    @property
    def microseconds(self) -> float | None:
        if self.measured is not None:
            return self.measured
        return None if self.estimate is None else self.estimate.microseconds

    def may_take_as_long_as(self, other: Candidate) -> bool:
        """Whether the model cannot tell that this one is faster; measured times are certain."""
        one, two = self.estimate, other.estimate
        return one is not None and two is not None and not one.faster_than(two)


class Tuned(NamedTuple):
    """The options of the fastest candidate, and all candidates."""

    options: dict[str, Any]
    """For `tileiras.compile(source, gpu_name=..., **options)`."""
    estimate: Estimate | None
    """None where candidates were measured on a GPU."""
    candidates: tuple[Candidate, ...]
    """By time, fastest first, then the rejected ones; ties in the given order."""

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the fastest candidate, of those that candidates differ in."""
        return dict(self.candidates[0].constants)

    @property
    def ties(self) -> list[dict[str, Any]]:
        """Options and constants of candidates that the model cannot rank: within a tenth of the best time, or not
        slower for all values of the parameters that are not known."""
        best = self.candidates[0]
        limit = (best.microseconds or 0.0) * (1 + RESOLUTION)
        return [{**each.constants, **each.options} for each in self.candidates if each.microseconds is not None
                and (each.microseconds <= limit or best.may_take_as_long_as(each))]  # fmt: skip


def tune(
    source: str | bytes | os.PathLike | Callable,
    grid: GridOf,
    args: Sequence[Any],
    candidates: Sequence[Mapping[str, Any]],
    gpu: str = "H200",
    *,
    entry: str | None = None,
    signature: Any = None,
    check: tuple[GridOf, Sequence[Any]] | None = None,
    constants: Sequence[Mapping[str, Any]] = (),
    backend: str = ESTIMATE,
    jobs: int = 1,
    progress: Callable[[Mapping[str, Any]], None] | None = None,
    **options: Any,
) -> Tuned:
    """Find the fastest of ``candidates`` for one launch on one GPU, by estimated or measured time.

    source, entry, signature, options: as `tileiras.compile` takes them; ``options`` hold for all candidates.
    grid, args: the launch to optimize, as `tileiras.sim.estimate` takes it; the contents of arrays are restored.  A
        callable grid receives the constants of a kernel of a cuTile Python file and its scalar arguments by name
        (`A_size0`, `A_stride0`).
    candidates: options of `tileiras.compile`, one mapping per candidate; `gpu_name` defaults to the GPU's target.
    check: a smaller launch on which results are compared with the interpreter's, or for large arrays with those of the
        kernel compiled for the CPU; the default is the launch itself.
    constants: values of `ct.Constant` parameters of a kernel of a cuTile Python file, one mapping per variant; each is
        combined with each of ``candidates``.  The reference results are those of the constants in the file.
    backend: with `"cuda"`, candidates run on this machine's GPU: its results are compared, and times are medians of
        `tileiras.runtime.measure`.  ``gpu`` is ignored then.
    jobs: number of candidates evaluated in parallel; if more than one, in spawned processes, which import the program's
        main module (`multiprocessing`).
    progress: called with the options and constants of each candidate when its evaluation ends.

    Raises CompileError for a source that does not parse, for an unknown GPU or constant, and if every candidate is
    rejected, with each reason in a note; ValueError without candidates.
    """
    if not candidates:
        raise ValueError("no candidates to choose from")
    if backend == CUDA:
        gpu, target = device()
    else:
        gpu, target = tileiras.targets.rates.gpu(gpu).name, tileiras.targets.rates.gpu(gpu).target.name
    common = {"gpu_name": target, **options}
    exported = tileiras.build.library.compile(source, emit="bytecode", entry=entry, signature=signature, **common)
    entry = entry or _only_entry(exported)
    small = check or (grid, args)
    if constants or callable(grid) or callable(small[0]):
        own, variants = variants_of(source, exported.data, entry, common, (grid, args), small, constants)
    else:
        own = Variant({}, exported.data, "", grid, small[0])
        variants = (own,)
    reference = _reference(exported.data, entry, (own.small, small[1]))
    judge = Judge(variants, entry, common, args, small[1], reference, gpu, backend)
    pairs = [(number, each) for number in range(len(variants)) for each in candidates]
    rows = _judged(judge, pairs, jobs, progress or (lambda options: None))
    ranked = sorted(rows, key=lambda row: (row.microseconds is None, row.microseconds or 0.0))
    best = ranked[0]
    if best.microseconds is None:
        notes = [Diagnostic.note(None, f"{_text({**row.constants, **row.options})}: {row.why}") for row in rows]
        raise CompileError.at(None, f"no candidate for '{entry}' on {gpu} is left", notes=notes)
    return Tuned(best.options, best.estimate, tuple(ranked))


def device() -> tuple[str, str]:
    """The name and the target of this machine's GPU; raises CompileError (code 2) if it has no usable GPU."""
    from tileiras.runtime import DriverError
    from tileiras.runtime.driver import load_driver

    try:
        cuda = load_driver()
        return cuda.device_name(), f"sm_{cuda.compute_capability(0)}"
    except DriverError as error:
        raise CompileError.at(None, f"{error}; use --backend estimate", ExitCode.CONFIGURATION) from None


def _only_entry(exported: Artifact) -> str:
    names = [
        tileiras.stages.units.entry_name(operation)
        for operation in tileiras.stages.units.entries_of(tileiras.api.parse(exported.data))
    ]
    if len(names) != 1:
        choices = ", ".join(names) or "none"
        raise CompileError.at(None, f"entry= has to be one of {choices}", ExitCode.CONFIGURATION)
    return names[0]


def _text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "no options"


class Variant(NamedTuple):
    """A kernel specialized for some constants, with the grids of its launches."""

    constants: dict[str, Any]
    """The constants in which candidates differ."""
    source: bytes
    """Bytecode; empty if the export failed."""
    why: str
    """The error of the export; empty if it succeeded."""
    grid: Grid
    small: Grid
    """The grid of the launch on which results are compared."""


def variants_of(
    source: Any, exported: bytes, entry: str, options: Mapping[str, Any], launch: tuple[GridOf, Sequence[Any]],
    small: tuple[GridOf, Sequence[Any]], rows: Sequence[Mapping[str, Any]],
) -> tuple[Variant, tuple[Variant, ...]]:  # fmt: skip
    """The kernel with the constants of its file, and a variant for each of `rows`; without rows, only the former."""
    opened = (
        None
        if callable(source)
        else source
        if isinstance(source, tileiras.stages.units.Source)
        else tileiras.api.open_source(source, None)
    )
    if opened is None or opened.kind != tileiras.stages.units.PYTHON:
        if rows:
            message = "constants are those of a kernel of a cuTile Python file"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        result = tileiras.stages.export.variants.Variants({}, [], [])
    else:
        checked = dict(options)
        values = tileiras.api.checked_options(checked.pop("gpu_name"), checked.pop("opt_level", 3), checked)
        context = tileiras.stages.StageContext(source_name=opened.name, source_path=opened.path)
        result = tileiras.stages.export.variants.export(
            opened.data, tileiras.pipeline.stage("export").select(values), context, entry, rows
        )

    def of(constants: Mapping[str, Any], outcome: bytes | CompileError) -> Variant:
        grids = []
        for grid, args in (launch, small):
            arguments = dict(zip(result.slots, args)) if len(args) == len(result.slots) else {}
            numbers = {name: value for name, value in arguments.items() if not isinstance(value, np.ndarray)}
            grids.append(grid({**numbers, **result.constants, **constants}) if callable(grid) else grid)
        if isinstance(outcome, CompileError):
            return Variant(dict(constants), b"", outcome.diagnostics[0].message, *grids)
        return Variant(dict(constants), outcome, "", *grids)

    own = of({}, exported)
    return own, tuple(of(row, each) for row, each in zip(rows, result.made)) or (own,)


class Judge(NamedTuple):
    """The variants, options, arguments and expected results with which candidates are compiled and compared."""

    variants: tuple[Variant, ...]
    entry: str
    common: dict[str, Any]
    """Options of all candidates."""
    args: Sequence[Any]
    small: Sequence[Any]
    """Arguments of the launch on which results are compared."""
    references: list[np.ndarray]
    gpu: str
    backend: str = ESTIMATE

    def of(self, number: int, options: Mapping[str, Any]) -> Candidate:
        """Evaluate options on the variant of this number."""
        from tileiras.sim import SimulationError
        from tileiras.sim.estimate import estimate, images

        own, variant = dict(options), self.variants[number]
        if variant.why:
            return Candidate(own, None, variant.why, variant.constants)
        result, why = None, ""
        try:
            artifact = tileiras.build.library.compile(variant.source, entry=self.entry, **{**self.common, **own})
            if self.backend == CUDA:
                return self._measure(artifact, variant, own)
            image = images.load(artifact, self.entry, tileiras.targets.rates.gpu(self.gpu))
            why = _difference(image, (variant.small, self.small), self.references)
            if not why:
                result = estimate(artifact, self.entry, variant.grid, self.args, gpu=self.gpu)
                if result.doubt:
                    result, why = None, f"the estimate is in doubt: {result.doubt}"
        except CompileError as error:
            why = error.diagnostics[0].message if error.diagnostics else str(error)
        except SimulationError as error:
            why = str(error).split("\n")[0]
        return Candidate(own, result, why, variant.constants)

    def _measure(self, artifact: Artifact, variant: Variant, options: dict[str, Any]) -> Candidate:
        """Run a candidate on the GPU.

        Raises CompileError for arguments that do not match the kernel's parameters, which are the same for all
        candidates.
        """
        from tileiras import runtime
        from tileiras.sim.estimate.arguments import preserved

        time, why = None, ""
        try:
            with preserved(self.small):
                runtime.launch(artifact, self.entry, variant.small, self.small)
                why = _differing(self.small, self.references)
            if not why:
                time = runtime.measure(artifact, self.entry, variant.grid, self.args)
        except runtime.ArgumentError as error:
            raise CompileError.at(None, str(error), ExitCode.CONFIGURATION) from None
        except runtime.DriverError as error:
            why = str(error).split("\n")[0]
        return Candidate(options, None, why, variant.constants, time)


def _judged(
    judge: Judge, pairs: Sequence[tuple[int, Mapping[str, Any]]], jobs: int,
    progress: Callable[[Mapping[str, Any]], None],
) -> list[Candidate]:  # fmt: skip
    """Evaluate pairs of a variant's number and options; the candidates, in the given order."""
    rows: list[Candidate] = []

    def evaluate(pair: tuple[int, Mapping[str, Any]]) -> None:
        progress({**judge.variants[pair[0]].constants, **pair[1]})

    # A GPU times one kernel at a time.
    if jobs < 2 or len(pairs) < 2 or judge.backend == CUDA:
        for each in pairs:
            rows.append(judge.of(*each))
            evaluate(each)
        return rows
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Spawned: LLVM runs in a child of this process, and a forked copy would share the pipes to it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(pairs)), context, _begin, (_packed(judge),)) as pool:
        waiting = {pool.submit(_in_worker, number, dict(each)): (number, each) for number, each in pairs}
        for future in as_completed(waiting):
            evaluate(waiting[future])
        return [future.result() for future in waiting]


_judge: Judge | None = None
"""The judge of a worker process."""


def _begin(packed: tuple[Judge, list[Any]]) -> None:
    global _judge
    _judge = _unpacked(packed)


def _in_worker(number: int, options: dict[str, Any]) -> Candidate:
    assert _judge is not None
    result = _judge.of(number, options)
    # The timeline of a candidate is not used, and would be most of the data to send.
    estimate = result.estimate._replace(drawing=None) if result.estimate is not None else None
    return result._replace(estimate=estimate)


class _View(NamedTuple):
    """An array as a view of a root array: the root's number, the offset in bytes, and the form."""

    root: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


def _packed(judge: Judge) -> tuple[Judge, list[np.ndarray]]:
    """A judge to send to another process, and the root arrays: arrays that share memory still share it there."""
    roots: list[np.ndarray] = []

    def packed(argument: Any) -> Any:
        if not isinstance(argument, np.ndarray):
            return argument
        root = argument
        while isinstance(root.base, np.ndarray):
            root = root.base
        number = next((n for n, each in enumerate(roots) if each is root), None)
        if number is None:
            number = len(roots)
            roots.append(root)
        offset = argument.ctypes.data - root.ctypes.data
        return _View(number, offset, argument.shape, argument.strides, argument.dtype)

    args, small = ([packed(each) for each in item] for item in (judge.args, judge.small))
    return judge._replace(args=args, small=small), roots


def _unpacked(task: tuple[Judge, list[np.ndarray]]) -> Judge:
    judge, roots = task

    def whole(argument: Any) -> Any:
        if not isinstance(argument, _View):
            return argument
        # As bytes: the buffer protocol lacks some element types.
        memory = roots[argument.root].reshape(-1).view(np.uint8)
        return np.ndarray(argument.shape, argument.dtype, memory, argument.offset, argument.strides)

    args, small = ([whole(each) for each in packed] for packed in (judge.args, judge.small))
    return judge._replace(args=args, small=small)


_LARGE = 1 << 20
"""Bytes of arrays from which on the right results are computed by compiled code, where the machine has a target."""


def _reference(source: bytes, entry: str, launch: Launch) -> list[np.ndarray]:
    """Contents of the arrays after the launch: on the processor if they are large, else in the interpreter."""
    from tileiras import runtime
    from tileiras.sim.estimate.arguments import preserved, roots

    grid, args = launch
    if host() is None or sum(array.nbytes for array in roots(args)) < _LARGE:
        return _interpreted(source, entry, launch)
    try:
        artifact = tileiras.compile(source, gpu_name=HOST, entry=entry, sanitize="memcheck")
        with preserved(args):
            runtime.launch(artifact, entry, grid, args)
            return [array.copy() for array in roots(args)]
    except (CompileError, runtime.ArgumentError, runtime.cpu.KernelFailure):
        return _interpreted(source, entry, launch)  # which says why, where the launch itself is wrong


def _interpreted(source: bytes, entry: str, launch: Launch) -> list[np.ndarray]:
    """Contents of the arrays after the interpreted launch."""
    from tileiras.sim import interpret
    from tileiras.sim.estimate.arguments import preserved, roots

    grid, args = launch
    with preserved(args):
        interpret(source, entry, grid, args)
        return [array.copy() for array in roots(args)]


def _difference(image: Image, launch: Launch, reference: list[np.ndarray]) -> str:
    """A message if the results of the emulated launch differ from the expected ones; otherwise empty."""
    from tileiras.sim import emulate
    from tileiras.sim.memory import Journal

    grid, args = launch
    with Journal() as journal:
        metadata = dict(image.metadata or {})
        if image.hidden is not None:
            metadata.pop("hidden_parameters", None)
        emulate(image.ptx, image.entry, grid, args, metadata=metadata or None, hidden=image.hidden, journal=journal)
        return _differing(args, reference)


def _differing(args: Sequence[Any], reference: Sequence[np.ndarray]) -> str:
    """A message that names the first array that differs from the expected one; empty if all agree."""
    from tileiras.sim.estimate.arguments import roots

    for number, (array, other) in enumerate(zip(roots(args), reference)):
        if not _close(array, other):
            return f"its results differ from the interpreter's, in array {number}"
    return ""


def _close(array: np.ndarray, reference: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return bool((array == reference).all())
    with np.errstate(all="ignore"):
        finite = np.abs(reference[np.isfinite(reference)].astype(np.float64))
        largest = float(finite.max()) if finite.size else 0.0
        return bool(
            np.isclose(
                array.astype(np.float64), reference.astype(np.float64), rtol=0.0,
                atol=_TOLERANCE.get(array.dtype.itemsize, 0.0) * max(largest, 1e-30), equal_nan=True,
            ).all()
        )  # fmt: skip
