"""NAME.json: the facts about the kernels of a module that a launcher needs.

The document is deterministic: keys in a fixed order, two-space indent, one trailing newline.  Sizes and offsets are in
bytes, shapes in (x, y, z) order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import order
from tileiras.codegen.ir_text import named_metadata, node
from tileiras.diagnostics import CompileError, Locatable
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.nvptx import KERNELS_METADATA, ORDER_METADATA, PAIRS_METADATA
from tileiras.targets.sm import parameter_bytes, parameter_overflow

try:
    from _json import encode_basestring  # the encoder of `json`, without importing the rest of it
except ImportError:
    from json.encoder import encode_basestring

if TYPE_CHECKING:
    from tileiras.codegen.ptx import PtxEntry, PtxModule

FORMAT = 1


class ParameterInfo(NamedTuple):
    """Name and type of a parameter in the source; empty if the source does not state them."""

    name: str = ""
    type: str = ""
    hidden: str = ""
    """How the host fills it, for a parameter that is not the user's."""


class KernelInfo(NamedTuple):
    """Facts about an entry that earlier stages know and PTX cannot express."""

    shared_memory: int = 0
    """Bytes of dynamic shared memory the launch must provide."""
    parameters: tuple[ParameterInfo, ...] = ()
    block_group: int = 0
    """Tile blocks in a group of the grid's rows; within a group, tile blocks with more work start first.  0: each tile
    block does the work of its own number."""
    cluster_blocks: int = 1
    """Tile blocks along x that copy for each other if a launch puts them in one cluster."""
    pairs_of: str = ""
    """The kernel that this one replaces at launches whose grid is a multiple of its clusters."""
    pairs_where: tuple[str, ...] = ()
    """Further conditions on such a launch (`targets/launch_facts.py`)."""
    order: tuple[str, ...] = ()
    """The certificate of order in the text form of `order/certificate.py`."""


STRING_OPERAND = re.compile(r'!"((?:[^"\\]|\\[0-9A-Fa-f]{2})*)"')
"""A string among the operands of a metadata node."""


def from_ir(ir: str) -> dict[str, KernelInfo]:
    """Read `!tileiras.kernels` and the metadata of pairs of a module of LLVM IR."""
    kernels: dict[str, KernelInfo] = {}
    pairs: dict[str, list[str]] = {}
    for number in named_metadata(ir, PAIRS_METADATA):
        paired, *result = _strings(ir, number)
        pairs[paired] = result
    orders = {name: tuple(lines) for name, *lines in (_strings(ir, n) for n in named_metadata(ir, ORDER_METADATA))}
    for number in named_metadata(ir, KERNELS_METADATA):
        operands = node(ir, number) or ""
        shared = re.search(r", i64 (\d+)(?:, i64 (\d+))?(?:, i64 (\d+))?", operands)
        if shared is None:
            continue
        name, *fields = _strings(ir, number)
        parameters = tuple(ParameterInfo(*fields[n : n + 3]) for n in range(0, len(fields), 3))
        pairs_of, *facts = pairs.get(name, [""])
        kernels[name] = KernelInfo(
            int(shared.group(1)), parameters, int(shared.group(2) or 0), int(shared.group(3) or 1), pairs_of,
            tuple(facts), orders.get(name, ()),
        )  # fmt: skip
    return kernels


def _strings(ir: str, number: int) -> list[str]:
    """The strings of a metadata node."""
    return [_unescape(text) for text in STRING_OPERAND.findall(node(ir, number) or "")]


def unescaped_bytes(text: str) -> bytes:
    """Decode the escapes of a string of LLVM IR."""
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode())


def _unescape(text: str) -> str:
    return unescaped_bytes(text).decode(errors="replace")


def describe(module: PtxModule, kernels: Mapping[str, KernelInfo], location: Locatable | None = None) -> dict[str, Any]:
    """The document for a module as a dict of plain values; raises CompileError when parameters do not fit."""
    described: dict[str, dict[str, Any]] = {}
    pairs: dict[str, dict[str, Any]] = {}
    for entry in module.entries:
        info = kernels.get(entry.name, KernelInfo())
        overflow = parameter_overflow(entry.parameter_bytes, parameter_bytes(module.version), entry.name)
        if overflow is not None:
            raise CompileError.at(location, overflow[0])
        row = _row(entry, info)
        if info.pairs_of:
            pairs[info.pairs_of] = {name: row[name] for name in _OF_PAIRS if name in row}
            if info.pairs_where:
                pairs[info.pairs_of]["where"] = list(info.pairs_where)
        else:
            described[entry.name] = row
    for name, row in pairs.items():
        if name in described:
            described[name]["pairs"] = row
    return {
        "format": FORMAT,
        "target": module.target,
        "ptx_version": "{}.{}".format(*module.version),
        "kernels": list(described.values()),
    }


_OF_PAIRS = ("name", "hidden_parameters", "block", "shared_memory", "block_group", "cluster_blocks")
"""Fields of a kernel for pairs of tile blocks; the others are those of the kernel that it replaces."""


def _row(entry: PtxEntry, info: KernelInfo) -> dict[str, Any]:
    """The document's row for an entry."""
    parameters: list[dict[str, Any]] = []
    hidden: list[dict[str, Any]] = []
    for index, parameter in enumerate(entry.parameters):
        result = info.parameters[index] if index < len(info.parameters) else ParameterInfo()
        described = {
            "name": result.name or parameter.name,
            "type": result.type or parameter.type,
            "offset": parameter.offset,
            "size": parameter.size,
        }
        if result.hidden:
            hidden.append({**described, "fill": result.hidden})
        else:
            parameters.append(described)
    block = entry.dimensions("reqntid") or entry.dimensions("maxntid") or (1, 1, 1)
    cluster = entry.dimensions("reqnctapercluster") or (1, 1, 1)
    of_blocks = (info.cluster_blocks, 1, 1)
    if info.pairs_of:
        of_blocks, cluster = cluster, (1, 1, 1)  # each CTA is a tile block
    grouped: dict[str, Any] = {"block_group": info.block_group} if info.block_group else {}
    if of_blocks != (1, 1, 1) and "language" not in entry.directives:
        # The driver's tile launch makes no clusters of tile blocks, and counts these in clusters.
        grouped["cluster_blocks"] = list(of_blocks)
    return {
        "name": entry.name,
        "parameters": parameters,
        "hidden_parameters": hidden,
        "block": list(block),
        "cluster": list(cluster),
        "blocks_are_clusters": "blocksareclusters" in entry.directives,
        "shared_memory": info.shared_memory,
        "tile_launch": "language" in entry.directives,
        **grouped,
        **({"order": _order(info.order)} if info.order else {}),
    }


def _order(lines: Sequence[str]) -> dict[str, Any]:
    return order.certificate.Certificate.from_words(lines).to_json()


def to_json(document: Mapping[str, Any]) -> str:
    """The document's text."""
    return _indent(document, "\n") + "\n"


def _indent(value: Any, line: str) -> str:
    """A faster `json.dumps(value, indent=2, ensure_ascii=False)`, which runs four nested generators for each value when
    it indents; `line` is a line break with the indentation around the value."""
    if isinstance(value, str):
        return encode_basestring(value)
    inner = line + "  "
    if isinstance(value, dict) and value:
        members = [f"{encode_basestring(key)}: {_indent(member, inner)}" for key, member in value.items()]
        return f"{{{inner}{f',{inner}'.join(members)}{line}}}"
    if isinstance(value, list) and value:
        return f"[{inner}{f',{inner}'.join([_indent(element, inner) for element in value])}{line}]"
    import json

    return json.dumps(value)


def merge(texts: Sequence[bytes]) -> bytes:
    """The text of one document for several modules of one target, kernels in the order given."""
    import json

    if len(texts) == 1:
        return texts[0]
    documents = [json.loads(text) for text in texts]
    kernels = [kernel for document in documents for kernel in document["kernels"]]
    return to_json({**documents[0], "kernels": kernels}).encode()


def without_order(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document without the certificates of order, for code that may have been edited after the decisions."""
    kernels = [{name: value for name, value in row.items() if name != "order"} for row in document["kernels"]]
    return {**document, "kernels": kernels}


def kernels_of(text: bytes | None) -> list[dict[str, Any]]:
    """The kernels that a document describes; empty for text of another form."""
    import json

    try:
        document = json.loads(text or b"")
        return list(document["kernels"]) if document["format"] == FORMAT else []
    except (ValueError, KeyError, TypeError):
        return []


def launch_memory(text: bytes | None) -> dict[str, int]:
    """Bytes of shared memory that launches provide, by entry; empty for text of another form."""
    try:
        rows = [row for kernel in kernels_of(text) for row in (kernel, kernel.get("pairs")) if row is not None]
        return {row["name"]: int(row["shared_memory"]) for row in rows}
    except (ValueError, KeyError, TypeError):
        return {}
