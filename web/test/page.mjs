// Chromium, what goes wrong in it, and pictures of it.

import { chromium } from "playwright-core";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** As the lab's: a machine with other work is slow. */
export const PATIENCE = 60_000;
/** What the console called an error, and requests that failed, but for those that are meant to. */
export const errors = [];
const meant = [];
let bytes = 0;
let opened;
let own;

export const transferred = () => bytes;

export async function launch() {
  const executablePath = process.env.MIDAS_CHROMIUM ?? command("chromium");
  // As root Chromium does not start its sandbox; nothing is loaded but our own page.
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** Where a command lies; its name where it does not, which the error then names. */
function command(name) {
  const places = (process.env.PATH ?? "").split(delimiter).map((directory) => join(directory, name));
  return places.find((place) => existsSync(place)) ?? name;
}

export async function open(address, { width, height, scheme }) {
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
  page.setDefaultTimeout(PATIENCE);
  page.on("console", (message) => message.type() === "error" && note(message.text(), message.location().url));
  page.on("pageerror", (error) => note(error.stack));
  // A stream that the page itself closed did not fail.
  page.on("requestfailed", (request) => request.url().endsWith("/live") || note(request.failure()?.errorText, request.url()));
  page.on("response", (response) => response.status() >= 400 && note(`answered with ${response.status()}`, response.url()));
  from(address);
  page.on("request", (request) => request.url().startsWith(own) || note("elsewhere", request.url()));
  page.on("requestfinished", (request) => void count(request));
  opened = { browser, page };
  await page.goto(address);
  return opened;
}

function note(what, url = "nowhere") {
  if (!meant.some((is) => is(what, url))) errors.push(`${what} (${url})`);
}

/** From now on such an error is none: at this address, in these words. */
export function means(address, words) {
  meant.push((what, url) => url === address && words.test(what));
}

/** Where the page comes from now: it asks nobody else. */
export function from(address) {
  own = address;
}

async function count(request) {
  const path = new URL(request.url()).pathname;
  if (path.startsWith("/api/")) return;
  const sizes = await request.sizes().catch(() => undefined);
  if (sizes) bytes += sizes.responseBodySize + sizes.responseHeadersSize;
}

/** Until it holds in the page. Playwright's own way evaluates text there, which the page's policy forbids, as it should. */
export async function until(what, holds, argument, page = opened.page) {
  const end = Date.now() + PATIENCE;
  while (!(await page.evaluate(holds, argument))) {
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** What the page would say of a number, `shown`, is that number within the rounding that is shown, in one of these units. */
export function reads(shown, number, units) {
  const [, whole, part = "", unit = ""] = /^(\d{1,3}(?:,\d{3})*|\d+)(?:\.(\d+))? ?([a-zA-Z%]*)$/.exec(shown) ?? [];
  if (whole === undefined || !(unit in units)) return false;
  const rounding = 0.5 * 10 ** -part.length;
  return Math.abs(Number(`${whole.replaceAll(",", "")}.${part}`) - number / units[unit]) <= rounding + 1e-9;
}

export const value = (selector) => opened.page.getAttribute(selector, "data-value");

/** The four forms of the page, as it is now. */
export async function shots(directory, address, prefix = "dashboard") {
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  const forms = [
    ["light", 1280, 960, "light"],
    ["dark", 1280, 960, "dark"],
    ["wide", 1920, 1080, "light"],
    ["narrow", 380, 1300, "dark"],
  ];
  for (const [name, width, height, scheme] of forms) {
    const page = await opened.browser.newPage({ viewport: { width, height }, colorScheme: scheme });
    await page.goto(address);
    await until("a frame", () => Number(document.documentElement.dataset.frame) > 0, null, page);
    await page.screenshot({ path: join(directory, `${prefix}-${name}.png`) });
    await page.close();
  }
}

export function check(holds, what) {
  if (!holds) throw new Error(`not so: ${what}`);
  say(what);
}

export function say(what) {
  console.log(`browser: ${what}`);
}
