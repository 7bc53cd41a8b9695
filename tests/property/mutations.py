"""Seeds and mutations of the fuzzer: bytecode files and texts of every level, damaged so that most stays whole.

A mutant is a function of (seed, kind, number) alone, so that any one of a long run can be made again.
"""

from __future__ import annotations

import random
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, Iterator

TESTS = Path(__file__).resolve().parents[1]
EXAMPLES = TESTS.parent / "examples"
VERSIONS = ("13.1", "13.2", "13.3", "13.4")

BYTES = (0, 1, 2, 3, 4, 5, 8, 0x10, 0x7F, 0x80, 0xFE, 0xFF)
NUMBERS = ("0", "1", "-1", "2", "3", "4", "7", "8", "16", "64", "128", "1024", "65536", "2147483647", "-2147483648",
           "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "0x7F800000", "1.5",
           "1e400", "0.0", "?")  # fmt: skip
PIECES = ("%", "%0", "!", "#", "<", ">", "{", "}", "(", ")", "[", "]", ":", "->", ",", "=", '"', "loc(", "^bb0",
          "dense<", "tile<", "tile<i32>", "tile<4xf32>", "tile<ptr<f32>>", "token", "i1", "i4", "i8", "i64", "f16",
          "bf16", "tf32", "f4E2M1FN", "signed", "unsigned", "weak", "relaxed", "tensor_view",
          "partition_view", "attributes", "true", "//", "\\", "\0", "é", "loc(unknown)")  # fmt: skip
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@!#^]?[\w$.]+|->|::|\s+|.')
NUMBER = re.compile(r"-?\b(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)")


@cache
def text_seeds() -> tuple[str, ...]:
    """The text tests part by part without their comments, the examples, and printed forms of some of them."""
    return (*_texts(), *_printed(), *_lowered(ONE_LEVEL))


@cache
def _texts() -> tuple[str, ...]:
    texts = []
    paths = [p for p in sorted(TESTS.rglob("*.mlir")) if "toy." not in p.read_text(errors="replace")]
    for path in [*paths, *sorted(EXAMPLES.glob("*.mlir"))]:
        for part in re.split(r"^// -----.*$", path.read_text(errors="replace"), flags=re.MULTILINE):
            part = "\n".join(line for line in part.split("\n") if not line.lstrip().startswith("//"))
            if 20 < len(part) < 6000:
                texts.append(part.strip() + "\n")
    return tuple(texts)


def _printed() -> list[str]:
    """Front-end files as text in the generic form and with locations."""
    from tileiras.bytecode import read_module
    from tileiras.ir import print_op

    texts = []
    for number, data in enumerate(_front_end_files()[::4]):
        module = read_module(data)
        texts.append(print_op(module, generic=number % 2 == 0, locations=number % 3 == 0))
    return [text for text in texts if len(text) < 12000]


LOWERING = (
    "convert-cudatile-to-tileaa{compute-capability=sm_90}", "tileas{to=dce}", "tileas{from=tileas-lower-occupancy}",
    "convert-tileas-to-llvm",
)  # fmt: skip
ONE_LEVEL = (LOWERING[:1], LOWERING[:2], LOWERING)
SCHEDULED = (LOWERING[0], "tileas")


@cache
def lowered_seeds() -> tuple[str, ...]:
    """Kernels at the levels below, and such whose loads run ahead."""
    return tuple(text for level in (LOWERING[:1], LOWERING[:2], SCHEDULED, LOWERING) for text in _lowered((level,)))


def _lowered(levels: tuple[tuple[str, ...], ...]) -> list[str]:
    """Kernels of the valid texts and of the front end, each after the passes of one level, going round."""
    from tileiras.cli.tileiras_opt import anchored
    from tileiras.diagnostics import CompileError
    from tileiras.driver.tileir_pipeline import tileas_passes
    from tileiras.ir import print_op
    from tileiras.ir.pass_manager import PassContext, PassManager, parse_pipeline
    from tileiras.passes import lookup_pass

    result = []
    for number, kernel in enumerate(_kernels()):
        passes = parse_pipeline(",".join(levels[number % len(levels)]), lookup_pass, {"tileas": tileas_passes})
        module = anchored(kernel, passes)
        try:
            PassManager(passes, verify_each=False).run(module, PassContext())
        except CompileError:  # an operation that the target does not have
            continue
        lowered = print_op(module, generic=number % 4 == 0)
        if len(lowered) < 12000:
            result.append(lowered)
    return result


def _kernels() -> Iterator[Any]:
    """Modules with one entry each, and the globals around it."""
    from tileiras.bytecode import read_module
    from tileiras.diagnostics import CompileError
    from tileiras.ir import parse_module, verify

    for data in _front_end_files()[::4]:
        yield read_module(data)
    for text in _texts():
        try:
            whole = parse_module(text, "seed.mlir")
            verify(whole)
        except CompileError:  # an invalid text
            continue
        for module in [op for op in whole.walk() if op.name == "cuda_tile.module"]:
            names = [op.sym_name for op in module.body.block.operations if op.name == "cuda_tile.entry"]
            for name in names:
                kernel = module.clone()
                for op in kernel.body.block.operations:
                    if op.name == "cuda_tile.entry" and op.sym_name is not name:
                        op.erase()
                yield kernel


def _front_end_files() -> list[bytes]:
    try:
        sys.path.insert(0, str(TESTS / "bytecode"))
        import kernels
    except ImportError:  # no cuTile Python here: the examples' bytecode has to do
        return [path.read_bytes() for path in sorted((EXAMPLES / "bytecode").glob("*.tileirbc"))]
    finally:
        sys.path.pop(0)
    return [kernels.export(name, v) for name, row in kernels.EXPORTS.items() for v in VERSIONS if v >= row[1]]


@cache
def bytecode_seeds() -> tuple[bytes, ...]:
    """Front-end files of all versions, and files that our writer makes of the texts that verify."""
    from tileiras.bytecode import Version, write_module
    from tileiras.diagnostics import CompileError
    from tileiras.ir import verify
    from tileiras.stages.read import read

    files = _front_end_files()
    for text in text_seeds():
        for version in VERSIONS:
            try:
                module = read(text.encode(), "seed.mlir")
                verify(module)
                files.append(write_module(module, Version.parse(version)))
            except CompileError:  # an invalid text, or a version that cannot express it
                continue
    return tuple(files)


def mutant(kind: str, seed: int, number: int) -> bytes:
    """The damaged input of this number; `kind` is `bytecode`, `text` or `lowered`."""
    choose = random.Random(f"{seed}/{kind}/{number}")
    if kind == "lowered":
        text = choose.choice(lowered_seeds())
        for _ in range(choose.choice((1, 1, 2))):
            text = choose.choice(_WORD_MUTATIONS)(text, choose)
        return text.encode("utf-8", "surrogatepass")
    if kind == "bytecode":
        return mutated_bytecode(choose.choice(bytecode_seeds()), choose)
    return mutated_text(choose.choice(text_seeds()), choose).encode("utf-8", "surrogatepass")


# ---- bytecode --------------------------------------------------------------------------------------------------------


def mutated_bytecode(data: bytes, choose: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        if len(result) < 16:
            break
        choose.choice(_BYTE_MUTATIONS)(result, choose)
    return bytes(result)


def _at(data: bytearray, choose: random.Random) -> int:
    # The first bytes are the magic number and the version: damage there ends the reading at once.
    return choose.randrange(12 if choose.random() < 0.98 else 0, len(data))


def _flip(data: bytearray, choose: random.Random) -> None:
    data[_at(data, choose)] ^= 1 << choose.randrange(8)


def _set(data: bytearray, choose: random.Random) -> None:
    data[_at(data, choose)] = choose.choice((*BYTES, choose.randrange(256)))


def _step(data: bytearray, choose: random.Random) -> None:
    at = _at(data, choose)
    data[at] = (data[at] + choose.choice((-2, -1, 1, 2))) % 256


def _truncate(data: bytearray, choose: random.Random) -> None:
    if choose.random() < 0.3:
        del data[_at(data, choose) :]


def _insert(data: bytearray, choose: random.Random) -> None:
    at = _at(data, choose)
    data[at:at] = choose.randbytes(choose.choice((1, 1, 2, 8)))


def _delete(data: bytearray, choose: random.Random) -> None:
    at = _at(data, choose)
    del data[at : at + choose.choice((1, 1, 2, 4, 8, 32))]


def _integer(data: bytearray, choose: random.Random) -> None:
    """A number of 2, 4 or 8 bytes, or one in seven-bit groups, of an interesting value."""
    at = _at(data, choose)
    value = choose.choice((0, 1, 2, 2**7, 2**14, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1))
    if choose.random() < 0.5:
        width = choose.choice((2, 4, 8))
        data[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
        return
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    data[at : at + choose.choice((1, len(groups) + 1))] = bytes([*groups, value])


def _splice(data: bytearray, choose: random.Random) -> None:
    other = choose.choice((bytes(data), choose.choice(bytecode_seeds())))
    start = choose.randrange(len(other))
    piece = other[start : start + choose.choice((1, 2, 4, 8, 16, 64, 256))]
    at = _at(data, choose)
    data[at : at + choose.choice((0, len(piece), len(piece)))] = piece


def _swap(data: bytearray, choose: random.Random) -> None:
    width = choose.choice((1, 2, 4, 8))
    one, other = sorted((_at(data, choose), _at(data, choose)))
    if one + width <= other:
        data[one : one + width], data[other : other + width] = data[other : other + width], data[one : one + width]


_BYTE_MUTATIONS = (_flip, _flip, _set, _set, _set, _step, _step, _truncate, _insert, _delete, _integer, _splice, _swap)


# ---- text ------------------------------------------------------------------------------------------------------------


def mutated_text(text: str, choose: random.Random) -> str:
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        text = choose.choice(_TEXT_MUTATIONS)(text, choose)
    return text


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text)


def _token_at(tokens: list[str], choose: random.Random) -> int:
    """A token that is not white space, when one is met soon."""
    at = 0
    for _ in range(4):
        at = choose.randrange(len(tokens))
        if not tokens[at].isspace():
            break
    return at


def _edit_token(text: str, choose: random.Random) -> str:
    tokens = _tokens(text)
    if not tokens:
        return text
    at = _token_at(tokens, choose)
    kind = choose.randrange(5)
    if kind == 0:
        del tokens[at]
    elif kind == 1:
        tokens.insert(at, tokens[at] + choose.choice(("", " ")))
    elif kind == 2:
        other = _token_at(tokens, choose)
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind == 3:
        tokens[at] = tokens[_token_at(tokens, choose)]
    else:
        tokens[at] = choose.choice(PIECES)
    return "".join(tokens)


def _edit_number(text: str, choose: random.Random) -> str:
    result = list(NUMBER.finditer(text))
    if not result:
        return text
    match = choose.choice(result)
    return text[: match.start()] + choose.choice(NUMBERS) + text[match.end() :]


def _replace_like(text: str, choose: random.Random) -> str:
    """A token by another of its kind: a value by a value, a word by a word of any seed."""
    tokens = _tokens(text)
    at = _token_at(tokens, choose) if tokens else 0
    if not tokens or not tokens[at].strip():
        return text
    pool = tokens if choose.random() < 0.7 else _tokens(choose.choice(text_seeds()))
    first = tokens[at][0]
    alike = [t for t in pool if t[0] == first or (t[0].isalpha() and first.isalpha())]
    tokens[at] = choose.choice(alike) if alike else tokens[at]
    return "".join(tokens)


def _edit_lines(text: str, choose: random.Random) -> str:
    lines = text.split("\n")
    at, other = choose.randrange(len(lines)), choose.randrange(len(lines))
    kind = choose.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        source = choose.choice(text_seeds()).split("\n")
        start = choose.randrange(len(source))
        lines[at:at] = source[start : start + choose.choice((1, 1, 3, 10))]
    return "\n".join(lines)


def _edit_characters(text: str, choose: random.Random) -> str:
    start = choose.randrange(len(text) + 1)
    end = start + choose.choice((0, 0, 1, 1, 2, 5, 20, 200))
    piece = choose.choice((*PIECES, "", "", text[choose.randrange(len(text) + 1) :][: choose.randint(0, 30)]))
    return text[:start] + piece + text[end:]


def _truncate_text(text: str, choose: random.Random) -> str:
    return text[: choose.randrange(len(text) + 1)] if choose.random() < 0.3 else text


_WORD_MUTATIONS = (_edit_number, _edit_number, _replace_like, _replace_like, _edit_token, _edit_lines)
"""Mutations after which a text often still parses, but is no longer consistent."""

_TEXT_MUTATIONS = (_edit_token, _edit_token, _edit_token, _edit_number, _edit_number, _replace_like, _replace_like,
                   _edit_lines, _edit_characters, _truncate_text)  # fmt: skip
