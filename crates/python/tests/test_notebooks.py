"""The notebooks run, and their answers are pages in what nbconvert makes of them."""

from __future__ import annotations

import asyncio
import html
import os
import re
from pathlib import Path
from typing import Any, List

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
nbconvert = pytest.importorskip("nbconvert")

# How many answers each shows.
PAGES = {"darshan-log": 2, "live-job": 0, "scaling": 1}


def test_notebooks_run_and_show_their_answers_as_pages(tmp_path: Path) -> None:
    repository = Path(os.environ.get("IOTIDE_REPOSITORY", Path(__file__).parents[3]))
    paths = sorted((repository / "crates/python/notebooks").glob("*.ipynb"))
    assert [path.stem for path in paths] == sorted(PAGES)
    notebooks = [nbformat.read(path, 4) for path in paths]
    for path, notebook in zip(paths, notebooks):
        assert not any(cell.get("outputs") for cell in notebook.cells), f"{path.name} is kept without outputs"

    async def run(path: Path, notebook: Any) -> None:
        folder = tmp_path / path.stem
        folder.mkdir()
        await nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).async_execute()

    async def run_all() -> List[Any]:
        # Side by side: most of the time they wait.
        return await asyncio.gather(*map(run, paths, notebooks), return_exceptions=True)

    for path, fault in zip(paths, asyncio.run(run_all())):
        assert fault is None, f"{path.name}: {fault}"
    for path, notebook in zip(paths, notebooks):
        page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
        frames = [html.unescape(frame) for frame in re.findall(r'<iframe [^>]*srcdoc="([^"]*)"', page)]
        assert len(frames) == PAGES[path.stem], path.name
        assert any("<svg" in frame for frame in frames) == (path.stem == "darshan-log")
        for frame in frames:
            assert frame.startswith("<!DOCTYPE html>") and frame.rstrip().endswith("</html>")
            assert not any(word in frame for word in ['src="http', 'href="http', "@import"])
