// Orders the tasks of a build by what they need.

export type Tasks = Record<string, string[]>;

/** All tasks, each after those that it needs; of several that could be next, the alphabetically first. */
export function buildOrder(tasks: Tasks): string[] {
  const graph = graphOf(tasks);
  const ready = new Heap();
  for (const name of readyAtFirst(graph)) ready.push(name);
  const order: string[] = [];
  while (ready.names.length > 0) {
    const name = ready.pop();
    order.push(name);
    for (const user of release(name, graph)) ready.push(user);
  }
  checkComplete(order, tasks);
  return order;
}

/** All tasks in waves: those of a wave need only tasks of earlier waves. */
export function buildWaves(tasks: Tasks): string[][] {
  const graph = graphOf(tasks);
  const waves: string[][] = [];
  let wave = readyAtFirst(graph).sort();
  while (wave.length > 0) {
    waves.push(wave);
    wave = wave.flatMap((name) => release(name, graph)).sort();
  }
  checkComplete(waves.flat(), tasks);
  return waves;
}

interface Graph {
  openNeeds: Map<string, number>;
  users: Map<string, string[]>;
}

/** For each task the number of its needs, and the tasks that need it. */
function graphOf(tasks: Tasks): Graph {
  const openNeeds: Map<string, number> = new Map();
  const users: Map<string, string[]> = new Map();
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

function readyAtFirst(graph: Graph): string[] {
  return [...graph.openNeeds].filter(([, count]) => count === 0).map(([name]) => name);
}

/** Counts a task as done; returns those that need nothing else. */
function release(name: string, graph: Graph): string[] {
  const ready: string[] = [];
  for (const user of graph.users.get(name) ?? []) {
    const left = (graph.openNeeds.get(user) ?? 0) - 1;
    graph.openNeeds.set(user, left);
    if (left === 0) ready.push(user);
  }
  return ready;
}

/** Throws an error that shows a circle, if some tasks could not be done. */
function checkComplete(done: string[], tasks: Tasks): void {
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

/** The names that are ready, the alphabetically first at the top. */
class Heap {
  names: string[] = [];

  push(name: string): void {
    this.names.push(name);
    let at = this.names.length - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (this.names[above] <= this.names[at]) break;
      [this.names[above], this.names[at]] = [this.names[at], this.names[above]];
      at = above;
    }
  }

  pop(): string {
    const first = this.names[0];
    const last = this.names.pop() as string;
    if (this.names.length > 0) {
      this.names[0] = last;
      this.sink(0);
    }
    return first;
  }

  sink(start: number): void {
    let at = start;
    for (;;) {
      let least = at;
      for (const below of [2 * at + 1, 2 * at + 2]) {
        if (below < this.names.length && this.names[below] < this.names[least]) least = below;
      }
      if (least === at) return;
      [this.names[least], this.names[at]] = [this.names[at], this.names[least]];
      at = least;
    }
  }
}
