// The dashboard: what a daemon says of itself, as it says it. It changes nothing.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { byId, mark, say, show } from "./dom";
import { Explain } from "./explain";
import { clock } from "./format";
import { ATTEMPTS_MAX, Live, type State } from "./live";
import { Log } from "./log";
import { Panels } from "./panels";
import { Store } from "./store";
import { head, Tables } from "./tables";
import * as theme from "./theme";

const store = new Store();
/** What is shown while it is paused. */
let frozen: Store | undefined;
let seconds = 120;
let waiting = false;

theme.start(() => draw());
const explain = new Explain();
const tables = new Tables(draw, (path) => explain.of(path));
const panels = new Panels(draw);
const log = new Log(draw);

const live = new Live({
  begin: (points, frame) => {
    if (store.begin(points, frame)) startedAnew();
    soon();
  },
  frame: (frame) => {
    store.add(frame);
    soon();
  },
  state: tellState,
});

buttons();
keys();
draw();
live.connect();
addEventListener("visibilitychange", () => soon());

/** At most once a picture, and not where nobody looks. */
function soon(): void {
  if (waiting || document.hidden) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (!frozen) draw();
  });
}

function draw(): void {
  const shown = frozen ?? store;
  head(shown);
  tables.update(shown);
  panels.update(shown, seconds);
  log.update(shown);
  document.documentElement.dataset.frame = String(shown.frame?.point?.number ?? "");
}

function pause(): void {
  frozen = frozen ? undefined : store.copy();
  const button = byId("pause");
  mark(button, "aria-pressed", String(frozen !== undefined));
  say(button, frozen ? "Resume" : "Pause");
  document.documentElement.dataset.paused = String(frozen !== undefined);
  const at = store.points.at(-1)?.uptime_ms;
  say(byId("paused"), frozen ? `Paused at ${clock(store.at(at))}. What comes meanwhile is kept; p goes on.` : "");
  show(byId("paused"), frozen !== undefined);
  draw();
}

function tellState(state: State): void {
  document.documentElement.dataset.live = state.is;
  const banner = byId("banner");
  show(banner, state.is === "lost" || state.is === "given-up");
  const dot = byId("live");
  const words = { connecting: "connecting", live: "live", lost: "not connected", "given-up": "not connected" };
  say(dot, words[state.is]);
  mark(dot, "data-tone", state.is === "live" ? "good" : state.is === "connecting" ? undefined : "bad");
  if (state.is !== "lost" && state.is !== "given-up") return;
  const why = state.old
    ? "The daemon answers but sends no frames: it may be older than this page, or have as many connections as it takes."
    : `No answer from ${location.host}. Is the daemon running? Look with: systemctl status midas, or midas status on its host.`;
  const next =
    state.is === "lost" ? `Trying again in ${state.again} s (${state.attempt} of ${ATTEMPTS_MAX}).` : "Gave up.";
  say(byId("banner-text"), `${why} What is shown is the last that came. ${next}`);
}

function startedAnew(): void {
  const element = byId("notice");
  say(element, "The daemon was started anew: what is shown begins with it.");
  show(element, true);
  setTimeout(() => show(element, false), 8000);
}

function turnTheme(): void {
  theme.toggle();
  draw();
}

function buttons(): void {
  byId("pause").addEventListener("click", pause);
  byId("theme").addEventListener("click", turnTheme);
  byId("help").addEventListener("click", help);
  byId("retry").addEventListener("click", () => live.retry());
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-span]")) {
    button.addEventListener("click", () => {
      seconds = Number(button.dataset.span);
      for (const one of document.querySelectorAll("[data-span]")) mark(one, "aria-pressed", String(one === button));
      draw();
    });
  }
}

function help(): void {
  const dialog = byId<HTMLDialogElement>("shortcuts");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

function keys(): void {
  addEventListener("keydown", (event) => {
    const at = event.target;
    const typing = at instanceof HTMLElement && at.matches("input, select, textarea");
    if (event.key === "Escape" && typing) return at.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const does = shortcut(event.key);
    if (!does) return;
    event.preventDefault();
    does();
  });
}

function shortcut(key: string): (() => void) | undefined {
  if (key === "p") return pause;
  if (key === "t") return turnTheme;
  if (key === "?") return help;
  if (key === "/") return () => explain.focus();
  const section = /^[1-9]$/.test(key) ? document.querySelectorAll<HTMLElement>("main > section[data-key]")[Number(key) - 1] : undefined;
  return section && (() => go(section));
}

function go(section: HTMLElement): void {
  section.scrollIntoView();
  section.focus({ preventScroll: true });
}
