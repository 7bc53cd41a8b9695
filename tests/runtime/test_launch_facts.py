"""Facts about launches, which select the kernel to start, as the launchers evaluate them."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess

import pytest

import tileiras
from tests.kernels import swizzled_products
from tests.kernels import tensor_maps as kernels
from tileiras import cpp_folder
from tileiras.diagnostics import CompileError
from tileiras.runtime import launch_facts
from tileiras.sim.emulator.launch.emulation import launch_facts as emulated_facts
from tileiras.stages import embed
from tileiras.targets.launch_facts import MOST_NUMBERS, MOST_WORDS, OPERATIONS, PREDICATES, fact_error

PARAMETERS = [{"name": f"p{n}", "type": "i32", "offset": 4 * n, "size": 4} for n in range(3)]


def facts(seed: int, size: int = 6) -> list[str]:
    """Random facts of up to so many operations; each states a fact."""
    chosen = random.Random(seed)

    def number(depth: int) -> str:
        word = chosen.choice([*OPERATIONS, "leaf"]) if depth else "leaf"
        if word == "leaf":
            return chosen.choice(["p0", "p1", "p2", "grid", "grid below", "1", "2", "3", "8", "-4"])
        return " ".join([number(depth - 1) for _ in range(OPERATIONS[word])] + [word])

    return [f"{number(chosen.randrange(size // 2 + 1))} {chosen.choice(PREDICATES)}" for _ in range(200)]


LAUNCHES = [(1, (0, 0, 0)), (2, (5, 7, 1)), (4, (6, 4, 2)), (6, (-3, 8, 12)), (7, (2**31 - 1, -(2**31), 3))]


def held(fact: str, grid: int, values: tuple[int, ...]) -> bool:
    return launch_facts.hold([fact], grid, values.__getitem__)


def every_value(words: list[str], grid: int, values: tuple[int, ...]) -> set[int]:
    """The possible values of a number; raises ZeroDivisionError on a division by zero."""
    stack: list[set[int]] = []
    for word in words:
        if word == "below":
            stack.append({each for most in stack.pop() for each in range(most)})
        elif word in OPERATIONS:
            other = stack.pop()
            entry = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "div": int.__floordiv__,
                    "ceildiv": lambda a, b: -(-a // b), "min": min, "max": max}[word]  # fmt: skip
            stack.append({entry(a, b) for a in stack.pop() for b in other})
        else:
            stack.append({grid if word == "grid" else values[int(word[1:])] if word[0] == "p" else int(word)})
    return stack[0]


@pytest.mark.parametrize("seed", range(5))
def test_facts_hold_for_every_number(seed):
    result = 0
    for fact, (grid, values) in itertools.product(facts(seed), LAUNCHES[:-1]):
        if held(fact, grid, values):
            *words, predicate = fact.split()
            all_of_it = every_value(words, grid, values)
            assert all(each % 2 == 0 if predicate == "even" else each > 0 for each in all_of_it), fact
            result += 1
    assert result > 50


@pytest.mark.parametrize("seed", range(5))
def test_launchers_agree(seed):
    for fact, (grid, values) in itertools.product(facts(seed), LAUNCHES):
        assert fact_error(fact, len(PARAMETERS)) == ""
        assert emulated_facts.hold([fact], grid, PARAMETERS, values) == held(fact, grid, values), (fact, grid, values)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_loader_agrees(tmp_path):
    result = facts(0) + facts(1, 10)
    lines, rows = [], []
    for number, fact in enumerate(result):
        terms = ", ".join(embed._term(word, PARAMETERS) for word in fact.split())
        lines.append(f"static const tileiras::Term fact_{number}[] = {{{terms}}};")
        rows.append(f"{{fact_{number}, {len(fact.split())}}}")
    launches = ", ".join(f"{{{grid}, {{{', '.join(map(_literal, values))}}}}}" for grid, values in LAUNCHES)
    (tmp_path / "main.cpp").write_text("\n".join([
        "#include <tileiras.hpp>", "#include <cstdio>", *lines,
        "struct Fact { const tileiras::Term *terms; std::size_t count; };",
        "struct Launch { unsigned grid; std::int32_t values[3]; };",
        f"static const Fact facts[] = {{{', '.join(rows)}}};", f"static const Launch launches[] = {{{launches}}};",
        "int main() {", "    for (const Fact &fact : facts)", "        for (const Launch &launch : launches) {",
        "            tileiras::Image image = {};",
        "            image.where = fact.terms, image.where_count = fact.count;",
        "            const auto *parameters = reinterpret_cast<const unsigned char *>(launch.values);",
        "            std::putchar(tileiras::detail::has_facts(image, launch.grid, parameters) ? '1' : '0');",
        "        }", "}",
    ]))  # fmt: skip
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{cpp_folder()}"]
    subprocess.run(["c++", *options, "main.cpp", "-o", "app", "-ldl"], cwd=tmp_path, check=True)
    printed = subprocess.run(["./app"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    wanted = "".join("01"[held(fact, *launch)] for fact, launch in itertools.product(result, LAUNCHES))
    assert printed == wanted and {"0", "1"} == set(wanted)


def _literal(value: int) -> str:
    return "INT32_MIN" if value == -(2**31) else str(value)


@pytest.mark.parametrize("fact", [
    "", "even", "p0", "p0 odd", "p3 even", "p0 p1 even", "add even", "p0 below add even", "p0 1 p1 mul even",
    "p0 64K div even", " ".join(["p0"] * (MOST_NUMBERS + 1) + ["add"] * MOST_NUMBERS + ["even"]),
    "p0 " + "1 add " * (MOST_WORDS // 2) + "even",
])  # fmt: skip
def test_meaningless_facts_are_refused(fact):
    assert fact_error(fact, 3)
    pairs = {"name": "k$pairs", "hidden_parameters": [], "block": [128, 1, 1], "shared_memory": 0,
             "cluster_blocks": [2, 1, 1], "where": [fact]}  # fmt: skip
    described = {"name": "k", "parameters": PARAMETERS, "hidden_parameters": [], "pairs": pairs}
    image = embed.Image("sm_100", True, b"//", described)
    with pytest.raises(CompileError, match="'k' is launched where"):
        image.pairs()


# ---- facts that the compiler asks for --------------------------------------------------------------------------------


def column(way: str, number: int, tall: int, wide: int) -> int:
    """The column of a tile of `swizzled_products`, as its operations have it: remainders have the sign of the
    dividend, which is never negative, and quotients are rounded down."""
    if way == "columns":
        return number // tall
    group = swizzled_products.GROUP
    rows = min(tall - number // (group * wide) * group, group)
    return number % (group * wide) // rows


@pytest.mark.parametrize("group", [2, 6])
@pytest.mark.parametrize("way", ["groups", "columns"])
def test_neighbours_have_the_same_columns_where_facts_hold(way, group, monkeypatch):
    """Check all launches, some with more tile blocks than tiles; all hold of those with even rows of tiles."""
    monkeypatch.setattr(kernels, "TILES", (128, 32, 32))
    monkeypatch.setattr(swizzled_products, "GROUP", group)
    options = {"gpu_name": "sm_100", "tensor_maps": "host"}
    (kernel,) = tileiras.compile(swizzled_products.swizzled(way), **options).kernels
    (over_tiles,) = tileiras.compile(swizzled_products.persistent(way), **options).kernels
    where = kernel.metadata["pairs"]["where"]
    taken = 0
    for tall, wide, more in itertools.product(range(8), range(4), (0, 1, 2, 12)):
        values = (0, 0, 0, 0, 0, 0, 0, 0, 0, 128 * tall, 32 * wide, 0, 0)
        grid = tall * wide + more
        if grid < 2 or grid % 2:
            continue
        holds = launch_facts.hold(where, grid, values.__getitem__)
        taken += holds
        if holds:
            places = [column(way, number, tall, wide) for number in range(grid)]
            assert places[::2] == places[1::2], (tall, wide, grid)
        assert holds or tall % 2 or not tall or not wide or more, (tall, wide)
        always = launch_facts.hold(over_tiles.metadata["pairs"]["where"], grid, values.__getitem__)
        assert not tall or not wide or always == (tall % 2 == 0), "a loop ends at the last tile"
    assert taken > 5
