"""The examples of docs/library.md run as they stand, one after the other."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_examples_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    examples = re.findall(r"```python\n(.*?)```", Path("docs/library.md").read_text(), re.DOTALL)
    assert len(examples) == 7
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "used by ['cuda_tile.store_ptr_tko']" in printed
    assert "define" in printed
    assert "3 <input>:1:46: error: " in printed
    assert "addf" in names["print_op"](names["module"])  # what was built
