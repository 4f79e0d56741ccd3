// Queues as a heat map: time from left to right, a row for every server, the darker (or, in the dark, the brighter) the longer.

import { mix, type Span } from "./chart";
import { h, say, show } from "./dom";
import { clock, short } from "./format";
import { colour } from "./theme";

const ROW = 48;
const ROWS_HIGH = 228;
const AXIS = 22;
/** Between two times, in seconds, and what one takes, in pixels. */
const STEPS = [5, 10, 20, 30, 60, 120];
const LABEL = 84;

export class Heat {
  readonly element = h("div", { class: "heat", "data-chart": "heat" });
  private readonly canvas = h("canvas", { role: "img" });
  private readonly scale = h("div", { class: "scale", "aria-hidden": "true" });
  private readonly least = h("span", {}, "0");
  private readonly ramp = h("canvas", { width: 120, height: 8 });
  private readonly most = h("span");
  private readonly tip = h("div", { class: "tip", hidden: true });
  private readonly empty = h("p", { class: "empty" });
  private last: { times: number[]; names: string[]; lines: number[][]; span: Span } | undefined;

  constructor() {
    this.scale.append(h("span", { class: "quiet" }, "calls under way"), this.least, this.ramp, this.most);
    this.element.append(this.canvas, this.tip, this.empty, this.scale);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => show(this.tip, false));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  clear(why: string): void {
    say(this.empty, why);
    show(this.empty, true);
    show(this.canvas, false);
    show(this.scale, false);
  }

  update(times: number[], names: string[], lines: number[][], span: Span): void {
    show(this.empty, false);
    show(this.canvas, true);
    show(this.scale, true);
    this.last = { times, names, lines, span };
    this.draw();
  }

  private draw(): void {
    const { last } = this;
    const width = this.element.clientWidth;
    const paint = this.canvas.getContext("2d");
    if (!last || width === 0 || !paint) return;
    const row = this.row();
    const height = row * last.names.length + AXIS;
    const ratio = devicePixelRatio;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    const most = Math.ceil(Math.max(8, ...last.lines.map((line) => Math.max(0, ...line))));
    this.cells(paint, row, width, most);
    this.labels(paint, row, width, height);
    this.legend(most);
  }

  private cells(paint: CanvasRenderingContext2D, row: number, width: number, most: number): void {
    const { last } = this;
    if (!last) return;
    const left = this.left();
    const colours = steps();
    const x = (time: number) => left + ((time - last.span.from) / (last.span.to - last.span.from)) * (width - left);
    paint.fillStyle = colours[0] ?? "";
    last.names.forEach((_, at) => paint.fillRect(left, at * row, width - left, row - 2));
    last.times.forEach((time, moment) => {
      const end = Math.min(width, x(time));
      const before = last.times[moment - 1];
      // A gap in the points stays empty.
      const begin = before === undefined || time - before > 2 ? x(time - 0.5) : x(before);
      if (end <= left) return;
      last.lines.forEach((line, server) => {
        const share = ((line[moment] ?? 0) / most) ** 0.75;
        paint.fillStyle = colours[Math.min(colours.length - 1, Math.round(share * (colours.length - 1)))] ?? "";
        paint.fillRect(Math.max(left, begin), server * row, end - Math.max(left, begin) + 0.6, row - 2);
      });
    });
  }

  private labels(paint: CanvasRenderingContext2D, row: number, width: number, height: number): void {
    const { last } = this;
    if (!last) return;
    paint.fillStyle = colour("muted");
    paint.font = "11px system-ui, sans-serif";
    paint.textBaseline = "middle";
    const every = Math.ceil(12 / row);
    last.names.forEach((name, at) => {
      if (at % every === 0) paint.fillText(brief(name), 0, at * row + row / 2 - 1, this.left() - 6);
    });
    const left = this.left();
    const length = last.span.to - last.span.from;
    const step = STEPS.find((one) => ((width - left) * one) / length >= LABEL) ?? 300;
    paint.textAlign = "center";
    for (let time = Math.ceil(last.span.from / step) * step; time <= last.span.to; time += step) {
      const at = left + ((width - left) * (time - last.span.from)) / length;
      if (at > left + LABEL / 3 && at < width - LABEL / 3) paint.fillText(clock(time), at, height - 9);
    }
    paint.textAlign = "left";
    const worst = last.names.map((name, at) => `${name} ${short(last.lines[at]?.at(-1))}`);
    this.canvas.setAttribute("aria-label", `Queues over time as a heat map. Now: ${worst.slice(0, 16).join(", ")}`);
  }

  private legend(most: number): void {
    say(this.most, short(most));
    const paint = this.ramp.getContext("2d");
    if (!paint) return;
    const colours = steps();
    const wide = this.ramp.width / colours.length;
    colours.forEach((one, at) => {
      paint.fillStyle = one;
      paint.fillRect(at * wide, 0, wide + 1, 8);
    });
  }

  private point(event: PointerEvent): void {
    const { last } = this;
    if (!last) return;
    const box = this.canvas.getBoundingClientRect();
    const left = this.left();
    const server = Math.floor((event.clientY - box.top) / this.row());
    const share = (event.clientX - box.left - left) / (box.width - left);
    const time = last.span.from + share * (last.span.to - last.span.from);
    const moment = last.times.findIndex((one) => one >= time);
    const name = last.names[server];
    const inside = share >= 0 && name !== undefined && moment >= 0;
    show(this.tip, inside);
    if (!inside) return;
    say(this.tip, `${clock(last.times[moment] ?? 0)}  ${name}: ${short(last.lines[server]?.[moment])} under way`);
    this.tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left, box.width - 220))}px`;
    this.tip.style.top = `${(server + 1) * this.row() + 4}px`;
  }

  private row(): number {
    return Math.max(4, Math.min(ROW, ROWS_HIGH / Math.max(1, this.last?.names.length ?? 1)));
  }

  private left(): number {
    const longest = Math.max(0, ...(this.last?.names ?? []).map((name) => brief(name).length));
    return Math.min(112, 12 + longest * 6.4);
  }
}

/** The end of a long name tells more than its beginning. */
function brief(name: string): string {
  return name.length > 16 ? `…${name.slice(-15)}` : name;
}

/** Lightness grows or falls evenly, so that it can be read without seeing hues. */
function steps(): string[] {
  const stops = [0, 1, 2, 3].map((at) => colour(`heat-${at}`));
  const parts = 8;
  return stops.slice(1).flatMap((stop, at) =>
    Array.from({ length: parts }, (_, part) => mix(stops[at] ?? "#000000", stop, part / (parts - (at === 2 ? 1 : 0)))),
  );
}
