"""Labels of many runs, mapped over clusters: those of `iotide categorize`, to the byte."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Iterable, List

import iotide
import pytest
from conftest import command_line, write_run

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture
def logs_of_many_runs(tmp_path: Path) -> List[str]:
    """Nine runs."""
    return [str(write_run(tmp_path / f"run{i}.csv", period_s=5.0 + i)) for i in range(9)]


@pytest.fixture
def archive(logs_of_many_runs: List[str], tmp_path: Path) -> List[str]:
    """Nine runs, and three paths of what has no labels."""
    (tmp_path / "noise.bin").write_bytes(b"\x01\x02 nothing that is known")
    (tmp_path / "empty.csv").write_bytes(b"")
    return [*logs_of_many_runs, *(str(tmp_path / name) for name in ("noise.bin", "empty.csv", "missing.csv"))]


def same_results(lines: Iterable[str], archive: List[str], folder: Path) -> None:
    """Puts lines together, and holds the results beside those of the command line."""
    folder.mkdir()
    (folder / "lines.jsonl").write_text("".join(f"{line}\n" for line in lines))
    command_line("categorize", "--merge", str(folder / "lines.jsonl"), f"--out={folder / 'merged'}")
    (folder / "list").write_text("\n".join(archive))
    command_line("categorize", f"--files={folder / 'list'}", f"--out={folder / 'whole'}")
    files = {path.name for path in (folder / "whole").iterdir()} - {"made-with.toml"}
    assert {"runs.jsonl", "rejected.jsonl", "runs.parquet", "statistics.json", "index.html"} <= files
    for name in files:
        assert (folder / "merged" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name


def test_arrow_batches_of_paths_become_lines_of_results(archive: List[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a job array of Slurm the command line would label a part.
    for name, value in {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "4"}.items():
        monkeypatch.setenv(name, value)
    parts = [archive[:5], [], [*archive[5:], None]]
    batches = [pyarrow.RecordBatch.from_pydict({"n": [0] * len(part), "path": pyarrow.array(part, "string")}) for part in parts]
    labelled = list(iotide.label_many(iter(batches)))
    assert [batch.num_rows for batch in labelled] == [5, 0, 7]
    assert labelled[0]["path"].to_pylist() == archive[:5]
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"):
        monkeypatch.delenv(name)
    same_results((line for batch in labelled for line in batch["line"].to_pylist()), archive, tmp_path / "results")
    assert list(iotide.label_many(iter([]))) == []
    with pytest.raises(iotide.UsageError, match="--method"):
        list(iotide.label_many(iter(batches), method="guess"))


def test_a_dask_cluster_labels_as_the_command_line(logs_of_many_runs: List[str], document: Any) -> None:
    distributed = pytest.importorskip("distributed")
    bag = pytest.importorskip("dask.bag")
    stated = document("categorize", *logs_of_many_runs)["runs"]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster):
        # The last of five parts holds nothing.
        paths = bag.from_sequence(logs_of_many_runs, npartitions=5).filter(lambda path: not path.endswith("run8.csv"))
        labelled = paths.map_partitions(iotide.label_many).compute()
    assert json.dumps([run.to_dict() for run in labelled]) == json.dumps(stated[:8])


def test_spark_labels_as_the_command_line(archive: List[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="`./test spark` installs it")
    if shutil.which("java") is None:
        pytest.skip("no java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    building = sql.SparkSession.builder.master("local[2]").config(map=settings)
    spark = building.getOrCreate()
    try:
        frame = spark.createDataFrame([(path,) for path in archive], "path string").repartition(3)
        labelled = frame.mapInArrow(iotide.label_many, "path string, line string")
        labelled.select("line").write.text(str(tmp_path / "written"))
        kept = labelled.filter("path like '%run1.csv'").collect()
        # Of three parts two hold nothing.
        none = spark.createDataFrame([(archive[0],)], "path string").repartition(3).mapInArrow(iotide.label_many, labelled.schema)
        assert none.count() == 1
    finally:
        spark.stop()
    lines = [line for part in sorted((tmp_path / "written").glob("part-*")) for line in part.read_text().splitlines()]
    assert len(lines) == len(archive) and len(kept) == 1
    same_results(lines, archive, tmp_path / "results")
