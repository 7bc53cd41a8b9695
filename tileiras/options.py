"""The table of compilation options: names, types, defaults and checks.

An option is spelled with dashes on the command line and in SCons (`num-warps`) and with underscores in Python
(`num_warps`).  `CompileOptions` holds every option; a stage sees only those that it declares (`tileiras.stages`).
`CompileOptions.canonical` is the encoding for a stage's key: it is independent of the order in which options were
given, of the process and of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.support.named_tuple import NamedTuple

GPU_NAMES = (
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_107", "sm_110", "sm_120",
    "sm_121",
)  # fmt: skip
"""Values of `--gpu-name`: the vendor's list of 13.5, and sm_75."""


CPU_NAMES = ("cpu", "cpu-x86-64-v3", "cpu-x86-64-v4", "cpu-aarch64")
"""Values of `--gpu-name` that are CPUs: this machine's, or a level of features (`targets/cpu.py`)."""


NO_GPU = "sm_0"
"""Name of the GPU in the vendor's message for a missing `--gpu-name`."""


class Option(NamedTuple):
    """One row of the table.

    `kind` is int, bool, str or list (of str); `choices` lists the accepted values if they are few.  The value of a
    `local` option is specific to this machine and not part of keys; the content of a file that it names is (see
    `Stage.tools`).
    """

    name: str
    kind: type
    default: Any
    doc: str
    choices: tuple = ()
    pattern: str = ""
    local: bool = False
    least: int | None = None
    """The lowest accepted value of a number without `choices`."""

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("gpu-name", str, None, "GPU to generate code for, or a CPU", (*GPU_NAMES, *CPU_NAMES)),
        Option("opt-level", int, 3, "optimization level", (0, 1, 2, 3)),
        Option("lineinfo", bool, False, "emit line tables from instructions to source lines"),
        Option("device-debug", bool, False, "full debug information for a debugger; needs optimization level 0"),
        Option(
            "bytecode-version", str, None, "version of exported or written bytecode; default: the newest",
            ("13.1", "13.2", "13.3", "13.4", "13.5"),
        ),
        Option("num-warps", int, None, "warps per tile block; default: chosen", (1, 2, 4, 8, 16, 32)),
        Option("num-ctas", int, None, "CTAs per tile block; default: the kernel's hint, or 1", (1, 2, 4, 8, 16)),
        Option("legalize-types", bool, False, "emulate types that the GPU lacks by conversion, slowly"),
        Option(
            "pipeline-strategy",
            str,
            "auto",
            "schedule of loops: loads run ahead (unspecialize), by dedicated warps (warp-specialize), or not at all "
            "(none); auto: chosen by a cost model",
            ("none", "unspecialize", "warp-specialize", "auto"),
        ),
        Option("v2-opt-level", int, 0, "1: iterations of loops may overlap; 2: in more loops, with an exact search",
               least=0),
        Option("max-constraint-iterations", int, 10, "most placements tried for a loop's operations; 0: none",
               least=0),
        Option("rrt-size-threshold", int, 4096,
               "heavy warp specialization places loops with no larger reservation table; 0 selects light",
               least=0),
        Option("opt-bisect-limit", int, None,
               "skip optional decisions of TileAS after the first N, and list the decisions; -1: skip none",
               least=-1),
        Option("enable-random-delay", bool, False,
               "warps sleep for different times before they synchronize, to expose races"),
        Option(
            "unspecialized-pipeline-num-stages",
            int,
            None,
            "stages of the rings of loads that run ahead; default: chosen",
            (1, 2, 3, 4, 5, 6, 7, 8),
        ),
        Option("tensor-maps", str, "auto",
               "creator of tensor maps for copies in boxes: the host (hidden parameters), the device, or none; auto: "
               "the device for kernels with dots into tensor memory",
               ("auto", "none", "host", "device")),
        Option("deterministic", str, "any",
               "require: a kernel whose results may differ from run to run is an error, located at the cause",
               ("any", "require")),
        Option("index-bitwidth", int, 32, "bits of offsets in addresses of a tile; 0: a pointer's", (0, 32, 64)),
        Option("ftz", bool, False, "flush f32 denormals to zero"),
        Option("approx", bool, False, "use approximate f32 division and square root"),
        Option("ptx-version", str, None, "PTX ISA version; default: the lowest that suffices", pattern=r"\d\.\d"),
        Option("parameter-ceiling", str, "ptx",
               "limit on the bytes of a kernel's parameters: that of the PTX version, or the documented one of the GPU",
               ("documented", "ptx")),
        Option("tile-launch", bool, False, "mark kernels for the driver's tile launch, as the vendor's compiler does"),
        Option("host-arch", str, None, "architecture of a tile launch's host; default: this machine's",
               ("x86_64", "aarch64")),
        Option("host-os", str, None, "operating system of a tile launch's host", ("linux", "windows")),
        Option("emit-remarks", bool, False, "emit remarks on choices for accesses, dots, loops and kernels"),
        Option("sanitize", str, None, "instrument memory accesses for this sanitizer tool", ("memcheck",)),
        Option("assembler", str, "ptxas", "assembler of cubins: the program ptxas, or the library nvJitLink",
               ("ptxas", "nvjitlink")),
        Option("ptxas-options", list, (), "further arguments for ptxas"),
        Option("apply-controls", str, None, "file of compiler controls (ACF) for ptxas, 13.3 or newer", local=True),
        Option("ptxas", str, None, "path of ptxas; default: the one found", local=True),
        Option("child-timeout", int, 0, "time limit of ptxas and nvdisasm in seconds; 0: no limit", local=True,
               least=0),
        Option("dump-sass-command", str, "nvdisasm -c", "command that disassembles a cubin for emit=sass"),
        Option("blob-linked-lib", list, (), "bitcode files, linked as far as the kernel calls them", local=True),
        Option("device-libraries", list, (), "PTX, bitcode, cubins and archives with the functions that kernels call",
               local=True),
        Option("libdevice", str, None, "path of libdevice; default: the one found; explicit: link blobs only",
               local=True),
    )
}

ALIASES = {"line-info": "lineinfo"}
"""Alternative names of options, from the vendor's documentation."""

_BY_ATTRIBUTE = {option.attribute: option for option in OPTIONS.values()}
_BY_ATTRIBUTE.update({alias.replace("-", "_"): OPTIONS[name] for alias, name in ALIASES.items()})

SEPARATELY = frozenset(("-c", "--compile-only"))
"""Options of ptxas that make it ignore `setmaxnreg` (its message C7504): objects that are linked later must have the
same number of registers.  Agents then do not get the registers chosen for them."""

DEFAULTS_SEPARATELY = {"pipeline-strategy": "unspecialize"}
"""Option -> its value in place of the default with one of `SEPARATELY`: agents are not chosen by rule."""

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def accepted(option: Option) -> str:
    """The values of an option, for messages and help."""
    if option.choices:
        return ", ".join(map(str, option.choices))
    if option.kind is bool:
        return "true, false"
    if option.least is not None:
        return f"an integer from {option.least} on"
    return {int: "an integer", str: "text", list: "a list of words"}[option.kind]


class UnknownOption(CompileError, TypeError):
    """An option that does not exist; a TypeError as well, as for any misspelt keyword of a Python function."""


def lookup(name: str) -> Option:
    """The option called `name`, with dashes or underscores; raises UnknownOption (code 2) with the nearest name in the
    same spelling."""
    option = _BY_ATTRIBUTE.get(name.replace("-", "_"))
    if option is None:
        import difflib

        spelled = [option.attribute if "_" in name else option.name for option in OPTIONS.values()]
        near = difflib.get_close_matches(name, spelled, 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        message = f"unknown option '{name}'{hint}; known options: {', '.join(spelled)}"
        raise UnknownOption([Diagnostic(Severity.ERROR, None, message)], ExitCode.CONFIGURATION)
    return option


def parse_value(option: Option, text: str) -> Any:
    """Parse a value from a command line or an SConstruct; raises CompileError (code 2) with the accepted values."""
    if option.kind is int:
        try:
            return int(text, 10)
        except ValueError:
            raise _bad(
                f"'{text}' value invalid for integer option '{option.name}'; accepted: {accepted(option)}"
            ) from None
    if option.kind is bool:
        word = text.lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise _bad(f"'{text}' value invalid for option '{option.name}'; accepted: {accepted(option)}")
    if option.kind is list:
        import shlex

        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise _bad(f"'{text}' value invalid for option '{option.name}': {str(error).lower()}") from None
    return text


class CompileOptions(Mapping[str, Any]):
    """Checked values of all options; immutable.  Keys are the dashed names."""

    __slots__ = ("_values",)

    def __init__(self, values_by_name: Mapping[str, Any] | None = None) -> None:
        """Raise CompileError (code 2) for an unknown name or a value that is not accepted."""
        by_name = {lookup(name).name: value for name, value in (values_by_name or {}).items()}
        # In the table's order: the reported one of several mistakes does not depend on the order of arguments.
        values = {
            name: checked_value(option, by_name[name]) if name in by_name else option.default
            for name, option in OPTIONS.items()
        }
        if values["opt-level"] != 0 and values["device-debug"]:
            raise _bad(
                "optimized debugging is currently not supported, change the optimization level to 0 or disable full "
                "debug info"
            )
        if not SEPARATELY.isdisjoint(values["ptxas-options"]):
            for name, value in DEFAULTS_SEPARATELY.items():
                if values[name] == OPTIONS[name].default:
                    values[name] = value
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, **changes: bool | None) -> CompileOptions:
        return CompileOptions({**self._values, **{lookup(name).name: value for name, value in changes.items()}})

    def canonical(self, names: Iterable[str]) -> bytes:
        """`name=value` lines of the named options in alphabetical order, without `local` options."""
        return "".join(f"{name}={self._values[name]!r}\n" for name in sorted(names) if not OPTIONS[name].local).encode()


def checked_value(option: Option, value: int | str | Sequence[str] | None) -> Any:
    """Convert a Python value to the option's type; raises CompileError (code 2) with the accepted values.

    Numbers and booleans may be given as words of a command line, booleans also as 0 and 1.
    """
    if value is None and option.default is None:
        return None
    if isinstance(value, str) and option.kind is not str:
        value = parse_value(option, value)
    elif option.kind is bool and type(value) is int and value in (0, 1):
        value = bool(value)
    if option.kind is list:
        value = tuple(value) if isinstance(value, Iterable) else (value,)
        if all(isinstance(word, str) for word in value):
            return value
    elif type(value) is option.kind or (option.kind is str and isinstance(value, str)):
        if option.choices and value not in option.choices or option.least is not None and value < option.least:
            raise _bad(_not_accepted(option, value))
        if option.pattern and re.fullmatch(option.pattern, str(value)) is None:
            raise _bad(f"invalid value for option '{option.name}': {value}; expected a version such as 8.7")
        return value
    raise _bad(f"invalid value for option '{option.name}': {value!r}; accepted: {accepted(option)}")


def unsupported_gpu(name: str, bytecode_version: str = "") -> str:
    """The vendor's message for an unsupported GPU, or for `NO_GPU`."""
    text = f"GPU architecture {name} is not supported by this version of tileiras."
    if bytecode_version:
        text += (
            " You may need a newer toolchain that supports this architecture "
            f"(bytecode in file is version {bytecode_version})."
        )
    return text


def missing_gpu(bytecode_version: str = "") -> CompileError:
    """The error (code 2) for a missing GPU name, with a note that lists the accepted ones."""
    note = Diagnostic.note(None, f"no GPU is named; gpu-name takes {accepted(OPTIONS['gpu-name'])}")
    return CompileError.at(None, unsupported_gpu(NO_GPU, bytecode_version), ExitCode.CONFIGURATION, [note])


def _not_accepted(option: Option, value: int | str) -> str:
    if option.name == "opt-level":  # the vendor's wording
        return f"invalid optimization level: {value}"
    if option.name == "gpu-name":
        return f"{unsupported_gpu(value)} Supported: {accepted(option)}"
    return f"invalid value for option '{option.name}': {value}; accepted: {accepted(option)}"


def _bad(message: str) -> CompileError:
    return CompileError.at(None, message, ExitCode.CONFIGURATION)
