//! A real client: the Linux kernel's, in an emulated machine that mounts a server of this one and runs scenarios.

use crate::bounded::bounded;
use crate::place::root;
use crate::tools::Endpoint;
use std::time::{Duration, Instant};

/// What the guest is to do. One boot may run many scenarios: the boot is most of the time.
#[derive(Debug, Clone)]
pub struct Guest {
    arguments: Vec<String>,
    options: Vec<String>,
    limit: Duration,
}

/// What the guest said.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// Every line, the steps with the guest's seconds since its boot.
    pub text: String,
    /// Whether every scenario ended well.
    pub all_ok: bool,
    /// From the start of the emulator to its end.
    pub took: Duration,
}

impl Guest {
    /// A client of this server, which may listen on any loopback address of this machine.
    pub fn of(server: &Endpoint) -> Self {
        let guest = Self { arguments: Vec::new(), options: Vec::new(), limit: LIMIT };
        guest
            .env("NFS_SERVER", &server.address.to_string())
            .env("NFS_PORT", &server.nfs_port.to_string())
            .env("MOUNT_PORT", &server.mount_port.to_string())
            .env("NFS_PATH", &server.path)
    }

    /// Runs this scenario, after those that were named before: a name in `lab/kernel-client/scenarios`, or a path.
    pub fn scenario(mut self, name: &str) -> Self {
        self.arguments.push(name.to_owned());
        self
    }

    /// One more mount option, such as `noac` or `nconnect=4`.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// A program of this machine that the scenarios use; it is found in the guest's path.
    pub fn with(mut self, program: &str) -> Self {
        self.arguments.extend(["--with".to_owned(), program.to_owned()]);
        self
    }

    /// A variable of the scenarios' environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.arguments.push(format!("{name}={value}"));
        self
    }

    /// Allows more or less time than five minutes.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Boots, runs, powers off.
    pub fn run(self) -> Transcript {
        let this =
            if self.options.is_empty() { self } else { self.clone().env("NFS_OPTIONS", &self.options.join(",")) };
        let boot = root().join("lab/kernel-client/boot");
        let begun = Instant::now();
        // The script has the limit itself and then says what happened; ours is for the script.
        let output = bounded(&boot.display().to_string(), this.limit + GRACE)
            .args(["--timeout", &this.limit.as_secs_f64().to_string()])
            .args(&this.arguments)
            .output()
            .expect("lab/kernel-client/boot can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Transcript { text, all_ok: output.status.success(), took: begun.elapsed() }
    }
}

impl Transcript {
    /// The numbers of the lines that consist of this word and a number.
    pub fn figures(&self, word: &str) -> Vec<u64> {
        self.text.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()).collect()
    }

    /// Panics with everything that the guest said, unless every scenario ended well.
    pub fn expect_all_ok(&self) {
        assert!(self.all_ok, "the kernel client, after {:?}:\n{}", self.took, self.text);
    }
}

/// A guest needs ten seconds alone; other tests share its cores.
const LIMIT: Duration = Duration::from_secs(300);
const GRACE: Duration = Duration::from_secs(20);
