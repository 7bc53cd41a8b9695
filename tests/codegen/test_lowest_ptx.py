"""The PTX of every example is of the lowest version that ptxas accepts for its instructions and target."""

import re
import subprocess
from pathlib import Path

import pytest

import tileiras
from tileiras.codegen import toolkit
from tileiras.codegen.target_machine import processor
from tileiras.targets.drivers import DRIVERS, cuda_for

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted([*FOLDER.glob("*.mlir"), *(FOLDER / "bytecode").glob("*.tileirbc")])
VERSIONS = [row.ptx for row in DRIVERS]


def accepted(text: str, version: tuple[int, int], folder: Path) -> bool:
    source = folder / "k.ptx"
    source.write_text(re.sub(r"\.version \d+\.\d+", ".version {}.{}".format(*version), text, count=1))
    target = re.search(r"\.target (\w+)", text)[1]
    command = [toolkit.find_program("ptxas"), f"-arch={target}", str(source), "-o", "/dev/null", "-O0"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.sampled(8)
def test_the_version_is_the_lowest(path, gpu, tmp_path):
    options = {"legalize_types": True}
    text = tileiras.compile(path, gpu_name=gpu, **options).text
    version = tuple(map(int, re.search(r"\.version (\d+)\.(\d+)", text).groups()))
    target = re.search(r"\.target (\w+)", text)[1]
    assert accepted(text, version, tmp_path)
    if version > processor(target).ptx:
        assert not accepted(text, VERSIONS[VERSIONS.index(version) - 1], tmp_path)


def test_versions_and_releases_ascend():
    assert VERSIONS == sorted(VERSIONS) and [row.cuda for row in DRIVERS] == sorted(row.cuda for row in DRIVERS)
    assert cuda_for((7, 0)) == (11, 0) and cuda_for((8, 6)) == (12, 7) and cuda_for((10, 0)) == (13, 5)
