// What the daemon says (crates/proxy/src/api.rs and api/watch.rs). Everything may be missing: an older daemon does not know all of it.

export interface Frame {
  point?: Point;
  status?: Status;
  hot?: Hot;
  events?: Event[];
  cluster?: Cluster | null;
}

export interface Point {
  number?: number;
  uptime_ms?: number;
  servers?: ServerPoint[];
  procedures?: Shares;
  outcomes?: Shares;
  hits?: Shares;
  exports?: ExportPoint[];
}

export type Shares = Record<string, number>;

export interface ServerPoint {
  queue?: number;
  calls?: number;
  p50_ms?: number;
  p99_ms?: number;
}

export interface ExportPoint {
  steered?: number;
  bound?: number;
  pressure?: number | null;
  thresholds?: number[];
  imbalance?: number;
  knobs?: Shares;
}

export interface Hot {
  seconds?: number;
  calls?: number;
  server_ms?: number;
  directories?: Spot[];
  clients?: Spot[];
  users?: Spot[];
}

export interface Spot {
  name?: string;
  job?: string | null;
  calls?: number;
  error?: number;
  server_ms?: number;
  hits?: number;
}

export interface Event {
  number?: number;
  uptime_ms?: number;
  kind?: string;
  about?: string;
  what?: string;
  why?: string;
}

export interface Status {
  version?: string;
  uptime_seconds?: number;
  /** Stays while the daemon runs; another start has another. */
  started_unix_ms?: number;
  not_ready?: string[];
  bypass?: boolean;
  clients?: number;
  calls?: number;
  held?: number;
  exports?: Export[];
  pools?: Pool[];
}

export interface Export {
  path?: string;
  pool?: string;
  policy?: Setting;
  mode?: Setting;
  admitted?: number;
  cache?: { mode?: string; demoted?: string | null; entries?: number; bytes?: number };
}

export interface Setting {
  now?: string;
  file?: string;
}

export interface Pool {
  name?: string;
  servers?: Server[];
}

export interface Server {
  name?: string;
  address?: string;
  health?: string;
  in_flight?: number;
  dispatched?: number;
  uncommitted?: number;
  foreign?: string | null;
  latency_p50_ms?: number;
  latency_p99_ms?: number;
  service_ms?: number;
  weight?: number;
}

export interface Cluster {
  name?: string;
  me?: string;
  epoch?: number;
  in_view?: boolean;
  cut_off?: boolean;
  present?: number;
  leader?: string | null;
  term?: number;
  members?: Member[];
  failed?: string | null;
  leases?: Leases;
  fetches?: { asked?: number; fetched?: number; lent?: number };
  shares?: { told?: number; heard?: number; lag_ms?: number };
}

export interface Member {
  name?: string;
  address?: string;
  witness?: boolean;
  up?: boolean;
  in_view?: boolean;
  leaving?: boolean;
  same_config?: boolean | null;
  epoch?: number | null;
  software?: string;
  rtt_ms?: number | null;
  silent_ms?: number | null;
}

export interface Leases {
  live_ms?: number;
  blocked?: string | null;
  acts?: boolean;
  pending?: number;
  waiting?: number;
  announced?: number;
  holds?: number;
  wait_mean_ms?: number;
  wait_max_ms?: number;
  marked?: number;
  flushed?: number;
}

export interface Explanation {
  export?: string;
  pool?: string;
  op?: string;
  name?: string | null;
  policy?: string;
  mode?: string;
  mode_because?: string;
  home?: string;
  bound?: { server?: string; because?: string } | null;
  servers?: Candidate[];
  to?: string | null;
  why?: string;
  because?: string;
}

export interface Candidate {
  name?: string;
  health?: string;
  excluded?: string | null;
  in_flight?: number;
  work?: number;
}
