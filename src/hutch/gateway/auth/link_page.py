"""The page that a one-time link opens.

It asks the server for nothing until a person presses the button: whatever looks at links
ahead of people, in mail and chat, spends nothing. The secret stands behind the # of the
address, which is never sent, and is taken out of the address at once.
"""

import base64
import hashlib

from fastapi import APIRouter, Response

routes = APIRouter(include_in_schema=False)

STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:24rem;margin:12vh auto;padding:0 1rem}
body{color:#1b1b1b;background:#fff}
label{display:block;margin:.8rem 0}input{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}
button{font:inherit;padding:.5rem 1rem;margin-right:.5rem}[hidden]{display:none}
@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}}
"""
SCRIPT = """
const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
const $ = (id) => document.getElementById(id);
let csrf = "";
async function call(method, path, body) {
  const answer = await fetch("/api/v1" + path, {
    method, headers: {"Content-Type": "application/json", "X-CSRF-Token": csrf}, body: JSON.stringify(body)});
  const told = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw new Error(told.detail || answer.statusText);
  return told;
}
function on(id, event, does) {
  $(id).addEventListener(event, async (e) => {
    e.preventDefault();
    $("said").textContent = "";
    try { await does(); } catch (error) { $("said").textContent = error.message; }
  });
}
function home() { location.replace("/"); }
on("login", "submit", async () => {
  const told = await call("POST", "/login/link", {link: secret});
  csrf = told.csrf;
  $("login").hidden = true;
  $("password").hidden = false;
  $("who").textContent = told.user.name;
});
on("password", "submit", async () => {
  await call("PUT", "/me/password", {password: $("new").value});
  home();
});
on("skip", "click", async () => home());
on("accept", "submit", async () => {
  await call("POST", "/invites/accept", {invite: secret, name: $("name").value, password: $("chosen").value});
  home();
});
if (secret.startsWith("hutchlink_")) $("login").hidden = false;
else if (secret.startsWith("hutchinvite_")) $("accept").hidden = false;
else $("said").textContent = "This is not a whole link. Open it again as it was given to you.";
"""
HOME = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Hutch</title><style>{STYLE}</style></head><body>
<h1>Hutch</h1>
<p>This server is up. There is no web app yet: work with it by <code>hutch</code> on the command line, or by
its API, whose document is at <a href="/api/openapi.json">/api/openapi.json</a>.</p>
</body></html>
"""
PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Hutch</title><style>{STYLE}</style></head><body>
<h1>Hutch</h1>
<form id="login" hidden><p>This link logs this browser in. It works once.</p><button>Log in</button></form>
<form id="password" hidden><p>You are logged in as <b id="who"></b>. Set a password to come back with.</p>
<label>Password <input id="new" type="password" autocomplete="new-password" minlength="10" required></label>
<button>Set it</button><button type="button" id="skip">Not now</button></form>
<form id="accept" hidden><p>You are invited. Choose how you are called here, and a password.</p>
<label>Name <input id="name" autocomplete="username" maxlength="64" required></label>
<label>Password
<input id="chosen" type="password" autocomplete="new-password" minlength="10" required></label>
<button>Come in</button></form>
<p id="said" role="alert"></p>
<noscript>This page needs JavaScript.</noscript>
<script>{SCRIPT}</script></body></html>
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(STYLE)}; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}


@routes.get("/link")
async def link_page() -> Response:
    """The same for everybody: it holds nothing, and tells nothing."""
    return Response(PAGE, media_type="text/html; charset=utf-8", headers=HEADERS)


@routes.get("/")
async def home_page() -> Response:
    """What a browser finds that was just logged in."""
    return Response(HOME, media_type="text/html; charset=utf-8", headers=HEADERS)
