"""Names that resolve to internal addresses, through a real name server and the host's own resolver."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.deadline import DEADLINE_S


def _run_probe(directory: Path, exempt: str) -> dict[str, Any]:
    ran = subprocess.run(
        ["unshare", "-rnm", sys.executable, "-m", "tests.jail.lying_name_server", directory, exempt],
        capture_output=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return dict(json.loads(ran.stdout))


def test_no_answer_of_a_name_server_leads_inside(tmp_path: Path) -> None:
    result = _run_probe(tmp_path, "127.0.0.2/32")
    statuses = result.pop("statuses")
    assert {name: seen for name, seen in statuses.items() if seen != [403, 403]} == {
        "public.example": [200, 200],
        "mixed.example": [200, 200],
        "rebinding.example": [200, 403],  # it is asked for anew, and never between check and connection
    }
    assert result == {"inside": 0, "public": 5, "addresses": ["127.0.0.2"], "rebinding_queries": 2}


def test_without_the_check_of_addresses_they_lead_inside(tmp_path: Path) -> None:
    result = _run_probe(tmp_path, "127.0.0.0/8")
    assert result["inside"] > 5
    assert result["statuses"]["mapped.example"] == result["statuses"]["chain.example"] == [200, 200]
