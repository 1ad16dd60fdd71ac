"""`hutch eval`, run as a person would."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from hutch.cli import exit_codes
from tests.agent.run_setups import BROKEN, FIX, call, replies
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, run

WRONG, TEST = (BROKEN[name].decode() for name in ("adding.py", "test_adding.py"))
MENDS = {
    "replies": [
        {"calls": [call("edit_file", **FIX)]},
        {"calls": [call("finish", title="Add", summary="Done.")]},
    ]
}
GIVES_UP = {"replies": [{"text": "I do not know."}]}


def environment(home: Path) -> dict[str, str]:
    return {"HUTCH_HOME": str(home), "PATH": os.defpath}


def hutch(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(
        [HUTCH, *arguments],
        env=environment(home) | env,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )


def task(name: str, cassette: Any, **more: Any) -> dict[str, Any]:
    begin = {"files": {"adding.py": WRONG}, "hidden_tests": {"test_adding.py": TEST}, "cassette": cassette}
    return {"name": name, "prompt": "Mend add.", **begin, **more}


def write_set(home: Path, *tasks: dict[str, Any]) -> str:
    (home / "set.json").write_text(json.dumps({"tasks": tasks}))
    return "set.json"


def workspaces(home: Path) -> list[str]:
    place = home / "data/workspaces"
    return [path.name for path in place.iterdir()] if place.exists() else []


def test_the_builtin_set_passes_and_leaves_no_workspace(tmp_path: Path) -> None:
    ran = hutch(tmp_path, "eval", "builtin", "--json", "report.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["passed"], report["failed"], report["not_run"]) == (4, 0, [])
    assert all(each["patch"].startswith("diff --git") and each["turns"] > 1 for each in report["tasks"])
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert rows[0] == ["task", "passed", "turns", "tokens", "cost", "time"]
    assert [row[:2] for row in rows[1:5]] == [[each["name"], "yes"] for each in report["tasks"]]
    assert rows[5][:3] == ["total", "4/4", str(report["turns"])]
    assert "pass rate: 100 % (51 to 100)" in ran.stdout
    assert workspaces(tmp_path) == []


def test_without_a_model_nothing_is_evaluated(tmp_path: Path) -> None:
    tasks = write_set(tmp_path, task("one", None), task("two", None))
    ran = hutch(tmp_path, "eval", tasks, "--json", "report.json")
    assert (ran.returncode, ran.stdout) == (6, ""), ran.stderr
    assert "hutch: No model is connected, so nothing was done. Set a key with" in ran.stderr
    assert "failed" not in ran.stderr
    assert json.loads((tmp_path / "report.json").read_text())["failed"] == 0
    assert workspaces(tmp_path) == []
    ran = hutch(tmp_path, "eval", tasks, "--model", "anthropic:claude-sonnet-5-5")
    assert ran.returncode == 4 and "There is no key for anthropic." in ran.stderr


def test_an_unknown_persona_is_refused_before_the_first_task(tmp_path: Path) -> None:
    ran = hutch(tmp_path, "eval", "builtin", "--persona", "nobody")
    assert (ran.returncode, ran.stdout) == (exit_codes.BAD_REQUEST, ""), ran.stderr
    assert "There is no persona 'nobody'. Known personas:" in ran.stderr and "started" not in ran.stderr


def test_a_rejected_key_has_its_own_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "denied.json"
    script.write_text(json.dumps({"replies": [{"fault": {"status": 401}, "times": 9}]}))
    ran = hutch(tmp_path, "eval", "builtin", "--filter", "off-by-one", "--model", f"scripted:{script}")
    assert ran.returncode == exit_codes.DENIED, ran.stderr
    assert "refuses with status 401" in ran.stdout + ran.stderr


def test_a_model_that_cannot_be_reached_has_its_own_exit_code(tmp_path: Path) -> None:
    unused = {"HUTCH_MODELS__OLLAMA_BASE_URL": "http://127.0.0.1:9"}
    ran = hutch(tmp_path, "eval", "builtin", "--filter", "off-by-one", "--model", "ollama:x", **unused)
    assert ran.returncode == exit_codes.UNAVAILABLE, ran.stderr
    assert "Nothing listens at http://127.0.0.1:9/v1" in ran.stdout


def test_a_task_that_fails_or_breaks_does_not_stop_the_others(tmp_path: Path) -> None:
    broken = task("broken", "none.yaml")
    unfinished = task("limited", MENDS, limits={"turns": 1})
    tasks = write_set(tmp_path, broken, task("given-up", GIVES_UP), unfinished, task("mended", MENDS))
    ran = hutch(tmp_path, "eval", tasks, "--jobs", "1", "--json", "-")
    assert ran.returncode == 3, ran.stderr
    report = json.loads(ran.stdout)
    result = {each["name"]: (each["passed"], each["outcome"]) for each in report["tasks"]}
    assert result == {
        "broken": (False, "error"),
        "given-up": (False, "done"),
        "limited": (True, "limit_reached"),  # what was done by then is what counts
        "mended": (True, "done"),
    }
    reasons = {each["name"]: each["reason"] for each in report["tasks"]}
    assert "none.yaml" in reasons["broken"]
    assert "AssertionError: -1 != 5" in reasons["given-up"]
    assert workspaces(tmp_path) == []


def test_the_agent_cannot_find_the_hidden_tests(tmp_path: Path) -> None:
    looks = "ls -A; find / -name 'test_hidde*' -not -path '/proc/*' 2>/dev/null; grep -rs MAR[K]ED . /tmp ~"
    cassette = {"replies": [{"calls": [call("bash", command=looks)]}, *MENDS["replies"]]}
    hidden = {"test_hidden.py": TEST + "# MARKED\n"}
    tasks = write_set(tmp_path, task("looking", cassette, hidden_tests=hidden))
    ran = hutch(tmp_path, "eval", tasks, "--json", "report.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (done,) = json.loads((tmp_path / "report.json").read_text())["tasks"]
    log = hutch(tmp_path, "log", done["session_id"], "--json").stdout
    assert "adding.py" in log
    assert "test_hidden.py" not in log and "MARKED" not in log
    assert "test_hidden.py" not in done["patch"]


def git(repo: Path, *words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    settings = {"PATH": os.defpath, "HOME": str(repo), "GIT_COMMITTER_EMAIL": "a@b", **who}
    ran = subprocess.run(
        ["git", "-C", repo, *words], env=settings, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


def make_repository(place: Path) -> str:
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / "adding.py").write_text(WRONG)
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    return git(place, "rev-parse", "HEAD")


def test_swe_bench_jsonl_is_read(tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "project")
    (tmp_path / "project/adding.py").write_text("later\n")
    git(tmp_path / "project", "commit", "-q", "-a", "-m", "second")
    added = "".join(f"+{line}\n" for line in TEST.splitlines())
    patch = (
        "diff --git a/test_adding.py b/test_adding.py\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/test_adding.py\n@@ -0,0 +1,{len(TEST.splitlines())} @@\n{added}"
    )
    one = {
        "instance_id": "project-1",
        "repo": "project",
        "base_commit": commit,
        "problem_statement": "add(2, 3) is -1.",
        "test_patch": patch,
        "FAIL_TO_PASS": '["test_adding.Adding.test_add"]',
        "PASS_TO_PASS": "[]",
        "test_command": "python3 -m unittest",
    }
    (tmp_path / "mends.json").write_text(replies(*MENDS["replies"]))
    (tmp_path / "idle.json").write_text(replies(*GIVES_UP["replies"]))
    lines = [one | {"cassette": "mends.json"}, one | {"instance_id": "project-2", "cassette": "idle.json"}]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ran = hutch(tmp_path, "eval", "set.jsonl", "--json", "-")
    assert ran.returncode == 3, ran.stderr
    result = [(each["name"], each["passed"]) for each in json.loads(ran.stdout)["tasks"]]
    assert result == [("project-1", True), ("project-2", False)], ran.stdout


def test_a_set_in_the_repository_that_it_is_about_is_refused(tmp_path: Path) -> None:
    make_repository(tmp_path / "project")
    shown = task("shown", MENDS, repo="..") | {"files": {}}
    (tmp_path / "project/evals").mkdir()
    (tmp_path / "project/evals/set.json").write_text(json.dumps([shown]))
    outside = hutch(
        tmp_path, "eval", "project/evals/set.json"
    )  # it is not committed, so the agent has it not
    assert outside.returncode == 0, outside.stdout + outside.stderr
    git(tmp_path / "project", "add", ".")
    git(tmp_path / "project", "commit", "-q", "-m", "tasks")
    inside = hutch(tmp_path, "eval", "project/evals/set.json")
    assert inside.returncode == 3
    assert "The agent would see the hidden tests: evals/set.json is in the repository." in inside.stdout


def test_an_interruption_keeps_the_results(tmp_path: Path) -> None:
    slow = {"replies": [{"text": "Hm.", "delay_s": 600}]}
    tasks = write_set(tmp_path, task("quick", MENDS), task("slow", slow), task("never", MENDS))
    words = [HUTCH, "eval", tasks, "--jobs", "1", "--json", "report.json"]
    running = subprocess.Popen(
        words,
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("slow: started"):
            break
    time.sleep(1)  # into the run, or near it: either is well
    running.send_signal(signal.SIGINT)
    printed, result = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 130, result
    assert "Interrupted: 2 of 3 tasks were not finished" in result
    assert [line.split()[0] for line in printed.splitlines()[:3]] == ["task", "quick", "total"]
    report = json.loads((tmp_path / "report.json").read_text())
    assert [each["name"] for each in report["tasks"]] == ["quick"]
    assert report["not_run"] == ["slow", "never"]
    assert workspaces(tmp_path) == []


def test_tasks_are_filtered_by_name(tmp_path: Path) -> None:
    one = hutch(tmp_path, "eval", "builtin", "--filter", "off-*")
    assert one.returncode == 0, one.stderr
    assert [line.split()[0] for line in one.stdout.splitlines()[:3]] == ["task", "off-by-one", "total"]
    none = hutch(tmp_path, "eval", "builtin", "--filter", "nothing")
    assert none.returncode == 2
    assert "The tasks are: off-by-one, " in none.stderr
    lost = hutch(tmp_path, "eval", "none.yaml")
    assert lost.returncode == 2
    assert "Name a set of tasks, or 'builtin'." in lost.stderr
    unwritable = hutch(tmp_path, "eval", "builtin", "--json", "none/report.json")
    assert unwritable.returncode == 6
    assert "off-by-one" not in unwritable.stderr


def scripts(home: Path, **cassettes: Any) -> dict[str, str]:
    """A model for each cassette, by name."""
    for name, cassette in cassettes.items():
        (home / f"{name}.json").write_text(json.dumps(cassette))
    return {name: f"scripted:{home}/{name}.json" for name in cassettes}


def test_models_are_compared_on_repeated_attempts_with_intervals(tmp_path: Path) -> None:
    models = scripts(tmp_path, good=MENDS, bad=GIVES_UP)
    tasks = write_set(tmp_path, task("one", None), task("two", None))
    words = ("eval", tasks, "--repeat", "2", "--model", models["bad"], "--model", models["good"])
    ran = hutch(tmp_path, *words, "--json", "report.json")
    assert ran.returncode == 3, ran.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["passed"], report["failed"], len(report["tasks"])) == (4, 4, 8)
    keys = {(each["name"], each["attempt"], each["asked_model"]) for each in report["tasks"]}
    assert len(keys) == 8
    bad, good = report["pass_rates"]
    assert (bad["rate"], good["rate"]) == (0.0, 1.0) and 0 < bad["high"] < 1 and 0 < good["low"] < 1
    assert good["minus_first"]["rate"] == 1.0 and good["minus_first"]["low"] < 1
    assert f"one {models['good']}: 2/2, 100 % (34 to 100)" in ran.stdout
    assert f"difference of {models['good']} to {models['bad']}: 100 %" in ran.stdout
    assert workspaces(tmp_path) == []


def test_each_attempt_can_be_the_best_of_several_tries(tmp_path: Path) -> None:
    tasks = write_set(tmp_path, task("one", MENDS))
    ran = hutch(tmp_path, "eval", tasks, "--tries", "2", "--json", "-")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (done,) = json.loads(ran.stdout)["tasks"]
    assert done["passed"] and done["turns"] >= 2 and "a + b" in done["patch"]
    events = [
        json.loads(each)["event"]
        for each in hutch(tmp_path, "log", done["session_id"], "--json").stdout.splitlines()
    ]
    assert [len(each["tries"]) for each in events if each["type"] == "tries.judged"] == [2]
    assert workspaces(tmp_path) == []
    assert hutch(tmp_path, "eval", tasks, "--tries", "1").returncode == 2


def test_a_task_can_begin_in_a_recorded_session(tmp_path: Path) -> None:
    make_repository(tmp_path / "project")
    models = scripts(tmp_path, bad=GIVES_UP, good=MENDS)
    first = run(
        [HUTCH, "run", "Mend add.", "--no-pr", "--json", "--model", models["bad"]],
        env=environment(tmp_path),
        cwd=tmp_path / "project",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    assert first.returncode in (0, 3), first.stderr
    recorded = str(json.loads(first.stdout.splitlines()[-1])["session"])
    again = task("again", None) | {"files": {}, "prompt": "", "rerun": {"session": recorded}}
    tasks = write_set(tmp_path, again)
    ran = hutch(tmp_path, "eval", tasks, "--model", models["good"], "--model", models["bad"], "--json", "-")
    assert ran.returncode == 3, ran.stderr
    report = json.loads(ran.stdout)
    assert [each["passed"] for each in report["tasks"]] == [True, False], report
    log = hutch(tmp_path, "log", report["tasks"][0]["session_id"], "--json").stdout
    assert "Mend add." in log  # the prompt of the recorded run
    unknown = write_set(tmp_path, again | {"rerun": {"session": "ses_" + "0" * 26, "event": 3}})
    ran = hutch(tmp_path, "eval", unknown, "--model", models["good"])
    assert ran.returncode == 3 and "ses_0000" in ran.stdout
