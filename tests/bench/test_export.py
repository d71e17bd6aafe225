"""A run as tables: what is in them, in both forms, whatever a model wrote."""

import asyncio
import json
import subprocess
import sys

import pandas as pd
import pytest

from bench.__main__ import main
from bench.clients import ScriptedClient
from bench.drivers import make_driver
from bench.export import KEYS, export
from bench.paths import find_datasets
from bench.records import RunFolder
from bench.run import plan_jobs, run_all
from bench.tasks import load_tasks
from bench.types import Usage, WorkbenchError

HOSTILE = '=1+1, "quoted"\r\n\ttab \ud800 lone, \x00 nul, 北京'
CALL = 'Action: get_weather\nAction Input: {"city": "Beijing"}'
FORMS = ("csv", "parquet")


def model(request):
    if request.key.step == 0:
        return "Action: get_wether\nAction Input: {}"
    return CALL if request.key.step == 1 else f"Final Answer: 25 {HOSTILE} end"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = RunFolder.create(tmp_path_factory.mktemp("results"), "mine", {"format": 1})
    tasks = load_tasks(ids=["single-01"])
    jobs = plan_jobs(tasks, [make_driver("react")], [ScriptedClient(model)], trials=2)
    asyncio.run(run_all(jobs, folder))
    folder.close()
    return folder


def read(path):
    return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


@pytest.fixture(params=FORMS)
def tables(request, run, tmp_path):
    paths = export(run, request.param, tmp_path / "out")
    assert [path.name for path in paths] == [
        f"{name}.{request.param}" for name in ("episodes", "turns", "calls", "readings")
    ]
    return {path.stem: read(path) for path in paths}


def test_every_episode_turn_call_and_reading_has_a_row(tables):
    rows = {name: len(frame) for name, frame in tables.items()}
    assert rows == {"episodes": 4, "turns": 12, "calls": 8, "readings": 12}


def test_the_tables_join_by_their_keys(tables):
    keys = [key for key in KEYS if key != "step"]
    joined = tables["readings"].merge(tables["episodes"], on=keys, suffixes=("", "_episode"))
    assert len(joined) == 12
    both = tables["turns"].merge(tables["readings"], on=list(KEYS))
    assert len(both) == 12
    assert not tables["turns"].duplicated(list(KEYS)).any()


def test_counts_and_outcomes_are_those_of_the_run(tables, run):
    lines = list(run.lines())
    episodes, readings = tables["episodes"], tables["readings"]
    assert int(episodes["replies"].sum()) == sum(line["score"]["replies"] for line in lines)
    assert list(readings["outcome"].value_counts().sort_index().items()) == [
        ("answer", 4),
        ("call", 4),
        ("malformed", 4),
    ]
    assert json.loads(episodes["first_failures"].iloc[0]) == {"unknown_tool": 1}
    assert episodes["trial"].tolist() == [0, 1, 0, 1]


def test_calls_have_their_results_and_arguments(tables):
    calls = tables["calls"]
    good = calls[calls["failure"].isna()]
    assert [json.loads(text) for text in good["arguments"]] == [{"city": "Beijing"}] * 4
    assert all("celsius" in text or "temperature" in text for text in good["result"])
    assert not good["error"].any()
    assert set(calls["failure"].dropna()) == {"unknown_tool"}


def test_whatever_a_model_wrote_is_kept(tables):
    """In text that every table can hold: a lone surrogate as its escape."""
    final = tables["readings"]["final"].dropna().iloc[0]
    assert final.startswith('25 =1+1, "quoted"')
    assert final.endswith("北京 end")
    assert "\\ud800" in final or "\ufffd" in final


def test_numbers_with_gaps_stay_whole_numbers(run, tmp_path):
    frame = pd.read_parquet(export(run, "parquet", tmp_path)[2])
    assert str(frame["number"].dtype) == "Int64"
    turns = pd.read_parquet(tmp_path / "turns.parquet")
    assert turns["prompt_tokens"].isna().all() == (Usage().prompt is None)


def test_the_command_writes_beside_the_run_unless_told(run, tmp_path, capsys):
    root = str(run.path.parent)
    assert main(["export", run.path.name, "--to", "csv", "--results", root]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        str(run.path / "export" / f"{n}.csv") for n in ("episodes", "turns", "calls", "readings")
    ]
    words = [
        "export",
        run.path.name,
        "--to",
        "csv",
        "--out",
        str(tmp_path / "x"),
        "--results",
        root,
    ]
    assert main(words) == 0
    assert (tmp_path / "x" / "calls.csv").is_file()


def test_an_unknown_form_is_a_mistake(run, capsys):
    words = ["export", run.path.name, "--to", "xml", "--results", str(run.path.parent)]
    assert main(words) == 2
    assert "--to xml: no such form; known: csv, parquet" in capsys.readouterr().err


def test_without_pyarrow_parquet_is_a_mistake_and_csv_is_none(run, tmp_path):
    block = "import sys; sys.modules['pyarrow'] = None; from bench.__main__ import main; "
    for form, status in (("parquet", 2), ("csv", 0)):
        words = ["export", run.path.name, "--to", form, "--results", str(run.path.parent)]
        words += ["--out", str(tmp_path / form)]
        done = subprocess.run(
            [sys.executable, "-c", f"{block}sys.exit(main({words!r}))"],
            cwd=find_datasets().parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        if status:
            assert "needs pyarrow: pip install 'toolcall-workbench[parquet]'" in done.stderr
            assert len(done.stderr.strip().splitlines()) == 1


def test_a_run_without_calls_has_an_empty_table_with_its_columns(tmp_path):
    folder = RunFolder.create(tmp_path, "mine", {"format": 1})
    client = ScriptedClient(lambda _: "Final Answer: hello")
    jobs = plan_jobs(load_tasks(ids=["no_tool-01"]), [make_driver("react")], [client])
    asyncio.run(run_all(jobs, folder))
    folder.close()
    calls = pd.read_csv(export(folder, "csv", tmp_path / "out")[2])
    assert len(calls) == 0
    assert {"tool", "arguments", "result", *KEYS} <= set(calls.columns)


def test_a_run_without_an_episode_is_refused(tmp_path):
    folder = RunFolder.create(tmp_path, "mine", {"format": 1})
    folder.close()
    with pytest.raises(WorkbenchError, match="holds no finished episode"):
        export(folder, "csv")
