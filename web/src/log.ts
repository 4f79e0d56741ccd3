// What was done and decided, newest first, filtered by kind and by words. At most ROWS_MAX are shown at once: whoever looks for more narrows it.

import { byId, h, mark, say, show } from "./dom";
import { clock } from "./format";
import type { Store } from "./store";
import type { Event } from "./types";

const KINDS = ["knob", "decision", "health", "cache", "cluster", "change"];
const ROWS_MAX = 150;
const TURNS_MAX = 12;

export class Log {
  private readonly list = byId("events");
  private readonly words = byId<HTMLInputElement>("words");
  private readonly off = new Set<string>();
  private drawn = "";

  constructor(changed: () => void) {
    this.words.addEventListener("input", changed);
    const chips = KINDS.map((kind) => {
      const chip = h("button", { type: "button", class: "chip", "aria-pressed": "true", "data-kind": kind }, kind);
      chip.addEventListener("click", () => {
        if (!this.off.delete(kind)) this.off.add(kind);
        mark(chip, "aria-pressed", String(!this.off.has(kind)));
        changed();
      });
      return chip;
    });
    byId("kinds").append(...chips);
  }

  update(store: Store): void {
    const words = this.words.value.trim().toLowerCase();
    const last = store.events.at(-1)?.number ?? 0;
    // The time of the first event, too: another daemon may have as many, and clocks are set.
    const wanted = `${store.at(0)}|${last}|${store.events.length}|${words}|${[...this.off].join()}`;
    if (wanted === this.drawn) return;
    this.drawn = wanted;
    const found = store.events.filter((event) => this.fits(event, words)).reverse();
    this.list.replaceChildren(...found.slice(0, ROWS_MAX).map((event) => row(store, event)));
    show(byId("events-empty"), found.length === 0);
    say(byId("events-empty"), store.events.length === 0 ? "Nothing was done or decided yet." : "Nothing fits: take a word or a kind out of the filter.");
    const rest = found.length > ROWS_MAX ? `, the newest ${ROWS_MAX} are shown` : "";
    say(byId("events-count"), `${found.length} of ${store.events.length}${rest}`);
    turns(store);
  }

  private fits(event: Event, words: string): boolean {
    if (this.off.has(event.kind ?? "")) return false;
    const text = `${event.kind} ${event.about} ${event.what} ${event.why}`.toLowerCase();
    return words.split(/\s+/).every((word) => text.includes(word));
  }
}

/** The last turns of knobs, below the knobs. */
function turns(store: Store): void {
  const found = store.events.filter((event) => event.kind === "knob").slice(-TURNS_MAX).reverse();
  byId("turns").replaceChildren(...found.map((event) => row(store, event)));
  show(byId("turns-empty"), found.length === 0);
}

function row(store: Store, event: Event): HTMLElement {
  const kind = event.kind ?? "";
  return h(
    "li",
    { "data-kind": kind, "data-number": event.number },
    h("time", {}, clock(store.at(event.uptime_ms))),
    h("span", { class: "kind" }, kind),
    h("span", { class: "what" }, h("b", {}, event.about ?? ""), " ", event.what ?? ""),
    h("span", { class: "why" }, event.why ?? ""),
  );
}
