// What the page knows: bounded copies of what the daemon said. A pause is another such copy that nothing is added to.

import type { Event, Frame, Point, Server } from "./types";

/** As the daemon's: five minutes. */
export const POINTS_MAX = 600;
export const EVENTS_MAX = 1000;

export class Store {
  points: Point[] = [];
  /** Oldest first, each number once. */
  events: Event[] = [];
  frame: Frame | undefined;
  /** Wall clock at the daemon's start, in milliseconds. */
  private born = 0;

  /** What a connection begins with, the first and every later one: all that the charts show, and the first frame. Whether the daemon is another one than before. */
  begin(points: Point[], frame: Frame): boolean {
    const anew = this.another(frame);
    if (anew) this.forget();
    this.points = points.slice(-POINTS_MAX);
    this.add(frame);
    return anew;
  }

  /** A new frame, of the same connection. */
  add(frame: Frame): void {
    this.frame = frame;
    if (frame.point && number(frame.point) > number(this.points.at(-1))) {
      this.points.push(frame.point);
      if (this.points.length > POINTS_MAX) this.points.splice(0, this.points.length - POINTS_MAX);
    }
    this.settle();
    this.learn(frame.events ?? []);
  }

  /** It was started at another time, or, if it is too old to say when, its numbers began anew: what is known is of no use. */
  private another(frame: Frame): boolean {
    if (!this.frame) return false;
    return frame.status?.started_unix_ms !== this.frame.status?.started_unix_ms || number(frame.point) < number(this.frame.point);
  }

  private forget(): void {
    this.points = [];
    this.events = [];
    this.frame = undefined;
    this.born = 0;
  }

  /** Takes in what is new; the order of arrival does not matter. */
  private learn(events: Event[]): void {
    if (events.length === 0) return;
    const known = new Map(this.events.map((event) => [event.number ?? 0, event]));
    for (const event of events) known.set(event.number ?? 0, event);
    const sorted = [...known.values()].sort((a, b) => (a.number ?? 0) - (b.number ?? 0));
    this.events = sorted.slice(-EVENTS_MAX);
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
