"""The frames of logs that the web app folds, as the command line renders them.

Each file has both results: `view` of the web app and `transcript` of the command line. UPDATE_VECTORS=1
writes the transcripts anew.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hutch.cli.render.transcript import Line, ReplyPart, Transcript

VECTORS = Path(__file__).parents[1] / "vectors" / "fold"
FILES = sorted(VECTORS.glob("*.json"))


def rendered(frames: list[dict[str, Any]]) -> tuple[Transcript, list[str]]:
    """A transcript of frames, and its lines."""
    transcript, lines, is_open = Transcript(me="usr_1"), list[str](), False
    for frame in frames:
        shown = transcript.delta(frame["delta"]) if "delta" in frame else transcript.entry(frame["entry"])
        for each in shown:
            if isinstance(each, Line):
                lines.append(each.lead + each.text)
            elif is_open:
                lines[-1] += each.text
            else:
                lines.append(each.text)
            is_open = isinstance(each, ReplyPart) and not each.end
    return transcript, lines


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_command_line_and_web_app_agree_on_a_log(file: Path) -> None:
    vector = json.loads(file.read_text())
    transcript, lines = rendered(vector["frames"])
    if os.environ.get("UPDATE_VECTORS"):
        file.write_text(json.dumps({**vector, "transcript": lines}, indent=1, ensure_ascii=False) + "\n")
    else:
        assert lines == vector["transcript"]
    view = vector["view"]
    assert transcript.state == view["state"]
    asked = [row["approval"] or row["question"] for row in view["rows"] if row["id"] in view["pending"]]
    assert list(transcript.waiting) == [each["callId"] for each in asked]
