"""Writes docs/openapi.json, from which clients are generated.

`python scripts/openapi.py` writes it; with `--check` it only checks the document,
and exits with 1 if it is stale.
"""

import json
import sys
from pathlib import Path

from fastapi import FastAPI

from hutch.gateway.app import add_routes
from hutch.gateway.openapi import describe

DOCUMENT = Path(__file__).parent.parent / "docs" / "openapi.json"


def document() -> str:
    app = FastAPI()
    add_routes(app)
    return json.dumps(describe(app), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    written = document()
    if sys.argv[1:] == ["--check"]:
        fresh = DOCUMENT.exists() and DOCUMENT.read_text() == written
        if not fresh:
            print(f"{DOCUMENT.name} is stale. Run: python scripts/openapi.py", file=sys.stderr)
        return 0 if fresh else 1
    DOCUMENT.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
