"""The choice of owners for tasks, and its reasons; and the reasons why a task waits."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.task import Task, TaskFields
from hutch.flows.task_work.automatic_assignment import choose, parse_skills
from hutch.flows.task_work.task_dependency_check import waits_for
from hutch.store.task_assignments import PastWork

CANDIDATES = parse_skills(["alice=python docs", "persona:engineer=python", "persona:writer=docs"])
IDLE = {each.owner: 0 for each in CANDIDATES}
SPEC = "persona:engineer"


def task(title: str = "Fix it", labels: tuple[str, ...] = (), key: str = "T-1", **fields: object) -> Task:
    made = TaskFields(title=title, labels=labels, **fields)  # type: ignore[arg-type]
    return Task(id=key, repository="r", key=key, fields=made, created_by="u", created_ms=0, updated_ms=0)


def test_skill_then_load_decide_and_the_sentence_says_so() -> None:
    wanted = task(labels=("docs",))
    assert choose(wanted, CANDIDATES, IDLE, []).owner == "alice"
    loaded = choose(wanted, CANDIDATES, {**IDLE, "alice": 2}, [])
    assert loaded.owner == "persona:writer"
    assert loaded.why == "persona:writer knows docs; has 0 open tasks, before alice."
    assert choose(task(labels=("rust",)), CANDIDATES, {**IDLE, "alice": 1}, []).owner == SPEC


def test_success_on_similar_files_and_cost_decide() -> None:
    past = [PastWork("engineer", True, ("src/pay/card.py",), 0.5)] * 3
    similar = choose(task("Fix src/pay/bank.py", ("python",)), CANDIDATES, IDLE, past)
    assert similar.owner == SPEC
    assert "finished 3 of 3 tasks on similar files" in similar.why and "0.50 dollars" in similar.why
    other = choose(task("Fix web/menu.ts", ("python",)), CANDIDATES, IDLE, past)
    assert other.owner == "alice"  # it costs nothing
    bad = [PastWork("engineer", False, ("src/pay/card.py",), 0.0)] * 3
    assert choose(task("Fix src/pay/bank.py", ("python",)), CANDIDATES, IDLE, bad).owner == "alice"


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(BadRequest, match="alice=python docs"):
        parse_skills(["alice"])
    assert choose(task(), [], {}, []).owner == ""


def test_a_task_waits_for_what_is_not_done_and_says_so() -> None:
    tasks = [
        task(key="T-1", depends_on=("T-2", "T-3", "T-9")),
        task(key="T-2", state="doing"),
        task(key="T-3", state="done"),
        task(key="T-4", depends_on=("T-5",)),
        task(key="T-5", depends_on=("T-4",)),
    ]
    assert waits_for(tasks[0], tasks) == "waits for T-2 (doing), T-9 (which does not exist)"
    assert waits_for(tasks[2], tasks) == ""
    assert waits_for(tasks[3], tasks).startswith("never begins: T-4 → T-5 → T-4 depend on each other")
