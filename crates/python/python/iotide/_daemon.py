"""Asking a daemon (``iotide serve``)."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Type, TypeVar, Union

from . import _iotide
from ._answers import A, Address, Answer, ModelAnswer, ask
from ._arguments import Inputs
from ._arguments import options as _options
from ._errors import DaemonError, Error, UsageError

T = TypeVar("T")


def _or_refused(question: Callable[[], T]) -> T:
    """Asks; what goes wrong is the daemon's, unless the question was."""
    try:
        return question()
    except UsageError:
        raise
    except Error as error:
        raise DaemonError(error.message, error.hint) from None


class Series:
    """A metric over time: `time` in seconds since 1970, and `value`, which is NaN where nothing was sampled."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self._document = document
        self.metric: str = document["metric"]
        self.kind: str = document["kind"]
        """`counter` or `gauge`."""
        self.losses: List[str] = document["losses"]

    columns = ["time", "value"]

    def __len__(self) -> int:
        return len(self._document["values"])

    def to_dict(self) -> Dict[str, Any]:
        """Returns the daemon's answer."""
        return dict(self._document)

    def to_numpy(self, column: Optional[str] = None) -> Any:
        """Returns a column as an array, or both as a dict of arrays."""
        import numpy

        start, period = self._document["t0_unix_s"], self._document["period_s"]
        both = {
            "time": start + period * numpy.arange(len(self), dtype="float64"),
            "value": numpy.array(self._document["values"], dtype="float64"),
        }
        return both if column is None else both[column]

    def __getitem__(self, column: str) -> Any:
        return self.to_numpy(column)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_pandas(self) -> Any:
        """Returns it as a data frame."""
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.DataFrame(self.to_numpy())

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pyarrow.table(self.to_numpy()).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<iotide.Series {self.metric}: {len(self)} values, one in {self._document['period_s']} s>"


class Daemon:
    """A daemon, by the path of its unix socket or its address (``https://mgmt:1337``, with the `token` of ``iotide serve token``).

    Without an address it is that of IOTIDE_DAEMON, your own, or the machine's.
    """

    def __init__(self, address: Union[str, "os.PathLike[str]", None] = None, *, token: Optional[str] = None) -> None:
        path = None if address is None else os.fspath(address)
        self.address: Optional[str] = path[len("unix:") :] if path and path.startswith("unix:") else path
        self._at: Address = None if self.address is None else (self.address, token)

    def _ask(self, command: List[str], given: Dict[str, Any], values: List[str], answer: Type[A]) -> A:
        args = [*_options(given), "--", *values]
        return _or_refused(lambda: ask(command, args, Inputs(), None, answer, self._at))

    def get(self, path: str) -> Any:
        """Asks for a path of the HTTP API, as ``/api/1/losses``; returns its JSON."""
        return json.loads(_or_refused(lambda: _iotide.ask_daemon(self._at, path)))

    def jobs(self, **options: Any) -> Answer:
        """Lists jobs (``iotide jobs``): `user, app, since, state, search, sort, limit`."""
        return self._ask(["jobs"], options, [], Answer)

    def job(self, id: Union[str, int]) -> Answer:  # noqa: A002
        """Says what a job has done (``iotide job``)."""
        return self._ask(["job"], {}, [str(id)], Answer)

    def series(
        self,
        id: Union[str, int],  # noqa: A002
        metric: str,
        *,
        start: Optional[float] = None,
        end: Optional[float] = None,
        points: Optional[int] = None,
    ) -> Series:
        """Returns a metric of a job over time, as ``write_bytes``; `metrics` lists them."""
        from urllib.parse import quote, urlencode

        asked = {"metric": metric, "from": start, "to": end, "points": points}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return Series(self.get(f"/api/1/jobs/{quote(str(id), safe='')}/series?{query}"))

    def metrics(self, id: Union[str, int]) -> List[str]:  # noqa: A002
        """Lists the metrics of a job over time."""
        from urllib.parse import quote

        listed = self.get(f"/api/1/jobs/{quote(str(id), safe='')}/metrics")
        return [metric["metric"] for metric in listed["metrics"]]

    def nodes(self) -> Answer:
        """Lists the machines that report to the daemon (``iotide nodes``)."""
        return self._ask(["nodes"], {}, [], Answer)

    def alarms(self) -> Answer:
        """Lists alarms: rules, what fires now and what has been (``iotide alarms``)."""
        return self._ask(["alarms", "list"], {}, [], Answer)

    def detect(self, id: Union[str, int], **options: Any) -> Answer:  # noqa: A002
        """Finds the period of a job that the daemon has seen (``iotide detect --job``)."""
        return self._ask(["detect"], {"job": id, **options}, [], Answer)

    def models(self, **options: Any) -> ModelAnswer:
        """Finds how what runs measured scales: ``models(job=4711)`` or ``models(app="lmp", last=10)`` (``iotide model``)."""
        return self._ask(["model"], options, [], ModelAnswer)

    def __repr__(self) -> str:
        return f"<iotide.Daemon {self.address or 'of this machine'}>"
