// Light and dark: the system's choice until a click says otherwise.

const KEPT = "midas-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function start(changed: () => void): void {
  apply();
  dark.addEventListener("change", () => {
    apply();
    changed();
  });
}

export function toggle(): void {
  const next = now() === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEPT, next);
  } catch {
    // Storage may be forbidden: then the choice lasts as long as the page.
  }
  document.documentElement.dataset.theme = next;
}

export function now(): "dark" | "light" {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

/** A colour of the style sheet, for canvases. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Told apart by colour-blind people too; from the ninth on also by dashes. */
export function series(at: number): { stroke: string; dash: number[] } {
  return { stroke: colour(`series-${at % 8}`), dash: DASHES[Math.floor(at / 8) % DASHES.length] ?? [] };
}

const DASHES = [[], [6, 4], [2, 3]];

function apply(): void {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(KEPT);
  } catch {
    // As above.
  }
  document.documentElement.dataset.theme = kept === "dark" || kept === "light" ? kept : dark.matches ? "dark" : "light";
}
