"""Answers: the documents of the command line, with attributes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping as AbstractMapping
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _iotide
from ._arguments import Inputs
from ._errors import Error, IncompleteWarning

Progress = Optional[Callable[[str], object]]
Address = Optional[Tuple[str, Optional[str]]]


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(part) for part in value]
    return value


class Record(AbstractMapping):  # type: ignore[type-arg]
    """An object of a document: a mapping whose keys are attributes, too."""

    __slots__ = ("_fields",)
    _fields: Dict[str, Any]

    def __init__(self, fields: Dict[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getattr__(self, name: str) -> Any:
        try:
            return _wrapped(self._fields[name])
        except KeyError:
            known = ", ".join(self._fields)
            raise AttributeError(f"no {name!r} here; there are {known}") from None

    def __getitem__(self, name: str) -> Any:
        return _wrapped(self._fields[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an answer cannot be changed")

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        return f"Record({self._fields!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Record, (self._fields,))

    def to_dict(self) -> Dict[str, Any]:
        """Returns it as a dict of Python."""
        copy: Dict[str, Any] = json.loads(json.dumps(self._fields))
        return copy


class Answer:
    """The answer to a question: the document that the command line gives with ``--format json``.

    Its fields are attributes. If it is about one run, so are those of the run: ``iotide.detect("run.csv").period.period_s``.
    """

    def __init__(
        self,
        command: Sequence[str],
        args: Sequence[str],
        inputs: Inputs,
        told: "Told",
    ) -> None:
        self._command = list(command)
        self._args = list(args)
        # Temporary files of the question live as long as its answer.
        self._inputs = inputs
        self._json = told.out
        self._words = told.words
        self._parsed: Optional[Dict[str, Any]] = None
        self.found: bool = told.status == 0
        """Whether the command line ends with status 0: for `detect`, that a period was found."""
        self.notes: List[str] = told.notes
        """Remarks that the command line writes to stderr."""

    def to_json(self) -> str:
        """Returns the document as the command line writes it."""
        return self._json.decode("utf-8")

    def to_dict(self) -> Dict[str, Any]:
        """Returns the document as a dict."""
        document: Dict[str, Any] = json.loads(self._json)
        return document

    def _document(self) -> Dict[str, Any]:
        if self._parsed is None:
            self._parsed = self.to_dict()
        return self._parsed

    def _only_run(self) -> Dict[str, Any]:
        runs = self._document().get("runs")
        if isinstance(runs, list) and len(runs) == 1 and isinstance(runs[0], dict):
            return runs[0]
        return {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        document = self._document()
        if name in document:
            return _wrapped(document[name])
        run = self._only_run()
        if name in run:
            return _wrapped(run[name])
        known = ", ".join([*document, *run])
        raise AttributeError(f"no {name!r} in this answer; there are {known}")

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._document(), *self._only_run()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self._json == other._json

    def __hash__(self) -> int:
        return hash(self._json)

    def __str__(self) -> str:
        return self._words.rstrip("\n") if self._words is not None else repr(self)

    def __repr__(self) -> str:
        if self._words is not None:
            return self._words.rstrip("\n")
        return f"<iotide.{type(self).__name__}: {' '.join(self._command)}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        told = Told(0 if self.found else 1, self._json, self._words, self.notes, [])
        return (type(self), (self._command, self._args, Inputs(), told))

    def to_html(self) -> str:
        """Returns the page of this answer, which needs no network; it is made from the inputs when it is asked for."""
        page = self._inputs.file("page.html")
        for command, args in self._pages():
            page.unlink(missing_ok=True)
            tell([*command, f"--output={page}", *args])
            if page.exists():
                return page.read_text(encoding="utf-8")
        raise Error("this answer has no page")

    def _pages(self) -> List[Tuple[List[str], List[str]]]:
        """Commands that write a page of this answer."""
        command, args = self._command, self._args
        of_run = {"detect": ("--issues", "--metric", "--job"), "categorize": None, "info": None}
        if command[0] not in of_run:
            return [(command, args)]
        # The page of a run is that of `iotide report`.
        left_out = of_run[command[0]]
        at = args.index("--")
        kept = [arg for arg in args[:at] if left_out is not None and not arg.startswith(left_out)]
        return [(["report"], [*kept, *args[at:]])]

    def _repr_html_(self) -> str:
        import html

        try:
            page = self.to_html()
        except Error:
            return f"<pre>{html.escape(str(self))}</pre>"
        frame = 'width="100%" height="640" style="border: 0" sandbox="allow-scripts"'
        return f'<iframe {frame} srcdoc="{html.escape(page, quote=True)}"></iframe>'


A = TypeVar("A", bound=Answer)


class ModelAnswer(Answer):
    """Models of how metrics scale."""

    @property
    def formula(self) -> Union[str, Dict[Tuple[str, str], str]]:
        """The function of the model; of several models, a dict by call path and metric."""
        models = {(model["callpath"], model["metric"]): model["function"] for model in self._document()["models"]}
        return next(iter(models.values())) if len(models) == 1 else models

    def predict(self, **at: Any) -> Any:
        """Returns the value at a point, ``predict(p=4096)``; a list of values predicts at each. Of several models, a dict."""
        return self._at(at, "value")

    def interval(self, **at: Any) -> Any:
        """Returns the interval of the prediction at a point, low and high (`confidence` says how often it holds the truth)."""
        return self._at(at, "interval")

    def _at(self, at: Dict[str, Any], what: str) -> Any:
        n_points = max((len(values) for values in at.values() if hasattr(values, "__len__")), default=None)
        texts = [",".join(f"{name}={_nth(values, i)}" for name, values in at.items()) for i in range(n_points or 1)]
        before = [arg for arg in self._args if not arg.startswith("--at=")]
        where = before.index("--")
        args = [*before[:where], *(f"--at={text}" for text in texts), *before[where:]]
        document = json.loads(told_or_raise([*self._command, "--format=json", *args]).out)
        answers = {}
        for model in document["models"]:
            values = [_plain(prediction[what]) for prediction in model["predictions"]]
            answers[(model["callpath"], model["metric"])] = values if n_points is not None else values[0]
        return next(iter(answers.values())) if len(answers) == 1 else answers


def _nth(values: Any, i: int) -> Any:
    return values[i] if hasattr(values, "__len__") else values


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Told:
    """What the command line said."""

    def __init__(
        self,
        status: int,
        out: bytes,
        words: Optional[str],
        notes: List[str],
        errors: List[BaseException],
    ) -> None:
        self.status = status
        self.out = out
        self.words = words
        self.notes = notes
        self.errors = errors


def tell(args: Sequence[str], progress: Progress = None, daemon: Address = None) -> Told:
    """Asks the command line, in this process."""
    return Told(*_iotide.ask(list(args), progress, daemon))


def told_or_raise(args: Sequence[str], progress: Progress = None, daemon: Address = None) -> Told:
    """Asks the command line; an error without any answer is raised, and one beside an answer is a warning."""
    told = tell(args, progress, daemon)
    if not told.out:
        if told.errors:
            raise told.errors[0]
        if told.status == 130:
            raise KeyboardInterrupt
        raise Error(*(told.notes[-1:] or ["there is no answer"]))
    for error in told.errors:
        warnings.warn(IncompleteWarning(str(error)), stacklevel=4)
    return told


def ask(
    command: Sequence[str],
    args: Sequence[str],
    inputs: Inputs,
    progress: Progress,
    answer: Type[A],
    daemon: Address = None,
) -> A:
    """Asks a question."""
    told = told_or_raise([*command, "--format=json", *args], progress, daemon)
    return answer(command, args, inputs, told)
