"""Inputs of an estimate: PTX for the emulator, and the machine code assembled from it with the lines of that PTX.

An image is PTX text, an Artifact, a cubin, or the path of one of the two files. A cubin needs the PTX that it was
assembled from: in it (`--lineinfo`), beside it (NAME.ptx), or in the Artifact. PTX is assembled here for the GPU, as
the driver does when it loads PTX, with line information, which changes no instruction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tileiras.codegen import cubin_host, output_store, ptxas
from tileiras.codegen.kernel_resources import DYNAMIC_SHARED
from tileiras.codegen.machine_code import MachineCode, read
from tileiras.codegen.object_file import Cubin
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.ir.encoding import encoded
from tileiras.sim.emulator.launch.emulation import launched_kernel
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.rates import Gpu
from tileiras.targets.requirements import split

if TYPE_CHECKING:
    from tileiras.api import Artifact

LINES = "--generate-line-info"
LEVELS = (3, 2, 1, 0)
"""Optimization levels of ptxas; a cubin does not record its level."""

FillHidden = Callable[[Sequence[bytes], Sequence[int]], Sequence[bytes]]


class Image(NamedTuple):
    """One entry, ready for emulation and timing."""

    entry: str
    ptx: str
    """The PTX to whose lines `code` refers."""
    code: MachineCode
    metadata: Mapping[str, Any] | None
    """The entry's row of NAME.json, or None."""
    hidden: FillHidden | None
    """Fills `.hidden` parameters for `emulate`; None if the entry has no hidden parameters."""
    dynamic_shared: int
    """Bytes of shared memory that the launch adds to `code.shared`."""

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a CTA."""
        return self.code.shared + self.dynamic_shared


def load(
    image: str | bytes | os.PathLike[str] | Artifact,
    entry: str,
    gpu: Gpu,
    metadata: Mapping[str, Any] | None = None,
    grid: int | Sequence[int] = 1,
    arguments: Sequence[Any] | None = None,
) -> Image:
    """Load the entry of an image that a launch of `entry` over a grid, with arguments, starts on a GPU.

    Raises CompileError: with the code of a configuration error for an image of another target, or without the entry,
    its PTX, its lines or its description; and with the message of ptxas for PTX that it rejects.
    """
    parts = _parts(image, entry, metadata)
    if parts.metadata is not None:
        entry, described = launched_kernel(parts.metadata, entry, grid, arguments)
        parts = parts._replace(metadata=described)
    if parts.cubin is None:
        assert parts.ptx is not None
        code, text = _assemble(parts.ptx, entry, gpu), parts.ptx
    else:
        code, text = _disassemble(parts.cubin, parts.ptx, entry, gpu)
    hidden, filled = None, (parts.metadata or {}).get("hidden_parameters")
    if not filled and re.search(r"\.hidden\s+\.param\b", text) is not None:
        if parts.cubin is None:
            _refuse(
                f"'{entry}' has hidden parameters, which PTX does not say how to fill",
                "give the cubin with its host's code instead",
            )
        hidden = cubin_host.hidden_parameters(parts.cubin, entry)
    return Image(entry, text, code, parts.metadata, hidden, _dynamic_shared(text, entry, parts.metadata))


class _Parts(NamedTuple):
    """PTX or a cubin or both, and the entry's row of the description."""

    ptx: str | None
    cubin: bytes | None
    metadata: Mapping[str, Any] | None


def _parts(image: Any, entry: str, metadata: Mapping[str, Any] | None) -> _Parts:
    beside: str | None = None
    if hasattr(image, "kernels"):
        kernel = next((kernel for kernel in image.kernels if kernel.name == entry), None)
        if kernel is None:
            _unknown_entry(entry, [kernel.name for kernel in image.kernels])
        text = kernel.artifacts.get(".ptx")
        if text is None:
            _refuse(f"a {image.suffix} of '{entry}' is not estimated", "compile with emit='ptx' or emit='cubin'")
        cubin = image.data if image.suffix == ".cubin" else None
        return _Parts(text.decode(), cubin, metadata or kernel.metadata)
    if isinstance(image, os.PathLike) or isinstance(image, str) and _is_path(image):
        path = os.fspath(image)
        data, stem = _bytes_of(path), os.path.splitext(path)[0]
        if data.startswith(b"\x7fELF") and os.path.isfile(stem + ".ptx"):
            beside = _bytes_of(stem + ".ptx").decode()
        if metadata is None and os.path.isfile(stem + ".json"):
            metadata = _description(_bytes_of(stem + ".json"), stem + ".json")
    else:
        data = encoded(image, "<PTX>") if isinstance(image, str) else bytes(image)
    if metadata is not None and "kernels" in metadata:
        metadata = next((kernel for kernel in metadata["kernels"] if kernel["name"] == entry), None)
    if data.startswith(b"\x7fELF"):
        return _Parts(beside, data, metadata)
    return _Parts(data.decode(errors="replace"), None, metadata)


def _is_path(text: str) -> bool:
    return "\n" not in text and text.endswith((".ptx", ".cubin"))


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CompileError.at(None, f"cannot read '{path}': {error.strerror}", ExitCode.USAGE) from None


def _description(data: bytes, path: str) -> Mapping[str, Any]:
    import json

    try:
        document = json.loads(data)
        if isinstance(document["kernels"], list):
            return document
    except (ValueError, KeyError, TypeError):
        pass
    _refuse(f"'{path}' is no launch description", "write it again with --emit ptx")


# ---- machine code ------------------------------------------------------------------------------------------------


def _assemble(text: str, entry: str, gpu: Gpu) -> MachineCode:
    """Assemble PTX with ptxas for the GPU."""
    match = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    if match is None:
        raise CompileError.at(None, "neither PTX nor a cubin: PTX has a .target", ExitCode.INVALID_INPUT)
    if re.search(rf"\.entry\s+{re.escape(entry)}\b", text) is None:
        _unknown_entry(entry, re.findall(r"\.entry\s+([\w$]+)", text))
    target = match.group(1)
    number, suffix = split(target)
    chip = gpu.target.name
    compatible = gpu.runs(target) if suffix else number <= gpu.target.number
    if not compatible:
        _other_target(f"PTX for {target}", gpu)
    # Family-specific code is assembled for the family by name; for one chip, `assemble` takes the chip from the PTX.
    return read(assemble(text, chip + suffix if suffix == "f" else chip), entry)


def assemble(text: str, chip: str, level: int = LEVELS[0]) -> bytes:
    """Assemble PTX with line information to a cubin. Raises CompileError with the message of ptxas."""
    options = [LINES]
    if re.search(r"^\.language\b", text, re.MULTILINE) is not None:
        options += ["--enable-extended-smem", "true"]  # shared memory of a tile launch is static, of any size
    return output_store.output(
        ptxas.find(), [chip, str(level), *options], text.encode(),
        lambda: ptxas.assemble(text, chip, opt_level=level, options=options).cubin,
    )  # fmt: skip


def _disassemble(data: bytes, beside: str | None, entry: str, gpu: Gpu) -> tuple[MachineCode, str]:
    """Machine code of a cubin, and the PTX to whose lines it refers."""
    code = read(data, entry)
    if not gpu.runs(code.target):
        _other_target(f"machine code for {code.target}", gpu)
    cubin = Cubin(data)
    embedded = cubin.embedded_ptx()
    if embedded is not None and cubin.has_ptx_lines:
        return code, embedded
    text = beside or embedded
    if text is None:
        _refuse(
            f"the cubin of '{entry}' does not have its PTX",
            "compile with --lineinfo, which keeps it in the cubin, or put the .ptx beside the .cubin",
        )
    section = f".text.{entry}"
    for level in LEVELS:
        again = assemble(text, code.target, level)
        if section in Cubin(again).names and Cubin(again).section(section) == cubin.section(section):
            return read(again, entry), text
    _refuse(
        f"the cubin of '{entry}' has no lines of its PTX, and ptxas makes other machine code of the PTX beside it",
        "compile with --lineinfo",
    )


def _dynamic_shared(text: str, entry: str, metadata: Mapping[str, Any] | None) -> int:
    if DYNAMIC_SHARED.search(text) is None:
        return 0
    if metadata is None or "shared_memory" not in metadata:
        _refuse(
            f"how much shared memory a launch of '{entry}' adds is not known",
            "give metadata=, the content of NAME.json, or put it beside the image",
        )
    return int(metadata["shared_memory"])


# ---- refusals ----------------------------------------------------------------------------------------------------


def _refuse(message: str, advice: str) -> NoReturn:
    raise CompileError.at(None, message, ExitCode.CONFIGURATION, notes=[Diagnostic.note(None, advice)])


def _unknown_entry(entry: str, entries: Sequence[str]) -> NoReturn:
    _refuse(f"no entry '{entry}' in the image", f"it has {', '.join(entries) or 'none'}")


def _other_target(subject: str, gpu: Gpu) -> NoReturn:
    chip = gpu.target.name
    _refuse(f"{subject} does not run on {gpu.name}, which is {chip}", f"compile with --gpu-name {chip}")
