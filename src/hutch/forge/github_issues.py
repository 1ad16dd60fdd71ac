"""The issues of a repository on GitHub."""

from typing import Literal

from hutch.forge.gh_command import GitHubFailed
from hutch.forge.github_repository_api import GitHub
from hutch.forge.github_responses import get_page_url, get_text, get_value, require_number, require_text
from hutch.system.lazy_dataclass import dataclass

PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue. Everybody can write its texts."""

    url: str
    title: str
    body: str
    labels: tuple[str, ...]
    state: Literal["open", "done", "cancelled"]


async def list_issues(api: GitHub, *, maximum: int) -> list[Issue]:
    """The issues that were changed last, the newest first. Pull requests are none."""
    found: list[Issue] = []
    page = 1
    while True:
        way = f"issues?state=all&sort=updated&direction=desc&per_page={PAGE}&page={page}"
        try:
            listed = (await api.gh.api("GET", f"repos/{api.full_name}/{way}")).json_list()
        except GitHubFailed as failed:
            raise failed.error from None
        found += [_issue(each, api) for each in listed if "pull_request" not in each]
        page += 1
        if len(listed) < PAGE or page * PAGE > maximum:
            return found


def _issue(response: dict[str, object], api: GitHub) -> Issue:
    number = require_number(response, "number")
    closed = require_text(response, "state") != "open"
    labels = response.get("labels")
    return Issue(
        url=get_page_url(response, api.gh.host) or f"https://{api.gh.host}/{api.full_name}/issues/{number}",
        title=get_text(response, "title"),
        body=get_text(response, "body"),
        labels=tuple(
            str(get_value(each, "name") or "") for each in (labels if isinstance(labels, list) else ())
        ),
        state="open"
        if not closed
        else "cancelled"
        if get_text(response, "state_reason") == "not_planned"
        else "done",
    )
