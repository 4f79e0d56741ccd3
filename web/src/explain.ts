// Where a call on a path would go now, and why.

import { byId, h } from "./dom";
import { short } from "./format";
import type { Candidate, Explanation } from "./types";

/** Longer than any server may take to look a path up. */
const PATIENCE_MS = 15_000;

export class Explain {
  private readonly form = byId<HTMLFormElement>("explain");
  private readonly path = byId<HTMLInputElement>("path");
  private readonly op = byId<HTMLSelectElement>("op");
  private readonly answer = byId("explanation");
  private asked = 0;

  constructor() {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.ask();
    });
  }

  focus(): void {
    this.path.focus();
    this.path.select();
  }

  of(path: string): void {
    this.path.value = path;
    this.form.scrollIntoView({ block: "center" });
    this.path.focus();
    void this.ask();
  }

  private async ask(): Promise<void> {
    const path = this.path.value.trim();
    if (path.startsWith("#")) return this.refuse("Nobody has asked for the way to this directory, so only its digest is known. midas hot on the daemon's host shows its handle, and midas explain takes it.");
    if (!path.startsWith("/")) return this.refuse("A path as clients see it begins with the export, such as /scratch/project.");
    const number = (this.asked += 1);
    this.answer.replaceChildren(h("p", { class: "quiet" }, "Asking…"));
    const query = new URLSearchParams({ path, op: this.op.value });
    try {
      const reply = await fetch(`/api/v1/where?${query}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
      const body: unknown = await reply.json().catch(() => ({}));
      // A later question has taken its place.
      if (number !== this.asked) return;
      if (reply.ok) this.tell(body as Explanation);
      else this.refuse((body as { error?: string }).error ?? `The daemon answered ${reply.status}.`);
    } catch {
      if (number === this.asked) this.refuse("No answer. Is the daemon running? Try again, or ask it by: midas explain PATH");
    }
  }

  private refuse(why: string): void {
    this.answer.replaceChildren(h("p", { class: "bad", role: "alert" }, why));
  }

  private tell(found: Explanation): void {
    const to = found.to ?? undefined;
    const facts: [string, string | undefined][] = [
      ["Home", found.home],
      ["Policy", found.policy],
      ["Cache", found.mode ? `${found.mode}${found.mode_because ? `: ${found.mode_because}` : ""}` : undefined],
      ["Bound to", found.bound ? `${found.bound.server ?? ""}: ${found.bound.because ?? ""}` : undefined],
    ];
    const listed = facts.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "")));
    this.answer.replaceChildren(
      h("p", { class: "verdict", "data-to": to ?? "", "data-why": found.why }, h("b", {}, to ? `to ${to}` : "waits"), " ", h("span", { class: "tag" }, found.why ?? "")),
      h("p", {}, found.because ?? ""),
      h("dl", { class: "facts" }, ...listed),
      candidates(found.servers ?? [], to),
    );
  }
}

function candidates(servers: Candidate[], to: string | undefined): HTMLElement {
  const rows = servers.map((server) =>
    h(
      "li",
      { class: server.name === to ? "taken" : undefined },
      h("span", {}, server.name ?? ""),
      h("span", { class: "quiet" }, server.excluded ?? `${server.health ?? ""}, ${server.in_flight ?? 0} in flight, work ${short(server.work)}`),
    ),
  );
  return h("ol", { class: "candidates", "aria-label": "Servers in the order of the home" }, ...rows);
}
