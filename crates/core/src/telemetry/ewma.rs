//! Exponentially weighted moving averages. Paper: P3.

/// x^ = (1 - a) x^ + a x; the first sample is taken as it is.
#[derive(Clone, Copy, Debug)]
pub struct Ewma {
    alpha: f64,
    value: Option<f64>,
}

impl Ewma {
    /// An average with smoothing factor `alpha`, kept in 0..=1.
    pub fn new(alpha: f64) -> Self {
        Self { alpha: alpha.clamp(0.0, 1.0), value: None }
    }

    /// Takes a sample in and returns the new average.
    pub fn update(&mut self, sample: f64) -> f64 {
        let value = match self.value {
            None => sample,
            Some(value) => (1.0 - self.alpha) * value + self.alpha * sample,
        };
        self.value = Some(value);
        value
    }

    /// The average; `None` before the first sample.
    pub fn value(&self) -> Option<f64> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_papers_recursion() {
        let mut ewma = Ewma::new(0.2);
        assert_eq!(ewma.value(), None);
        let got: [f64; 3] = [10.0, 0.0, 5.0].map(|x| ewma.update(x));
        assert_eq!(got, [10.0, 8.0, 7.4]);
    }
}
