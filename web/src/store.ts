// What the page knows: bounded copies of what the daemon said. A pause is another such copy that nothing is added to.

import type { Event, Frame, Point, Server } from "./types";

/** As the daemon's: five minutes. */
export const POINTS_MAX = 600;
export const EVENTS_MAX = 1000;
/** More than a frame is ever late. */
const LATER_MS = 30_000;

export class Store {
  points: Point[] = [];
  /** Oldest first, each number once. */
  events: Event[] = [];
  frame: Frame | undefined;
  /** Wall clock at the daemon's start, in milliseconds. */
  private born = 0;

  /** All that the charts show, again: after the first connection, and after every later one. Whether the daemon is another one than before. */
  past(points: Point[]): boolean {
    const anew = this.another(points.at(-1));
    if (anew) this.forget();
    this.points = points.slice(-POINTS_MAX);
    this.settle();
    return anew;
  }

  /** A new frame. Whether the daemon is another one than before. */
  add(frame: Frame): boolean {
    const anew = this.another(frame.point);
    if (anew) this.forget();
    this.frame = frame;
    if (frame.point && number(frame.point) > number(this.points.at(-1))) {
      this.points.push(frame.point);
      if (this.points.length > POINTS_MAX) this.points.splice(0, this.points.length - POINTS_MAX);
    }
    this.settle();
    this.learn(frame.events ?? []);
    return anew;
  }

  /** Its numbers began anew, or it was started later than the one that was known: what is known is of no use. */
  private another(point: Point | undefined): boolean {
    if (!point || !this.frame) return false;
    return number(point) < number(this.frame.point) || Date.now() - (point.uptime_ms ?? 0) - this.born > LATER_MS;
  }

  private forget(): void {
    this.points = [];
    this.events = [];
    this.frame = undefined;
    this.born = 0;
  }

  /** Takes in what is new; the order of arrival does not matter. */
  learn(events: Event[]): void {
    if (events.length === 0) return;
    const known = new Map(this.events.map((event) => [event.number ?? 0, event]));
    for (const event of events) known.set(event.number ?? 0, event);
    const sorted = [...known.values()].sort((a, b) => (a.number ?? 0) - (b.number ?? 0));
    this.events = sorted.slice(-EVENTS_MAX);
  }

  lastEvent(): number {
    return this.events.at(-1)?.number ?? 0;
  }

  /** A copy that stays as it is. */
  copy(): Store {
    const copy = new Store();
    copy.points = this.points.slice();
    copy.events = this.events.slice();
    copy.frame = this.frame;
    copy.born = this.born;
    return copy;
  }

  /** Wall clock of a moment of the daemon, in seconds. */
  at(uptime: number | undefined): number {
    return (this.born + (uptime ?? 0)) / 1000;
  }

  /** Every server, in the order that points have. */
  servers(): Server[] {
    return (this.frame?.status?.pools ?? []).flatMap((pool) => pool.servers ?? []);
  }

  exports(): string[] {
    return (this.frame?.status?.exports ?? []).map((one) => one.path ?? "");
  }

  /** The daemon tells time since its start alone; a page that stayed open over a suspend must not drift. */
  private settle(): void {
    const uptime = this.points.at(-1)?.uptime_ms;
    if (uptime === undefined) return;
    const born = Date.now() - uptime;
    if (Math.abs(born - this.born) > 2000) this.born = born;
  }
}

function number(point: Point | undefined): number {
  return point?.number ?? 0;
}
