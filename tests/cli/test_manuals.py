"""Help, completion and man pages are made from one table per command."""

import shutil
import subprocess

import pytest

from tileiras.cli import completion, driver_options, manual, tileiras
from tileiras.cli.command_line import Spec
from tileiras.options import OPTIONS

MANUALS = {program: manual.manual_of(program) for program in manual.PROGRAMS}


def test_every_installed_command_has_a_manual():
    from importlib.metadata import files

    scripts = {each.name for each in files("tileiras") or () if "bin" in each.parts and each.name.startswith("tile")}
    assert not scripts or scripts <= set(manual.PROGRAMS)
    assert all(one.program == program and one.summary and one.rows for program, one in MANUALS.items())


def test_every_option_of_the_compiler_is_in_one_group():
    grouped = [name for names in driver_options.GROUPS.values() for name in names.split()]
    known = [spec.name for spec in (*driver_options.VENDOR, *driver_options.OWN, *driver_options.COMPILER)]
    assert sorted(grouped) == sorted(known)


@pytest.mark.parametrize("program", MANUALS)
@pytest.mark.parametrize("width", [manual.NARROWEST, 80, manual.WIDEST])
def test_help_fits(program, width):
    text = manual.help_text(MANUALS[program], width)
    # Long spellings have a line of their own, and examples are to be copied.
    longest = max(len(row.spelled) + 2 for row in MANUALS[program].rows)
    for line in text.splitlines():
        assert len(line) <= max(width, longest) or line.startswith("    "), line


@pytest.mark.parametrize("program", MANUALS)
def test_every_option_is_reported_everywhere(program):
    one = MANUALS[program]
    page, scripts = manual.man_page(one), {shell: completion.completion(shell) for shell in completion.SHELLS}
    help_text = manual.help_text(one)
    for row in one.rows:
        for name in row.names:
            assert name in help_text and name.replace("-", "\\-") in page
            assert f" {name}" in scripts["bash"] or f'"{name}' in scripts["bash"]
            assert f"'*{name}" in scripts["zsh"]
        assert row.doc, row


def test_compiler_options_reach_the_commands_that_take_them():
    for program in ("tileiras-check", "tileiras-report", "tileiras-sweep", "tileiras-embed"):
        names = {name for row in MANUALS[program].rows for name in row.names}
        assert {"--num-warps", "--tensor-maps", "--ptx-version"} <= names
    (row,) = [row for row in MANUALS["tileiras"].rows if "--gpu-name" in row.names]
    assert row.words == tuple(OPTIONS["gpu-name"].choices) and "--arch" in row.names


def completed(words: list[str]) -> list[str]:
    """The completions of the last word in bash."""
    array = " ".join(f"'{word}'" for word in words)
    script = completion.completion("bash") + (
        f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _tileiras {words[0]}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("words, offered", [
    (["tileiras", "k.mlir", "--gpu-n"], ["--gpu-name"]),
    (["tileiras", "--gpu-name", "sm_10"], ["sm_100", "sm_103", "sm_107"]),
    (["tileiras", "--emit", "=", "pt"], ["ptx"]),
    (["tileiras-opt", "--tileas-assign-num"], ["--tileas-assign-num-warps"]),
    (["tileiras-run", "--backend", "e"], ["emulate", "estimate"]),
    (["tileiras", "doc"], ["doctor"]),
])  # fmt: skip
def test_bash_completes(tmp_path, monkeypatch, words, offered):
    monkeypatch.chdir(tmp_path)
    assert completed(words) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    (tmp_path / "script").write_text(completion.completion(shell))
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_fish_gets_a_line_for_every_option():
    lines = completion.completion("fish").splitlines()
    count = sum(len(one.rows) + len(one.verbs) for one in MANUALS.values())
    assert len(lines) == count + 1 and all(line.count("'") % 2 == 0 or "\\'" in line for line in lines)


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
@pytest.mark.parametrize("program", ["tileiras", "tileiras-cache", "tileiras-opt"])
def test_man_pages_are_formatted_without_a_warning(tmp_path, program):
    (tmp_path / "page.1").write_text(manual.man_page(MANUALS[program]))
    command = ["groff", "-man", "-Tascii", "-ww", str(tmp_path / "page.1")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "" and program.upper() in done.stdout


def test_a_line_that_begins_like_a_request_is_text():
    row = manual.row_of(Spec("x", str, ".mlir and 'quotes' are text", "file"))
    page = manual.man_page(manual.Manual("p", "s", "p", ".TH", (row,)))
    assert "\\&.mlir" in page and "\n\\&.TH\n" in page


def test_verbs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert tileiras.main(["man", "tileirdisasm"]) == 0
    assert capsys.readouterr().out.startswith(".TH TILEIRDISASM 1")
    assert tileiras.main(["man", "--all", "pages"]) == 0
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == sorted(f"{name}.1" for name in MANUALS)
    assert tileiras.main(["completion", "tcsh"]) == 1
    assert capsys.readouterr().err == "tileiras completion: error: a shell is expected: bash, zsh, fish\n"
    assert tileiras.main(["man", "nothing"]) == 1
    capsys.readouterr()
    (tmp_path / "man").write_bytes(b"no bytecode")  # a file of the name is the input, as for the vendor's tool
    assert tileiras.main(["man", "--gpu-name=sm_90"]) == 3


@pytest.mark.parametrize("program", MANUALS)
def test_every_command_tells_its_version_and_the_toolkits(program, capsys):
    import importlib

    module = importlib.import_module(manual.PROGRAMS[program])
    main = tileiras.main if program == "tileiras" else module.main
    assert main(["--version"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    if program in ("tileiras", "tileirdisasm"):  # the two that replace NVIDIA's
        assert lines.pop(0).startswith("Command line of Cuda compilation tools, release 13.5")
    bytecode, *tools = lines
    assert first.startswith(f"{program} ") and bytecode.startswith("Tile IR bytecode 13.1 to ")
    assert [line.split()[0] for line in tools][:3] == ["ptxas", "libdevice", "nvdisasm"]
