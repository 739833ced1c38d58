"""Traces as tables, in data frames that are not ours."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import iotide
import pytest
from conftest import command_line, write_run

numpy = pytest.importorskip("numpy")
pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")


def test_events_are_those_that_convert_writes(run: Path, tmp_path: Path) -> None:
    events = iotide.read(run)
    assert events.columns == ["rank", "op", "start", "end", "bytes", "file", "layer", "grain", "calls"]
    assert len(events) == 40 and events.nprocs == 2 and events.run_time_s == 200.0
    command_line("convert", str(run), "--to=csv", f"--output={tmp_path / 'events.csv'}")
    written = pandas.read_csv(tmp_path / "events.csv", comment="#")
    for frame in [events.to_pandas(), pyarrow.table(events).to_pandas()]:
        assert list(frame["file"]) == list(written["file"])
        assert list(frame["op"]) == list(written["op"])
        for column in ("rank", "start", "end", "bytes"):
            assert numpy.allclose(frame[column], written[column])


def test_a_table_of_many_batches_is_whole_whoever_reads_it(tmp_path: Path) -> None:
    path = write_run(tmp_path / "large.csv", period_s=2.0, n_phases=50_000, n_ranks=4)
    events = iotide.read(path)
    batches = list(events.batches())
    assert len(batches) > 2 and sum(len(batch["start"]) for batch in batches) == len(events) == 200_000
    frame = events.to_pandas()
    arrow = pyarrow.table(events)
    arrow.validate(full=True)
    assert arrow.num_rows == 200_000
    assert frame["bytes"].sum() == 2e13 == sum(batch["bytes"].sum() for batch in batches)
    assert (events["start"] == arrow["start"].to_numpy()).all()
    assert frame["file"].tolist() == arrow["file"].to_pylist()
    counts = frame.groupby("file")["bytes"].count()
    assert counts.to_dict() == {f"/scratch/out.{rank}": 50_000 for rank in range(4)}


def test_a_table_can_be_left_and_outlived(tmp_path: Path) -> None:
    events = iotide.read(write_run(tmp_path / "large.csv", period_s=2.0, n_phases=50_000, n_ranks=4))
    first = next(events.batches())
    reader = pyarrow.RecordBatchReader.from_stream(events)
    batch = reader.read_next_batch()
    events.__arrow_c_stream__()
    del events, reader
    gc.collect()
    assert first["start"][0] == 0.0 and batch["start"][0].as_py() == 0.0
    assert not first["start"].flags.writeable


def test_a_text_that_does_not_exist_is_none(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("rank,op,start,end,bytes,file\n0,write,0,1,5,\n1,write,1,2,5,/a\n")
    events = iotide.read(tmp_path / "run.csv")
    assert events["file"].tolist() == [None, "/a"] == pyarrow.table(events)["file"].to_pylist()
    assert events.to_pandas()["file"].isna().tolist() == [True, False]
    assert "/a" in events._repr_html_()


def test_other_data_frames_take_it(run: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(iotide.read(run))
    assert frame["bytes"].sum() == 4e9 and frame["file"][0] == "/scratch/out.0"
    duckdb = pytest.importorskip("duckdb")
    events = iotide.read(run)
    answer = duckdb.sql("select file, sum(bytes) from events where op = 'write' group by file order by file").fetchall()
    assert answer == [("/scratch/out.0", 2e9), ("/scratch/out.1", 2e9)] and len(events) == 40


def darshan_logs(logs: Path) -> list[Path]:
    return sorted(path for path in logs.rglob("*.darshan") if path.stat().st_size < 200_000)[:8]


def test_tables_of_darshan_add_up_to_what_info_says(logs: Path, document: Any) -> None:
    for path in darshan_logs(logs):
        try:
            log = iotide.darshan(path)
        except iotide.InputError:
            continue
        told = document("info", str(path))["runs"][0]
        assert log.job.to_dict() == told["job"] and log.info.to_dict() == document("info", str(path))
        sums_of = log.counters.to_pandas().groupby(["module", "counter"])["value"].sum()
        for name, module in told["modules"].items():
            if not module["totals"] or name == "LUSTRE":
                continue
            records = log.records(name).to_pandas()
            for counter, total in module["totals"].items():
                assert sums_of[name, counter] == pytest.approx(total, rel=1e-9) == records[counter].sum(), (path, counter)
        dxt = log.dxt
        segments = dxt.to_pandas()
        assert len(segments) == len(dxt)
        for name, sums in told["dxt"].items():
            of_module = segments[segments["module"] == name]
            assert of_module["length"][of_module["op"] == "read"].sum() == sums["bytes_read"]
            assert of_module["length"][of_module["op"] == "write"].sum() == sums["bytes_written"]
        heat = log.heatmap.to_pandas()
        for name, sums in told["heatmap"].items():
            of_layer = heat[heat["module"] == name]
            assert of_layer["read"].sum() == sums["bytes_read"] and of_layer["write"].sum() == sums["bytes_written"]
        pyarrow.table(log.counters).validate(full=True)
        assert len(log.names) == pyarrow.table(log.names).num_rows
