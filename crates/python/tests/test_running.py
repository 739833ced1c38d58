"""Programs that run: recording, prediction, counters, Ctrl-C, and the program itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, List

import iotide
import pytest
from conftest import command_line, write_run

WRITER = """
import os
for i in range(3):
    with open("out", "wb") as out:
        out.write(bytes(1000000))
print("written")
raise SystemExit(3)
"""


def test_a_program_is_recorded_and_its_trace_read(tmp_path: Path) -> None:
    recording = iotide.record([sys.executable, "-c", WRITER], cwd=tmp_path)
    assert recording.returncode == 3 and recording.path == tmp_path / "iotide-trace"
    assert iotide.info(recording).to_dict()["runs"][0]["source"]["bytes_written"] >= 3_000_000
    frame = pytest.importorskip("pandas") and recording.events().to_pandas()
    mine = frame[frame["file"].astype(str).str.endswith("/out") & (frame["op"] == "write")]
    assert mine["bytes"].sum() == 3_000_000
    again = iotide.record([sys.executable, "-c", WRITER], cwd=tmp_path, exclude=["/nowhere"])
    assert again.path == tmp_path / "iotide-trace-2"
    with pytest.raises(iotide.Error, match="cannot run ./missing"):
        iotide.record(["./missing"], cwd=tmp_path)


def test_the_program_comes_with_the_package(run: Path) -> None:
    assert command_line("--version").stdout.strip() == f"iotide {iotide.__version__}"
    assert command_line("detect", str(run)).stdout == str(iotide.detect(run)) + "\n"
    assert command_line("detect", "--no-such", check=False).returncode == 2
    made = command_line("ioskel", "--period=0.2", "--size=64K", "--iterations=3", "--processes=2", f"--dir={run.parent}")
    assert "3 bursts of 64 KiB by 2 processes" in made.stdout
    script = Path(sys.executable).parent / "iotide"
    assert not script.exists() or subprocess.run([script, "--version"], check=True, capture_output=True).stdout


def test_a_predictor_finds_what_comes_next() -> None:
    predictor = iotide.Predictor("job 7")
    told = None
    for phase in range(30):
        for part in range(5):
            start = 20.0 * phase + 0.4 * part
            told = predictor.push(start, start + 0.4, 1e8, rank=part) or told
    told = predictor.predict() or told
    assert told is not None and told.kind == "prediction" and told.job == "job 7"
    assert told.period_s == pytest.approx(20.0, rel=0.02) and predictor.latest is not None
    assert told.next_phase.start_s == pytest.approx(600.0, abs=2.0)
    with pytest.raises(ValueError, match="op sing"):
        predictor.push(0, 1, 5, op="sing")
    with pytest.raises(ValueError):
        predictor.push(2, 1, 5)


COUNTING = """
import iotide, sys
counter = iotide.Counter("steps", "1")
print(counter.is_active, flush=True)
counter.add(3)
counter.add()
sys.stdin.read()
"""


def test_a_counter_counts_under_the_tracer_alone() -> None:
    counter = iotide.Counter("steps")
    counter.add(5)
    assert not counter.is_active and "not counted" in repr(counter)
    with pytest.raises(ValueError):
        counter.add(-1)


def test_without_a_daemon_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    daemon = iotide.Daemon(tmp_path / "socket")
    with pytest.raises(iotide.DaemonError, match="no daemon answers at .*socket") as refused:
        daemon.jobs()
    assert "iotide serve" in str(refused.value)
    with pytest.raises(iotide.DaemonError, match="no daemon answers at 127.0.0.1:9"):
        iotide.Daemon("http://127.0.0.1:9").job(1)
    with pytest.raises(ValueError, match="port"):
        iotide.Daemon("http://127.0.0.1:none").jobs()


def until(holds: Callable[[], Any]) -> Any:
    """Waits until something is there."""
    while not (found := holds()):
        time.sleep(0.1)
    return found


def test_a_daemon_is_asked_at_its_address_and_has_the_counters_of_a_program(tmp_path: Path) -> None:
    socket, pages = tmp_path / "socket", tmp_path / "pages"
    places = [f"--socket={socket}", f"--pages={pages}", f"--store={tmp_path / 'store'}", "--http=none"]
    program = [sys.executable, "-m", "iotide"]
    library = command_line("library").stdout.strip()
    counted = {**os.environ, "LD_PRELOAD": library, "IOTIDE_LIVE": str(pages), "IOTIDE_JOB_ID": "4712"}
    with subprocess.Popen([*program, "serve", *places], stderr=subprocess.PIPE) as serving:
        try:
            until(lambda: socket.exists() or serving.poll() is not None)
            assert serving.poll() is None, serving.stderr and serving.stderr.read()
            daemon = iotide.Daemon(socket)
            assert daemon.alarms().firing == [] and len(daemon.nodes().nodes) == 1
            with pytest.raises(iotide.DaemonError, match="4711"):
                daemon.job(4711)
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            with subprocess.Popen([sys.executable, "-c", COUNTING], env=counted, text=True, **pipes) as counting:
                assert counting.stdout is not None and counting.stdout.readline() == "True\n"
                until(lambda: any(job["job"] == "4712" for job in daemon.jobs().to_dict()["jobs"]))
                own = until(lambda: daemon.job(4712).to_dict().get("own"))
                assert "steps" in str(own)
                metric = until(lambda: [name for name in daemon.metrics(4712) if "steps" in name])[0]
                until(lambda: numpy_max(daemon.series(4712, metric)) == 4)
                environment = {**os.environ, "IOTIDE_DAEMON": str(socket)}
                said = subprocess.run([*program, "jobs", "--format=json"], env=environment, capture_output=True, check=True)
                assert [job["job"] for job in json.loads(said.stdout)["jobs"]] == [job.job for job in daemon.jobs().jobs]
        finally:
            serving.send_signal(signal.SIGTERM)


def numpy_max(series: Any) -> float:
    numpy = pytest.importorskip("numpy")
    return float(numpy.nanmax(series["value"])) if len(series) else 0.0


INTERRUPTED = """
import sys, time, iotide
print("go", flush=True)
began = time.monotonic()
try:
    iotide.{call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    ["simulate_io('rr9537', repetitions=1000000)", "categorize(sys.argv[1])", "read(sys.argv[1])", "darshan(sys.argv[1])"],
)
def test_ctrl_c_ends_the_wait(call: str, tmp_path: Path) -> None:
    fifo = tmp_path / "never"
    os.mkfifo(fifo)
    code = [sys.executable, "-c", INTERRUPTED.format(call=call), str(fifo)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None and asking.stdout.readline() == "go\n"
        time.sleep(0.5)
        assert asking.poll() is None, asking.stderr and asking.stderr.read()
        asking.send_signal(signal.SIGINT)
        assert asking.stdout.readline() == "interrupted\n", asking.stderr and asking.stderr.read()
        asking.kill()


def n_threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize("question", ["read", "detect", "info", "categorize", "simulate_io"])
def test_long_work_says_how_far_it_is_and_ends_with_the_wait(question: str, tmp_path: Path) -> None:
    if question == "simulate_io":
        ask, told = lambda progress: iotide.simulate_io("mix", repetitions=1000, progress=progress), r"simulating: .* \(1 of \d+ runs\)"
    else:
        path = write_run(tmp_path / "large.csv", period_s=2.0, n_phases=50_000, n_ranks=4)
        ask, told = lambda progress: getattr(iotide, question)(path, progress=progress), "65\u202f536 events read"
    before = n_threads()
    heard: List[str] = []

    def refuse(text: str) -> None:
        heard.append(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(refuse)
    assert len(heard) == 1 and re.fullmatch(told, heard[0])
    # Not the wait alone ends, but the work.
    until(lambda: n_threads() <= before)
    if question != "simulate_io":
        heard.clear()
        ask(heard.append)
        assert heard[-1] == "196\u202f608 events read" and len(heard) == 3


def test_other_threads_go_on(tmp_path: Path) -> None:
    path = write_run(tmp_path / "large.csv", period_s=2.0, n_phases=100_000, n_ranks=4)
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    iotide.info(path)
    done.set()
    thread.join()
    assert turns > 3
