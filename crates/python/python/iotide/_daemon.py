"""Asking a daemon (``iotide serve``)."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Type, Union

from ._answers import A, Answer, ModelAnswer, ask
from ._arguments import Inputs
from ._arguments import options as _options
from ._errors import DaemonError, Error, UsageError


class Daemon:
    """A daemon, by the path of its unix socket; without one, that of IOTIDE_DAEMON, your own, or the machine's."""

    def __init__(self, address: Union[str, "os.PathLike[str]", None] = None) -> None:
        path = None if address is None else os.fspath(address)
        self.address: Optional[str] = path[len("unix:") :] if path and path.startswith("unix:") else path

    def _ask(self, command: List[str], given: Dict[str, Any], values: List[str], answer: Type[A]) -> A:
        try:
            return ask(command, [*_options(given), "--", *values], Inputs(), None, answer, self.address)
        except UsageError:
            raise
        except Error as error:
            raise DaemonError(error.message, error.hint) from None

    def jobs(self, **options: Any) -> Answer:
        """Lists jobs (``iotide jobs``): `user, app, since, state, search, sort, limit`."""
        return self._ask(["jobs"], options, [], Answer)

    def job(self, id: Union[str, int]) -> Answer:  # noqa: A002
        """Says what a job has done (``iotide job``)."""
        return self._ask(["job"], {}, [str(id)], Answer)

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
