"""Reports in a browser without a network: no errors, lines light up together, keys and layouts work."""

from __future__ import annotations

import json

import browser
import numpy as np
import pytest
from reports import EXAMPLES, options

from tileiras.report import collect
from tileiras.report.page import page

pytestmark = pytest.mark.skipif(browser.program() is None, reason="needs a Chromium")

KERNELS = [
    "saxpy.mlir", "matmul_f32.mlir", "transpose.mlir", "matmul_f16.py", "softmax.py", "kernels/attention.py",
    "kernels/histogram.py", "kernels/spin_lock.mlir", "kernels/prefix_sum.mlir", "bytecode/layer_norm.tileirbc",
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    result = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield result
    result.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def opened(chromium, folder, report):
    path = folder / "report.html"
    path.write_text(page(report), encoding="utf-8")
    chromium.open(path)
    return path


def visible_lines(level, kind="kept"):
    return f"""[...document.querySelectorAll('main:not([hidden]) .pane[data-level={level}] .l.{kind}')]
        .map(each => each.textContent)"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_reports_open_without_a_complaint_or_a_request(chromium, folder, name):
    report = collect.of_source(str(EXAMPLES / name), options())
    path = opened(chromium, folder, report)
    assert chromium.evaluate("document.querySelectorAll('main').length") == len(report.kernels)
    assert chromium.console == []
    assert [url for url in chromium.requests if url != path.resolve().as_uri()] == []


def test_a_click_on_a_dots_line_highlights_its_machine_code(chromium, folder, matmul):
    opened(chromium, folder, matmul)
    chromium.evaluate("""[...document.querySelectorAll('.pane[data-level=source] .l')]
        .find(each => each.textContent.includes('ct.mma(')).id = 'dot'""")
    chromium.click("#dot")
    assert any("HGMMA" in line for line in chromium.evaluate(visible_lines("sass")))
    assert any("async.dot" in line for line in chromium.evaluate(visible_lines("tileas")))
    assert any("wgmma.mma_async" in line for line in chromium.evaluate(visible_lines("ptx")))
    assert "matmul_f16.py:18" in chromium.evaluate("document.getElementById('said').textContent")
    # Code of other lines stays dark, and a second click ends the highlighting.
    assert not any("STG" in line for line in chromium.evaluate(visible_lines("sass")))
    chromium.click("#dot")
    assert chromium.evaluate(visible_lines("sass")) == []
    assert chromium.console == []


def test_lines_are_reached_with_the_keyboard(chromium, folder, saxpy):
    opened(chromium, folder, saxpy)
    chromium.evaluate("document.querySelector('.pane[data-level=source] .code').focus()")
    (kernel,) = saxpy.kernels
    line = next(n for n, text in enumerate(kernel.levels["source"].text.split("\n")) if "fma" in text and "=" in text)
    for _ in range(line + 1):
        chromium.key("ArrowDown")
    chromium.key("Enter")
    assert any("FFMA" in text for text in chromium.evaluate(visible_lines("sass")))
    active = chromium.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
    assert "fma" in chromium.evaluate(f"document.getElementById({json.dumps(active)}).textContent")
    chromium.key("Escape")
    assert chromium.evaluate(visible_lines("sass")) == []


def test_the_drawn_layout_is_the_compilers(chromium, folder, matmul):
    """For every tile: the element that the page names at a place is the one that LinearLayout puts there."""
    from tileiras.layout.linear_layout import LinearLayout

    opened(chromium, folder, matmul)
    (kernel,) = matmul.kernels
    for number, layout in enumerate(kernel.layouts):
        whole = LinearLayout.from_coordinates(layout.bases, layout.shape)
        chromium.evaluate(f"""(() => {{ const s = document.querySelector('select.layout'); s.value = '{number}';
            s.dispatchEvent(new Event('change')); document.querySelector('canvas.drawing').focus(); }})()""")
        chromium.key("ArrowRight")
        chromium.key("ArrowDown")
        drawn = chromium.evaluate("document.querySelector('.element').textContent")
        place, _, held = drawn.partition("]: ")
        at = whole.flatten([int(each) for each in place.strip("[").split(", ")])
        indices = {name: int(value) for name, value in (each.rsplit(" ", 1) for each in held.split(", "))}
        assert whole.apply(**{name: indices[name] for name in layout.bases}) == at, drawn
        if "offset" in indices:
            assert indices["bank"] == indices["offset"] * layout.bits // 32 % 32
        chromium.key("ArrowLeft")
        chromium.key("ArrowUp")


def test_markup_of_a_source_changes_nothing_in_a_browser(chromium, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = "<img src=x onerror=window.hurt=1>.mlir"
    text = "// </script><script>window.hurt=1</script><svg onload=window.hurt=1>\n"
    (tmp_path / hostile).write_text(text + (EXAMPLES / "saxpy.mlir").read_text())
    opened(chromium, folder, collect.of_source(hostile, options()))
    assert chromium.evaluate("window.hurt === undefined")
    assert "window.hurt=1" in chromium.evaluate("document.querySelector('.code').textContent")
    assert chromium.console == []


@pytest.mark.slow
def test_themes_and_kernels_are_chosen(chromium, folder):
    report = collect.of_source(str(EXAMPLES / "kernels/attention.py"), options())
    opened(chromium, folder, report)
    chromium.evaluate("""(() => { const s = document.getElementById('kernel'); s.value = 'k1';
        s.dispatchEvent(new Event('change')); })()""")
    assert chromium.evaluate("[...document.querySelectorAll('main')].map(each => each.hidden)") == [True, False]
    before = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    chromium.click("#theme")
    after = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    colours = [np.array(each.strip("rgb()").split(","), int).sum() for each in (before, after)]
    assert (colours[0] > 600) != (colours[1] > 600)
