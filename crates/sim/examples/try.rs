use midas_sim::config::*;
use midas_sim::policy::*;
use midas_workload::Spec;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let m: u32 = a[0].parse().unwrap();
    let seeds: u64 = a[1].parse().unwrap();
    let wl: Vec<&str> = if a[2] == "all" {
        vec![
            "uniform",
            "zipf:0.9",
            "zipf:1.1",
            "zipf:1.4",
            "bursts",
            "flash:10",
            "flash:100",
            "checkpoint",
            "diurnal",
            "on-off",
            "shifting",
        ]
    } else {
        a[2].split(';').collect()
    };
    let verbose = a.iter().any(|x| x == "-v");
    let mut base: Vec<(f64, f64, f64)> = vec![];
    for p in std::iter::once("jsq").chain(a[3].split(';')) {
        let mut g = [0.0f64; 3];
        let mut am = [0.0f64; 4];
        for (i, w) in wl.iter().enumerate() {
            let (mut mean, mut p99, mut worst, mut st, mut bad, mut badr, mut spd, mut q, mut disp) =
                (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
            for s in 1..=seeds {
                let mut c = Config::new(Contender::parse(p).unwrap(), Spec::parse(w).unwrap());
                c.servers = m;
                c.seed = s;
                let r = match midas_sim::run(&c) {
                    Ok(r) => r.row,
                    Err(e) => {
                        eprintln!("{p} {w}: {e}");
                        std::process::exit(1)
                    }
                };
                let n = seeds as f64;
                mean += r.latency.mean.as_millis_f64() / n;
                p99 += r.latency.p99.as_millis_f64() / n;
                worst += r.worst_queue as f64 / n;
                st += r.steered_share / n;
                bad += r.bad_move_share / n;
                badr += r.bad_move_share_reads / n;
                spd += r.servers_per_directory / n;
                q += r.mean_queue / n;
                disp += r.dispersion / n;
            }
            if p == "jsq" && base.len() == i {
                base.push((mean, p99, worst));
            }
            let n = wl.len() as f64;
            let b = base[i];
            g[0] += (mean / b.0).ln() / n;
            g[1] += (p99 / b.1).ln() / n;
            g[2] += (worst / b.2).ln() / n;
            am[0] += st / n;
            am[1] += bad / n;
            am[2] += badr / n;
            am[3] += spd / n;
            if verbose {
                println!(
                    "{p:18} {w:11} q {q:8.4} worst {worst:7.1} disp {disp:.4} mean {mean:9.1} p99 {p99:9.1} steer {st:.3} bad {bad:.4} badr {badr:.4} spd {spd:.2}"
                );
            }
        }
        println!(
            "{p:28} mean {:.3} p99 {:.3} worst {:.3} steer {:.3} bad {:.4} badr {:.4} spd {:.2}",
            g[0].exp(),
            g[1].exp(),
            g[2].exp(),
            am[0],
            am[1],
            am[2],
            am[3]
        );
    }
}
