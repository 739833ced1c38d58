"""Tells the rhythm of an HPC job's I/O.

Questions (`detect`, `categorize`, `issues`, `signature`, `model`, `compare`, `why`,
`measure`, `checkpoint_advise`, `simulate_*`, `templates`) take the options of the command line,
with ``_`` for ``-``, and give its answers. `read` and `darshan` give traces as tables, which data frames and databases take without a copy.

>>> import iotide
>>> answer = iotide.detect("run.csv", mode="write")      # doctest: +SKIP
>>> answer.period.period_s                               # doctest: +SKIP
21.4
"""

from __future__ import annotations

from . import _iotide
from ._answers import Answer, ModelAnswer, Record
from ._daemon import Daemon
from ._darshan import DarshanLog, darshan
from ._errors import DaemonError, Error, IncompleteWarning, InputError, UsageError
from ._events import Events, read
from ._questions import (
    categorize,
    checkpoint_advise,
    compare,
    detect,
    info,
    issues,
    label_many,
    measure,
    model,
    report,
    signature,
    simulate_io,
    simulate_jobs,
    simulate_staging,
    simulate_system,
    templates,
    why,
)
from ._running import Counter, Predictor, Recording, record
from ._tables import Table

__version__: str = _iotide.VERSION

__all__ = [
    "Answer",
    "Counter",
    "Daemon",
    "DaemonError",
    "DarshanLog",
    "Error",
    "Events",
    "IncompleteWarning",
    "InputError",
    "ModelAnswer",
    "Predictor",
    "Record",
    "Recording",
    "Table",
    "UsageError",
    "categorize",
    "checkpoint_advise",
    "compare",
    "darshan",
    "detect",
    "info",
    "issues",
    "label_many",
    "measure",
    "model",
    "read",
    "record",
    "report",
    "signature",
    "simulate_io",
    "simulate_jobs",
    "simulate_staging",
    "simulate_system",
    "templates",
    "why",
]
