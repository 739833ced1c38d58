"""From arguments of Python to those of the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional

from ._errors import UsageError

# Other modules are imported where they are used: scripts that import this one start sooner.
if TYPE_CHECKING:
    import tempfile
    from pathlib import Path

# What an answer is made of is Python's choice here, and what never ends has a class of its own.
_TAKEN = {
    "format": "an answer has .to_dict(), .to_json() and str()",
    "output": "an answer has .to_json() and .to_html()",
    "follow": "iotide.Predictor predicts while a job runs",
    "listen": "iotide.Predictor predicts while a job runs",
    "help": "help(iotide) explains the package, and `iotide COMMAND --help` the options",
    "print_settings": "`iotide categorize --print-settings` prints them",
}


def _text(value: Any) -> str:
    """A value as the command line reads it."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(part)}" for key, part in value.items())
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def options(given: Mapping[str, Any], allowed: Iterable[str] = ()) -> List[str]:
    """Keyword arguments as options: ``sample_rate=2`` is ``--sample-rate=2``, ``issues=True`` is ``--issues``, a list repeats its option."""
    args: List[str] = []
    for name, value in given.items():
        name = name.rstrip("_")
        if name in _TAKEN and name not in allowed:
            raise UsageError(f"{name} is no option of a question in Python", _TAKEN[name])
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            args.append(flag)
        elif name in ("window", "frame") and isinstance(value, (tuple, list)):
            # A part of a trace; a side that is None is open.
            args.append(f"{flag}={':'.join('' if side is None else _text(side) for side in value)}")
        elif isinstance(value, (list, tuple, set, frozenset)):
            args.extend(f"{flag}={_text(part)}" for part in value)
        else:
            args.append(f"{flag}={_text(value)}")
    return args


class Inputs:
    """Inputs as paths; what is not in a file is written to a temporary one, which lives as long as this."""

    def __init__(self) -> None:
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None

    def file(self, name: str) -> Path:
        """Returns where a temporary file of that name may be written."""
        import tempfile
        from pathlib import Path

        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="iotide-")
        return Path(self._folder.name) / name

    def path(self, given: Any, name: str = "input") -> str:
        """Returns the path of an input: a path, a data frame (as CSV), or a dict or list (as JSON)."""
        import json

        if isinstance(given, (str, os.PathLike)):
            path = os.fspath(given)
            return path if isinstance(path, str) else os.fsdecode(path)
        if hasattr(given, "to_csv"):
            file = self.file(f"{name}.csv")
            given.to_csv(file, index=False)
        elif hasattr(given, "write_csv"):
            file = self.file(f"{name}.csv")
            given.write_csv(str(file))
        elif hasattr(given, "to_dict"):
            file = self.file(f"{name}.json")
            file.write_text(json.dumps(given.to_dict()), encoding="utf-8")
        elif isinstance(given, (dict, list)):
            file = self.file(f"{name}.json")
            file.write_text(json.dumps(given), encoding="utf-8")
        else:
            raise UsageError(f"{type(given).__name__} is no path, data frame or dict")
        return str(file)

    def paths(self, given: Iterable[Any]) -> List[str]:
        """Returns the paths of inputs, of which each may be a list of paths."""
        paths: List[str] = []
        for one in given:
            if isinstance(one, (list, tuple, set, frozenset)) or hasattr(one, "__next__"):
                paths.extend(self.paths(one))
            else:
                paths.append(self.path(one, f"input{len(paths)}"))
        return paths
