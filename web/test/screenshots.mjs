// The pictures in docs/: the dashboard and `midas top` of a running demo, and the report of `midas sim paper`.
// node test/screenshots.mjs MIDAS DIRECTORY

import { execFile, spawn } from "node:child_process";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { html } from "./ansi.mjs";
import { open, shots, until } from "./page.mjs";

const [MIDAS, TO] = process.argv.slice(2);
const run = promisify(execFile);
const SECONDS = 50;
const SIZE_MOST = 200 << 10;
/** Calls under way that are worth a picture. */
const STORM = 8;

const demo = spawn(MIDAS, ["demo", "--headless", "--keep", "--seconds", String(SECONDS)], { stdio: ["ignore", "pipe", "inherit"] });
const ended = new Promise((resolve) => demo.on("exit", resolve));
const scratch = await mkdtemp(join(tmpdir(), "midas-shots-"));
let browser;
try {
  const address = await dashboard();
  const opened = await open(address, { width: 1280, height: 960, scheme: "light" });
  browser = opened.browser;
  await stormy();
  await shots(TO, address);
  await top(new URL(address).host);
  await report();
  await small();
} finally {
  await browser?.close();
  demo.kill("SIGINT");
  await ended;
  await rm(scratch, { recursive: true });
}

/** The demo's first line, and then the end of its first round, so that the charts are full. */
async function dashboard() {
  let address;
  for await (const line of createInterface({ input: demo.stdout })) {
    address ??= /http:\/\/\S+/.exec(line)?.[0];
    if (line.includes("goes on") && address) return address;
  }
  throw new Error("the demo ended without a dashboard: does this midas have demo --keep?");
}

/** A round is as long as the patience; a storm is in each. */
async function stormy() {
  const holds = (least) => Number(document.querySelector('[data-tile="queue"]').dataset.value) >= least;
  await until("a storm", holds, STORM);
}

async function top(address) {
  const options = ["--once", "--color", "always", "--width", "110", "--height", "36", "--address", address];
  const text = (await run(MIDAS, ["top", ...options])).stdout;
  const file = join(scratch, "top.html");
  await writeFile(file, html(text, "midas top"));
  await picture(`file://${file}`, "top", { width: 900, height: 200 }, "pre");
}

async function report() {
  await run(MIDAS, ["sim", "paper", "--quick", "--out", scratch]);
  await picture(`file://${join(scratch, "report.html")}`, "paper", { width: 900, height: 900 });
}

async function picture(address, name, viewport, part) {
  const page = await browser.newPage({ viewport, colorScheme: "light" });
  await page.goto(address);
  const path = join(TO, `${name}.png`);
  await (part ? page.locator(part) : page).screenshot({ path });
  await page.close();
}

/** They are kept in the repository. */
async function small() {
  const pictures = (await readdir(TO)).filter((name) => name.endsWith(".png"));
  for (const name of pictures) {
    const { size } = await stat(join(TO, name));
    if (size > SIZE_MOST) throw new Error(`${name} has ${size} bytes`);
  }
}
