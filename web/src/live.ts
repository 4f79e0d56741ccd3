// The connection to the daemon: server-sent events, asked for again with growing pauses, and not for ever.

import type { Frame, Point } from "./types";

export type State =
  | { is: "connecting" }
  | { is: "live" }
  | { is: "lost"; again: number; attempt: number; old: boolean }
  | { is: "given-up"; old: boolean };

export interface Listener {
  /** A connection begins with these; such a frame has all events that the daemon still knows. */
  begin(points: Point[], frame: Frame): void;
  frame(frame: Frame): void;
  state(state: State): void;
}

const PAUSES = [1, 2, 4, 8, 15];
/** About five minutes; afterwards a click asks again. */
export const ATTEMPTS_MAX = 24;
/** A daemon says something twice a second. */
const SILENCE_MS = 15_000;

export class Live {
  private source: EventSource | undefined;
  private attempt = 0;
  private timer = 0;
  private silence = 0;

  constructor(private readonly listener: Listener) {
    addEventListener("online", () => this.retry());
    addEventListener("pagehide", () => this.source?.close());
  }

  connect(): void {
    clearTimeout(this.timer);
    this.source?.close();
    if (this.attempt === 0) this.listener.state({ is: "connecting" });
    const source = new EventSource("/api/v1/live");
    this.source = source;
    // Whose past it is, the first frame says.
    let past: Point[] | undefined;
    source.addEventListener("past", (message) => {
      this.heard();
      past = list<Point>(parse(message));
    });
    source.addEventListener("frame", (message) => {
      this.heard();
      const frame = parse(message);
      if (!frame || typeof frame !== "object") return;
      if (!past) return this.listener.frame(frame as Frame);
      this.listener.begin(past, frame as Frame);
      past = undefined;
    });
    source.onerror = () => void this.lost(source);
    this.listenForSilence();
  }

  /** By hand, or because the network is back: begins to count anew. */
  retry(): void {
    this.attempt = 0;
    this.connect();
  }

  private heard(): void {
    this.listener.state({ is: "live" });
    this.attempt = 0;
    this.listenForSilence();
  }

  private listenForSilence(): void {
    clearTimeout(this.silence);
    const source = this.source;
    this.silence = window.setTimeout(() => source && void this.lost(source), SILENCE_MS);
  }

  private async lost(source: EventSource): Promise<void> {
    if (source !== this.source) return;
    source.close();
    this.source = undefined;
    clearTimeout(this.silence);
    this.attempt += 1;
    const old = await answers();
    // Somebody clicked meanwhile.
    if (this.source) return;
    if (this.attempt >= ATTEMPTS_MAX) {
      this.listener.state({ is: "given-up", old });
      return;
    }
    const pause = PAUSES[Math.min(this.attempt - 1, PAUSES.length - 1)] ?? 15;
    this.listener.state({ is: "lost", again: pause, attempt: this.attempt, old });
    this.timer = window.setTimeout(() => this.connect(), pause * 1000);
  }
}

/** Whether a daemon is there that does not know how to send frames. */
async function answers(): Promise<boolean> {
  try {
    const live = await fetch("/api/v1/status", { signal: AbortSignal.timeout(2000) });
    return live.ok;
  } catch {
    return false;
  }
}

function parse(message: MessageEvent<string>): unknown {
  try {
    return JSON.parse(message.data);
  } catch {
    return undefined;
  }
}

function list<T>(value: unknown): T[] {
  return Array.isArray(value) ? (value as T[]) : [];
}
