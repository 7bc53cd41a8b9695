"""Kernels in a C++ build, and the loader against a stand-in for the driver."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from project import CHECKOUT, Project, axpy, module

from tileiras import cpp_folder
from tileiras.diagnostics import CompileError
from tileiras.stages import embed, fatbin
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")

WARNINGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return str(tmp_path_factory.mktemp("store"))


def scons(folder, store: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": CHECKOUT, "TILEIRAS_CACHE_DIR": store},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A folder with a libcuda.so.1 that runs no kernels; its device has compute capability 8.9."""
    folder = tmp_path_factory.mktemp("driver")
    source = os.path.join(CHECKOUT, "tests", "runtime", "driver_stand_in.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), source], check=True)
    return str(folder)


# ---- the example -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(host() is None, reason="no target for this machine")
def test_the_example_builds_and_computes_without_gpu(tmp_path, store):
    left_out = shutil.ignore_patterns("build", "kernels", "*.py")
    shutil.copytree(os.path.join(CHECKOUT, "examples"), tmp_path / "examples", ignore=left_out)
    folder = tmp_path / "examples" / "cpp_app"
    result = scons(folder, store)
    assert result.count("  EMBED ") == 2 and "warning" not in result
    listed = subprocess.run([folder / "build" / "app", "--list"], capture_output=True, text=True, check=True).stdout
    assert [line.split(",")[0] for line in listed.splitlines() if "PTX" in line] == [
        "saxpy: sm_80 PTX", "saxpy: sm_90 PTX", "relu_add_2d: sm_80 PTX", "relu_add_2d: sm_90 PTX",
    ]  # fmt: skip
    assert listed.count(" object, ") == 2
    # On the GPU, or on the processor where there is none.
    alone = subprocess.run([folder / "build" / "app"], env={}, capture_output=True, text=True, check=True)
    assert alone.stdout.count("are right") == 2
    assert scons(folder, store) == "scons: `build/app' is up to date.\n"

    def edit(old: str, new: str) -> list[str]:
        path = tmp_path / "examples" / "saxpy.mlir"
        path.write_text(path.read_text().replace(old, new))
        return [line.split()[0] + " " + line.split()[2] for line in scons(folder, store).splitlines()
                if not line.startswith("  ") and line.startswith(("c++", "g++"))]  # fmt: skip

    assert edit("// One pointer", "// A comment more.\n    // One pointer") == []
    # Another image: the header stays, so files that include it are not rebuilt.
    assert edit("fma %a_tile, %xs, %ys", "fma %xs, %xs, %ys") == ["g++ build/kernels_images.o", "g++ build/app"]


def test_header_object_and_library_are_nodes_of_any_build(tmp_path, store):
    project = Project(tmp_path, store=store)
    project.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
    project.write("main.cpp", '#include "tiles.h"\nint main() { return tiles::first_kernel.image_count != 2; }\n')
    project.write("SConstruct", """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ, CXXFLAGS=["-std=c++17"], LIBS=["dl"])
env.TileHeader("tiles.h", "kernels/k.mlir", sm="sm_80,sm_90")
env.Default(env.Program("app", ["main.cpp", env.TileObject("tiles", "kernels/k.mlir", sm="sm_80,sm_90")]))
""")  # fmt: skip
    project.scons()
    subprocess.run([project.path("app")], check=True)
    project.write("SConstruct", project.read("SConstruct").decode().replace("sm=", 'emit="tileaa", sm='))
    assert "emit=tileaa: accepted are ptx, cubin, fatbin" in project.scons(expect=2).errors


def test_arrays_of_cutile_kernels_have_names_in_the_header(tmp_path, store):
    pytest.importorskip("cuda.tile")
    project = Project(tmp_path, store=store)
    for name in ("vector_add.py", "kernels/matmul_grouped.py"):
        shutil.copy(os.path.join(CHECKOUT, "examples", name), project.path("kernels"))
    project.write("kernels/words.py", """\
import cuda.tile as ct
import cuda.tile.compilation

@ct.kernel
def k(grid, pair, scale, N: ct.Constant[int]):
    ct.store(grid, index=(0, 0), tile=ct.full((N, N), pair[1], ct.float32) * scale)

TILEIRAS_EXPORT = {"words": (k, "f32[?, 8*?]", (1, ct.compilation.ScalarConstraint(ct.float32)), "f32", 16)}
""")  # fmt: skip
    project.write("main.cpp", '#include "tiles.h"\nint main() { return tiles::words_kernel.image_count != 2; }\n')
    project.write("SConstruct", """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ, CXXFLAGS=["-std=c++17", "-Wall", "-Wextra", "-Werror"])
sources = ["kernels/vector_add.py", "kernels/matmul_grouped.py", "kernels/words.py"]
env.Default(env.Program("app", ["main.cpp", env.TileLibrary("tiles", sources, sm="sm_80,sm_90")]))
""")  # fmt: skip
    project.scons()
    text = project.read("tiles.h").decode()
    declared = dict(re.findall(r"^inline tileiras::Error (\w+)\((.*), tileiras::Grid", text, re.MULTILINE))
    arrays = [f"float *{x}, std::int32_t {x}_size0, std::int32_t {x}_stride0" for x in "abc"]
    assert declared["vector_add"] == ", ".join(arrays)
    assert declared["matmul_grouped"].startswith("std::int64_t *lefts, std::int32_t lefts_length, ")
    sizes = ", ".join(f"std::int32_t grid_{word}" for word in ("size0", "size1", "stride0", "stride1"))
    assert declared["words"] == f"float *grid_, {sizes}, float pair_1, float scale"
    # The names are part of the header only.
    source = project.read("kernels/words.py").decode()
    project.write("kernels/words.py", source.replace("scale", "times"))
    output = project.scons().output
    assert "float times" in project.read("tiles.h").decode()
    assert "PTX" not in output and "EMBED    tiles.h" in output and "main.o" in output


# ---- the texts -------------------------------------------------------------------------------------------------------


def image(name: str, *types: str, target: str = "sm_80", data: bytes = b"//\n", **changes) -> embed.Image:
    sizes = {"i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "f8E4M3FN": 1}
    parameters, offset = [], 0
    for number, kind in enumerate(types):
        size = sizes.get(kind, 8)
        offset += -offset % size
        parameters.append({"name": f"{name}_param_{number}", "type": kind, "offset": offset, "size": size})
        offset += size
    kernel = {
        "name": name, "parameters": parameters, "hidden_parameters": [], "block": [128, 1, 1], "cluster": [1, 1, 1],
        "blocks_are_clusters": False, "shared_memory": 0, "tile_launch": False, **changes,
    }  # fmt: skip
    return embed.Image.of(data, json.dumps({"target": target, "kernels": [kernel]}).encode())


def test_types_are_those_of_cpp_or_bits():
    types = ["ptr<f32>", "ptr<f16>", "ptr<ptr<f32>>", "i8", "f16", "f64", "f8E4M3FN", "i64"]
    expected = (
        "tileiras::Error k(float *p0, void *p1, void *p2, std::int8_t p3, std::uint16_t p4, double p5, "
        "std::uint8_t p6, std::int64_t p7, tileiras::Grid grid, tileiras::Stream stream = nullptr) {"
    )
    assert expected in embed.header([image("k", *types)], "n").decode()


def test_names_that_cpp_does_not_have_are_changed_and_unique():
    names = [embed.identifier(name) for name in ("plain", "class", "_Z3fooIfE$1", "9lives", "grid")]
    assert names == ["plain", "class_", "Z3fooIfE_1", "kernel_9lives", "grid_"]
    text = embed.header([image("a.b"), image("a$b")], "n").decode()
    assert "tileiras::Error a_b(" in text and "tileiras::Error a_b_2(" in text


def test_targets_that_disagree_and_hidden_parameters_are_refused():
    with pytest.raises(CompileError, match="kernel 'k' has other parameters on sm_90"):
        embed.header([image("k", "i32"), image("k", "i64", target="sm_90")], "n")
    with pytest.raises(CompileError, match="cannot fill: no tensor map: 'the weather'"):
        image("k", hidden_parameters=[{"fill": "the weather"}])
    with pytest.raises(CompileError, match="kernel 'k' has no parameter that"):
        image("k", "ptr<f32>", hidden_parameters=[{"fill": "tensor_map element=f32 address=p0 dims=p1 box=8"}])


# ---- the loader ------------------------------------------------------------------------------------------------------

HARNESS = """\
#include "k.h"
#include <cstdio>
#include <dlfcn.h>
int main() {
    unsigned char memory[8] = {};
    const tileiras::Error error = k::k(reinterpret_cast<float *>(memory), 7, {2, 3});
    std::printf("%d %s\\n", error.code, error.text.c_str());
    k::k(reinterpret_cast<float *>(memory), 8, {1}, reinterpret_cast<void *>(5));
    if (void *driver = dlopen("libcuda.so.1", RTLD_NOW))
        std::printf("%s", reinterpret_cast<const char *(*)()>(dlsym(driver, "stand_in_log"))());
}
"""


def run(folder, images: list[embed.Image], driver: str | None) -> list[str]:
    """The output of the harness; it and the images are one translation unit, whose headers are compiled once."""
    (folder / "k.h").write_bytes(embed.header(images, "k"))
    (folder / "images.cpp").write_bytes(embed.source(images, "k"))
    (folder / "main.cpp").write_text(HARNESS + '#include "images.cpp"\n')
    subprocess.run(["c++", *WARNINGS, f"-I{cpp_folder()}", "main.cpp", "-o", "app", "-ldl"], cwd=folder, check=True)
    environment = {"LD_LIBRARY_PATH": driver} if driver is not None else {}
    done = subprocess.run(["./app"], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_launch_loads_one_image_and_packs_the_arguments(tmp_path, stand_in):
    images = [
        image("k", "ptr<f32>", "i32", target="sm_75"),
        image("k", "ptr<f32>", "i32", target="sm_90", data=b"\x7fELF"),
        image("k", "ptr<f32>", "i32", target="sm_86", data=b"\x7fELF", shared_memory=60_000, block=[96, 1, 1]),
    ]
    first, *log = run(tmp_path, images, stand_in)
    assert first == "0 "
    assert log[:8] == [
        "init 0", "retain 0", "push", "load cubin", "function k", "attribute 8 = 60000",
        "launch grid 2 3 1 block 96 1 1 shared 60000 stream 0", log[7],
    ]  # fmt: skip
    assert log[7].startswith("parameters ") and log[7].endswith(" 07 00 00 00")
    assert log[8:] == ["pop", "push", "launch grid 1 1 1 block 96 1 1 shared 60000 stream 5", log[11], "pop"]


def test_images_of_a_fat_binary_are_one_module(tmp_path, stand_in):
    needs = [("cubin", "sm_80", 32), ("cubin", "sm_86", 64), ("cubin", "sm_90", 96), ("ptx", "sm_90", 128)]
    kernels = [dict(image("k", "ptr<f32>", "i32", block=[threads, 1, 1]).description) for _, _, threads in needs]
    described = [{"form": form, "target": target, "kernels": [kernel]}
                 for (form, target, _), kernel in zip(needs, kernels, strict=True)]  # fmt: skip
    images = embed.Image.all_of(fatbin.build([]), json.dumps({"images": described}).encode())
    first, *log = run(tmp_path, images, stand_in)
    assert first == "0 " and log.count("load fatbin") == 1
    assert "launch grid 2 3 1 block 64 1 1 shared 0 stream 0" in log
    assert (tmp_path / "images.cpp").read_text().count("alignas(16)") == 1


def test_a_cluster_is_a_tile_block(tmp_path, stand_in):
    _, *log = run(tmp_path, [image("k", "ptr<f32>", "i32", cluster=[2, 1, 1])], stand_in)
    assert "launch grid 4 3 1 block 128 1 1 shared 0 stream 0 attribute 4: 2 1 1" in log


def test_ctas_with_multicast_are_clusters_if_the_grid_divides(tmp_path, stand_in):
    _, *log = run(tmp_path, [image("k", "ptr<f32>", "i32", cluster_blocks=[2, 1, 1])], stand_in)
    launches = [line for line in log if line.startswith("launch grid")]
    assert launches == [
        "launch grid 2 3 1 block 128 1 1 shared 0 stream 0 attribute 4: 2 1 1",
        "launch grid 1 1 1 block 128 1 1 shared 0 stream 5",
    ]


def test_a_grid_of_pairs_starts_the_kernel_for_pairs(tmp_path, stand_in):
    fill = "tensor_map element=f32 address=p0 dims=p1,64 strides=p1 box=32,8"
    hidden = [{"offset": 64, "size": 128, "fill": fill}]
    pairs = {"name": "k$pairs", "hidden_parameters": hidden, "block": [160, 1, 1], "shared_memory": 50_000,
             "cluster_blocks": [2, 1, 1]}  # fmt: skip
    _, *log = run(tmp_path, [image("k", "ptr<f32>", "i32", pairs=pairs)], stand_in)
    assert [line for line in log if line.startswith(("load", "function", "launch grid", "attribute"))] == [
        "load ptx", "function k$pairs", "attribute 8 = 50000",
        "launch grid 2 3 1 block 160 1 1 shared 50000 stream 0 attribute 4: 2 1 1",
        "function k", "launch grid 1 1 1 block 128 1 1 shared 0 stream 5",
    ]  # fmt: skip
    sizes = [len(line.split()) - 1 for line in log if line.startswith("parameters")]
    assert sizes == [192, 12], "each has its own hidden parameters"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("fact", "threads"), [
    ("p1 even", 128), ("p1 1 add even", 160), ("p1 4 ceildiv even", 160), ("p1 -3 mul 22 add positive", 160),
    ("p1 grid below 5 mul sub positive", 160), ("p1 grid below 7 mul sub positive", 128),
])  # fmt: skip
def test_arguments_decide_whether_the_pair_kernel_starts(fact, threads, tmp_path, stand_in):
    """The harness launches with 7, over two tile blocks."""
    pairs = {"name": "k$pairs", "hidden_parameters": [], "block": [160, 1, 1], "shared_memory": 0,
             "cluster_blocks": [2, 1, 1], "where": ["grid even", fact]}  # fmt: skip
    _, *log = run(tmp_path, [image("k", "ptr<f32>", "i32", pairs=pairs)], stand_in)
    first = next(line for line in log if line.startswith("launch grid"))
    assert first.split()[6] == f"{threads}"


def test_tensor_maps_are_made_of_the_other_arguments(tmp_path, stand_in):
    fills = ["tensor_map element=f32 address=p0 dims=p1,64 strides=p1 box=32,8 swizzle=128 oob=nan",
             "tensor_map element=i8 address=p0 dims=256 box=128 l2=128"]  # fmt: skip
    hidden = [{"offset": 64 + 128 * number, "size": 128, "fill": fill} for number, fill in enumerate(fills)]
    images = [image("k", "ptr<f32>", "i32", target="sm_80", hidden_parameters=hidden)]
    first, *log = run(tmp_path, images, stand_in)
    assert first == "0 "
    assert [line for line in log if line.startswith("tensor map")][:2] == [
        "tensor map type 7 dims 7 64 strides 28 box 32/1 8/1 interleave 0 swizzle 3 l2 0 oob 1",
        "tensor map type 0 dims 256 strides box 128/1 interleave 0 swizzle 0 l2 2 oob 0",
    ]  # fmt: skip
    words = next(line for line in log if line.startswith("parameters")).split()[1:]
    assert words[8:12] == ["07", "00", "00", "00"] and words[64:] == ["5a"] * 256


def test_launches_without_a_fitting_image_are_reported(tmp_path, stand_in):
    first, *_ = run(tmp_path, [image("k", "ptr<f32>", "i32", target="sm_90a")], stand_in)
    assert first == "-3 k has no image for a device of compute capability 8.9, only sm_90a PTX"


def test_images_are_chosen_as_the_driver_would_take_them(tmp_path):
    rows = [
        ("sm_80", "ptx", 89, True), ("sm_90", "ptx", 89, False), ("sm_80", "cubin", 89, True),
        ("sm_80", "cubin", 90, False), ("sm_90a", "ptx", 90, True), ("sm_90a", "ptx", 100, False),
        ("sm_90a", "cubin", 90, True), ("sm_100f", "ptx", 103, True), ("sm_100f", "ptx", 120, False),
        ("sm_121", "cubin", 120, False), ("sm_75", "ptx", 121, True),
    ]  # fmt: skip
    better = [("sm_86", "ptx", "sm_80", "cubin", 89), ("sm_90a", "cubin", "sm_90", "cubin", 90),
              ("sm_90", "cubin", "sm_90", "ptx", 90)]  # fmt: skip
    lines = ["#include <tileiras.hpp>", "using namespace tileiras;",
             "int s(const char *t, bool ptx, int d) {"
             " Image i = {}; i.target = t; i.ptx = ptx; return detail::suitability(i, d); }",
             "int main() { int n = 0;"]  # fmt: skip
    for target, kind, device, runs in rows:
        sign = ">=" if runs else "<"
        lines.append(f'n++; if (!(s("{target}", {str(kind == "ptx").lower()}, {device}) {sign} 0)) return n;')
    for a, a_kind, b, b_kind, device in better:
        left, right = (f's("{t}", {str(k == "ptx").lower()}, {device})' for t, k in ((a, a_kind), (b, b_kind)))
        lines.append(f"n++; if (!({left} > {right})) return n;")
    (tmp_path / "s.cpp").write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run(["c++", *WARNINGS, f"-I{cpp_folder()}", "s.cpp", "-o", "s", "-ldl"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "s"], check=False).returncode == 0


# ---- the page --------------------------------------------------------------------------------------------------------

HEADERS = [
    os.path.join(cpp_folder(), name) for name in ("tileiras_driver.hpp", "tileiras.hpp", "tileiras_cpu.hpp")
]


def test_the_first_example_of_the_page_builds_without_warning(tmp_path, store):
    with open(os.path.join(CHECKOUT, "docs", "cpp.md"), encoding="utf-8") as file:
        text = file.read()
    sconstruct, main = (re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1] for language in ("python", "cpp"))
    project = Project(tmp_path, store=store)
    project.write("SConstruct", sconstruct)
    project.write("main.cpp", main)
    for name in re.findall(r'"(\w+\.mlir)"', sconstruct):
        shutil.copy(os.path.join(CHECKOUT, "examples", name), tmp_path)
    assert "-Wall" in sconstruct and "-Wextra" in sconstruct
    build = project.scons()
    assert build.errors == "" and "warning" not in build.output
    alone = subprocess.run([tmp_path / "build" / "app"], env={}, capture_output=True, text=True, check=True)
    assert alone.stdout in ("done\n", "nothing is computed here: there is no CUDA driver here\n")
    for strict in (["-Wpedantic", "-Wconversion", "-Wshadow", "-Wold-style-cast"], ["-std=c++20", "-O2"]):
        command = ["c++", *WARNINGS, *strict, f"-I{cpp_folder()}", "-Ibuild", "-fsyntax-only"]
        subprocess.run([*command, "main.cpp", "build/kernels_images.cpp"], cwd=tmp_path, check=True)


def public_declarations(text: str) -> dict[str, bool]:
    """The names that a header declares outside of `detail`, and whether each follows a comment."""
    introduced = r"(?:extern|inline|struct|enum|using|template)\b"
    declaration = re.compile(introduced + r"(?:[^=({:;]|::)*?(\w+)(?:\[\])?\s*(?=[=({;]|:[^:])")
    result: dict[str, bool] = {}
    inside, before = False, ""
    for line in text.split("\n"):
        if line.startswith(("namespace ", "}  // namespace ")):
            inside = line.startswith("}") != ("detail" not in line)
        declared = declaration.match(line)
        if inside and declared:
            result[declared.group(1)] = before.lstrip().startswith("///")
        before = line
    return result


def test_every_name_of_the_headers_is_documented():
    declared = {}
    for header in HEADERS:
        with open(header, encoding="utf-8") as file:
            declared |= public_declarations(file.read())
    with open(os.path.join(CHECKOUT, "docs", "cpp.md"), encoding="utf-8") as file:
        page = file.read()
    assert {"Error", "Buffer", "launch", "available", "Kernel"} <= declared.keys()
    assert [name for name, documented in declared.items() if not documented] == []
    assert [name for name in declared if not re.search(rf"`{name}\b", page)] == []
    names = b'{"k": ["a", "a_size0", "a_stride0", "s"]}'
    named = embed.with_file_names([image("k", "ptr<f16>", "i32", "i32", "f32")], [names])
    text = embed.header(named, "n").decode()
    assert public_declarations(text) == {"k_kernel": True, "k_needs": True, "k": True}
    assert "/// @param a memory of the device, f16; an array of rank 1 with `a_sizeN` elements along N" in text
    other = [image("k", "i32")]
    assert embed.with_file_names(other, [b'{"k": ["a", "b"]}']) == other
