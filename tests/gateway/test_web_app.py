"""The page of the web app and its files, as a real server gives them to a browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.hutch_up_process import TIMEOUT_S, Home

HTML = {"Accept": "text/html,*/*;q=0.8"}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    home = Home(tmp_path_factory.mktemp("web"))
    with home.up() as up, httpx.Client(base_url=up.url, timeout=TIMEOUT_S, trust_env=False) as client:
        yield client


def test_every_page_of_the_app_is_the_same_document(http: httpx.Client) -> None:
    app = (Path(__file__).parents[2] / "web/src/app.tsx").read_text("utf-8")
    routes = re.findall(r'<Route (?:key=\S+ )?path="([^"]+)"', app)
    assert len(routes) > 20
    for path in ("/login", *(re.sub(r":\w+[?]?", "some_01", route) for route in routes)):
        answer = http.get(path, headers=HTML)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store"), path
        assert '<div id="root">' in answer.text


def test_pages_have_a_name_in_the_metrics(http: httpx.Client) -> None:
    assert http.get("/s/ses_01/time", headers=HTML).status_code == 200
    assert 'method="GET",route="page",status="200"' in http.get("/metrics").text


def test_an_unknown_page_is_the_app_with_404(http: httpx.Client) -> None:
    answer = http.get("/nothing/here", headers=HTML)
    assert answer.status_code == 404
    assert '<div id="root">' in answer.text


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/assets/index-0.js", "/assets/..%2findex.html", "/x.php"]
)
def test_programs_and_missing_files_get_no_page(http: httpx.Client, path: str) -> None:
    answer = http.get(path, headers=HTML)
    assert answer.status_code == 404
    assert "<html" not in answer.text


def test_each_answer_has_a_nonce_of_its_own_and_allows_no_inline_script(http: httpx.Client) -> None:
    first, second = (http.get("/", headers=HTML) for _ in range(2))
    policies = [answer.headers["content-security-policy"] for answer in (first, second)]
    nonces = [re.search(r"'nonce-([\w-]{20,})'", policy)[1] for policy in policies]
    assert nonces[0] != nonces[1]
    assert f'nonce="{nonces[0]}"' in first.text
    assert "script-src 'self';" in policies[0]
    assert "frame-ancestors 'none'" in policies[0]


def test_files_are_immutable_and_compressed(http: httpx.Client) -> None:
    script = re.search(r'src="(/assets/[^"]+\.js)"', http.get("/", headers=HTML).text)[1]
    answer = http.get(script, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert http.get(script, headers={"Accept-Encoding": "identity"}).content == answer.content


@pytest.mark.parametrize(("cookie", "written"), [("dark", "dark"), ('"><script>', "auto"), ("", "auto")])
def test_the_chosen_theme_is_in_the_page(http: httpx.Client, cookie: str, written: str) -> None:
    answer = http.get("/", headers={**HTML, "Cookie": f"hutch_theme={cookie}"})
    assert f'<html lang="en" data-theme="{written}">' in answer.text
