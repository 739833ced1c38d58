"""A task, done with the Python package `iotide` or with the one it is measured against; what it took, and the answer, as JSON.

    python.py iotide|peer TASK FILE ANSWER     does a task, writes its answer to a file, and prints the seconds it took
    python.py same A B                         fails if two answers differ

Those on Darshan logs are tasks of PyDarshan's own example notebooks. Packages are imported before the clock runs.
"""

import contextlib
import importlib
import io
import json
import sys
import time

NO_COUNTERS = ("LUSTRE", "HEATMAP", "APMPI", "APXC", "DXT_POSIX", "DXT_MPIIO")


def iotide_summary(path):
    """Who ran, and what the log has: `report.info()`."""
    log = iotide.darshan(path)
    modules = {name: module.records for name, module in log.modules.items() if name not in NO_COUNTERS}
    return {"jobid": log.job.jobid, "nprocs": log.job.nprocs, "exe": log.job.exe, "modules": modules, "names": len(log.names)}


def peer_summary(path):
    report = darshan.DarshanReport(path, read_all=True)
    report.info()
    job = report.metadata["job"]
    modules = {name: len(report.records[name]) for name in report.modules if name not in NO_COUNTERS}
    return {"jobid": job["jobid"], "nprocs": job["nprocs"], "exe": report.metadata["exe"], "modules": modules, "names": len(report.name_records)}


def iotide_dxt(path):
    """All DXT segments as one data frame."""
    frame = iotide.darshan(path).dxt.to_pandas()
    return segments_in(frame, frame["start"], frame["end"])


def peer_dxt(path):
    report = darshan.DarshanReport(path, read_all=False)
    parts = []
    for name in report.modules:
        if not name.startswith("DXT_"):
            continue
        report.mod_read_all_dxt_records(name)
        for record in report.records[name].to_df():
            for op in ("read", "write"):
                part = record[f"{op}_segments"]
                parts.append(part.assign(module=name, rank=record["rank"], op=op, id=record["id"], host=record["hostname"]))
    frame = pandas.concat(parts, ignore_index=True)
    return segments_in(frame, frame["start_time"], frame["end_time"])


def segments_in(frame, start, end):
    seconds = (end - start).groupby([frame["module"], frame["op"]], observed=True).sum()
    lengths = frame["length"].groupby([frame["module"], frame["op"]], observed=True).agg(["count", "sum"])
    return {
        " ".join(key): [int(lengths["count"][key]), int(lengths["sum"][key]), float(seconds[key])]
        for key in lengths.index
        if lengths["count"][key]
    }


def iotide_heatmap(path):
    """Bytes over time of each rank: totals by module and rank, and the busiest bins."""
    frame = iotide.darshan(path).heatmap.to_pandas()
    frame["bytes"] = frame["read"] + frame["write"]
    answer = {}
    for name, rows in frame.groupby("module"):
        grid = rows.pivot_table(index="rank", columns="bin", values="bytes", aggfunc="sum")
        answer[name] = {"by_rank": [int(n) for n in grid.sum(axis=1)], "most": int(grid.sum(axis=0).max())}
    return answer


def peer_heatmap(path):
    report = darshan.DarshanReport(path, read_all=False)
    report.read_all_heatmap_records()
    answer = {}
    for name, heatmap in report.heatmaps.items():
        grid = heatmap.to_df(ops=["read", "write"])
        answer[name] = {"by_rank": [int(n) for n in grid.sum(axis=1)], "most": int(grid.sum(axis=0).max())}
    return answer


def iotide_counters(path):
    """Every counter of every record as data frames, and their sums."""
    log = iotide.darshan(path)
    answer = {}
    for name in log.modules:
        if name not in NO_COUNTERS:
            frame = log.records(name).to_pandas()
            answer[name] = {column: float(frame[column].sum()) for column in frame.columns[3:]}
    return answer


def peer_counters(path):
    report = darshan.DarshanReport(path, read_all=False)
    answer = {}
    for name in report.modules:
        if name in NO_COUNTERS:
            continue
        report.mod_read_all_records(name)
        frames = report.records[name].to_df()
        answer[name] = {}
        for kind, signed in (("counters", "int64"), ("fcounters", "float64")):
            frame = frames[kind].drop(columns=["id", "rank"])
            # A counter that was not set is -1, which PyDarshan shows as 2⁶⁴ - 1 in some modules.
            answer[name].update({column: float(frame[column].astype(signed).sum()) for column in frame})
    return answer


def iotide_read(path):
    """A table of events as a data frame."""
    frame = iotide.read(path).to_pandas()
    return {"rows": len(frame), "bytes": float(frame["bytes"].sum()), "end": float(frame["end"].max())}


def peer_read(path):
    frame = pandas.read_csv(path)
    return {"rows": len(frame), "bytes": float(frame["bytes"].sum()), "end": float(frame["end"].max())}


def iotide_batches(path):
    """A large trace, batch by batch."""
    events = iotide.read(path)
    n_bytes = sum(float(batch["bytes"].sum()) for batch in events.batches())
    return {"rows": len(events), "bytes": n_bytes}


def iotide_detect(path):
    """The period of a trace of TMIO."""
    return {"period_s": round(iotide.detect(path).period.period_s)}


def peer_detect(path):
    (prediction,), _ = ftio_core.main(["ftio", path, "-e", "no"])
    strongest = max(range(len(prediction.conf)), key=lambda i: prediction.conf[i])
    return {"period_s": round(1.0 / float(prediction.dominant_freq[strongest]))}


def iotide_model(path):
    """Models of all metrics, and their values at a point that was not measured."""
    values = iotide.model(path, method="extrap").predict(p0=1024)
    return {callpath: value for (callpath, _), value in values.items()}


def peer_model(path):
    experiment = jsonlines_file_reader.read_jsonlines_file(path)
    generator = model_generator.ModelGenerator(experiment)
    generator.model_all()
    return {callpath.name: float(model.hypothesis.function.evaluate([1024.0])) for (callpath, _), model in generator.models.items()}


IMPORTS = {
    "iotide": ["iotide", "pandas"],
    "summary": ["darshan"],
    "dxt": ["darshan", "pandas"],
    "heatmap": ["darshan"],
    "counters": ["darshan"],
    "read": ["pandas"],
    "detect": ["ftio.cli.ftio_core"],
    "model": ["extrap.fileio.file_reader.jsonlines_file_reader", "extrap.modelers.model_generator"],
}


def differences(a, b, at=""):
    """Where two answers differ; numbers may by rounding."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from differences(a[key], b[key], f"{at} {key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (one, other) in enumerate(zip(a, b)):
            yield from differences(one, other, f"{at} {i}")
    elif isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if abs(a - b) > 1e-6 * max(abs(a), abs(b)):
            yield f"{at}: {a} and {b}"
    elif a != b:
        yield f"{at}: {str(a)[:200]} and {str(b)[:200]}"


def main():
    if sys.argv[1] == "same":
        a, b = (json.load(open(path)) for path in sys.argv[2:4])
        differ = list(differences(a, b))
        sys.exit("answers differ:" + "; ".join(differ[:5]) if differ else 0)
    who, task, path, answer = sys.argv[1:5]
    for module in IMPORTS["iotide" if who == "iotide" else task]:
        globals()[module.rpartition(".")[2]] = importlib.import_module(module)
    work = globals()[f"{who}_{task}"]
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        answered = work(path)
    took = time.perf_counter() - began
    with open(answer, "w") as out:
        json.dump(answered, out)
    print(took)


main()
