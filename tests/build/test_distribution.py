"""The package as installers get it: metadata, and in the slow tests the contents of wheel and sdist.

`test_wheel.py` installs a wheel and uses it.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tileiras.support.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def long_description(source: str | None) -> str:
    spec = importlib.util.spec_from_file_location("tileiras_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.long_description((ROOT / "README.md").read_text(encoding="utf-8"), source)


@pytest.mark.parametrize("source", [None, "https://example.org/tileiras/"])
def test_links_of_the_long_description_are_absolute(source):
    text = long_description(source)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all(link.startswith("https://") for link in links)
    assert ("https://example.org/tileiras/blob/main/docs/build.md" in links) == (source is not None)
    assert "docs/build.md" in text


def packages_of(extra: str) -> set[str]:
    """The names of an extra's packages, those of the extras that it names included."""
    packages = set()
    for word in PROJECT["optional-dependencies"][extra]:
        own = re.match(r"tileiras\[(.*)\]", word)
        packages |= set().union(*map(packages_of, own[1].split(","))) if own else {re.match(r"[\w-]+", word)[0]}
    return packages


def test_the_extra_all_brings_every_ability():
    assert packages_of("all") == {package for packages in EXTRAS.values() for package in packages}
    for extra, packages in EXTRAS.items():
        assert packages_of(extra) == set(packages)


def test_metadata():
    assert PROJECT["license"] == "Apache-2.0 WITH LLVM-exception"
    assert not [word for word in PROJECT["classifiers"] if word.startswith("License")]  # refused beside an expression
    named = {word.rpartition(" :: ")[2] for word in PROJECT["classifiers"] if ":: 3." in word}
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named
    assert all(">=" in word for word in PROJECT["dependencies"])


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> dict[str, Path]:
    """The wheel, made from the sdist, so that the sdist is complete for it."""
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    process = subprocess.run(
        [sys.executable, "-c", "import setuptools; print(setuptools.__version__.split('.')[0])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if int(process.stdout) < 77:
        target = folder / "setuptools"
        subprocess.run([*pip, "install", "--target", target, "setuptools>=77", "wheel"], check=True)
        environment = {**os.environ, "PYTHONPATH": str(target)}
    else:
        environment = dict(os.environ)
    hook = "from setuptools import build_meta; import sys; print(build_meta.build_sdist(sys.argv[1]))"
    command = [sys.executable, "-c", hook, str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    command = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    subprocess.run(command, check=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    return {"sdist": source, "wheel": wheel}


def tracked(under: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", under], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@pytest.mark.slow
def test_they_carry_everything(distributions):
    wanted = tracked(".")
    assert not [name for name in wanted if not (distributions["sdist"] / name).exists()
                and not name.startswith("cache/") and name != ".gitignore"]  # fmt: skip
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        names = set(wheel.namelist())
    scripts = {name for name in tracked("tileiras/bin")}
    assert tracked("tileiras") - names - scripts == set()
    assert {Path(name).name for name in scripts} <= {Path(name).name for name in names}


@pytest.mark.slow
def test_the_sdist_runs_its_tests(distributions):
    """A part of them that compiles, reads pages and starts commands."""
    some = ["tests/test_pages.py", "tests/test_library_page.py", "tests/cli/test_usage_errors.py", "tests/bytecode"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *some]
    environment = {**os.environ, "PYTHONPATH": str(distributions["sdist"]), "TILEIRAS_CACHE_DIR": "off"}
    done = subprocess.run(
        command, cwd=distributions["sdist"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
def test_the_metadata_is_valid(distributions):
    """As package indices check it on an upload: fields of the core metadata, each in its form."""
    metadata = pytest.importorskip("packaging.metadata")
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        data = wheel.read(name)
    message = metadata.Metadata.from_email(data, validate=True)
    assert message.name == "tileiras" and message.description_content_type == "text/markdown"
    assert message.license_expression == PROJECT["license"] and message.license_files == PROJECT["license-files"]
    assert message.project_urls == PROJECT["urls"]
    assert all(url.startswith("https://") for url in message.project_urls.values())
    assert message.description.startswith("# tileiras\n")
    assert set(message.provides_extra) == set(PROJECT["optional-dependencies"])
