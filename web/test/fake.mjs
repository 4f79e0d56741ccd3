// A daemon that is not there: the built page with plausible frames, for working on the page. Tests run against a real one.
// node test/fake.mjs [PORT]; FAKE=empty: a daemon without exports, servers and calls; FAKE=old: one that says little.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const PORT = Number(process.argv[2] ?? 8300);
const KIND = process.env.FAKE ?? "full";
const EVERY_MS = 500;
const STARTED_MS = Date.now();
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
export const POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const points = [];
const events = [];
let number = 0;
let sent = [0, 0, 0, 0];
let gap = 1;
let ttl = 200;

// Chance that is the same in every run.
let seed = 7;
const chance = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const wobble = (value, by = 0.2) => value * (1 + by * (chance() - 0.5) * 2);

function happened(kind, about, what, why) {
  events.push({ number: events.length + 1, uptime_ms: number * EVERY_MS, kind, about, what, why });
}

// Calm, a storm in one directory on the third server, then MIDAS spreads it.
function storm() {
  const phase = number % 240;
  if (phase < 90) return { load: 1, hot: 0 };
  if (phase < 130) return { load: 2.6, hot: (phase - 90) / 40 };
  if (phase < 150) return { load: 2.6, hot: 1 - (phase - 130) / 20 };
  return { load: 1.2, hot: 0 };
}

function turn(hot) {
  const phase = number % 240;
  if (number === 40) happened("knob", "/scratch", "steering from 0 to 1", "targets: imbalance 0.210, p99 3.912 ms (measured in the warm-up)");
  if (phase === 112) {
    gap = 2;
    happened("knob", "/scratch", "gap from 1 to 2", "a home is offered 1.84 of what it can serve");
  }
  if (phase === 170) {
    gap = 1;
    happened("knob", "/scratch", "gap from 2 to 1", "no home is offered more than 0.61 of what it can serve");
  }
  if (phase === 60 || phase === 126) {
    ttl = phase === 60 ? 400 : 200;
    happened("knob", "/scratch", `ttl_ms attributes from ${600 - ttl} to ${ttl}`, "changes 0.021 times a second, 1 % of calls write");
  }
  if (phase === 20) happened("health", "mds4", "probation to up", "20 calls in a row were answered");
  if (phase === 200) happened("change", "mds2", "drained", "by an administrator: midas drain mds2");
  if (hot > 0.2 && number % 4 === 0) {
    const to = ["mds1", "mds2", "mds4"][number % 3];
    happened("decision", "/scratch/job-4711/output", `CREATE steered to ${to}`, `its home mds3 has ${Math.round(60 * hot)} under way, ${to} ${Math.round(4 + 6 * chance())}`);
  }
}

function step() {
  number += 1;
  const { load, hot } = storm();
  turn(hot);
  const queues = [3, 3.4, 2.6, 3.1].map((base, at) => wobble(base * load, 0.35) + (at === 2 ? 58 * hot * wobble(1, 0.1) : 6 * hot));
  const rates = queues.map((queue) => wobble(260 * load + 4 * queue, 0.1));
  sent = sent.map((count, at) => count + Math.round(rates[at] / 2));
  const servers = queues.map((queue, at) => ({ queue, calls: rates[at], p50_ms: wobble(0.9 + queue / 9, 0.08), p99_ms: wobble(3 + queue / 2.2, 0.1) }));
  const procedures = { GETATTR: wobble(900 * load), LOOKUP: wobble(620 * load), ACCESS: wobble(300 * load), READDIRPLUS: wobble(90), CREATE: wobble(60 + 1200 * hot), WRITE: wobble(120), COMMIT: wobble(60), REMOVE: wobble(30) };
  const all = Object.values(procedures).reduce((a, b) => a + b, 0);
  const outcomes = { hit: 0.42 * all, absent: 0.05 * all, joined: wobble(0.03) * all, forwarded: 0.48 * all, here: 0.02 * all };
  const point = {
    number,
    uptime_ms: number * EVERY_MS,
    servers,
    procedures,
    outcomes,
    hits: { GETATTR: wobble(0.82, 0.04), LOOKUP: wobble(0.64, 0.06), ACCESS: wobble(0.9, 0.03), READDIRPLUS: wobble(0.31, 0.15) },
    exports: [
      {
        steered: Math.min(1, wobble(0.08 + 0.5 * hot, 0.2)),
        pressure: number < 40 ? null : wobble(0.25 + 1.1 * hot, 0.12),
        thresholds: [0.3, 0.8],
        imbalance: wobble(0.18 + 0.9 * hot, 0.15),
        knobs: { gap, pin_ms: 40, steering: number < 40 ? 0 : 1, "ttl_ms attributes": ttl, "ttl_ms names": 1000 },
      },
    ],
  };
  points.push(point);
  if (points.length > 600) points.shift();
  return { point, load, hot };
}

const server = (name, at, point) => ({
  name,
  address: `10.1.0.${at + 1}:2049`,
  health: name === "mds2" && number % 240 > 200 ? "drained" : "up",
  in_flight: Math.round(point.servers[at].queue),
  dispatched: sent[at],
  uncommitted: at === 1 ? 3 : 0,
  foreign: null,
  latency_p50_ms: point.servers[at].p50_ms,
  latency_p99_ms: point.servers[at].p99_ms,
  service_ms: 0.81,
  weight: at === 2 && number % 240 > 100 && number % 240 < 150 ? 1.62 : 1,
});

function hot(load, heat) {
  const spot = (name, calls, server_ms, hits, job) => ({ name, digest: null, handle: null, job: job ?? null, calls: Math.round(wobble(calls, 0.05)), error: 3, server_ms, hits });
  return {
    seconds: 10,
    calls: Math.round(20000 * load),
    server_ms: 16000 * load,
    directories: [spot("/scratch/job-4711/output", 900 + 12000 * heat, 900 + 14000 * heat, 0.05), spot("/scratch/shared/python3.12/site-packages", 4100, 700, 0.94), spot("/scratch/home/ada", 1400, 620, 0.71), spot("/scratch/home/grace/run-0042/checkpoints/rank-0", 700, 410, 0.33), spot("#a81f0c3de4417b22", 350, 200, 0.1)],
    clients: [spot("10.2.0.17", 800 + 11000 * heat, 900 + 12000 * heat, 0.06, "4711"), spot("10.2.0.18", 2100, 800, 0.8, "4711"), spot("10.2.0.41", 1300, 510, 0.77, "4698"), spot("10.2.3.9", 600, 320, 0.52)],
    users: [spot("20117", 1200 + 12000 * heat, 1100 + 13000 * heat, 0.08), spot("20004", 3900, 1400, 0.81), spot("0", 300, 120, 0.2)],
  };
}

const member = (name, more = {}) => ({ name, address: `10.1.1.${name.slice(-1)}:7049`, witness: false, incarnation: "5f2a", up: true, in_view: true, leaving: false, same_config: true, epoch: 4, version: 3, software: "0.1.0", rtt_ms: wobble(0.21), silent_ms: wobble(40, 0.8), ...more });
const cluster = () => ({
  name: "scratch", me: "proxy1", epoch: 4, in_view: true, present: 2, leader: "proxy2", term: 9,
  members: [member("proxy1", { rtt_ms: null, silent_ms: null }), member("proxy2"), member("proxy3", { up: number % 240 < 180, witness: true })],
  refused: {}, lost: 0, failed: null,
  leases: { live_ms: wobble(950, 0.1), blocked: null, acts: true, pending: 3, waiting: 1, longest_ms: 0.4, announced: 40 * number, held: 0, holds: 1, permitted: 40 * number, wait_mean_ms: 0.31, wait_max_ms: 4.2, refused: 0, marked: 31 * number, flushed: 0, messages: 0, frames: 0, malformed: 0 },
  fetches: { asked: 12 * number, fetched: 11 * number, refused: 0, late: 1, lent: 9 * number, declined: 0 },
  shares: { told: 51 * number, heard: 49 * number, refused: 0, lag_ms: 0.6, bytes: 88 },
});

function frame({ point, load, hot: heat }, since) {
  if (KIND === "old") return { point: { number, uptime_ms: number * EVERY_MS }, status: { version: "0.0.9", pools: [{ servers: [{ name: "mds1" }] }] } };
  if (KIND === "empty") return { point: { number, uptime_ms: number * EVERY_MS, servers: [], procedures: {}, outcomes: {}, hits: {}, exports: [] }, status: { version: "0.1.0", uptime_seconds: number / 2, started_unix_ms: STARTED_MS, not_ready: [], bypass: false, clients: 0, calls: 0, held: 0, exports: [], pools: [] }, hot: { seconds: 10, calls: 0, server_ms: 0, directories: [], clients: [], users: [] }, events: [], cluster: null };
  const status = {
    version: "0.1.0", uptime_seconds: Math.floor((number * EVERY_MS) / 1000), started_unix_ms: STARTED_MS, not_ready: [], bypass: false, clients: 212, calls: sent.reduce((a, b) => a + b, 0), held: Math.round(2 * heat),
    exports: [{ path: "/scratch", pool: "heads", policy: { now: "first-fit", file: "first-fit" }, mode: { now: "lease", file: "lease" }, admitted: 4, routes: {}, cache: { mode: "lease", demoted: null, entries: 184223, bytes: 61234567 } }],
    pools: [{ name: "heads", servers: ["mds1", "mds2", "mds3", "mds4"].map((name, at) => server(name, at, point)) }],
  };
  return { point, status, hot: hot(load, heat), events: events.slice(since), cluster: cluster() };
}

const explanation = (path, op) => ({ export: "/scratch", pool: "heads", op, handle: "", name: null, policy: "first-fit", mode: "lease", mode_because: "the export's", home: "mds3", bound: null, servers: [["mds3", 61, 99.1], ["mds1", 5, 5], ["mds4", 6, 6], ["mds2", 4, 4]].map(([name, in_flight, work]) => ({ name, health: name === "mds2" ? "drained" : "up", excluded: name === "mds2" ? "it is drained" : null, in_flight, work })), to: "mds1", why: "steered", because: `mds3, the home of ${path}, has 61 calls under way; mds1 is the first in its order with at least 2 fewer` });

/** Each with the last event that it was told of. */
const listeners = new Map();
for (let past = 0; past < Number(process.env.PAST ?? 150); past += 1) step();
setInterval(() => {
  const now = step();
  for (const [response, since] of listeners) {
    response.write(`event: frame\ndata: ${JSON.stringify(frame(now, since))}\n\n`);
    listeners.set(response, events.length);
  }
}, EVERY_MS);

createServer(async (request, response) => {
  const url = new URL(request.url, "http://fake");
  const json = (value, status = 200) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
  if (url.pathname === "/api/v1/live") {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(`event: past\ndata: ${JSON.stringify(KIND === "full" ? points : [])}\n\n`);
    listeners.set(response, 0);
    request.on("close", () => listeners.delete(response));
    return;
  }
  if (url.pathname === "/api/v1/where") {
    const path = url.searchParams.get("path") ?? "";
    return path.startsWith("/scratch") ? json(explanation(path, url.searchParams.get("op"))) : json({ error: `no export holds '${path}'; there is /scratch` }, 404);
  }
  if (url.pathname.startsWith("/api/")) return json({ error: "not here" }, 404);
  try {
    const name = url.pathname === "/" ? "index.html" : normalize(url.pathname).slice(1);
    const body = await readFile(join(DIST, name));
    response.writeHead(200, { "Content-Type": TYPES[extname(name)] ?? "application/octet-stream", "Content-Security-Policy": POLICY }).end(body);
  } catch {
    response.writeHead(404).end();
  }
}).listen(PORT, "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}/`));
