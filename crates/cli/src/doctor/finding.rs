//! One thing that was found, in words.

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing: it is as it should be.
    Well,
    /// Nothing, but to know it.
    Note,
    /// Something must be changed.
    Change,
    /// Nobody answered.
    Unasked,
}

impl Level {
    /// What people and programs read.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Well => "ok",
            Self::Note => "note",
            Self::Change => "change",
            Self::Unasked => "unasked",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What was looked at; programs may rely on it.
    pub(crate) topic: &'static str,
    pub(crate) about: About,
    pub(crate) text: String,
}

/// What a finding is about: a server, an export on all servers, or an export on one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) server: Option<String>,
    pub(crate) export: Option<String>,
}

impl About {
    pub(crate) fn server(name: &str) -> Self {
        Self { server: Some(name.to_owned()), export: None }
    }

    pub(crate) fn export(path: &str) -> Self {
        Self { server: None, export: Some(path.to_owned()) }
    }
}

impl Finding {
    pub(crate) fn new(level: Level, topic: &'static str, about: &About, text: impl Into<String>) -> Self {
        Self { level, topic, about: about.clone(), text: text.into() }
    }
}

/// What makes handles equal.
pub(crate) const SAME_HANDLES: &str = "NFS-Ganesha: the same Export_Id, Filesystem_id, Path and FSAL on every head; the kernel's server: the same fsid= on every \
     host, over the same file system";
