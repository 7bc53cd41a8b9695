"""`check`: a verdict about the code that the compiler generates for a source, or about an image from elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.codegen import cubin_host
from tileiras.codegen.kernel_metadata import without_order
from tileiras.codegen.object_file import Cubin
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Operation
from tileiras.options import missing_gpu
from tileiras.stages.units import ARTIFACTS, entry_name
from tileiras.targets.cpu import HOST, host, is_cpu

from .facts import Facts
from .fitting import Fitted
from .judgement import BUDGET, SEEDS, LaunchData, choose, judgement
from .judging import FillHidden, Image, target_of
from .verdict import Blame, Verdict

if TYPE_CHECKING:
    from typing import Unpack

    from tileiras.support.option_types import CompileKeywords


def check(
    source: Any, *, gpu_name: str | None = None, entry: str | None = None, image: str | os.PathLike[str] | None = None,
    metadata: Mapping[str, Any] | None = None, launches: Sequence[LaunchData] = (), budget: float = BUDGET,
    seeds: Sequence[int | None] = SEEDS, waive: Sequence[str] = (), opt_level: int = 3, blame: bool = False,
    **options: Unpack[CompileKeywords],
) -> Verdict:  # fmt: skip
    """Judge one entry of a source, compiled for `gpu_name` with the options of `tileiras.compile`.

    gpu_name: may be left out with an image, which is for the GPU that it names.
    entry: which one; may be left out where there is one.
    image: PTX text, or the path of PTX, of a cubin with its PTX in it or beside it, or of an artifact that is compiled
        further, that is judged instead of the output of tileiras; `metadata` is its NAME.json's content, by default
        that beside the path.
    launches: launches that are judged besides the derived ones.
    budget: seconds after which no further launch is begun; cases that were not reached are in the coverage.
    waive: rules of the PTX ISA (`tileiras.sim.emulator.rules`) that an image need not keep.
    blame: where the code is wrong, search for the pass at fault; ignored for an image, which no pass of ours made.

    Raises CompileError for a source that does not compile, an unknown entry, or an image without PTX.
    """
    module = source if isinstance(source, Operation) else tileiras.parse(source)
    operation = choose(module, entry)
    name = entry_name(operation)
    judged = image_of(source, name, gpu_name, image, opt_level, options, metadata)
    opinion = _opinion(source, name, opt_level) if image is None and judged.run is None else None
    judged = dataclasses.replace(judged, waived=tuple(waive), opinion=opinion)

    def blamed(facts: Facts, wrong: Sequence[Fitted]) -> Blame:
        assert gpu_name is not None, "without an image"
        from . import blame as search

        def compiled(changes: Mapping[str, Any]) -> Image:
            return _compiled(source, name, gpu_name, opt_level, changes)

        suspect = search.Suspect(source, module, name, facts, gpu_name, opt_level, options, compiled)
        return search.blame(suspect, search.smallest(wrong))

    return judgement(
        module, operation, judged, gpu_name or target_of(judged.ptx), options, user_launches=launches, budget=budget,
        seeds=seeds, blame=blamed if blame and image is None else None,
    )  # fmt: skip


def image_of(
    source: Any, name: str, gpu_name: str | None, image: str | os.PathLike[str] | None, opt_level: int,
    options: Mapping[str, Any], metadata: Mapping[str, Any] | None = None,
) -> Image:  # fmt: skip
    """The code of an entry: an image from elsewhere, or the source, or an artifact of it such as an override, compiled
    to PTX.  Raises CompileError."""
    path = "" if image is None or "\n" in os.fspath(image) else os.fspath(image)
    is_artifact = path.endswith(tuple(suffix for suffix in ARTIFACTS if suffix not in (".ptx", ".cubin")))
    if image is not None and not is_artifact:
        return load(image, name, metadata)
    if gpu_name is None:
        raise missing_gpu()
    if is_artifact:
        return _of_entry(_compiled(path, None, gpu_name, opt_level, options), name, path)
    return _compiled(source, name, gpu_name, opt_level, options)


def _of_entry(image: Image, name: str, path: str) -> Image:
    """An image that is of the entry.  Raises CompileError."""
    if re.search(rf"\.entry\s+{re.escape(name)}\s*\(", image.ptx) is None:
        raise CompileError.at(None, f"{path} has no entry '{name}'", ExitCode.CONFIGURATION)
    return dataclasses.replace(image, entry=name)


def _compiled(source: Any, name: str | None, gpu_name: str, opt_level: int, options: Mapping[str, Any]) -> Image:
    if is_cpu(gpu_name):
        return on_cpu(source, name, gpu_name, opt_level, options)
    # Line information changes no instruction, and locates one that fails.
    result = {"lineinfo": True, **options}
    artifact = tileiras.compile(source, gpu_name=gpu_name, opt_level=opt_level, entry=name, **result)
    text = artifact.kernels[0].artifacts.get(".json")
    return Image(artifact.text, artifact.kernels[0].name, None if text is None else json.loads(text))


def _opinion(source: Any, name: str, opt_level: int) -> Callable[[], Image | None]:
    """A function that returns the code of an entry for this machine, or None if there can be none."""

    @functools.cache
    def opinion() -> Image | None:
        try:
            return on_cpu(source, name, HOST, opt_level, {}) if host() is not None else None
        except CompileError:
            return None

    return opinion


def on_cpu(source: Any, name: str | None, gpu_name: str, opt_level: int, options: Mapping[str, Any]) -> Image:
    """Code of this machine's processor, which runs in this process."""
    from tileiras import runtime

    artifact = tileiras.compile(source, gpu_name=gpu_name, opt_level=opt_level, entry=name, **options)
    kernel, prints = artifact.kernels[0].name, (artifact.kernels[0].metadata or {}).get("prints", False)

    def run(grid: Sequence[int], arguments: Sequence[Any]) -> str:
        try:
            with _without_output() if prints else contextlib.nullcontext():
                runtime.launch(artifact, kernel, grid, arguments)
        except runtime.cpu.KernelFailure as failure:
            return str(failure)
        return ""

    return Image("", kernel, None, run=run)


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Redirect descriptor 1, which kernels print to, to the null device."""
    sys.stdout.flush()
    saved, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(null)


def load(image: str | os.PathLike[str], name: str, metadata: Mapping[str, Any] | None) -> Image:
    """An image from elsewhere.  Raises CompileError if it has no PTX, OSError if it cannot be read."""
    if isinstance(image, str) and "\n" in image:
        return Image(image, name, _edited(metadata))
    path = os.fspath(image)
    stem = os.path.splitext(path)[0]
    with open(path, "rb") as file:
        data = file.read()
    hidden = None
    if data.startswith(b"\x7fELF"):
        hidden = _host_code(data, name)
        path, data = _ptx_of(path, data)
    text = data.decode(errors="replace")
    if metadata is None and os.path.isfile(f"{stem}.json"):
        with open(f"{stem}.json", encoding="utf-8") as file:
            metadata = json.load(file)
        if not isinstance(metadata, dict) or "kernels" not in metadata:
            metadata = None
    return _of_entry(Image(text, name, _edited(metadata), hidden if metadata is None else None), name, path)


def _edited(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A launch description of an image, which may have been edited."""
    return None if metadata is None else without_order(metadata)


def _host_code(cubin: bytes, name: str) -> FillHidden | None:
    """The function that fills hidden parameters by the host's code in a cubin; None without one that runs here."""
    try:
        return cubin_host.hidden_parameters(cubin, name)
    except (cubin_host.HostCodeUnusable, KeyError, ValueError):
        return None


def _ptx_of(path: str, data: bytes) -> tuple[str, bytes]:
    """The PTX of a cubin, and where it is: in the cubin, as line information has it, or in a file beside it."""
    try:
        embedded = Cubin(data).embedded_ptx()
    except ValueError:
        embedded = None
    if embedded is not None:
        return path, embedded.encode()
    beside = f"{os.path.splitext(path)[0]}.ptx"
    if not os.path.isfile(beside):
        message = (
            f"{path} has no PTX in it, nor beside it in {beside}: a check follows PTX, which assemblers keep in cubins"
            " with line information (--lineinfo)"
        )
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    with open(beside, "rb") as file:
        return beside, file.read()
