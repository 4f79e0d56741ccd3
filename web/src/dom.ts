// The few things that the page does with elements. Text is always set as text: names of files are whatever users call them.

type Attributes = Record<string, string | number | boolean | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string | undefined)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== undefined) element.append(child);
  return element;
}

export function byId<T extends HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element #${id}`);
  return element as T;
}

/** Writes only what changed: selections and screen readers are left alone. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element: Element, name: string, value: string | undefined): void {
  if (value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export function show(element: HTMLElement, shown: boolean): void {
  if (element.hidden === shown) element.hidden = !shown;
}

export interface Cell {
  text: string;
  /** What stands in data-*. */
  data?: Record<string, string | number>;
  /** A share of 1 that a bar behind the text shows. */
  bar?: number;
  tone?: string;
  title?: string;
}

export interface Column {
  name: string;
  /** Numbers stand to the right. */
  number?: boolean;
  title?: string;
}

/** A table whose rows are used again. */
export class Table {
  readonly element: HTMLTableElement;
  private readonly body = h("tbody");

  constructor(caption: string, columns: Column[], private readonly click?: (row: number) => void) {
    const head = columns.map((column) =>
      h("th", { scope: "col", class: column.number ? "number" : undefined, title: column.title }, column.name),
    );
    this.element = h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, ...head)),
      this.body,
    );
    this.classes = columns.map((column) => (column.number ? "number" : ""));
  }

  private readonly classes: string[];

  update(rows: Cell[][]): void {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    while (this.body.rows.length < rows.length) this.body.append(this.row(this.body.rows.length));
    rows.forEach((cells, at) => {
      const row = this.body.rows[at];
      if (row) cells.forEach((cell, column) => this.fill(row.cells[column], cell));
    });
  }

  private row(at: number): HTMLTableRowElement {
    const row = h("tr");
    this.classes.forEach((name, column) => {
      const cell = column === 0 ? h("th", { scope: "row" }) : h("td", { class: name || undefined });
      if (column === 0 && this.click) {
        const button = h("button", { type: "button", class: "link" });
        button.addEventListener("click", () => this.click?.(at));
        cell.append(button);
      } else if (name) {
        cell.append(h("span", { class: "bar", "aria-hidden": "true" }), h("span"));
      } else {
        cell.append(h("span"));
      }
      row.append(cell);
    });
    return row;
  }

  private fill(element: HTMLTableCellElement | undefined, cell: Cell): void {
    const text = element?.lastElementChild;
    if (!element || !text) return;
    say(text, cell.text);
    mark(text, "data-tone", cell.tone);
    mark(element, "title", cell.title);
    for (const [name, value] of Object.entries(cell.data ?? {})) mark(element, `data-${name}`, String(value));
    const bar = element.firstElementChild;
    if (bar instanceof HTMLElement && bar !== text) {
      const width = `${Math.round(100 * Math.min(1, cell.bar ?? 0))}%`;
      if (bar.style.width !== width) bar.style.width = width;
    }
  }
}
