"""The questions. Options are those of the command line (``iotide COMMAND --help``), with ``_`` for ``-``."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, overload

from ._answers import Answer, ModelAnswer, Progress, Told, ask, told_or_raise
from ._arguments import Inputs
from ._arguments import options as _options


def _of_traces(
    command: Sequence[str],
    traces: Iterable[Any],
    given: Mapping[str, Any],
    progress: Progress,
) -> Answer:
    inputs = Inputs()
    paths = inputs.paths(traces)
    return ask(command, [*_options(given), "--", *paths], inputs, progress, Answer)


def detect(path: Any = (), *more: Any, progress: Progress = None, **options: Any) -> Answer:
    """Finds the period of a run's I/O phases (``iotide detect``); several paths are several runs, unless ``one_run=True``.

    A path may also be a data frame of events (`rank, op, start, end, bytes`) or of bandwidth over time (`time, bandwidth`).
    """
    return _of_traces(["detect"], (path, *more), options, progress)


def categorize(path: Any, *more: Any, progress: Progress = None, **options: Any) -> Answer:
    """Labels the I/O of runs, or of every run below a folder (``iotide categorize``)."""
    return _of_traces(["categorize"], (path, *more), options, progress)


def issues(path: Any, *more: Any, progress: Progress = None, **options: Any) -> Answer:
    """Reports the I/O issues of runs, each with what a fix would save (``iotide categorize --issues``)."""
    return _of_traces(["categorize"], (path, *more), {"issues": True, **options}, progress)


def info(path: Any, *more: Any, progress: Progress = None, **options: Any) -> Answer:
    """Says what a trace holds, and what it lost (``iotide info``)."""
    return _of_traces(["info"], (path, *more), options, progress)


def report(path: Any, *more: Any, progress: Progress = None, **options: Any) -> Answer:
    """Says everything about a run (``iotide report``); `to_html` is its page."""
    return _of_traces(["report"], (path, *more), options, progress)


def compare(a: Any, b: Any = (), *more: Any, progress: Progress = None, **options: Any) -> Answer:
    """Compares runs with the first one (``iotide compare``); ``with_=[…]`` names the runs of the other side.

    With ``baseline="base.json"`` the file has the figures of the first side, and one run is enough.
    """
    return _of_traces(["compare"], (a, b, *more), options, progress)


def why(run: Any, history: Any = None, storage: Any = None, *, progress: Progress = None, **options: Any) -> Answer:
    """Tells why a run's I/O was slow: ``why("run.csv", history=["earlier/"], storage=["servers.csv"])`` (``iotide why``)."""
    return _of_traces(["why"], (run,), {"history": history, "storage": storage, **options}, progress)


def measure(*traces: Any, progress: Progress = None, **options: Any) -> Answer:
    """Measures how much jobs that ran beside each other slowed each other (``iotide measure``)."""
    return _of_traces(["measure"], traces, options, progress)


def checkpoint_advise(*run: Any, progress: Progress = None, **options: Any) -> Answer:
    """Tells how often to write checkpoints: ``checkpoint_advise("run.csv", mtbf="8h")`` (``iotide checkpoint advise``)."""
    return _of_traces(["checkpoint", "advise"], run, options, progress)


def signature(*samples: Any, progress: Progress = None, **options: Any) -> Answer:
    """Finds one application's I/O signature in the logs of several runs (``iotide signature``)."""
    return _of_traces(["signature"], samples, options, progress)


def templates(*runs: Any, progress: Progress = None, **options: Any) -> Answer:
    """Sums up runs of many programs as a few kinds of applications (``iotide templates``)."""
    return _of_traces(["templates"], runs, options, progress)


def model(points: Any = (), *more: Any, progress: Progress = None, **options: Any) -> ModelAnswer:
    """Finds how each metric scales (``iotide model``).

    `points` is a file of measurements, a data frame (parameters, then a column for each metric; ``parameters=["p", "size"]`` names the
    parameters if they are more than the first column), or a dict: columns (``{"p": [4, 8, 16], "time": [1.0, 1.4, 2.1]}``) or values by
    point (``{4: 1.0, 8: [1.4, 1.5]}``, whose parameter is `p`). With ``from_traces=True`` it is traces of one program at several sizes.
    """
    inputs = Inputs()
    parameters = options.pop("parameters", None)
    if isinstance(parameters, (str, os.PathLike)) and options.get("from_traces"):
        options["parameters"], parameters = parameters, None
    if isinstance(parameters, str):
        parameters = [parameters]
    given = (points, *more)
    if isinstance(points, Mapping) or hasattr(points, "columns"):
        given = (_measurements(points, parameters, inputs), *more)
    args = [*_options(options), "--", *inputs.paths(given)]
    return ask(["model"], args, inputs, progress, ModelAnswer)


def _measurements(points: Any, parameters: Optional[Sequence[str]], inputs: Inputs) -> str:
    """Writes measurements in memory as a table; returns its path."""
    import csv

    columns: Dict[str, List[Any]]
    if hasattr(points, "columns"):
        columns = {str(name): list(points[name]) for name in points.columns}
    elif "measurements" in points:
        return inputs.path(dict(points), "points")
    elif all(isinstance(key, str) for key in points):
        columns = {name: list(values) for name, values in points.items()}
    else:
        names = list(parameters or ["p"])
        columns = {name: [] for name in [*names, "value"]}
        for point, values in points.items():
            point = point if isinstance(point, tuple) else (point,)
            for value in values if hasattr(values, "__iter__") else [values]:
                for name, part in zip(names, point):
                    columns[name].append(part)
                columns["value"].append(value)
    file = inputs.file("points.csv")
    with file.open("w", newline="", encoding="utf-8") as out:
        if parameters and not {"metric", "value"} <= columns.keys():
            out.write(f"# parameters={','.join(parameters)}\n")
            columns = {name: columns[name] for name in [*parameters, *(n for n in columns if n not in parameters)]}
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values()))
    return str(file)


def _simulate(kind: str, workload: Any, given: Mapping[str, Any], progress: Progress) -> Answer:
    inputs = Inputs()
    args = [*_options(given), "--", *([] if workload is None else [inputs.path(workload, "workload")])]
    return ask(["simulate", kind], args, inputs, progress, Answer)


def simulate_io(workload: Any = None, *, progress: Progress = None, **options: Any) -> Answer:
    """Tries policies of sharing storage (``iotide simulate io``): a JSON file, a dict, ``"rr9537"`` or ``"mix"``."""
    return _simulate("io", workload, options, progress)


def simulate_jobs(log: Any, *, progress: Progress = None, **options: Any) -> Answer:
    """Tries policies of scheduling jobs (``iotide simulate jobs``)."""
    return _simulate("jobs", log, options, progress)


def simulate_system(workload: Any, *, progress: Progress = None, **options: Any) -> Answer:
    """Forecasts the state of shared storage (``iotide simulate system``); the answer of `templates` is such a workload."""
    return _simulate("system", workload, options, progress)


def simulate_staging(workload: Any, *, progress: Progress = None, **options: Any) -> Answer:
    """Tries policies of staging data out of a buffer (``iotide simulate staging``)."""
    return _simulate("staging", workload, options, progress)


class Labels(Answer):
    """Labels of many runs: an answer, and a sequence of its runs."""

    def __len__(self) -> int:
        return len(self._document()["runs"])

    def __iter__(self) -> Any:
        return iter(self.runs)


@overload
def label_many(paths: Collection[Any], *, workers: Optional[int] = None, progress: Progress = None, **options: Any) -> Labels: ...
@overload
def label_many(paths: Iterator[Any], *, workers: Optional[int] = None, progress: Progress = None, **options: Any) -> Any: ...
def label_many(paths: Iterable[Any], *, workers: Optional[int] = None, progress: Progress = None, **options: Any) -> Any:
    """Labels many runs, as ``iotide categorize`` does for these paths; ``workers`` of them at a time.

    It is a function of paths to a sequence of labelled runs, and can be mapped: ``bag.map_partitions(iotide.label_many)`` labels on Dask.

    Of an iterator of Arrow batches with a column `path` it makes batches of `path` and `line`, and ``frame.mapInArrow(iotide.label_many,
    "path string, line string")`` labels on Spark, one log at a time in each task. A line is that of ``runs.jsonl`` in the results of
    ``iotide categorize --out``, or of ``rejected.jsonl`` for a log without labels; ``iotide categorize --merge`` takes files of lines.
    """
    if hasattr(paths, "__next__"):
        ahead = list(itertools.islice(paths, 1))
        paths = itertools.chain(ahead, paths)
        if not ahead or hasattr(ahead[0], "schema"):
            return _labelled_batches(paths, {"jobs": workers or 1, **options}, progress)
    inputs = Inputs()
    files = inputs.paths(paths)
    if not files:
        # A part of a bag may be empty, which the command line would take for a mistake.
        nothing = b'{"schema": "iotide/1", "command": "categorize", "runs": []}'
        return Labels(["categorize"], ["--"], inputs, Told(0, nothing, None, [], []))
    return ask(["categorize"], [*_options({"jobs": workers, **options}), "--", *files], inputs, progress, Labels)


def _labelled_batches(batches: Iterator[Any], given: Mapping[str, Any], progress: Progress) -> Iterator[Any]:
    """Labels the logs that Arrow batches name: a batch of lines for each."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    text = pyarrow.string()
    schema = pyarrow.schema([("path", text), ("line", text)])
    for batch in batches:
        column = batch.column("path") if "path" in batch.schema.names else batch.column(0)
        inputs = Inputs()
        files = [path for path in column.to_pylist() if path]
        folder, listed = inputs.file("results"), inputs.file("paths")
        lines: List[str] = []
        if files:
            listed.write_text("\n".join(files), encoding="utf-8")
            # The whole of the archive that these logs are: job arrays of Slurm would label a part.
            kept = ["--quiet", f"--files={listed}", f"--out={folder}", "--shard=1/1"]
            told_or_raise(["categorize", "--format=json", *kept, *_options(given)], progress)
        for name in ("runs.jsonl", "rejected.jsonl"):
            if (folder / name).exists():
                lines.extend((folder / name).read_text(encoding="utf-8").splitlines())
        named = [json.loads(line)["source"]["path"] for line in lines]
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(named, text), pyarrow.array(lines, text)], schema=schema)
