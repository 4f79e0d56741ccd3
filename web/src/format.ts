// Numbers and times as people read them.

export function count(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  return Math.round(value).toLocaleString("en-US");
}

/** Three figures: 0.04, 3.1, 42, 1.2k, 3.4M. */
export function short(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  if (size >= 10) return value.toFixed(1);
  return String(Number(value.toPrecision(2)));
}

function trim(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1);
}

export function ms(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 100) return `${value.toFixed(0)} ms`;
  if (value >= 10) return `${value.toFixed(1)} ms`;
  return `${value.toFixed(2)} ms`;
}

export function percent(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  const share = 100 * value;
  return share > 0 && share < 10 ? `${share.toFixed(1)} %` : `${share.toFixed(0)} %`;
}

export function bytes(value: number | undefined): string {
  if (value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = value;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${at === 0 ? left : left.toFixed(1)} ${units[at] ?? ""}`;
}

/** Of seconds since 1970. */
export function clock(seconds: number): string {
  const date = new Date(seconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

export function lasting(seconds: number | undefined): string {
  if (seconds === undefined) return "–";
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds)} s`;
}
