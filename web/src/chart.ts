// Lines over time, by uPlot: one wall clock for all of them, a legend that tells the values and hides lines, marks where something was done.

import uPlot from "uplot";
import { h, mark, say, show } from "./dom";
import { clock } from "./format";
import { colour, series } from "./theme";

export interface Mark {
  /** Seconds. */
  at: number;
  text: string;
}

export interface Data {
  /** Seconds, ascending. */
  times: number[];
  names: string[];
  /** Line by line, as long as the times. */
  lines: (number | null)[][];
  marks?: Mark[];
  /** Lines that are limits, and drawn as such. */
  limits?: number;
}

export interface Options {
  /** What the values are, for people and for screen readers. */
  label: string;
  value: (value: number | null | undefined) => string;
  /** The same at the axis, where the title says the unit; as the values if not given. */
  axis?: (value: number) => string;
  height?: number;
  /** The top of the axis is at least this. */
  least?: number;
  /** And at most this. */
  most?: number;
  /** Lines stand on each other. */
  stacked?: boolean;
  /** Values hold until the next one. */
  stepped?: boolean;
  /** No legend and no axis of time: one of many small ones. */
  small?: boolean;
}

export interface Span {
  from: number;
  to: number;
}

export class Chart {
  readonly element = h("div", { class: "chart" });
  private readonly plot = h("div", { class: "plot" });
  private readonly legend = h("div", { class: "legend", role: "group" });
  private readonly empty = h("p", { class: "empty" });
  private readonly tip = h("div", { class: "tip", hidden: true });
  private chart: uPlot | undefined;
  private drawn = "";
  private data: Data = { times: [], names: [], lines: [] };
  private readonly hidden = new Set<string>();
  private span: Span = { from: 0, to: 1 };
  private readonly resized = new ResizeObserver(() => this.fit());

  constructor(name: string, private readonly options: Options) {
    this.element.dataset.chart = name;
    this.plot.setAttribute("role", "img");
    this.plot.setAttribute("aria-label", options.label);
    this.legend.setAttribute("aria-label", `${options.label}: lines`);
    this.element.append(this.plot, this.tip, this.empty);
    if (!options.small) this.element.append(this.legend);
    this.resized.observe(this.plot);
  }

  /** For one that is taken out of the page. */
  destroy(): void {
    this.resized.disconnect();
    this.chart?.destroy();
    this.chart = undefined;
  }

  /** Nothing to draw: says why, and what to do. */
  clear(why: string): void {
    say(this.empty, why);
    show(this.empty, true);
    show(this.plot, false);
    show(this.legend, false);
  }

  update(data: Data, span: Span): void {
    show(this.empty, false);
    show(this.plot, true);
    show(this.legend, true);
    this.data = data;
    this.span = span;
    this.tell();
    const wanted = `${document.documentElement.dataset.theme}|${data.limits ?? 0}|${data.names.join("|")}`;
    if (wanted !== this.drawn || !this.chart) {
      this.drawn = wanted;
      this.build();
    } else {
      this.chart.setData(this.table(), false);
      this.chart.setScale("x", { min: span.from, max: span.to });
    }
  }

  private build(): void {
    this.chart?.destroy();
    const width = this.plot.clientWidth;
    if (width === 0) {
      this.drawn = "";
      return;
    }
    this.chart = new uPlot(this.settings(width), this.table(), this.plot);
    this.legend.replaceChildren(...this.data.names.map((name, at) => this.chip(name, at)));
    this.tell();
  }

  private settings(width: number): uPlot.Options {
    const { options } = this;
    const text = colour("muted");
    const grid = { stroke: colour("grid"), width: 1 };
    const font = "11px system-ui, sans-serif";
    const axis = { stroke: text, grid, font, ticks: { show: false } };
    const small = options.small === true;
    return {
      width,
      height: options.height ?? 190,
      padding: [8, small ? 10 : 24, small ? 6 : 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "time" }, drag: { setScale: false, x: false, y: false }, points: { size: 6 }, y: false },
      scales: {
        x: { time: false, range: () => [this.span.from, this.span.to] },
        y: { range: (_, __, most) => [0, this.top(most)] },
      },
      axes: [
        { ...axis, show: !small, space: 84, size: 26, values: (_, splits) => splits.map(clock) },
        { ...axis, size: small ? 40 : 46, space: small ? 22 : 34, values: (_, splits) => splits.map((split) => (options.axis ?? options.value)(split)) },
      ],
      series: [{}, ...this.order().map((at) => this.line(at))],
      hooks: {
        draw: [(chart) => this.drawMarks(chart)],
        setCursor: [(chart) => this.point(chart)],
      },
    };
  }

  private line(at: number): uPlot.Series {
    const name = this.data.names[at] ?? "";
    const limit = at >= this.data.names.length - (this.data.limits ?? 0);
    const { stroke, dash } = series(at);
    const line: uPlot.Series = { label: name, stroke, dash, width: 1.6, points: { show: false }, show: !this.hidden.has(name) };
    if (limit) return { ...line, stroke: colour("muted"), dash: [4, 4], width: 1 };
    if (this.options.stepped && uPlot.paths.stepped) line.paths = uPlot.paths.stepped({ align: 1 });
    if (this.options.stacked) line.fill = mix(stroke, colour("surface"), 0.62);
    if (this.options.small) line.fill = mix(stroke, colour("surface"), 0.85);
    return line;
  }

  /** Of what stands on each other the highest is drawn first: the others cover it. */
  private order(): number[] {
    const all = this.data.names.map((_, at) => at);
    return this.options.stacked ? all.reverse() : all;
  }

  private table(): uPlot.AlignedData {
    const { times, names, lines } = this.data;
    if (!this.options.stacked) return [times, ...lines];
    const sums: number[] = times.map(() => 0);
    const stacked = lines.map((line, at) =>
      line.map((value, time) => {
        if (this.hidden.has(names[at] ?? "")) return sums[time] ?? 0;
        sums[time] = (sums[time] ?? 0) + (value ?? 0);
        return sums[time] ?? 0;
      }),
    );
    return [times, ...stacked.reverse()];
  }

  private top(most: number): number {
    const least = this.options.least ?? 1;
    const top = Number.isFinite(most) ? Math.max(least, most * 1.1) : least;
    return Math.min(top, this.options.most ?? Infinity);
  }

  private chip(name: string, at: number): HTMLElement {
    const chip = h(
      "button",
      { type: "button", class: "chip", "aria-pressed": String(!this.hidden.has(name)), "data-series": name, title: `Show or hide ${name}` },
      h("i", { class: `key key-${at % 8}`, "aria-hidden": "true" }),
      h("span", { class: "name" }, name),
      h("b"),
    );
    if (at >= this.data.names.length - (this.data.limits ?? 0)) chip.firstElementChild?.setAttribute("class", "key key-limit");
    chip.addEventListener("click", () => {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      chip.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      this.build();
    });
    return chip;
  }

  /** The values now, or where the pointer is. */
  private tell(): void {
    const at = this.chart?.cursor.idx ?? this.data.times.length - 1;
    [...this.legend.children].forEach((chip, line) => {
      const value = this.data.lines[line]?.[at];
      const last = chip.lastElementChild;
      if (last) say(last, this.options.value(value));
      mark(chip, "data-value", String(this.data.lines[line]?.at(-1) ?? ""));
    });
  }

  private drawMarks(chart: uPlot): void {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.fillStyle = colour("accent");
    for (const { at } of this.data.marks ?? []) {
      if (at < this.span.from || at > this.span.to) continue;
      const x = Math.round(chart.valToPos(at, "x", true));
      const size = 4 * devicePixelRatio;
      ctx.globalAlpha = 0.45;
      ctx.fillRect(x, bbox.top, Math.max(1, devicePixelRatio), bbox.height);
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.moveTo(x - size, bbox.top);
      ctx.lineTo(x + size, bbox.top);
      ctx.lineTo(x, bbox.top + 1.6 * size);
      ctx.fill();
    }
    ctx.restore();
  }

  private point(chart: uPlot): void {
    this.tell();
    const left = chart.cursor.left ?? -1;
    const near = (this.data.marks ?? []).filter(({ at }) => Math.abs(chart.valToPos(at, "x") - left) < 7);
    const here = this.plot.matches(":hover") && left >= 0 && near.length > 0;
    show(this.tip, here);
    if (!here) return;
    say(this.tip, near.map(({ at, text }) => `${clock(at)}  ${text}`).slice(-4).join("\n"));
    this.tip.style.left = `${Math.max(0, Math.min(left, this.plot.clientWidth - 240))}px`;
  }

  private fit(): void {
    const width = this.plot.clientWidth;
    if (width === 0) return;
    if (this.chart) this.chart.setSize({ width, height: this.options.height ?? 190 });
    else if (this.data.times.length > 0) this.update(this.data, this.span);
  }
}

/** Between two colours of the form #rrggbb. */
export function mix(from: string, to: string, share: number): string {
  const part = (text: string, at: number) => parseInt(text.slice(1 + 2 * at, 3 + 2 * at), 16);
  const parts = [0, 1, 2].map((at) => Math.round(part(from, at) * (1 - share) + part(to, at) * share));
  return `#${parts.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
