// The dashboard in a real browser, over a running demo. crates/cli/tests/browser.rs starts both and runs this; what is read is what the
// page shows, never what the API says, but for one comparison of the two at a daemon that rests.
//
// MIDAS: the binary. MIDAS_PAGE: where a proxy of the demo shows itself. MIDAS_QUIET: where the daemon does that rests; MIDAS_SOCKET: its
// control socket; MIDAS_TARGET: where `midas bench` calls it. MIDAS_CHROMIUM: the browser, if it is not `chromium` on the PATH. MIDAS_SHOTS: a
// directory for screenshots; none are taken without.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { PATIENCE, check, errors, from, open, say, shots, transferred, until, value } from "./page.mjs";

const { MIDAS, MIDAS_PAGE, MIDAS_QUIET, MIDAS_SOCKET, MIDAS_TARGET, MIDAS_SHOTS } = process.env;
const run = promisify(execFile);
/** What the page takes at least, if it is counted at all, and at most. */
const TRANSFER_LEAST = 50_000;
const TRANSFER_MOST = 300 << 10;
const CALLS = ["--op", "create,getattr", "--directories", "1", "--connections", "1", "--depth", "4", "--duration", "1s", "--json"];
/** Calls under way at the worst server: fewer than this is calm, more a storm. The heat map's scale goes to 8 without any. */
const CALM = 2;
const HIGH = 16;
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
  await shots(MIDAS_SHOTS, MIDAS_PAGE);
  await page.waitForSelector('[data-chart="procedures"] [data-series="LOOKUP"]');
  await page.waitForSelector('[data-chart="outcomes"] [data-series="forwarded"]');
  await until("short queues", (most) => Number(document.querySelector('[data-tile="queue"]').dataset.value) <= most, CALM);
  const [highest, peak] = await page.evaluate(() => [Number(document.querySelector('[data-chart="heat"] .scale span:last-child').textContent), window.peak]);
  check(peak >= HIGH && highest >= peak, `the heat map remembers it: up to ${highest}, the lines were seen at ${peak}`);
  await until("charts of knobs", () => document.querySelectorAll("#knobs .knob canvas").length > 0);
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
  const known = errors.length;
  await page.fill("#path", "/elsewhere");
  await page.click("#explain button");
  await page.waitForSelector("#explanation [role=alert]");
  errors.length = known;
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

/** The table is what `midas status --json` says: asked before and after, until nothing changed in between. */
async function agrees() {
  const status = async () => JSON.parse((await run(MIDAS, ["status", "--json", "--socket", MIDAS_SOCKET])).stdout).pools.flatMap((pool) => pool.servers);
  const end = Date.now() + PATIENCE;
  let difference = "";
  while (Date.now() < end) {
    const before = await status();
    const shown = await page.locator("#table-servers [data-field]").evaluateAll((cells) => cells.map((cell) => ({ ...cell.dataset, text: cell.textContent })));
    const after = await status();
    const differs = shown.filter((cell) => {
      const of = before.find((server) => server.name === cell.server);
      return String(of?.[cell.field] ?? "") !== cell.value;
    });
    if (JSON.stringify(before) === JSON.stringify(after) && shown.length === 4 * 9 && differs.length === 0) {
      const sent = shown.filter((cell) => cell.field === "dispatched");
      check(sent.every((cell) => cell.text.replaceAll(",", "") === cell.value && Number(cell.value) > 0), "what is read is what is meant");
      return say("the servers are as midas status --json has them");
    }
    difference = JSON.stringify(differs.slice(0, 3));
    await later();
  }
  check(false, `the page differs from midas status --json: ${difference}`);
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
