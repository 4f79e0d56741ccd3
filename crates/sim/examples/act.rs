use midas_sim::config::*;
use midas_sim::policy::*;
use midas_workload::Spec;
fn main() {
    for s in 1..=5 {
        let mut c = Config::new(Contender::parse("first-fit").unwrap(), Spec::parse("uniform").unwrap());
        c.seed = s;
        let r = midas_sim::run(&c).unwrap();
        println!("{s}: {:.1}", r.row.latency.mean.as_millis_f64());
        for (_, a) in r.actuations {
            println!("   {:.1} {:?} {} -> {} {:?}", a.at.as_secs_f64(), a.knob, a.from, a.to, a.cause);
        }
    }
}
