"""The examples of the documentation do what they say."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest
from conftest import write_run

pytest.importorskip("pandas")


def test_the_examples_print_what_stands_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Path(os.environ.get("IOTIDE_REPOSITORY", Path(__file__).parents[3]))
    examples = re.findall(r"```python\n(.*?)```", (repository / "docs/python.md").read_text(), re.S)
    assert len(examples) >= 8
    write_run(tmp_path / "run.csv")
    write_run(tmp_path / "slow.csv", period_s=14.0)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    n_compared = 0
    for example in examples:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(example, "docs/python.md", "exec"), names)
        for stated in re.findall(r"^print\(.*\)\s+# (True|False|[-0-9.\[][^:]*?)(?::.*)?$", example, re.M):
            n_compared += 1
            assert stated in said.getvalue(), example
    assert n_compared >= 8
