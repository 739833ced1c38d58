"""Traces that the tests make, and the command line beside which answers are held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import pytest


def command_line(*args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the program `iotide` that came with the package."""
    program = [sys.executable, "-m", "iotide", *args]
    # As wide as answers are in Python.
    environment = {**os.environ, "COLUMNS": "100"}
    ended = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert not check or ended.returncode in (0, 1), ended.stderr
    return ended


@pytest.fixture
def document() -> Callable[..., Dict[str, Any]]:
    """The document of a command, as the command line writes it."""

    def asked(*args: str) -> Dict[str, Any]:
        answer: Dict[str, Any] = json.loads(command_line(*args, "--format=json").stdout)
        return answer

    return asked


def write_run(path: Path, period_s: float = 10.0, n_phases: int = 20, n_ranks: int = 2) -> Path:
    """A run that writes 100 MB per rank and phase."""
    rows = ["# runtime_s=%g" % (period_s * n_phases), f"# nprocs={n_ranks}", "rank,op,start,end,bytes,file"]
    for phase in range(n_phases):
        for rank in range(n_ranks):
            start = phase * period_s
            rows.append(f"{rank},write,{start},{start + 1.5},100000000,/scratch/out.{rank}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run.csv")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    return write_run(tmp_path / "slow.csv", period_s=14.0)


@pytest.fixture
def logs() -> Path:
    """Darshan logs that are not the project's; a test that needs one says so when they are not there."""
    repository = Path(os.environ.get("IOTIDE_REPOSITORY", Path(__file__).parents[3]))
    shared = repository.parent / "shared" / "data"
    if not shared.is_dir():
        log = os.environ.get("IOTIDE_SKIPPED_LOG")
        if log:
            with open(log, "a", encoding="utf-8") as skipped:
                skipped.write("data\tcrates/python/tests\tof Darshan\n")
        pytest.skip("no Darshan logs")
    return shared
