// What is shown as numbers: the tiles on top, servers, exports, hot spots, the cluster. Servers are exactly as `midas status --json` has them.

import { byId, h, mark, say, show, Table, type Cell } from "./dom";
import { bytes, count, lasting, ms, percent, short } from "./format";
import type { Store } from "./store";
import type { Cluster, Hot, Member, Server, Spot } from "./types";

const SPOTS_MAX = 10;

export class Tables {
  private readonly servers = table("servers", "Servers", [
    { name: "Server" },
    { name: "Health" },
    { name: "In flight", number: true, title: "Calls of this proxy under way there" },
    { name: "Sent", number: true, title: "Calls sent there since the daemon's start" },
    { name: "p50", number: true },
    { name: "p99", number: true },
    { name: "Service", number: true, title: "Service time" },
    { name: "Weight", number: true, title: "How much a call there counts: more than 1 if it is slow, errs, or has just come back" },
    { name: "Uncommitted", number: true, title: "Files with data there that is not committed" },
  ]);
  private readonly exports = table("exports", "Exports", [
    { name: "Export" },
    { name: "Policy" },
    { name: "Cache" },
    { name: "Entries", number: true },
    { name: "Bytes", number: true },
    { name: "Servers", number: true, title: "Servers that belong to it and take calls now" },
  ]);
  private readonly hot: Record<"directories" | "clients" | "users", Table>;
  private readonly members = table("members", "Members of the cluster", [
    { name: "Member" },
    { name: "State" },
    { name: "View", number: true },
    { name: "Round trip", number: true },
    { name: "Silent", number: true, title: "Since it was last heard" },
    { name: "Version" },
  ]);
  private by: "calls" | "server_ms" = "calls";
  private shown: Record<string, string[]> = {};

  constructor(changed: () => void, explain: (path: string) => void) {
    const spots = (name: string, what: string, click?: (row: number) => void) => {
      const job = name === "clients" ? [{ name: "Job", title: "As the site's own file or command says" }] : [];
      const numbers = ["Calls", "Time", "Hits"].map((one) => ({ name: one, number: true, title: one === "Time" ? "That servers spent" : undefined }));
      return table(name, what, [{ name: what }, ...job, ...numbers], click);
    };
    this.hot = {
      directories: spots("directories", "Directory", (row) => explain(this.shown.directories?.[row] ?? "")),
      clients: spots("clients", "Client"),
      users: spots("users", "User"),
    };
    for (const button of document.querySelectorAll<HTMLButtonElement>("[data-by]")) {
      button.addEventListener("click", () => {
        this.by = button.dataset.by === "server_ms" ? "server_ms" : "calls";
        for (const one of document.querySelectorAll("[data-by]")) mark(one, "aria-pressed", String(one === button));
        changed();
      });
    }
  }

  update(store: Store): void {
    this.tiles(store);
    this.serversOf(store);
    this.exportsOf(store);
    this.hotOf(store.frame?.hot);
    this.clusterOf(store.frame?.cluster ?? undefined);
  }

  private tiles(store: Store): void {
    const { frame } = store;
    const point = frame?.point;
    const names = store.servers().map((server) => server.name ?? "");
    const rate = (point?.servers ?? []).length > 0 || point?.outcomes ? sum(Object.values(point?.outcomes ?? {})) : undefined;
    tile("calls", rate, short(rate), `${count(frame?.status?.calls)} in all`);
    const queue = worst(point?.servers?.map((server) => server.queue ?? 0));
    tile("queue", queue?.value, short(queue?.value), names[queue?.at ?? -1] ?? "no servers");
    const p99 = worst(point?.servers?.map((server) => server.p99_ms ?? 0));
    tile("p99", p99?.value, ms(p99?.value), names[p99?.at ?? -1] ?? "no servers");
    const outcomes = point?.outcomes ?? {};
    const cached = sum(["hit", "absent", "joined"].map((name) => outcomes[name] ?? 0));
    const all = sum(Object.values(outcomes));
    tile("cached", all > 0 ? cached / all : undefined, all > 0 ? percent(cached / all) : "–", "of all calls");
    const steered = worst(point?.exports?.map((one) => one.steered ?? 0));
    tile("steered", steered?.value, percent(steered?.value), "left their home");
    const bound = worst(point?.exports?.map((one) => one.bound ?? 0));
    tile("bound", bound?.value, percent(bound?.value), "one server only");
    tile("held", frame?.status?.held, count(frame?.status?.held), "for a server");
    tile("clients", frame?.status?.clients, count(frame?.status?.clients), "connections");
  }

  private serversOf(store: Store): void {
    const servers = store.servers();
    const pools = store.frame?.status?.pools?.length ?? 0;
    const most = Math.max(1, ...servers.map((server) => server.in_flight ?? 0));
    show(byId("servers-empty"), servers.length === 0);
    show(this.servers.element, servers.length > 0);
    const poolOf = (store.frame?.status?.pools ?? []).flatMap((pool) => (pool.servers ?? []).map(() => pool.name ?? ""));
    this.servers.update(servers.map((server, at) => serverRow(server, pools > 1 ? poolOf[at] : undefined, most)));
  }

  private exportsOf(store: Store): void {
    const exports = store.frame?.status?.exports ?? [];
    show(byId("exports-empty"), exports.length === 0);
    show(this.exports.element, exports.length > 0);
    const changed = (now?: string, file?: string) => (now === file || file === undefined ? (now ?? "–") : `${now} (file: ${file})`);
    this.exports.update(
      exports.map((one) => [
        { text: one.path ?? "" },
        { text: changed(one.policy?.now, one.policy?.file) },
        one.cache?.demoted
          ? { text: `${one.cache.mode ?? ""}: ${one.cache.demoted}`, tone: "bad" }
          : { text: changed(one.mode?.now, one.mode?.file) },
        { text: count(one.cache?.entries) },
        { text: bytes(one.cache?.bytes) },
        { text: count(one.admitted), tone: one.admitted === 0 ? "bad" : undefined },
      ]),
    );
  }

  private hotOf(hot: Hot | undefined): void {
    const none = !hot || (hot.calls ?? 0) === 0;
    show(byId("hot-empty"), none);
    show(byId("hot"), !none);
    show(byId("hot-of"), !none);
    if (!hot) return;
    say(byId("hot-of"), `last ${short(hot.seconds)} s, ${short(hot.calls)} calls, ${ms(hot.server_ms)} at servers`);
    for (const what of ["directories", "clients", "users"] as const) {
      const spots = [...(hot[what] ?? [])].sort((a, b) => (b[this.by] ?? 0) - (a[this.by] ?? 0)).slice(0, SPOTS_MAX);
      this.shown[what] = spots.map((spot) => spot.name ?? "");
      this.hot[what].update(spots.map((spot) => spotRow(spot, hot, what, this.by)));
    }
  }

  private clusterOf(cluster: Cluster | undefined): void {
    show(byId("cluster-empty"), !cluster);
    show(byId("cluster-shown"), cluster !== undefined);
    if (!cluster) return;
    this.members.update((cluster.members ?? []).map((member) => memberRow(member, cluster)));
    const leases = cluster.leases ?? {};
    const facts: [string, string, string?][] = [
      ["View", `${cluster.epoch ?? 0}, ${cluster.present ?? 0} of ${cluster.members?.length ?? 0} present`, cluster.in_view === false ? "bad" : undefined],
      ["Leader", `${cluster.leader ?? "none"}, term ${cluster.term ?? 0}`, cluster.leader ? undefined : "bad"],
      ["Cache", (leases.live_ms ?? 0) > 0 ? `may answer for ${ms(leases.live_ms)}` : `may not answer${leases.blocked ? `: ${leases.blocked}` : ""}`, (leases.live_ms ?? 0) > 0 ? undefined : "bad"],
      ["Changes", leases.acts === false ? "may not leave" : "may leave", leases.acts === false ? "bad" : undefined],
      ["Pending", `${count(leases.pending)}, ${count(leases.waiting)} of its own wait`],
      ["Announced", `${count(leases.announced)}, waited ${ms(leases.wait_mean_ms)} on average, ${ms(leases.wait_max_ms)} at most`],
      ["Marked for others", `${count(leases.marked)}, all forgotten ${count(leases.flushed)} times`],
      ["Fetched from others", `${count(cluster.fetches?.fetched)} of ${count(cluster.fetches?.asked)}, lent ${count(cluster.fetches?.lent)}`],
      ["Load shares", `${count(cluster.shares?.told)} told, ${count(cluster.shares?.heard)} heard, ${ms(cluster.shares?.lag_ms)} late`],
    ];
    if (cluster.cut_off) facts.unshift(["Cut off from the majority", "reads go to the servers, changes on lease exports wait", "bad"]);
    if (cluster.failed) facts.unshift(["Takes no part", cluster.failed, "bad"]);
    const list = byId("leases");
    while (list.children.length > facts.length) list.lastElementChild?.remove();
    while (list.children.length < facts.length) list.append(h("div", {}, h("dt"), h("dd")));
    facts.forEach(([name, text, tone], at) => {
      const [term, value] = [list.children[at]?.firstElementChild, list.children[at]?.lastElementChild];
      if (!term || !value) return;
      say(term, name);
      say(value, text);
      mark(value, "data-tone", tone);
    });
    say(byId("cluster-name"), `${cluster.name ?? ""}, this is ${cluster.me ?? ""}`);
  }
}

/** The head of the page: how the daemon is. */
export function head(store: Store): void {
  const status = store.frame?.status;
  const reasons = status?.not_ready ?? [];
  const [tone, text] = !status
    ? ["", "waiting"]
    : reasons.length > 0
      ? ["bad", "not ready"]
      : status.bypass
        ? ["warn", "bypass"]
        : ["good", "ready"];
  const ready = byId("ready");
  say(ready, text);
  mark(ready, "data-tone", tone || undefined);
  mark(ready, "title", reasons.join("; ") || undefined);
  say(byId("about"), status ? `${status.version ?? ""} · up ${lasting(status.uptime_seconds)}` : "");
  show(byId("trouble"), reasons.length > 0);
  say(byId("trouble"), reasons.length > 0 ? `Not ready: ${reasons.join("; ")}. See midas status, and midas doctor for what to change.` : "");
}

function serverRow(server: Server, pool: string | undefined, most: number): Cell[] {
  const name = server.name ?? "";
  const cell = (field: keyof Server, text: string, more: Partial<Cell> = {}): Cell => {
    return { text, data: { server: name, field, value: String(server[field] ?? "") }, ...more };
  };
  const fine = server.health === "up" && !server.foreign;
  return [
    cell("name", pool ? `${pool} / ${name}` : name, { title: server.address }),
    cell("health", server.foreign ? `${server.health ?? ""}: ${server.foreign}` : (server.health ?? "–"), {
      tone: fine ? "good" : server.health === "down" || server.foreign ? "bad" : "warn",
    }),
    cell("in_flight", count(server.in_flight), { bar: (server.in_flight ?? 0) / most }),
    cell("dispatched", count(server.dispatched)),
    cell("latency_p50_ms", ms(server.latency_p50_ms)),
    cell("latency_p99_ms", ms(server.latency_p99_ms)),
    cell("service_ms", server.service_ms ? ms(server.service_ms) : "–"),
    cell("weight", server.weight === undefined ? "–" : server.weight.toFixed(2), { tone: (server.weight ?? 1) > 1.05 ? "warn" : undefined }),
    cell("uncommitted", count(server.uncommitted)),
  ];
}

function spotRow(spot: Spot, hot: Hot, what: string, by: "calls" | "server_ms"): Cell[] {
  const name = what === "users" ? `uid ${spot.name ?? ""}` : (spot.name ?? "");
  const error = spot.error ? `at most ${count(spot.error)} too many` : undefined;
  const share = (part?: number, all?: number) => (all ? (part ?? 0) / all : 0);
  return [
    { text: name, title: name, data: { spot: spot.name ?? "" } },
    ...(what === "clients" ? [{ text: spot.job ?? "–" }] : []),
    { text: short(spot.calls), bar: by === "calls" ? share(spot.calls, hot.calls) : 0, title: error, data: { value: spot.calls ?? 0 } },
    { text: ms(spot.server_ms), bar: by === "server_ms" ? share(spot.server_ms, hot.server_ms) : 0 },
    { text: percent(spot.hits) },
  ];
}

function memberRow(member: Member, cluster: Cluster): Cell[] {
  const me = member.name === cluster.me;
  const [text, tone] =
    me || member.up
      ? member.leaving
        ? ["leaving", "warn"]
        : member.same_config === false
          ? ["another configuration", "warn"]
          : member.in_view
            ? ["in view", "good"]
            : ["not in view", "warn"]
      : ["not reached", "bad"];
  const notes = [me ? "this one" : "", member.witness ? "witness" : "", member.name === cluster.leader ? "leads" : ""].filter(Boolean);
  return [
    { text: `${member.name ?? ""}${notes.length > 0 ? ` (${notes.join(", ")})` : ""}`, title: member.address, data: { member: member.name ?? "" } },
    { text, tone },
    { text: member.epoch === null || member.epoch === undefined ? "–" : String(member.epoch) },
    { text: me ? "–" : ms(member.rtt_ms) },
    { text: me ? "–" : ms(member.silent_ms) },
    { text: member.software ?? "" },
  ];
}

function table(name: string, caption: string, columns: ConstructorParameters<typeof Table>[1], click?: (row: number) => void): Table {
  const made = new Table(caption, columns, click);
  const host = byId(`table-${name}`);
  host.append(made.element);
  return made;
}

function tile(name: string, value: number | undefined, text: string, note: string): void {
  const element = document.querySelector<HTMLElement>(`[data-tile="${name}"]`);
  const [number, small] = [element?.querySelector("b"), element?.querySelector("small")];
  if (!element || !number || !small) return;
  say(number, text);
  say(small, note);
  mark(element, "data-value", value === undefined ? "" : String(value));
}

function sum(values: number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

function worst(values: number[] | undefined): { at: number; value: number } | undefined {
  if (!values || values.length === 0) return undefined;
  const value = Math.max(...values);
  return { at: values.indexOf(value), value };
}
