"""Darshan logs."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional

from . import _iotide
from ._answers import Answer, Progress, Record
from ._arguments import Inputs, options
from ._questions import info
from ._tables import Table


class Modules(Record):
    """The modules of a log by name. Names are known at once; counters are summed when a module is asked for."""

    __slots__ = ("_names", "_read")
    _names: List[str]
    _read: Callable[[], Record]

    def __init__(self, names: List[str], read: Callable[[], Record]) -> None:
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_read", read)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getattr__(self, name: str) -> Any:
        # The only attribute of a `Record` that is not among its methods.
        if name != "_fields":
            return super().__getattr__(name)
        object.__setattr__(self, "_fields", self._read()._fields)
        return self._fields


class DarshanLog:
    """A Darshan log, whose tables are read when they are asked for."""

    def __init__(self, path: str, inner: _iotide.Darshan, given: Dict[str, Any]) -> None:
        self._inner = inner
        self._given = given
        self._info: Optional[Answer] = None
        self.path = path
        """Where it is."""

    @property
    def info(self) -> Answer:
        """What ``iotide info`` says of it."""
        if self._info is None:
            self._info = info(self.path, **self._given)
        return self._info

    @property
    def job(self) -> Record:
        """The job: `jobid, uid, nprocs, start_time, end_time, run_time_s, exe, log_version`."""
        job: Record = self.info.runs[0].job
        return job

    @property
    def modules(self) -> Record:
        """The modules by name, each with its version, number of records and sums of counters."""
        return Modules(self._inner.modules, lambda: self.info.runs[0].modules)

    @property
    def metadata(self) -> Dict[str, str]:
        """What Darshan notes of itself and the program."""
        return dict(self._inner.metadata)

    @property
    def losses(self) -> List[str]:
        """Data that is missing."""
        return [loss.what for loss in self.info.runs[0].losses]

    @property
    def counters(self) -> Table:
        """Every counter of every record, one a row: `module, rank, id, file, counter, value`."""
        return Table(self._inner.counters(), "counters")

    def records(self, module: str) -> Table:
        """Returns the records of a module, with a column for each counter."""
        return Table(self._inner.records(module), module)

    @property
    def dxt(self) -> Table:
        """Every DXT segment: `module, rank, op, segment, offset, length, start, end, host, id, file`."""
        return Table(self._inner.dxt(), "DXT")

    @property
    def heatmap(self) -> Table:
        """Bytes over time, of each rank: `module, rank, bin, start, end, read, write`."""
        return Table(self._inner.heatmap(), "heat map")

    @property
    def names(self) -> Table:
        """Names of records by their ids."""
        return Table(self._inner.names(), "names")

    def __repr__(self) -> str:
        return f"<iotide.DarshanLog {self.path}: {', '.join(self._inner.modules)}>"

    def _repr_html_(self) -> str:
        return self.info._repr_html_()


def darshan(path: Any, *, progress: Progress = None, **given: Any) -> DarshanLog:
    """Opens a Darshan log of any version."""
    file = Inputs().path(path)
    inner = _iotide.Darshan([*options(given), "--", file], progress)
    return DarshanLog(file, inner, given)
