"""Reports as files: HTML without requests, in which no text of a kernel is markup; Markdown, JSON, the command."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from reports import EXAMPLES, options

from tileiras.cli import tileiras_report
from tileiras.report import collect
from tileiras.report.figures import figures
from tileiras.report.highlight import lexer_of, lines
from tileiras.report.markdown import markdown
from tileiras.report.page import page

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each; fails for one that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[tuple[str, int]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.texts.append("")
        if tag not in VOID:
            self.open.append((tag, len(self.found) - 1))

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.texts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1][1]] += data

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for (name, attributes), text in zip(self.found, self.texts) if name == tag]


def test_a_page_asks_for_nothing_and_runs_only_its_own_script(saxpy):
    text = page(saxpy)
    elements = Elements(text)
    (policy,) = [a["content"] for a, _ in elements.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy and "http" not in policy
    scripts = [(a, body) for a, body in elements.all("script") if a.get("type") != "application/json"]
    for body, kind in ((scripts[0][1], "script-src"), (elements.all("style")[0][1], "style-src")):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert len(scripts) == 1
    for _, attributes in elements.found:
        assert not {"src", "style"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)


def test_numbers_of_the_page_are_those_of_the_json(saxpy, matmul):
    for report in (saxpy, matmul):
        elements = Elements(page(report))
        (data,) = [json.loads(body) for a, body in elements.all("script") if a.get("type") == "application/json"]
        for kernel, result in zip(report.kernels, data["kernels"]):
            assert result["figures"] == {each.name: each.value for each in figures(kernel)}
            shown = {a["data-figure"]: body for a, body in elements.all("td") if "data-figure" in a}
            assert shown == {each.name: each.text for each in figures(kernel)}
            assert result["timing"] == (kernel.timing.estimate if kernel.timing is not None else None)


def test_every_line_of_code_stands_in_the_page(matmul):
    (kernel,) = matmul.kernels
    text = page(matmul)
    assert text.count('<div class="l"') == sum(
        level.text.rstrip("\n").count("\n") + 1 for level in kernel.levels.values()
    )


HOSTILE = '</script><script>window.hurt=1</script><img src=x onerror="window.hurt=1"><b>&amp;]]>-->'


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A source whose comments, file name and messages are full of markup."""
    monkeypatch.chdir(tmp_path)
    name = "<img src=x onerror=hurt()>&.mlir"
    text = (EXAMPLES / "saxpy.mlir").read_text()
    (tmp_path / name).write_text(f"// {HOSTILE}\n{text}\n// {HOSTILE}\n", encoding="utf-8")
    return collect.of_source(name, options())


def test_markup_of_a_source_is_text(hostile):
    plain = collect.of_source(str(EXAMPLES / "saxpy.mlir"), options())
    text = page(hostile)

    def kinds(elements):
        """Counts elements by tag, without those of highlighting: the two added lines have some."""
        counts: dict[str, int] = {}
        for tag, attributes in elements.found:
            if tag not in ("i", "div", "rect", "title"):
                counts[tag] = counts.get(tag, 0) + 1
        return counts

    assert kinds(Elements(text)) == kinds(Elements(page(plain)))
    assert not any(name.startswith("on") for _, attributes in Elements(text).found for name in attributes)
    shown = "".join(body for _, body in Elements(text).all("i"))
    assert "window.hurt=1" in shown


def test_markup_of_a_source_does_not_get_into_markdown(hostile):
    for line in markdown(hostile).split("\n"):
        assert not re.search(r"(?<!\\)<(?:img|script|b)", line)


def test_json_in_a_page_cannot_end_its_script(hostile):
    hurt = hostile.kernels[0]._replace(places=(hostile.kernels[0].places[0]._replace(file=HOSTILE),))
    text = page(hostile._replace(kernels=(hurt._replace(levels={}, choices=(), obstacles=(), timing=None, order=()),)))
    (data,) = [body for a, body in Elements(text).all("script") if a.get("type") == "application/json"]
    assert json.loads(data)["kernels"][0]["places"][0].startswith(HOSTILE)


@pytest.mark.parametrize("level", ["source", "cuda_tile", "llvm", "ptx", "sass"])
@pytest.mark.parametrize("text", ["a\r\nb\x0bc\u2028d\n\n<x>&'\"", "", "\n\n", '"open <b>\n%x = é \U0001f600'])
def test_highlighting_keeps_lines_and_escapes(level, text):
    result = lines(text, lexer_of(level, "k.py"))
    assert len(result) == text.count("\n") + 1
    for line, value in zip(result, text.split("\n")):
        import html

        assert html.unescape(re.sub(r"</?i(?: class=\w)?>", "", line)) == value.replace("\r", " ")
        assert "<x>" not in line and "<b>" not in line


@pytest.mark.slow
def test_an_attention_kernel_is_less_than_3_mb():
    report = collect.of_source(str(EXAMPLES / "kernels/attention.py"), options())
    assert len(page(report).encode()) < 3_000_000


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_format_follows_from_the_name(tmp_path, capsys):
    source = str(EXAMPLES / "saxpy.mlir")
    for name, begins in (("r.html", "<!DOCTYPE html>"), ("r.md", "# "), ("r.json", "{")):
        assert tileiras_report.main([source, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(begins)
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["format"] == 1 and data["kernels"][0]["name"] == "saxpy"
    assert tileiras_report.main([source, "-o", str(tmp_path / "r.xyz")]) == 1
    assert "use --format" in capsys.readouterr().err


def test_a_written_page_can_be_shown(tmp_path, capsys, monkeypatch):
    import webbrowser

    shown = []
    monkeypatch.setattr(webbrowser, "open", shown.append)
    source = str(EXAMPLES / "saxpy.mlir")
    assert tileiras_report.main([source, "--open", "-o", str(tmp_path / "r.md")]) == 0
    assert shown == [(tmp_path / "r.md").as_uri()]
    assert tileiras_report.main([source, "--open", "-o", "-"]) == 1
    assert "--open shows a file" in capsys.readouterr().err and len(shown) == 1


@pytest.mark.slow
def test_a_launch_is_estimated_and_another_build_compared(tmp_path):
    launch = ["--grid", "3", "--gpu", "H200", "f32[3000]=ones", "f32[3000]=ones", "f32=2", "i32=3000"]
    source = str(EXAMPLES / "saxpy.mlir")
    arguments = [source, *launch, "--num-warps", "8", "--against", source, "-o", str(tmp_path / "r.json")]
    assert tileiras_report.main(arguments) == 0
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["kernels"][0]["options"] == {"num-warps": 8}
    assert data["kernels"][0]["timing"]["gpu"] == "H200"
    assert data["kernels"][0]["launch"]["block"][0] == 256
    rows = {row["name"]: (row["before"], row["after"]) for row in data["against"][0]["figures"]}
    assert rows["threads of a CTA"] == ("256", "256")


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (["none.mlir", "-o", "r.html"], 1, "unable to read"),
        (["bad.mlir", "-o", "r.html"], 3, "bad.mlir:1:1"),
        (["good.mlir", "-o", "good.mlir", "--format", "html"], 1, "are one file"),
        (["good.mlir", "--entry", "other", "-o", "r.html"], 2, "no kernel 'other'"),
        (["good.mlir", "--gpu-name", "sm_1", "-o", "r.html"], 2, "sm_1"),
        (["good.mlir", "i32=1", "-o", "r.html"], 1, "needs --grid"),
        (["good.mlir", "--grid", "1", "i32=1", "-o", "r.html"], 1, "argument"),
        (["good.mlir", "--grid", "1", "--gpu", "NONE", "-o", "r.html"], 2, "unknown GPU"),
        (["empty", "-o", "r.html"], 2, "no artifacts"),
        (["good.mlir", "-o", "no/folder/r.html"], 2, "unable to open"),
    ],
)
def test_mistakes_are_reported_with_their_code_and_leave_nothing(tmp_path, monkeypatch, capsys, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "good.mlir").write_bytes((EXAMPLES / "saxpy.mlir").read_bytes())
    (tmp_path / "bad.mlir").write_text("nonsense\n")
    assert tileiras_report.main(arguments) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_kernel_with_an_error_is_reported_up_to_its_stage(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_bytes((EXAMPLES / "saxpy.mlir").read_bytes())
    monkeypatch.setattr("tileiras.codegen.ptxas.find", _no_ptxas, raising=True)
    code = tileiras_report.main(["k.mlir", "-o", "r.json"])
    entry = json.loads((tmp_path / "r.json").read_text())["kernels"][0]
    assert code == 5 and "stage cubin failed" in capsys.readouterr().err
    assert [stage["outcome"] for stage in entry["stages"]][-2:] == ["failed", "not reached"]
    assert {"source", "tileas", "ptx"} <= entry["levels"].keys() and "sass" not in entry["levels"]


def _no_ptxas(*_, **__):
    from tileiras.diagnostics import CompileError

    raise CompileError.at(None, "could not find ptxas")
