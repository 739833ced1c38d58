"""Asking a daemon (``iotide serve``)."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Union

from ._answers import Answer, ModelAnswer, ask
from ._arguments import Inputs, options
from ._errors import DaemonError, Error, UsageError


class Daemon:
    """A daemon, by the path of its unix socket; without one, that of IOTIDE_DAEMON, your own, or the machine's."""

    def __init__(self, address: Union[str, "os.PathLike[str]", None] = None) -> None:
        path = None if address is None else os.fspath(address)
        self.address: Optional[str] = path[len("unix:") :] if path and path.startswith("unix:") else path

    def _ask(self, command: List[str], given: Dict[str, Any], values: List[str], answer: Any = Answer) -> Any:
        try:
            return ask(command, [*options(given), "--", *values], Inputs(), None, answer, self.address)
        except UsageError:
            raise
        except Error as error:
            raise DaemonError(error.message, error.hint) from None

    def jobs(self, **options: Any) -> Answer:
        """Lists jobs (``iotide jobs``): `user, app, since, state, search, sort, limit`."""
        answer: Answer = self._ask(["jobs"], options, [])
        return answer

    def job(self, id: Union[str, int]) -> Answer:  # noqa: A002
        """Says what a job has done (``iotide job``)."""
        answer: Answer = self._ask(["job"], {}, [str(id)])
        return answer

    def nodes(self) -> Answer:
        """Lists the machines that report to the daemon (``iotide nodes``)."""
        answer: Answer = self._ask(["nodes"], {}, [])
        return answer

    def alarms(self) -> Answer:
        """Lists alarms: rules, what fires now and what has been (``iotide alarms``)."""
        answer: Answer = self._ask(["alarms", "list"], {}, [])
        return answer

    def detect(self, id: Union[str, int], **options: Any) -> Answer:  # noqa: A002
        """Finds the period of a job that the daemon has seen (``iotide detect --job``)."""
        answer: Answer = self._ask(["detect"], {"job": id, **options}, [])
        return answer

    def models(self, **options: Any) -> ModelAnswer:
        """Finds how what runs measured scales: ``models(job=4711)`` or ``models(app="lmp", last=10)`` (``iotide model``)."""
        answer: ModelAnswer = self._ask(["model"], options, [], ModelAnswer)
        return answer

    def __repr__(self) -> str:
        return f"<iotide.Daemon {self.address or 'of this machine'}>"
