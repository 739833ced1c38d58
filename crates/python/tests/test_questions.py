"""Answers are those of the command line."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import iotide
import pytest
from conftest import command_line, write_run


def test_each_question_has_the_document_of_the_command_line(run: Path, slow: Path, document: Any) -> None:
    a, b, c = str(run), str(slow), str(write_run(run.with_name("again.csv")))
    for answer, args in [
        (iotide.detect(a), ["detect", a]),
        (iotide.detect(a, b, mode="write", window=(10, None), top=2), ["detect", "--mode=write", "--window=10:", "--top=2", a, b]),
        (iotide.detect(run, method="dft", freq=2.0, outliers=["zscore", "lof"]),
         ["detect", "--method=dft", "--freq=2.0", "--outliers=zscore,lof", a]),
        (iotide.categorize(a), ["categorize", a]),
        (iotide.issues(a), ["categorize", "--issues", a]),
        (iotide.info(a), ["info", a]),
        (iotide.report(a), ["report", a]),
        (iotide.compare(a, b), ["compare", a, b]),
        (iotide.compare(a, c, with_=[b]), ["compare", a, c, f"--with={b}"]),
        (iotide.why(b, history=[a]), ["why", b, f"--history={a}"]),
        (iotide.signature([a, c]), ["signature", a, c]),
        (iotide.simulate_io("mix", jobs=6, iterations=4, model="fluid"),
         ["simulate", "io", "mix", "--jobs=6", "--iterations=4", "--model=fluid"]),
        (iotide.simulate_jobs("mix", jobs=20), ["simulate", "jobs", "mix", "--jobs=20"]),
        (iotide.templates(a, b), ["templates", a, b]),
        (iotide.measure(a, bandwidth=1e9), ["measure", "--bandwidth=1000000000.0", a]),
        (iotide.checkpoint_advise(a, mtbf="8h"), ["checkpoint", "advise", "--mtbf=8h", a]),
        (iotide.label_many([a, b], workers=2), ["categorize", a, b]),
    ]:
        assert answer.to_dict() == document(*args), args
        assert json.loads(answer.to_json()) == answer.to_dict()


@pytest.mark.parametrize("question", ["info", "detect", "categorize"])
def test_answers_about_real_traces_are_those_of_the_command_line(question: str, logs: Path) -> None:
    # IOTIDE_ALL_TRACES=1 takes the large ones, too.
    most = float("inf") if os.environ.get("IOTIDE_ALL_TRACES") else 20_000
    files = sorted(path for path in (logs / "traces").rglob("*") if path.is_file() and path.stat().st_size <= most)
    told = json.loads(command_line(question, "--format=json", *map(str, files), check=False).stdout)
    stated = {run["source"]["path"]: run for run in told["runs"]}
    assert len(stated) > 50
    for path in map(str, files):
        try:
            answer = getattr(iotide, question)(path)
        except iotide.Error:
            assert path not in stated
        else:
            assert answer.to_dict()["runs"] == [stated[path]]


def test_fields_are_attributes_and_those_of_an_only_run_are_the_answers(run: Path, slow: Path) -> None:
    answer = iotide.detect(run)
    assert answer.found and answer.period.period_s == pytest.approx(10.0, rel=0.01)
    assert answer.period.period_s == answer.runs[0].period["period_s"] == answer["period"]["period_s"]
    assert "period" in dir(answer) and "period_s" in dir(answer.period)
    assert "10 s" in repr(answer) and repr(answer) == str(answer)
    assert answer == iotide.detect(run) != iotide.detect(slow)
    with pytest.raises(AttributeError, match="no 'perid'"):
        answer.perid
    with pytest.raises(AttributeError, match="period"):
        answer.period.perid
    with pytest.raises(AttributeError):
        answer.period.period_s = 3
    assert pickle.loads(pickle.dumps(answer)).period == answer.period


def test_an_answer_shows_itself_as_a_page_without_the_network(run: Path, slow: Path) -> None:
    for answer in [
        iotide.detect(run, mode="write"),
        iotide.categorize(run),
        iotide.issues(run),
        iotide.compare(run, slow),
        iotide.model({"p": [1, 2, 4, 8, 16], "time": [1.0, 2.1, 3.9, 8.2, 16.1]}),
        iotide.simulate_io("mix", jobs=4, iterations=3, model="fluid"),
        iotide.signature(run, write_run(run.with_name("again.csv"))),
    ]:
        page = answer.to_html()
        assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
        assert not any(word in page for word in ['src="http', 'href="http', "@import"])
        assert answer._repr_html_().startswith("<iframe ")


def test_measurements_may_be_in_memory(tmp_path: Path) -> None:
    sizes, times = [4, 8, 16, 32, 64], [8.0, 16.0, 32.0, 64.0, 128.0]
    columns = iotide.model({"p": sizes, "time": times})
    points = iotide.model(dict(zip(sizes, times)))
    (tmp_path / "points.csv").write_text("p,time\n" + "".join(f"{p},{t}\n" for p, t in zip(sizes, times)))
    file = iotide.model(tmp_path / "points.csv")
    assert columns.models[0].function == file.models[0].function == columns.formula
    assert columns.predict(p=128) == pytest.approx(256.0) == points.predict(p=128)
    low, high = file.interval(p=128)
    assert low <= 256.0 <= high
    assert columns.predict(p=[128, 256]) == pytest.approx([256.0, 512.0])
    two = iotide.model({"p": sizes, "read": times, "write": times})
    assert {metric for _, metric in two.predict(p=128)} == {"read", "write"}
    grid = {(p, n): p * n for p in sizes for n in (1, 2, 3, 4, 5)}
    assert iotide.model(grid, parameters=["p", "n"]).predict(p=128, n=10) == pytest.approx(1280.0, rel=1e-3)


def test_a_simulation_takes_a_dict() -> None:
    job = {"name": "a", "count": 2, "compute_s": 5, "io_bytes": 10**8, "iterations": 5}
    answer = iotide.simulate_io({"bandwidth_bps": 10**8, "jobs": [job]}, policies=["none", "set10"])
    assert {policy.policy for policy in answer.policies} >= {"none", "set10"}


def test_mistakes_have_the_words_of_the_command_line(run: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.csv")
    with pytest.raises(iotide.InputError) as missed:
        iotide.detect(missing)
    said = command_line("detect", missing, check=False).stderr
    assert f"iotide: {missed.value.message}\n" in said

    (tmp_path / "noise").write_bytes(b"\x01\x02 nothing that is known")
    with pytest.raises(iotide.Error) as unknown:
        iotide.categorize(tmp_path / "noise")
    said = command_line("categorize", str(tmp_path / "noise"), check=False).stderr
    assert unknown.value.hint and f"hint: {unknown.value.hint}" in said
    with pytest.raises(iotide.InputError, match="missing"):
        iotide.read(missing)
    with pytest.raises(iotide.InputError, match="not one Darshan log"):
        iotide.darshan(run)

    with pytest.raises(iotide.UsageError, match="unexpected argument '--perod'"):
        iotide.detect(run, perod=1)
    with pytest.raises(ValueError, match="--method"):
        iotide.detect(run, method="guess")
    with pytest.raises(iotide.UsageError, match="format"):
        iotide.detect(run, format="text")
    with pytest.raises(iotide.UsageError, match="int is no path"):
        iotide.detect(3)


def test_one_of_several_that_fails_is_a_warning(run: Path, tmp_path: Path) -> None:
    with pytest.warns(iotide.IncompleteWarning, match="missing"):
        answer = iotide.detect(run, tmp_path / "missing.csv")
    assert len(answer.runs) == 1


def test_many_are_labelled_as_one_by_one(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / f"run{i}.csv", period_s=5.0 + i) for i in range(12)]
    labels = iotide.label_many(paths, workers=3)
    assert labels == iotide.label_many(paths)
    assert len(labels) == 12 and [run.source.path for run in labels] == list(map(str, paths))
    assert pickle.loads(pickle.dumps(iotide.label_many))(paths) == labels


def test_progress_is_told(run: Path, slow: Path) -> None:
    heard: list[str] = []
    iotide.compare(run, slow, progress=heard.append)
    assert any("slow.csv" in text for text in heard)
    with pytest.raises(ZeroDivisionError):
        iotide.compare(run, slow, progress=lambda text: 1 / 0)


def test_labelling_is_mapped_over_processes(tmp_path: Path) -> None:
    paths = [str(write_run(tmp_path / f"run{i}.csv", period_s=5.0 + i)) for i in range(6)]
    one_by_one = [run.to_dict() for run in iotide.label_many(paths)]
    parts = [paths[:2], paths[2:4], paths[4:]]
    # Started anew rather than forked: threads of this process do not live on in a fork.
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert [run.to_dict() for labels in pool.map(iotide.label_many, parts) for run in labels] == one_by_one
    assert len(iotide.label_many([])) == 0 == len(list(iotide.label_many(iter([]))))
