"""Programs that run: recording them, predicting them, and counters of one's own."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Union

from . import _iotide
from ._answers import Record
from ._arguments import options as _options_of
from ._errors import Error
from ._events import Events, read

if TYPE_CHECKING:
    from pathlib import Path


class Recording:
    """A program that was recorded: its exit status, and the trace it left."""

    def __init__(self, path: Path, status: int) -> None:
        self.path = path
        """The directory of the trace."""
        self.returncode = status
        """How the program ended; 128 and the number of the signal that ended it."""

    def __fspath__(self) -> str:
        return str(self.path)

    def events(self, **options: Any) -> Events:
        """Reads the events."""
        return read(self.path, **options)

    def __repr__(self) -> str:
        return f"<iotide.Recording {self.path}, status {self.returncode}>"


def record(
    argv: Sequence[Union[str, "os.PathLike[str]"]],
    *,
    output: Union[str, "os.PathLike[str]", None] = None,
    cwd: Union[str, "os.PathLike[str]", None] = None,
    env: Optional[Mapping[str, str]] = None,
    **options: Any,
) -> Recording:
    """Runs a program and traces its I/O (``iotide record``).

    The trace is a directory, which every question takes: ``iotide.detect(iotide.record(["./simulation"]))``.
    """
    import subprocess
    import threading
    from pathlib import Path

    folder = Path(cwd or ".", output if output is not None else _free_name(Path(cwd or "."))).resolve()
    args = [*_options_of({"output": str(folder), **options}, allowed=["output"]), "--", *(os.fspath(arg) for arg in argv)]
    command = [sys.executable, "-m", "iotide", "record", *args]
    with subprocess.Popen(command, cwd=cwd, env=env, stderr=subprocess.PIPE, bufsize=0) as running:
        said: List[str] = []
        hearing = threading.Thread(target=_pass_on, args=(running.stderr, said), daemon=True)
        hearing.start()
        status = running.wait()
        # What the program left running may keep its end open.
        hearing.join(timeout=1)
    if not folder.is_dir() or status == 2 and not any(folder.iterdir()):
        faults = [line[len("iotide: ") :] for line in said if line.startswith("iotide: ")]
        raise Error(faults[0] if faults else f"nothing was recorded; the program ended with status {status}")
    return Recording(folder, status)


def _pass_on(stream: Any, said: List[str]) -> None:
    """Passes stderr on as it comes, to where Python shows it."""
    for line in stream:
        text = line.decode("utf-8", "replace")
        said.append(text.rstrip("\n"))
        del said[:-100]
        sys.stderr.write(text)


def _free_name(folder: Path) -> str:
    """The name that ``iotide record`` chooses."""
    number = 1
    while True:
        name = "iotide-trace" if number == 1 else f"iotide-trace-{number}"
        if not (folder / name).exists():
            return name
        number += 1


class Predictor:
    """Predicts the I/O phases of a running job, event by event.

    Each method returns a prediction if there is a new one, as a line of ``iotide detect --follow --format json``, and None otherwise.
    """

    def __init__(self, name: str = "", *, mode: str = "both", start_time: Optional[float] = None) -> None:
        self._inner = _iotide.Predictor(name, mode, start_time)
        self.latest: Optional[Record] = None
        """The latest prediction."""

    def _said(self, line: Optional[str]) -> Optional[Record]:
        if line is None:
            return None
        self.latest = Record(json.loads(line))
        return self.latest

    def push(self, start: float, end: float, bytes: float, op: str = "write", rank: int = 0) -> Optional[Record]:  # noqa: A002
        """Takes an event: bytes moved between two times, in seconds."""
        return self._said(self._inner.push(op, start, end, bytes, rank))

    def push_sample(self, start: float, end: float, bandwidth: float) -> Optional[Record]:
        """Takes a mean bandwidth, in bytes per second, between two times."""
        return self._said(self._inner.push_sample(start, end, bandwidth))

    def advance_to(self, now: float) -> Optional[Record]:
        """Says what time it is while there is no event."""
        return self._said(self._inner.advance_to(now))

    def predict(self) -> Optional[Record]:
        """Predicts now, whatever is new."""
        return self._said(self._inner.evaluate())

    @property
    def losses(self) -> List[str]:
        """What could not be used."""
        return self._inner.losses

    def __repr__(self) -> str:
        period = self.latest.period_s if self.latest else None
        return f"<iotide.Predictor: {'no period yet' if period is None else f'period {period:g} s'}>"


class Counter:
    """A counter of the program's own, which the daemon shows beside those of its I/O.

    It counts if the program runs under the tracer (``iotide record --live``, or LD_PRELOAD); otherwise it does nothing, as `is_active` tells. A name
    is letters, digits and _, at most 48, and a program has at most 64 counters. It only grows.
    """

    def __init__(self, name: str, unit: str = "1") -> None:
        import ctypes

        self.name = name
        self.unit = unit
        self._add: Any = None
        tracer = ctypes.CDLL(None)
        try:
            named, add = tracer.iotide_counter_now, tracer.iotide_add_now
        except AttributeError:
            return
        named.argtypes, named.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_int
        add.argtypes, add.restype = [ctypes.c_int, ctypes.c_ulonglong], None
        self._number: int = named(name.encode(), unit.encode())
        if self._number >= 0:
            self._add = add

    @property
    def is_active(self) -> bool:
        """Whether anything is counted."""
        return self._add is not None

    def add(self, n: int = 1) -> None:
        """Adds to the counter, from any thread."""
        if n < 0:
            raise ValueError("a counter only grows")
        if self._add is not None:
            self._add(self._number, n)

    def __repr__(self) -> str:
        return f"<iotide.Counter {self.name}{'' if self.is_active else ', not counted'}>"
