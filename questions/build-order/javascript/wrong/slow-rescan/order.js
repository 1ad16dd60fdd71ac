// Right, but looks at all tasks again to find the next one. Orders the tasks of a build by what they need.

export function buildOrder(tasks) {
  graphOf(tasks);
  const order = [];
  const done = new Set();
  const names = Object.keys(tasks);
  while (order.length < names.length) {
    const ready = names.filter((name) => !done.has(name) && tasks[name].every((need) => done.has(need)));
    if (ready.length === 0) throw new Error("tasks need each other in a circle");
    const next = ready.sort()[0];
    order.push(next);
    done.add(next);
  }
  return order;
}

/** All tasks in waves: those of a wave need only tasks of earlier waves. */
export function buildWaves(tasks) {
  const graph = graphOf(tasks);
  const waves = [];
  let wave = readyAtFirst(graph).sort();
  while (wave.length > 0) {
    waves.push(wave);
    wave = wave.flatMap((name) => release(name, graph)).sort();
  }
  checkComplete(waves.flat(), tasks);
  return waves;
}

/** For each task the number of its needs, and the tasks that need it. */
function graphOf(tasks) {
  const openNeeds = new Map();
  const users = new Map();
  for (const name of Object.keys(tasks)) users.set(name, []);
  for (const [name, needs] of Object.entries(tasks)) {
    const distinct = new Set(needs);
    openNeeds.set(name, distinct.size);
    for (const need of distinct) {
      const found = users.get(need);
      if (!found) throw new Error(`${name} needs ${need}, which is not a task`);
      found.push(name);
    }
  }
  return { openNeeds, users };
}

function readyAtFirst(graph) {
  return [...graph.openNeeds].filter(([, count]) => count === 0).map(([name]) => name);
}

/** Counts a task as done; returns those that need nothing else. */
function release(name, graph) {
  const ready = [];
  for (const user of graph.users.get(name) ?? []) {
    const left = (graph.openNeeds.get(user) ?? 0) - 1;
    graph.openNeeds.set(user, left);
    if (left === 0) ready.push(user);
  }
  return ready;
}

/** Throws an error that shows a circle, if some tasks could not be done. */
function checkComplete(done, tasks) {
  const left = new Set(Object.keys(tasks));
  for (const name of done) left.delete(name);
  if (left.size === 0) return;
  const path = [[...left].sort()[0]];
  while (path.indexOf(path[path.length - 1]) === path.length - 1) {
    const needs = tasks[path[path.length - 1]].filter((need) => left.has(need));
    path.push(needs.sort()[0]);
  }
  const circle = path.slice(path.indexOf(path[path.length - 1]));
  throw new Error(`tasks need each other in a circle: ${circle.join(" -> ")}`);
}
