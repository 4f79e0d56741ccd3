// From points to charts.

import { Chart, type Mark, type Span } from "./chart";
import { byId, h, say, show } from "./dom";
import { ms, percent, short } from "./format";
import { Heat } from "./heat";
import type { Store } from "./store";
import type { Event, Point, Shares } from "./types";

/** Lines of one chart; the rest is added up as `other`. */
const NAMES_MAX = 7;
const OUTCOMES = ["hit", "absent", "joined", "forwarded", "here"];
const KNOBS_MAX = 24;
/** Seconds between a turn and the point that shows it, at most. */
const NEAR = 1.6;

export class Panels {
  private readonly queues = chart("queues", { label: "Calls under way at each server", value: short, least: 4, height: 220 });
  private readonly heat = place("heat", new Heat());
  private readonly procedures = chart("procedures", { label: "Calls a second by procedure", value: short, least: 10, stacked: true });
  private readonly outcomes = chart("outcomes", { label: "Calls a second by outcome", value: short, least: 10, stacked: true });
  private readonly p50 = chart("p50", { label: "Median latency by server", value: ms, axis: short, least: 1 });
  private readonly p99 = chart("p99", { label: "Tail latency (p99) by server", value: ms, axis: short, least: 1 });
  private readonly hits = chart("hits", { label: "Share of reads that caches answered, by procedure", value: percent, least: 1, most: 1 });
  private readonly steered = chart("steered", { label: "Share of calls that left their home by choice", value: percent, least: 0.1, most: 1 });
  private readonly pressure = chart("pressure", { label: "Pressure and the thresholds that knobs turn at", value: short, least: 0.5 });
  private readonly knobs = new Map<string, Chart>();
  private readonly order = new Map<string, string[]>();
  /** Which export the control panels show. */
  private chosen = 0;
  private readonly choice = byId<HTMLSelectElement>("export");

  constructor(changed: () => void) {
    this.choice.addEventListener("change", () => {
      this.chosen = this.choice.selectedIndex;
      changed();
    });
  }

  update(store: Store, seconds: number): void {
    const points = within(store, seconds);
    const times = points.map((point) => store.at(point.uptime_ms));
    const end = times.at(-1) ?? 1;
    // A short past is not stretched over the whole width, nor left in a corner of it.
    const from = Math.max(end - seconds, Math.min(times[0] ?? 0, end - 30));
    const view: View = { store, points, times, span: { from, to: end } };
    this.perServer(view);
    this.rates(view);
    this.control(view);
  }

  private perServer(view: View): void {
    const names = view.store.servers().map((server) => server.name ?? "");
    const all = [this.queues, this.heat, this.p50, this.p99];
    if (names.length === 0) return all.forEach((panel) => panel.clear("No servers: name them under [[pool]] in midas.toml."));
    if (view.points.length === 0) return all.forEach((panel) => panel.clear("The first points come within a second."));
    const of = (value: "queue" | "p50_ms" | "p99_ms") =>
      names.map((_, server) => view.points.map((point) => point.servers?.[server]?.[value] ?? 0));
    const queue = of("queue");
    this.queues.update({ times: view.times, names, lines: queue }, view.span);
    this.heat.update(view.times, names, queue, view.span);
    this.p50.update({ times: view.times, names, lines: of("p50_ms") }, view.span);
    this.p99.update({ times: view.times, names, lines: of("p99_ms") }, view.span);
  }

  private rates(view: View): void {
    const none = "No calls yet. Mount an export, or try it with: midas bench";
    this.shares(this.procedures, "procedures", view, (point) => point.procedures, none);
    this.shares(this.outcomes, "outcomes", view, (point) => point.outcomes, none, OUTCOMES);
    const uncached = "No reads that a cache could answer. By default nothing is cached: mode = \"lease\" or \"ttl\" of an export turns it on.";
    this.shares(this.hits, "hits", view, (point) => point.hits, uncached);
  }

  private shares(panel: Chart, key: string, view: View, of: (point: Point) => Shares | undefined, none: string, order?: string[]): void {
    const totals = new Map<string, number>();
    for (const point of view.points) {
      for (const [name, value] of Object.entries(of(point) ?? {})) totals.set(name, (totals.get(name) ?? 0) + value);
    }
    const shares = key === "hits";
    const some = shares ? totals.size > 0 : [...totals.values()].some((total) => total > 0);
    if (!some) return panel.clear(none);
    const names = this.stable(key, totals, order);
    const rest = [...totals.keys()].filter((name) => !names.includes(name));
    const lines: (number | null)[][] = names.map((name) => view.points.map((point) => of(point)?.[name] ?? (shares ? null : 0)));
    if (rest.length > 0 && !shares) {
      names.push("other");
      lines.push(view.points.map((point) => rest.reduce((sum, name) => sum + (of(point)?.[name] ?? 0), 0)));
    }
    panel.update({ times: view.times, names, lines }, view.span);
  }

  /** The largest, in an order that does not change from one moment to the next. */
  private stable(key: string, totals: Map<string, number>, order?: string[]): string[] {
    if (order) return order.filter((name) => totals.has(name));
    const known = (this.order.get(key) ?? []).filter((name) => totals.has(name));
    const sorted = [...totals.keys()].sort((a, b) => (totals.get(b) ?? 0) - (totals.get(a) ?? 0));
    const wanted = sorted.slice(0, NAMES_MAX);
    const kept = known.filter((name) => sorted.indexOf(name) < NAMES_MAX + 2);
    const names = [...kept, ...wanted.filter((name) => !kept.includes(name))].slice(0, NAMES_MAX);
    this.order.set(key, names);
    return names.slice();
  }

  private control(view: View): void {
    const exports = view.store.exports();
    this.choose(exports);
    if (exports.length === 0) {
      const none = "No exports: name one under [[export]] in midas.toml.";
      this.steered.clear(none);
      this.pressure.clear(none);
      return this.turned([], view, "");
    }
    const steered = exports.map((_, at) => view.points.map((point) => point.exports?.[at]?.steered ?? 0));
    this.steered.update({ times: view.times, names: exports, lines: steered }, view.span);
    this.pressed(view);
    const name = exports[this.chosen] ?? "";
    const latest = view.points.at(-1)?.exports?.[this.chosen]?.knobs ?? {};
    this.turned(Object.keys(latest).slice(0, KNOBS_MAX), view, name);
  }

  private choose(exports: string[]): void {
    const now = [...this.choice.options].map((option) => option.value);
    if (now.join("\n") !== exports.join("\n")) {
      this.choice.replaceChildren(...exports.map((path) => h("option", { value: path }, path)));
      this.chosen = Math.min(this.chosen, Math.max(0, exports.length - 1));
      this.choice.selectedIndex = this.chosen;
    }
    const label = this.choice.closest("label");
    if (label) show(label, exports.length > 1);
  }

  private pressed(view: View): void {
    const of = view.points.map((point) => point.exports?.[this.chosen]);
    const pressure = of.map((one) => one?.pressure ?? null);
    if (pressure.every((value) => value === null)) {
      return this.pressure.clear("No pressure: only policy = \"paper\" has one, and measures its targets in its warm-up first (a quiet minute). first-fit needs none.");
    }
    const threshold = (at: number) => of.map((one) => one?.thresholds?.[at] ?? null);
    const names = ["pressure", "imbalance", "turns up above", "turns down below"];
    const lines = [pressure, of.map((one) => one?.imbalance ?? null), threshold(1), threshold(0)];
    this.pressure.update({ times: view.times, names, lines, limits: 2 }, view.span);
  }

  private turned(names: string[], view: View, of: string): void {
    const host = byId("knobs");
    const empty = byId("knobs-empty");
    show(empty, names.length === 0);
    for (const [name, panel] of this.knobs) {
      if (names.includes(name)) continue;
      panel.destroy();
      panel.element.parentElement?.remove();
      this.knobs.delete(name);
    }
    const events = view.store.events.filter((event) => event.kind === "knob" && (event.about === of || event.about === ""));
    for (const name of names) {
      const panel = this.knobs.get(name) ?? this.knob(name, host);
      const line = view.points.map((point) => point.exports?.[this.chosen]?.knobs?.[name] ?? null);
      panel.update({ times: view.times, names: [name], lines: [line], marks: marks(view, name, line, events) }, view.span);
      const value = panel.element.previousElementSibling?.lastElementChild;
      if (value) say(value, knobValue(name)(line.at(-1)));
      panel.element.dataset.value = String(line.at(-1) ?? "");
    }
  }

  private knob(name: string, host: HTMLElement): Chart {
    const panel = new Chart(`knob ${name}`, { label: `Knob ${name}`, value: knobValue(name), axis: short, height: 84, small: true, stepped: true });
    host.append(h("div", { class: "knob" }, h("h4", {}, h("span", {}, name), h("b")), panel.element));
    this.knobs.set(name, panel);
    return panel;
  }
}

interface View {
  store: Store;
  points: Point[];
  times: number[];
  span: Span;
}

function chart(name: string, options: ConstructorParameters<typeof Chart>[1]): Chart {
  return place(name, new Chart(name, options));
}

function place<T extends { element: HTMLElement }>(name: string, panel: T): T {
  byId(`chart-${name}`).append(panel.element);
  return panel;
}

function within(store: Store, seconds: number): Point[] {
  const end = store.points.at(-1)?.uptime_ms ?? 0;
  return store.points.filter((point) => (point.uptime_ms ?? 0) >= end - 1000 * seconds);
}

/** Where the journal says that it was turned; of a TTL, whose class the journal may leave out, also where its value changed without a word of that. */
function marks(view: View, name: string, line: (number | null)[], events: Event[]): Mark[] {
  const told = events.filter((event) => (event.what ?? "").startsWith(`${name} `));
  const kin = events.filter((event) => (event.what ?? "").startsWith(`${name.split(" ")[0] ?? name} `));
  const found: Mark[] = told.map((event) => ({ at: view.store.at(event.uptime_ms), text: `${event.what}: ${event.why}` }));
  if (!name.startsWith("ttl_ms ")) return found;
  line.forEach((value, at) => {
    const before = line[at - 1];
    const time = view.times[at] ?? 0;
    if (before === undefined || before === null || value === null || value === before) return;
    if (found.some((mark) => Math.abs(mark.at - time) < NEAR)) return;
    const why = kin.find((event) => Math.abs(view.store.at(event.uptime_ms) - time) < NEAR)?.why;
    found.push({ at: time, text: `${name} from ${short(before)} to ${short(value)}${why ? `: ${why}` : ""}` });
  });
  return found;
}

function knobValue(name: string): (value: number | null | undefined) => string {
  return name.includes("_ms") ? ms : short;
}
