"""Images of one or more targets -> a C++ header, and a C++ source with the images.

In: for every image the bytes of NAME.ptx or NAME.cubin, and of NAME.json.  Out: text.  The header depends on
the signature (names, parameters) and the launch requirements (block, cluster, shared memory per target), not on the
code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.codegen import tensor_map
from tileiras.diagnostics import CompileError
from tileiras.stages.fatbin import is_fat_binary
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.launch_facts import GRID, OPERATIONS, PREDICATES, fact_error

RUNTIME_HEADER = "tileiras.hpp"

_POINTEES = {
    "i1": "bool", "i8": "std::int8_t", "i16": "std::int16_t", "i32": "std::int32_t", "i64": "std::int64_t",
    "f32": "float", "f64": "double",
}  # fmt: skip
"""C++ types of pointees; `void` stands for types that C++ lacks."""

_SCALARS = {**_POINTEES, "f16": "std::uint16_t", "bf16": "std::uint16_t"}
"""C++ types of scalars; floats without one are passed as their bits."""

_SIZES = {1: "std::uint8_t", 2: "std::uint16_t", 4: "std::uint32_t", 8: "std::uint64_t"}
"""Size in bytes -> type of the bits of other scalars."""

_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue
    decltype default delete do double else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not nullptr operator or private protected public register return short signed sizeof
    static struct switch template this throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor grid stream""".split()
)
"""Words of C++17, and the names of a launch function's last parameters."""


CPU_HEADER = "tileiras_cpu.hpp"

_LEVELS = {"cpu-x86-64-v3": 3, "cpu-x86-64-v4": 4}
"""Targets whose instructions a processor of their kind may lack -> the level that the loader asks it for."""


class Image(NamedTuple):
    """One image with one entry; `description` is the entry's in NAME.json.  The images of a fat binary share its
    data."""

    target: str
    ptx: bool
    data: bytes
    description: Mapping[str, Any]

    @classmethod
    def of(cls, data: bytes, document: bytes) -> Image:
        """From the contents of an image's file and of NAME.json.

        Raises CompileError for hidden parameters that are no tensor maps.
        """
        whole = json.loads(document)
        return cls._check(whole["target"], not data.startswith(b"\x7fELF"), data, whole["kernels"])

    @classmethod
    def all_of(cls, data: bytes, document: bytes) -> list[Image]:
        """Those of a fat binary, from NAME.fatbin.json, or the one of any other image."""
        if not is_fat_binary(data):
            return [cls.of(data, document)]
        every = json.loads(document)["images"]
        return [cls._check(each["target"], each["form"] == "ptx", data, each["kernels"]) for each in every]

    @classmethod
    def _check(cls, target: str, ptx: bool, data: bytes, kernels: Sequence[Mapping[str, Any]]) -> Image:
        (kernel,) = kernels
        result = cls(target, ptx, data, kernel)
        if not result.is_linked:
            result.tensor_maps()
            result.pairs()
        return result

    @property
    def is_linked(self) -> bool:
        """Whether the image is code for a CPU, which the program is linked with: its bytes are not in the source."""
        return "scratch" in self.description

    def pairs(self) -> Image | None:
        """The image as it is launched for pairs of tile blocks, where there is a kernel for them.

        Raises CompileError for facts of such launches that the loader cannot know.
        """
        described = self.description.get("pairs")
        if described is None:
            return None
        result = self._replace(description={**self.description, **described, "pairs": None})
        result.tensor_maps()
        count = len(self.description["parameters"])
        wrong = [(fact, fact_error(fact, count)) for fact in described.get("where", ()) if fact_error(fact, count)]
        for fact, error in wrong[:1]:
            name = self.description["name"]
            raise CompileError.at(None, f"kernel '{name}' is launched where '{fact}', which {error}")
        return result

    def tensor_maps(self) -> list[tuple[int, tensor_map.TensorMap]]:
        """The hidden parameters: where each is, and how it is filled.

        Raises CompileError for those that are no tensor maps.
        """
        name = self.description["name"]
        count = len(self.description["parameters"])
        result = []
        for hidden in self.description["hidden_parameters"]:
            try:
                value = tensor_map.parse(hidden["fill"])
            except ValueError as error:
                raise CompileError.at(
                    None, f"kernel '{name}' has a hidden parameter that the loader cannot fill: {error}"
                ) from None
            operands = (value.address, *value.dims, *value.strides)
            if any(operand.is_parameter and operand.value >= count for operand in operands):
                raise CompileError.at(None, f"kernel '{name}' has no parameter that '{hidden['fill']}' names")
            result.append((hidden["offset"], value))
        return result


def with_file_names(images: Sequence[Image], documents: Sequence[bytes]) -> list[Image]:
    """The images with parameters called as NAME.parameters.json of their sources has them: of a cuTile array `a`, say,
    `a`, `a_size0` and `a_stride0`."""
    names: dict[str, list[str]] = {}
    for document in documents:
        names.update(json.loads(document))
    return [with_names(image, names.get(image.description["name"], ())) for image in images]


def with_names(image: Image, names: Sequence[str]) -> Image:
    parameters = image.description["parameters"]
    if len(names) != len(parameters):
        return image
    called = [{**parameter, "name": name} for parameter, name in zip(parameters, names)]
    return image._replace(description={**image.description, "parameters": called})


def identifier(name: str, others: Sequence[str] = ()) -> str:
    """A C++ name for a symbol: itself where that can be, else changed, and numbered when it is taken."""
    result = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "kernel"
    if result[0].isdigit():
        result = "kernel_" + result
    result = re.sub(r"__+", "_", result)
    if result in _KEYWORDS:
        result += "_"
    base, number = result, 2
    while result in others:
        result, number = f"{base}_{number}", number + 1
    return result


class _Kernel(NamedTuple):
    name: str
    function: str
    images: list[Image]
    parameters: list[tuple[str, str, int]]
    """C++ type, name and offset."""
    size: int


def _kernels(images: Sequence[Image]) -> list[_Kernel]:
    by_name: dict[str, list[Image]] = {}
    for image in images:
        by_name.setdefault(image.description["name"], []).append(image)
    kernels: list[_Kernel] = []
    for name, own in by_name.items():
        parameters = own[0].description["parameters"]
        if any(image.description["parameters"] != parameters for image in own):
            raise CompileError.at(None, f"kernel '{name}' has other parameters on {own[-1].target}")
        described: list[tuple[str, str, int]] = []
        for index, parameter in enumerate(parameters):
            spelled = parameter["name"]
            if re.fullmatch(re.escape(name) + r"_param_\d+", spelled):
                spelled = f"p{index}"
            spelled = identifier(spelled, [other for _, other, _ in described])
            described.append((cpp_type(parameter), spelled, parameter["offset"]))
        size = max((p["offset"] + p["size"] for p in parameters), default=0)
        function = identifier(name, [kernel.function for kernel in kernels])
        kernels.append(_Kernel(name, function, own, described, size))
    return kernels


def cpp_type(parameter: Mapping[str, Any]) -> str:
    pointer = re.fullmatch(r"ptr<(.*)>", parameter["type"])
    if pointer is not None:
        return _POINTEES.get(pointer.group(1), "void") + " *"
    return _SCALARS.get(parameter["type"]) or _SIZES[parameter["size"]]


def header(images: Sequence[Image], namespace: str) -> bytes:
    """The text of the header: per entry a launch function, and its needs on each target.

    Raises CompileError when the targets of an entry disagree about its parameters.
    """
    lines = [
        "// Made by tileiras: do not edit.",
        "#pragma once",
        "",
        "#include <cstdint>",
        f"#include <{RUNTIME_HEADER}>",
        "",
        f"namespace {namespace} {{",
    ]
    for kernel in _kernels(images):
        types = ", ".join(p["type"] for p in kernel.images[0].description["parameters"])
        arguments = [f"{kind}{'' if kind.endswith('*') else ' '}{name}" for kind, name, _ in kernel.parameters]
        needs = {image.target: image.description for image in kernel.images}
        lines += [
            "",
            f"/// The images of {kernel.name}, for {', '.join(needs)}.",
            f"extern const tileiras::Kernel {kernel.function}_kernel;",
            "",
            "/// Launch requirements on each target: threads of a CTA, CTAs of a tile block, bytes of shared memory.",
            f"inline constexpr tileiras::Needs {kernel.function}_needs[] = {{",
            *(
                f'    {{"{target}", {_brace(d["block"])}, {_brace(d["cluster"])}, {d["shared_memory"]}}},'
                for target, d in needs.items()
            ),
            "};",
            "",
            f"/// Launches {kernel.name}({types}) on `grid` tile blocks; returns once it is queued in `stream`.",
            "///",
            *(f"/// {line}" for line in _meanings(kernel)),
            "/// @return an Error that is true when nothing was launched; later errors are the stream's",
            f"inline tileiras::Error {kernel.function}("
            + ", ".join([*arguments, "tileiras::Grid grid", "tileiras::Stream stream = nullptr"])
            + ") {",
            f"    unsigned char parameters[{max(kernel.size, 1)}] = {{}};",
            *(f"    tileiras::detail::put(parameters, {offset}, {name});" for _, name, offset in kernel.parameters),
            f"    return tileiras::launch({kernel.function}_kernel, grid, stream, parameters);",
            "}",
        ]
    lines += ["", f"}}  // namespace {namespace}", ""]
    return "\n".join(lines).encode()


def _meanings(kernel: _Kernel) -> list[str]:
    """Comments on the parameters: pointees, and the sizes and strides of each array."""
    meanings = []
    names = [name for _, name, _ in kernel.parameters]
    for (kind, name, _), parameter in zip(kernel.parameters, kernel.images[0].description["parameters"]):
        if not kind.endswith("*"):
            continue
        pointee = re.fullmatch(r"ptr<(.*)>", parameter["type"])
        meaning = f"memory of the device, {pointee.group(1)}" if pointee is not None else "an address"
        rank = sum(re.fullmatch(rf"{re.escape(name)}_size\d+", other) is not None for other in names)
        if rank:
            extents = f"`{name}_sizeN` elements along N, `{name}_strideN` elements apart"
            meaning += f"; an array of rank {rank} with {extents}"
        elif f"{name}_length" in names:
            meaning += f"; a list of `{name}_length` arrays"
        meanings.append(f"@param {name} {meaning}")
    return meanings


def source(images: Sequence[Image], namespace: str) -> bytes:
    """The text of a C++ source that holds the images."""
    included = CPU_HEADER if any(image.is_linked for image in images) else RUNTIME_HEADER
    lines = ["// Made by tileiras: do not edit.", f"#include <{included}>", "", f"namespace {namespace} {{", ""]
    for kernel in _kernels(images):
        rows = []
        shared: dict[bytes, str] = {}
        for number, image in enumerate(kernel.images):
            if image.is_linked:
                rows.append(f"    {_linked_row(kernel, image, lines)},")
                continue
            is_fat = is_fat_binary(image.data)
            data = image.data + b"\0" if image.ptx and not is_fat else image.data
            name = shared.get(data, f"{kernel.function}_image_{number}")
            if data not in shared:
                # The driver wants ELF aligned as its header's widest field.
                lines += [f"alignas(16) static const unsigned char {name}[] = {{", *_bytes(data), "};", ""]
            if is_fat:
                shared[data] = name
            pairs, beside = image.pairs(), "nullptr"
            if pairs is not None:
                beside = f"{kernel.function}_pairs_{number}"
                row = _row(pairs, name, f"{beside}_tensor_maps", "nullptr", lines)
                lines += [f"static const tileiras::Image {beside} =", f"    {row};", ""]
                beside = f"&{beside}"
            rows.append(f"    {_row(image, name, f'{kernel.function}_tensor_maps_{number}', beside, lines)},")
        lines += [
            f"static const tileiras::Image {kernel.function}_images[] = {{",
            *rows,
            "};",
            "",
            f"extern const tileiras::Kernel {kernel.function}_kernel;",
            f"const tileiras::Kernel {kernel.function}_kernel = {{"
            f'"{kernel.name}", {kernel.function}_images, {len(rows)}, {kernel.size}}};',
            "",
        ]
    lines += [f"}}  // namespace {namespace}", ""]
    return "\n".join(lines).encode()


def _row(image: Image, data: str, maps_name: str, pairs: str, lines: list[str]) -> str:
    """The initializer of a `tileiras::Image` whose bytes are `data`; `lines` get its tensor maps."""
    d = image.description
    maps = image.tensor_maps()
    if maps:
        lines += [f"static const tileiras::TensorMap {maps_name}[] = {{"]
        lines += [*(_tensor_map(offset, result, d["parameters"]) for offset, result in maps), "};", ""]
    terms = [_term(word, d["parameters"]) for fact in d.get("where", ()) for word in fact.split()]
    where = f"{maps_name}_where"
    if terms:
        lines += [f"static const tileiras::Term {where}[] = {{", *(f"    {term}," for term in terms), "};", ""]
    size = max((p["offset"] + p["size"] for p in [*d["parameters"], *d["hidden_parameters"]]), default=0)
    return (
        f'{{"{image.target}", "{d["name"]}", {_bool(image.ptx)}, {data}, {len(image.data)}, {_brace(d["block"])}, '
        f"{_brace(d['cluster'])}, {_bool(d['blocks_are_clusters'])}, "
        f"{_brace(d.get('cluster_blocks', (1, 1, 1)))}, {d['shared_memory']}, "
        f"{_bool(d['tile_launch'])}, {maps_name if maps else 'nullptr'}, {len(maps)}, {size}, {pairs}, "
        f"{where if terms else 'nullptr'}, {len(terms)}, nullptr}}"
    )


def _linked_row(kernel: _Kernel, image: Image, lines: list[str]) -> str:
    """The initializer of a `tileiras::Image` for a CPU; `lines` get the declaration of its entry."""
    d, name = image.description, f"{kernel.function}_cpu"
    messages = [json.dumps(message["assert"]) for message in d["messages"]]
    if messages:
        lines += [f"static const char *const {name}_messages[] = {{", *(f"    {text}," for text in messages), "};"]
    lines += [
        f'extern "C" std::int32_t {name}_entry(const void *, const std::int32_t *, std::int64_t, std::int64_t, void *)'
        f" __asm__({json.dumps(d['name'])});",
        f"static const tileiras::CpuCode {name} = {{{name}_entry, tileiras::detail::run_on_cpu, {d['scratch']}, "
        f"{_LEVELS.get(image.target, 0)}, {_bool(d['prints'])}, {f'{name}_messages' if messages else 'nullptr'}}};",
        "",
    ]
    return (
        f'{{"{image.target}", "{d["name"]}", false, nullptr, {len(image.data)}, {{1, 1, 1}}, {{1, 1, 1}}, false, '
        f"{{1, 1, 1}}, 0, false, nullptr, 0, {kernel.size}, nullptr, nullptr, 0, &{name}}}"
    )


def _term(word: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    """The initializer of a `tileiras::Term`."""
    if word in (*OPERATIONS, *PREDICATES, GRID):
        return f"{{tileiras::Word::{word}, {{0, 0, 0}}}}"
    if not word.startswith("p"):
        return f"{{tileiras::Word::value, {{0, 0, {int(word) % (1 << 64)}u}}}}"
    parameter = parameters[int(word[1:])]
    return f"{{tileiras::Word::value, {{{parameter['offset']}, {parameter['size']}, 0}}}}"


def _tensor_map(offset: int, description: tensor_map.TensorMap, parameters: Sequence[Mapping[str, Any]]) -> str:
    """The initializer of a `tileiras::TensorMap`."""

    def operand(operand: tensor_map.Operand) -> str:
        if not operand.is_parameter:
            return f"{{0, 0, {operand.value}}}"
        parameter = parameters[operand.value]
        return f"{{{parameter['offset']}, {parameter['size']}, 0}}"

    lists = [", ".join(map(operand, operands)) for operands in (description.dims, description.strides)]
    return (
        f"    {{{offset}, {description.data_type}, {description.element_size}, {len(description.dims)}, "
        f"{operand(description.address)}, "
        f"{{{lists[0]}}}, {{{lists[1]}}}, {_brace(description.box)}, {_brace(description.element_strides)}, "
        f"{description.interleave}, {description.swizzle}, {description.l2}, {description.oob}}},"
    )


def _bytes(data: bytes) -> list[str]:
    return ["    " + "".join(f"{byte}," for byte in data[n : n + 32]) for n in range(0, len(data), 32)]


def _brace(sizes: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, sizes)) + "}"


def _bool(value: bool) -> str:
    return "true" if value else "false"
