// The dashboard in a real browser, over a running demo. crates/cli/tests/browser.rs starts both and runs this; what is read is what the
// page shows, never what the API says, but for comparisons of the two at a daemon that rests.
//
// MIDAS: the binary. MIDAS_PAGE: where a proxy of the demo shows itself. MIDAS_QUIET: where the daemon does that rests; MIDAS_SOCKET: its
// control socket; MIDAS_TARGET: where `midas bench` calls it. MIDAS_CHROMIUM: the browser, if it is not `chromium` on the PATH. MIDAS_SHOTS: a
// directory for screenshots; none are taken without. When it says END the daemon that rests is to end, when it says AGAIN to start again.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { PATIENCE, check, errors, from, means, open, reads, say, shots, transferred, until, value } from "./page.mjs";

const { MIDAS, MIDAS_PAGE, MIDAS_QUIET, MIDAS_SOCKET, MIDAS_TARGET, MIDAS_SHOTS } = process.env;
const run = promisify(execFile);
/** What the page takes at least, if it is counted at all, and at most. */
const TRANSFER_LEAST = 50_000;
const TRANSFER_MOST = 300 << 10;
const CALLS = ["--op", "create,getattr", "--directories", "1", "--connections", "1", "--depth", "4", "--duration", "1s", "--json"];
const HOUR_MS = 3_600_000;
/** Calls under way at the worst server: fewer than this is calm, more a storm. The heat map's scale goes to 8 without any. */
const CALM = 2;
const HIGH = 16;
const END = "end the daemon";
const AGAIN = "start the daemon again";
/** Units as the page writes them. */
const COUNT = { "": 1 };
const SHORT = { "": 1, k: 1e3, M: 1e6 };
const TIME = { ms: 1, s: 1e3 };
const SHARE = { "%": 0.01 };
/** What the columns of servers are called, and what they are of the status. */
const COLUMNS = [
  ["Server", "name"],
  ["Health", "health"],
  ["In flight", "in_flight", COUNT],
  ["Sent", "dispatched", COUNT],
  ["p50", "latency_p50_ms", TIME],
  ["p99", "latency_p99_ms", TIME],
  ["Service", "service_ms", TIME],
  ["Weight", "weight", COUNT],
  ["Uncommitted", "uncommitted", COUNT],
];
const TILES = { "Calls a second": SHORT, "Longest queue": SHORT, "Slowest p99": TIME, "From cache": SHARE, Steered: SHARE, Bound: SHARE, Waiting: COUNT, Clients: COUNT };
/** The demo's storm: one machine, one user, one directory. */
const STORM = { directories: "/project", clients: "127.0.1.66", users: "1066" };

const { browser, page } = await open(MIDAS_PAGE, { width: 1440, height: 900, scheme: "light" });
try {
  await loads();
  await storm();
  await clicks();
  await explains();
  await narrow();
  check(transferred() > TRANSFER_LEAST && transferred() < TRANSFER_MOST, `the page transfers ${transferred()} bytes`);
  await rests();
  await agrees();
  await steps();
  await restarts();
  check(errors.length === 0, `no console errors and no failed requests: ${errors.join("; ")}`);
} finally {
  await browser.close();
}
say("all seen");

async function loads() {
  await page.waitForSelector('html[data-live="live"]');
  await until("a frame", () => Number(document.documentElement.dataset.frame) > 0);
  check((await page.title()) === "MIDAS", "the page has its title");
  check((await page.locator("#table-servers tbody tr").count()) === 4, "four servers are listed");
  await until("the daemon is ready", () => document.querySelector("#ready").textContent === "ready");
  check((await page.locator("#table-members [data-member]").count()) === 3, "two proxies and their witness are listed");
  await until("all of them in view", () => document.querySelectorAll('#table-members [data-tone="good"]').length === 3);
  await page.waitForSelector('[data-chart="queues"] canvas');
  check(await page.locator('[data-chart="heat"] > canvas').isVisible(), "queues are drawn, and as a heat map");
}

async function storm() {
  await watch();
  await until("short queues", (most) => Number(document.querySelector('[data-tile="queue"]').dataset.value) <= most, CALM);
  say("calm");
  await until("long queues", (least) => Number(document.querySelector('[data-tile="queue"]').dataset.value) >= least, HIGH);
  say(`the storm is seen: ${await value('[data-tile="queue"]')} under way at the worst server`);
  const chips = await page.locator('[data-chart="queues"] [data-series]').count();
  check(chips === 4, "a line for every server");
  for (const [table, name] of Object.entries(STORM)) await until(`${name} is the hottest of ${table}`, hottest, [table, name]);
  say("its directory, client and user are named");
  await meant();
  await shots(MIDAS_SHOTS, MIDAS_PAGE);
  await page.waitForSelector('[data-chart="procedures"] [data-series="LOOKUP"]');
  await page.waitForSelector('[data-chart="outcomes"] [data-series="forwarded"]');
  await until("short queues", (most) => Number(document.querySelector('[data-tile="queue"]').dataset.value) <= most, CALM);
  const [highest, peak] = await page.evaluate(() => [Number(document.querySelector('[data-chart="heat"] .scale span:last-child').textContent), window.peak]);
  check(peak >= HIGH && highest >= peak, `the heat map remembers it: up to ${highest}, the lines were seen at ${peak}`);
  await until("charts of knobs", () => document.querySelectorAll("#knobs .knob canvas").length > 0);
}

/** The tiles say in words what they were told. */
async function meant() {
  const tiles = await page.evaluate(tilesShown);
  const wrong = tiles.filter(({ label, text, value }) => (value === "" ? text !== "–" : !reads(text, Number(value), TILES[label] ?? {})));
  check(tiles.length === 8 && wrong.length === 0, `tiles say what is meant: ${JSON.stringify(wrong)}`);
}

/** In the page. */
function tilesShown() {
  return [...document.querySelectorAll("[data-tile]")].map((tile) => {
    const [label, text, note] = ["span", "b", "small"].map((part) => tile.querySelector(part).textContent);
    return { label, text, note, value: tile.dataset.value };
  });
}

/** In the page. */
function serversShown() {
  const of = (row) => [...row.cells].map((cell) => cell.innerText.trim());
  const table = document.querySelector("#table-servers table");
  return { heads: [...table.tHead.rows[0].cells].map((cell) => cell.textContent), rows: [...table.tBodies[0].rows].map(of) };
}

/** Notes the highest that the panel of queues says from now on. */
async function watch() {
  await page.evaluate(() => {
    window.peak = 0;
    const look = () => document.querySelectorAll('[data-chart="queues"] [data-series]').forEach((chip) => (window.peak = Math.max(window.peak, Number(chip.dataset.value))));
    setInterval(look, 50);
  });
}

/** In the page. */
function hottest([table, name]) {
  return document.querySelector(`#table-${table} tbody [data-spot]`)?.dataset.spot === name;
}

async function clicks() {
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const before = await theme();
  await page.click("#theme");
  check((await theme()) !== before, "a click changes the theme");
  await page.keyboard.press("t");
  check((await theme()) === before, "and t changes it back");

  await page.keyboard.press("p");
  const frame = await page.evaluate(() => document.documentElement.dataset.frame);
  check(await page.locator("#paused").isVisible(), "p pauses");
  await later();
  check((await page.evaluate(() => document.documentElement.dataset.frame)) === frame, "the view stays as it is");
  await page.click("#pause");
  await until("another frame", (old) => document.documentElement.dataset.frame !== old, frame);
  check(!(await page.locator("#paused").isVisible()), "and goes on");

  await page.click('[data-by="server_ms"]');
  check((await page.getAttribute('[data-by="server_ms"]', "aria-pressed")) === "true", "spots are ordered by server time");
  await page.click('[data-span="300"]');
  await page.click('nav a[href="#log"]');
  const rows = (kind) => page.locator(`#events li${kind}`).count();
  await until("decisions and changes", () => ["decision", "change"].every((kind) => document.querySelector(`#events li[data-kind="${kind}"]`)));
  const chip = page.locator('#kinds [data-kind="decision"]');
  await chip.click();
  check((await rows('[data-kind="decision"]')) === 0 && (await rows("")) > 0, "a kind can be left out of the log");
  await chip.click();
  await until("decisions again", () => document.querySelector('#events li[data-kind="decision"]'));
  await page.fill("#words", "change");
  const left = await page.locator("#events li").evaluateAll((all) => all.map((row) => row.textContent.toLowerCase()));
  check(left.length > 0 && left.every((text) => text.includes("change")), `words filter the log: ${left.length} are left`);
  await page.fill("#words", "no such words anywhere");
  check((await rows("")) === 0, "words that nothing has leave nothing");
  check((await page.locator("#events-empty").textContent()).startsWith("Nothing"), "and an empty log says so");
  await page.fill("#words", "");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  check(await page.locator("#shortcuts").isVisible(), "? lists the keys");
  await page.keyboard.press("Escape");
  check(!(await page.locator("#shortcuts").isVisible()), "Escape closes the list");
  await page.keyboard.press("6");
  check((await page.evaluate(() => document.activeElement.id)) === "control", "6 goes to control");
  await page.click('[data-chart="queues"] [data-series] >> nth=0');
  check((await page.getAttribute('[data-chart="queues"] [data-series] >> nth=0', "aria-pressed")) === "false", "a line can be hidden");
  await page.click('[data-chart="queues"] [data-series] >> nth=0');
}

async function explains() {
  await page.keyboard.press("/");
  check((await page.evaluate(() => document.activeElement.id)) === "path", "/ goes to explain");
  await page.fill("#path", "/project");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#explanation .verdict");
  const to = await page.getAttribute("#explanation .verdict", "data-to");
  const names = await page.locator('[data-field="name"]').evaluateAll((cells) => cells.map((cell) => cell.dataset.server));
  check(names.includes(to), `a call on /project goes to a server: ${to}`);
  check((await page.locator("#explanation .candidates li").count()) === 4, "every server is judged");
  // The browser itself reports the refusal as an error of the console; this one is wanted.
  means(`${MIDAS_PAGE}api/v1/where?path=%2Felsewhere&op=getattr`, /\b404\b/);
  await page.fill("#path", "/elsewhere");
  await page.click("#explain button");
  await page.waitForSelector("#explanation [role=alert]");
  await page.fill("#path", "");
}

/** From now on the page of a daemon that has no cluster, and after some calls rests. */
async function rests() {
  await run(MIDAS, ["bench", MIDAS_TARGET, ...CALLS]);
  await page.setViewportSize({ width: 1440, height: 900 });
  from(MIDAS_QUIET);
  await page.goto(MIDAS_QUIET);
  await until("a frame", () => Number(document.documentElement.dataset.frame) > 0);
  check(await page.locator("#cluster-empty").isVisible(), "without a cluster it says what one is for");
}

/** What is read is what `midas status --json` says: asked before and after, until nothing changed in between. */
async function agrees() {
  const end = Date.now() + PATIENCE;
  let differs = [];
  while (Date.now() < end) {
    const before = await status();
    const [servers, tiles] = [await page.evaluate(serversShown), await page.evaluate(tilesShown)];
    const after = await status();
    differs = [...differing(servers, before), ...untrue(tiles, before)];
    if (JSON.stringify(before) === JSON.stringify(after) && differs.length === 0) return telling(servers, before);
    await later();
  }
  check(false, `the page differs from midas status --json: ${differs.slice(0, 5).join("; ")}`);
}

/** As it stands, without what the clock alone changes. */
async function status() {
  const { uptime_seconds, ...rest } = JSON.parse((await run(MIDAS, ["status", "--json", "--socket", MIDAS_SOCKET])).stdout);
  return { ...rest, servers: rest.pools.flatMap((pool) => pool.servers) };
}

/** Cells that say something else, by the words above them. */
function differing({ heads, rows }, { servers }) {
  if (heads.join() !== COLUMNS.map(([head]) => head).join()) return [`columns are ${heads.join()}`];
  if (rows.length !== servers.length) return [`${rows.length} servers, not ${servers.length}`];
  return rows.flatMap((row, at) => {
    const says = ([, field, units], column) => (units ? reads(row[column], servers[at][field], units) : row[column] === servers[at][field]);
    return COLUMNS.filter((column, index) => !says(column, index)).map(([head, field]) => `${head}: ${row[heads.indexOf(head)]}, not ${servers[at][field]}`);
  });
}

/** Tiles that say something else of a daemon that nobody calls. */
function untrue(tiles, { servers, calls, held, clients }) {
  const slowest = servers.reduce((a, b) => (b.latency_p99_ms > a.latency_p99_ms ? b : a));
  const expected = {
    "Calls a second": [0, `${calls.toLocaleString("en-US")} in all`],
    "Longest queue": [Math.max(...servers.map((server) => server.in_flight)), servers[0].name],
    "Slowest p99": [slowest.latency_p99_ms, slowest.name],
    "From cache": [undefined, "of all calls"],
    Steered: [0, "left their home"],
    Bound: [0, "one server only"],
    Waiting: [held, "for a server"],
    Clients: [clients, "connections"],
  };
  const is = ({ label, text, note }) => {
    const [number, words] = expected[label] ?? [];
    return note === words && (number === undefined ? text === "–" : reads(text, number, TILES[label]));
  };
  return tiles.filter((tile) => !is(tile)).map((tile) => `${tile.label}: ${tile.text} ${tile.note}, not ${expected[tile.label]}`);
}

/** Numbers that are all alike would be right in any column. */
function telling({ rows }, { servers, calls, clients, held }) {
  const column = (name) => COLUMNS.findIndex(([head]) => head === name);
  check(rows.some((row) => row[column("p50")] !== row[column("p99")]), "p50 and p99 are told apart");
  check(servers.every((server) => server.dispatched > 0 && server.latency_p99_ms > 0), "every server was called");
  check(servers.some((server) => server.uncommitted !== server.in_flight), "in flight and uncommitted are told apart");
  check(calls > 0 && clients > 0 && clients !== held, `${calls} calls of ${clients} clients`);
  say("servers and tiles are as midas status --json has them");
}

/** The clock of the browser's machine is set, or it was suspended: it is the same daemon, and nothing is forgotten. */
async function steps() {
  await run(MIDAS, ["bypass", "on", "--socket", MIDAS_SOCKET]);
  await until("a change in the log", () => document.querySelector('#events li[data-kind="change"]'));
  await page.evaluate((by) => {
    const now = Date.now;
    Date.now = () => now() + by;
  }, HOUR_MS);
  await later();
  check(!(await page.locator("#notice").isVisible()), "a step of the clock is no start");
  check((await page.locator('#events li[data-kind="change"]').count()) > 0, "and nothing is forgotten");
}

/** The daemon ends and is started again while its page is open. */
async function restarts() {
  const { host } = new URL(MIDAS_QUIET);
  const [{ started_unix_ms }, frame] = [await status(), await page.evaluate(() => Number(document.documentElement.dataset.frame))];
  for (const asked of ["live", "status"]) means(`${MIDAS_QUIET}api/v1/${asked}`, /net::ERR_(CONNECTION_|EMPTY_RESPONSE|INCOMPLETE)|\b503\b/);
  const banner = (words) => until(`the banner says ${words}`, bannerSays, words);
  say(END);
  await banner(`No answer from ${host}. Is the daemon running? Look with: systemctl status midas, or midas status on its host. What is shown is the last that came.`);
  check((await page.locator("#live").textContent()) === "not connected", "it is seen that the daemon is gone, and what to do");
  check((await page.locator("#table-servers tbody tr").count()) === 4, "what came last is still shown");
  await until("another attempt", () => /\((?!1 )\d+ of 24\)/.test(document.querySelector("#banner-text").textContent));
  await page.click("#retry");
  await banner("(1 of 24)");
  say(AGAIN);
  await page.waitForSelector('html[data-live="live"]');
  check(!(await page.locator("#banner").isVisible()), "it is live again");
  await until("the notice", () => !document.querySelector("#notice").hidden && document.querySelector("#notice").textContent === "The daemon was started anew: what is shown begins with it.");
  await until("numbers that begin anew", (before) => Number(document.documentElement.dataset.frame) < before, frame);
  await until("a log that begins anew", () => !document.querySelector('#events li[data-kind="change"]'));
  const again = await status();
  check(again.started_unix_ms > started_unix_ms, "the daemon says that it is another");
  await until("calls of this start", (words) => document.querySelector('[data-tile="calls"] small').textContent === words, `${again.calls} in all`);
}

/** In the page. */
function bannerSays(words) {
  return !document.querySelector("#banner").hidden && document.querySelector("#banner-text").textContent.includes(words);
}

async function narrow() {
  await page.setViewportSize({ width: 380, height: 800 });
  await later();
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  check(content <= window, `no horizontal scrolling in a narrow window: ${content} in ${window}`);
  check(await page.locator('[data-chart="queues"] canvas').isVisible(), "charts are there");
}

/** The next frame but one. */
async function later() {
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        const source = new EventSource("/api/v1/live");
        let seen = 0;
        source.addEventListener("frame", () => {
          seen += 1;
          if (seen < 2) return;
          source.close();
          resolve();
        });
      }),
  );
}
