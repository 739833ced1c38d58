"""Events of a trace."""

from __future__ import annotations

from typing import Any, List, Optional

from . import _iotide
from ._answers import Progress
from ._arguments import Inputs, options
from ._tables import Table


class Events(Table):
    """The events of a run: `rank, op, start, end, bytes, file, layer, grain, calls`; seconds and bytes."""

    run_time_s: Optional[float]
    """The job's wall-clock time, if the trace states it."""
    nprocs: Optional[int]
    """The number of processes."""
    user: Optional[str]
    exe: Optional[str]
    jobid: Optional[str]
    start_time: Optional[float]
    """When the job began, in seconds since 1970."""
    losses: List[str]
    """Data that is missing."""


def read(path: Any, *more: Any, progress: Progress = None, **given: Any) -> Events:
    """Reads the events of a trace of any format; options are the input options of ``iotide detect`` (`input_format`, `one_run`, `source`, `layers`).

    The events are kept in a temporary file, ten bytes each: memory does not grow with the trace.
    """
    paths = Inputs().paths((path, *more))
    inner, about = _iotide.read([*options(given), "--", *paths], progress)
    events = Events(inner, f"events of {paths[0]}")
    (
        events.run_time_s,
        events.nprocs,
        events.user,
        events.exe,
        events.jobid,
        events.start_time,
        events.losses,
    ) = about
    return events
