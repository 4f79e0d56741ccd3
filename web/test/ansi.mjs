// What a terminal shows, as a page: text with the colours and weights that escape sequences give it.

const NAMES = ["#1b2229", "#e5746b", "#6cc58a", "#e0b457", "#6fa8ec", "#c88be0", "#5cc4cf", "#d5dce4"];
const BRIGHT = ["#77828f", "#ff9a8f", "#8ce0a8", "#f5cd78", "#93c4ff", "#e0a9f5", "#85e0ea", "#ffffff"];
const PAPER = "#12181f";
const INK = "#d5dce4";

/** A whole page with the text in a <pre>. */
export function html(text, title) {
  const style = `body{margin:0;background:${PAPER}}pre{display:inline-block;margin:0;padding:16px 18px;background:${PAPER};color:${INK};font:13px/1.3 "DejaVu Sans Mono",monospace}`;
  return `<!doctype html><meta charset="utf-8"><title>${escape(title)}</title><style>${style}</style><pre>${spans(text)}</pre>`;
}

function spans(text) {
  let style = {};
  let out = "";
  for (const [, sequence, plain] of text.matchAll(/\x1b\[([0-9;]*)[A-Za-z]|([^\x1b]+)/g)) {
    if (plain === undefined) style = turned(style, sequence);
    else out += `<span style="${css(style)}">${escape(plain)}</span>`;
  }
  return out;
}

/** After one sequence of the kind that sets colours (SGR). */
function turned(style, sequence) {
  const codes = sequence === "" ? [0] : sequence.split(";").map(Number);
  let next = { ...style };
  while (codes.length > 0) {
    const code = codes.shift();
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 4) next.under = true;
    else if (code === 7) next.reversed = true;
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code === 24) next.under = false;
    else if (code === 27) next.reversed = false;
    else if (code === 38 || code === 48) next[code === 38 ? "ink" : "paper"] = extended(codes);
    else if (code === 39) next.ink = undefined;
    else if (code === 49) next.paper = undefined;
    else if (code >= 30 && code <= 37) next.ink = NAMES[code - 30];
    else if (code >= 40 && code <= 47) next.paper = NAMES[code - 40];
    else if (code >= 90 && code <= 97) next.ink = BRIGHT[code - 90];
    else if (code >= 100 && code <= 107) next.paper = BRIGHT[code - 100];
  }
  return next;
}

/** A colour of 256, or of all. */
function extended(codes) {
  if (codes.shift() === 2) return `rgb(${codes.splice(0, 3).join(",")})`;
  const number = codes.shift() ?? 0;
  if (number < 8) return NAMES[number];
  if (number < 16) return BRIGHT[number - 8];
  if (number >= 232) return `rgb(${Array(3).fill(8 + 10 * (number - 232)).join(",")})`;
  const part = (at) => [0, 95, 135, 175, 215, 255][Math.floor((number - 16) / at) % 6];
  return `rgb(${part(36)},${part(6)},${part(1)})`;
}

function css({ ink, paper, bold, dim, under, reversed }) {
  const [front, back] = reversed ? [paper ?? PAPER, ink ?? INK] : [ink, paper];
  return [front && `color:${front}`, back && `background:${back}`, bold && "font-weight:600", dim && "opacity:.65", under && "text-decoration:underline"].filter(Boolean).join(";");
}

function escape(text) {
  return text.replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);
}
