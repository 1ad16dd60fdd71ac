
const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
const $ = (id) => document.getElementById(id);
let csrf = "";
async function call(method, path, body) {
  const answer = await fetch("/api/v1" + path, {
    method, headers: {"Content-Type": "application/json", "X-CSRF-Token": csrf}, body: JSON.stringify(body)});
  const content = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw new Error(content.detail || answer.statusText);
  return content;
}
function on(id, event, does) {
  $(id).addEventListener(event, async (e) => {
    e.preventDefault();
    $("said").textContent = "";
    try { await does(); } catch (error) { $("said").textContent = error.message; }
  });
}
function show(id) {
  $(id).hidden = false;
  $(id).querySelector("input, button").focus();
}
function home() { location.replace("/start?first"); } // which leads on to the list, once there are sessions
on("login", "submit", async () => {
  const content = await call("POST", "/login/link", {link: secret});
  csrf = content.csrf;
  $("login").hidden = true;
  $("who").textContent = content.user.name;
  show("password");
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
if (secret.startsWith("hutchlink_")) show("login");
else if (secret.startsWith("hutchinvite_")) show("accept");
else $("said").textContent = "This is not a whole link. Open it again as it was given to you.";
