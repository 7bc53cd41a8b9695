"""Choosing options by the clock, above the stages: candidates are compiled as anybody would compile them, those whose
results are wrong are left out, and the others are ranked by `tileiras.sim.estimate`.

No pass sees an estimate, so an artifact stays a function of its source, its options and its target: what comes back are
options to compile with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.api import Artifact
    from tileiras.sim.estimate.images import Image
    from tileiras.sim.estimate.result import Estimate

RESOLUTION = 0.1
"""Differences below this share are none that the model of time can tell."""

Launch = tuple[int | Sequence[int], Sequence[Any]]
"""A grid, in tile blocks, and arguments."""

_TOLERANCE = {2: 2e-2, 4: 1e-3, 8: 1e-9}
"""Element's bytes -> how far from the interpreter's a float may be, relative to the largest of its array: sums are in
another order, on tensor cores."""


class Candidate(NamedTuple):
    """One set of options, and what came of it."""

    options: dict[str, Any]
    estimate: Estimate | None
    """None where there is none: see `why`."""
    why: str
    """Why it is left out; empty for one that is not."""

    @property
    def microseconds(self) -> float | None:
        return None if self.estimate is None else self.estimate.microseconds


class Tuned(NamedTuple):
    """The fastest candidate, and all of them."""

    options: dict[str, Any]
    """To compile with: `tileiras.compile(source, gpu_name=..., **options)`."""
    estimate: Estimate
    candidates: tuple[Candidate, ...]
    """The fastest first, then those that are left out; equals in the order given."""

    @property
    def ties(self) -> list[dict[str, Any]]:
        """Options that the model cannot tell from the best: those of less than a tenth more time."""
        limit = self.estimate.microseconds * (1 + RESOLUTION)
        return [each.options for each in self.candidates if each.microseconds is not None
                and each.microseconds <= limit]  # fmt: skip


def tune(
    source: str | bytes | os.PathLike | Callable,
    grid: int | Sequence[int],
    args: Sequence[Any],
    candidates: Sequence[Mapping[str, Any]],
    gpu: str = "H200",
    *,
    entry: str | None = None,
    signature: Any = None,
    check: Launch | None = None,
    jobs: int = 1,
    progress: Callable[[Mapping[str, Any]], None] | None = None,
    **options: Any,
) -> Tuned:
    """The options, of ``candidates``, with which a launch takes least time on a GPU by the estimate.

    source, entry, signature, options: as `tileiras.compile` takes them; ``options`` hold for all candidates.
    grid, args: the launch that is to be fast, as `tileiras.sim.estimate` takes it; arrays keep their contents.
    candidates: options of `tileiras.compile`, one mapping each.  `gpu_name` is the GPU's own unless one names another.
    check: a smaller launch on which results are compared with the interpreter's; the launch itself without one.
    jobs: how many candidates are judged at once, more than one in processes of their own, which import the program's
        main module as `multiprocessing` does.
    progress: is given each candidate as soon as it is judged.

    Raises CompileError for a source that does not parse, an unknown GPU, and when no candidate is left, with the reason
    of each in a note; ValueError without candidates.
    """
    from tileiras.build.library import compile
    from tileiras.targets import rates

    chosen = rates.gpu(gpu)
    if not candidates:
        raise ValueError("no candidates to choose from")
    common = {"gpu_name": chosen.target.name, **options}
    exported = compile(source, emit="bytecode", entry=entry, signature=signature, **common)
    entry = entry or _only_entry(exported)
    small = check or (grid, args)
    expected = _interpreted(exported.data, entry, small)
    judge = Judge(exported.data, entry, common, (grid, args), small, expected, gpu)
    rows = _judged(judge, candidates, jobs, progress or (lambda options: None))
    ranked = sorted(rows, key=lambda row: (row.estimate is None, row.microseconds or 0.0))
    best = ranked[0]
    if best.estimate is None:
        notes = [Diagnostic.note(None, f"{_said(row.options)}: {row.why}") for row in rows]
        raise CompileError.at(None, f"no candidate for '{entry}' on {chosen.name} is left", notes=notes)
    return Tuned(best.options, best.estimate, tuple(ranked))


def _only_entry(exported: Artifact) -> str:
    from tileiras import units
    from tileiras.api import parse

    names = [units.entry_name(operation) for operation in units.entries_of(parse(exported.data))]
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise CompileError.at(None, f"entry= has to be one of {known}", ExitCode.CONFIGURATION)
    return names[0]


def _said(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "no options"


class Judge(NamedTuple):
    """What a candidate is judged by."""

    source: bytes
    """Bytecode."""
    entry: str
    common: dict[str, Any]
    """Options of all candidates."""
    launch: Launch
    small: Launch
    """On which results are compared."""
    expected: list[np.ndarray]
    gpu: str

    def of(self, options: Mapping[str, Any]) -> Candidate:
        """What comes of a candidate."""
        from tileiras.build.library import compile
        from tileiras.sim import SimulationError
        from tileiras.sim.estimate import estimate, images
        from tileiras.targets import rates

        own = dict(options)
        try:
            artifact = compile(self.source, entry=self.entry, **{**self.common, **own})
            wrong = _difference(images.load(artifact, self.entry, rates.gpu(self.gpu)), self.small, self.expected)
            if wrong:
                return Candidate(own, None, wrong)
            return Candidate(own, estimate(artifact, self.entry, *self.launch, gpu=self.gpu), "")
        except CompileError as error:
            return Candidate(own, None, error.diagnostics[0].message if error.diagnostics else str(error))
        except SimulationError as error:
            return Candidate(own, None, str(error).split("\n")[0])


def _judged(
    judge: Judge, candidates: Sequence[Mapping[str, Any]], jobs: int, progress: Callable[[Mapping[str, Any]], None]
) -> list[Candidate]:
    """The candidates in the order given."""
    rows: list[Candidate] = []
    if jobs < 2 or len(candidates) < 2:
        for each in candidates:
            rows.append(judge.of(each))
            progress(each)
        return rows
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Not forked: LLVM works in a child of this process, whose pipes a copy of it would share.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(candidates)), context, _begin, (_packed(judge),)) as pool:
        waiting = {pool.submit(_in_worker, dict(each)): each for each in candidates}
        for future in as_completed(waiting):
            progress(waiting[future])
        return [future.result() for future in waiting]


_judge: Judge | None = None
"""Of a worker process."""


def _begin(packed: tuple[Judge, list[Any]]) -> None:
    global _judge
    _judge = _unpacked(packed)


def _in_worker(options: dict[str, Any]) -> Candidate:
    assert _judge is not None
    found = _judge.of(options)
    # Nobody looks at the timeline of a candidate, which is most of what there is to send.
    estimate = found.estimate._replace(trace={}) if found.estimate is not None else None
    return found._replace(estimate=estimate)


class _View(NamedTuple):
    """An array as a part of one of the arrays that others may be parts of as well: which, where, and its form."""

    root: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


def _packed(judge: Judge) -> tuple[Judge, list[np.ndarray]]:
    """A judge for another process, in which arrays that share memory have to do so as well."""
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

    launches = [(grid, [packed(each) for each in args]) for grid, args in (judge.launch, judge.small)]
    return judge._replace(launch=launches[0], small=launches[1]), roots


def _unpacked(given: tuple[Judge, list[np.ndarray]]) -> Judge:
    judge, roots = given

    def whole(argument: Any) -> Any:
        if not isinstance(argument, _View):
            return argument
        # By bytes: Python's buffers do not have every type of element.
        memory = roots[argument.root].reshape(-1).view(np.uint8)
        return np.ndarray(argument.shape, argument.dtype, memory, argument.offset, argument.strides)

    launches = [(grid, [whole(each) for each in args]) for grid, args in (judge.launch, judge.small)]
    return judge._replace(launch=launches[0], small=launches[1])


def _interpreted(source: bytes, entry: str, launch: Launch) -> list[np.ndarray]:
    """What the arrays hold after the launch."""
    from tileiras.sim import interpret
    from tileiras.sim.estimate.arguments import preserved, roots

    grid, args = launch
    with preserved(args):
        interpret(source, entry, grid, args)
        return [array.copy() for array in roots(args)]


def _difference(image: Image, launch: Launch, expected: list[np.ndarray]) -> str:
    """Where the emulated launch differs from what is expected, empty where it does not."""
    from tileiras.sim import emulate
    from tileiras.sim.estimate.arguments import preserved, roots

    grid, args = launch
    with preserved(args):
        metadata = {key: value for key, value in (image.metadata or {}).items() if key != "hidden_parameters"}
        emulate(image.ptx, image.entry, grid, args, metadata=metadata or None, hidden=image.hidden)
        for number, (array, wanted) in enumerate(zip(roots(args), expected)):
            if not _close(array, wanted):
                return f"its results differ from the interpreter's, in array {number}"
    return ""


def _close(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.dtype.kind != "f":
        return bool((found == wanted).all())
    with np.errstate(all="ignore"):
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
        largest = float(finite.max()) if finite.size else 0.0
        return bool(
            np.isclose(
                found.astype(np.float64), wanted.astype(np.float64), rtol=0.0,
                atol=_TOLERANCE.get(found.dtype.itemsize, 0.0) * max(largest, 1e-30), equal_nan=True,
            ).all()
        )  # fmt: skip
