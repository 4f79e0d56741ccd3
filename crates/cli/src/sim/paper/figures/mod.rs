//! The figures: the paper's three, ours beside them, and two comparisons. Paper: P19.

mod bars;
mod canvas;
mod lines;
mod traffic;

use super::setting::Study;
use crate::failure::Failure;
use lines::Lines;

/// A picture with its words.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) file: &'static str,
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) svg: String,
}

/// All figures in the order of the report.
pub(crate) fn draw(study: &Study) -> Result<Vec<Figure>, Failure> {
    let mut figures = vec![traffic::draw(study)?];
    for lines in OVER_TIME {
        figures.push(lines.draw(study)?);
    }
    figures.push(lines::before_after(study)?);
    figures.push(bars::latency(study)?);
    figures.push(bars::queues(study)?);
    Ok(figures)
}

const OVER_TIME: [Lines; 4] = [
    Lines {
        file: "figure-2-round-robin.svg",
        number: "2",
        policy: "rr",
        name: "round-robin: calls in turn, one dispatcher",
    },
    Lines {
        file: "figure-2-rr-directory.svg",
        number: "2b",
        policy: "rr-directory",
        name: "round-robin: directories placed in turn, as Lustre DNE does",
    },
    Lines { file: "figure-3-midas.svg", number: "3", policy: "paper", name: "MIDAS, the paper's policy" },
    Lines { file: "figure-4-first-fit.svg", number: "4", policy: "first-fit", name: "MIDAS, our policy" },
];
