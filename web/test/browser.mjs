// The dashboard in a real browser, over a real daemon. crates/cli/tests/browser.rs starts both and runs this; what is read is what the
// page shows, never what the API says, but for one comparison of the two.
//
// MIDAS: the binary. MIDAS_PAGE: where the daemon shows itself. MIDAS_SOCKET: its control socket. MIDAS_TARGET: where `midas bench` calls.
// MIDAS_CHROMIUM: the browser, if it is not `chromium` on the PATH. MIDAS_SHOTS: a directory for screenshots; none are taken without.

import { execFile, spawn } from "node:child_process";
import { promisify } from "node:util";
import { PATIENCE, check, errors, open, say, shots, transferred, until, value } from "./page.mjs";

const { MIDAS, MIDAS_PAGE, MIDAS_SOCKET, MIDAS_TARGET, MIDAS_SHOTS } = process.env;
const run = promisify(execFile);
const TRANSFER_MOST = 300 << 10;
const STORM = ["--op", "create,getattr", "--directories", "1", "--connections", "4", "--depth", "24", "--duration", "6s", "--json"];
/** Calls under way at the worst server: fewer than this is calm, more a storm. 96 in all, over four servers. */
const CALM = 2;
const HIGH = 8;

const { browser, page } = await open(MIDAS_PAGE, { width: 1440, height: 900, scheme: "light" });
try {
  await loads();
  await storm();
  await clicks();
  await explains();
  await agrees();
  await narrow();
  check(errors.length === 0, `no console errors and no failed requests: ${errors.join("; ")}`);
  check(transferred() < TRANSFER_MOST, `the page transfers ${transferred()} bytes`);
} finally {
  await browser.close();
}
say("all seen");

async function loads() {
  await page.waitForSelector('html[data-live="live"]');
  await until("a frame", () => Number(document.documentElement.dataset.frame) > 0);
  check((await page.title()) === "MIDAS", "the page has its title");
  check((await page.locator("#table-servers tbody tr").count()) === 4, "four servers are listed");
  check((await page.locator("#ready").textContent()) === "ready", "the daemon is ready");
  check(await page.locator("#cluster-empty").isVisible(), "without a cluster it says what one is for");
  check((await page.locator('[data-chart="queues"] canvas').count()) === 1, "queues are drawn");
  check(await page.locator('[data-chart="heat"] > canvas').isVisible(), "and as a heat map");
}

async function storm() {
  await until("short queues", (most) => Number(document.querySelector('[data-tile="queue"]').dataset.value) <= most, CALM);
  say("calm");
  const load = spawn(MIDAS, ["bench", MIDAS_TARGET, ...STORM], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise((resolve) => load.on("exit", resolve));
  await until("long queues", (least) => Number(document.querySelector('[data-tile="queue"]').dataset.value) >= least, HIGH);
  say(`the storm is seen: ${await value('[data-tile="queue"]')} under way at the worst server`);
  const chips = await page.locator('[data-chart="queues"] [data-series]').count();
  check(chips === 4, "a line for every server");
  // Within two seconds of calls; the page may be slower on a busy machine.
  await page.waitForSelector('#table-directories [data-spot]');
  const directory = await page.locator("#table-directories tbody th").first().getAttribute("data-spot");
  check(/midas-bench|^#/.test(directory), `the storm's directory is named: ${directory}`);
  await page.waitForSelector('#table-clients [data-spot="127.0.0.1"]');
  await page.waitForSelector('#table-users [data-spot="0"]');
  await page.waitForSelector('[data-chart="procedures"] [data-series="CREATE"]');
  await page.waitForSelector('[data-chart="outcomes"] [data-series="forwarded"]');
  await shots(MIDAS_SHOTS, MIDAS_PAGE);
  check((await ended) === 0, "the load ended well");
  await until("short queues", (most) => Number(document.querySelector('[data-tile="queue"]').dataset.value) <= most, CALM);
  const highest = await page.evaluate(() => document.querySelector('[data-chart="heat"] .scale span:last-child').textContent);
  check(Number(highest) >= HIGH, `the heat map remembers it: up to ${highest}`);
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
  const chip = page.locator('#kinds [data-kind="knob"]');
  await chip.click();
  check((await page.locator('#events li[data-kind="knob"]').count()) === 0, "a kind can be left out of the log");
  await chip.click();
  await page.fill("#words", "no such words anywhere");
  check((await page.locator("#events li").count()) === 0, "words filter the log");
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
  await page.fill("#path", "/scratch");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#explanation .verdict");
  const to = await page.getAttribute("#explanation .verdict", "data-to");
  const names = await page.locator('[data-field="name"]').evaluateAll((cells) => cells.map((cell) => cell.dataset.server));
  check(names.includes(to), `a call on /scratch goes to a server: ${to}`);
  check((await page.locator("#explanation .candidates li").count()) === 4, "every server is judged");
  // The browser itself reports the refusal as an error of the console; this one is wanted.
  const known = errors.length;
  await page.fill("#path", "/elsewhere");
  await page.click("#explain button");
  await page.waitForSelector("#explanation [role=alert]");
  errors.length = known;
  await page.fill("#path", "");
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
