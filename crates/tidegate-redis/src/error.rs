//! Why there is no decision.

use core::fmt;

use redis::{RedisError, ServerErrorKind};

/// Why there is no decision: never a refusal.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Option<RedisError>,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server has not answered in time. It may have counted the request, or may yet.
    Deadline,
    /// The server was found dead earlier, and has not come back; nothing was sent.
    Down,
    /// The connection failed. The server may have counted the request.
    Connection,
    /// The server is up and cannot serve: it loads its data, has become a replica, or its cluster is not complete.
    NotReady,
    /// The server's memory is used up.
    OutOfMemory,
    /// The keys of one decision lie on different servers of a cluster: give them one
    /// [tag](crate::RedisLimiter::with_tag).
    CrossSlot,
    /// Whatever else the server said: no permission, for example.
    Server,
    /// An answer that is none of the scripts'.
    Reply,
    /// One decision names a key of one limiter twice.
    SameKey,
}

impl ErrorKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Deadline,
        Self::Down,
        Self::Connection,
        Self::NotReady,
        Self::OutOfMemory,
        Self::CrossSlot,
        Self::Server,
        Self::Reply,
        Self::SameKey,
    ];

    /// A name for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Down => "down",
            Self::Connection => "connection",
            Self::NotReady => "not-ready",
            Self::OutOfMemory => "out-of-memory",
            Self::CrossSlot => "cross-slot",
            Self::Server => "server",
            Self::Reply => "reply",
            Self::SameKey => "same-key",
        }
    }
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        let kind = match error.kind() {
            redis::ErrorKind::Io | redis::ErrorKind::ClusterConnectionNotFound => {
                ErrorKind::Connection
            }
            redis::ErrorKind::Server(kind) => match kind {
                ServerErrorKind::BusyLoading
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask => ErrorKind::NotReady,
                ServerErrorKind::CrossSlot => ErrorKind::CrossSlot,
                // From within a script, some of these arrive as the text of another error.
                _ => in_script(error.detail()),
            },
            _ if error.code() == Some("OOM") => ErrorKind::OutOfMemory,
            _ if error.is_unrecoverable_error() => ErrorKind::Connection,
            _ => in_script(error.detail()),
        };
        Self {
            kind,
            source: Some(error),
        }
    }
}

fn in_script(detail: Option<&str>) -> ErrorKind {
    let detail = detail.unwrap_or_default();
    let says = |code: &str| {
        detail
            .split(|it: char| !it.is_ascii_uppercase())
            .any(|word| word == code)
    };
    if says("OOM") {
        ErrorKind::OutOfMemory
    } else if says("READONLY") || says("LOADING") || says("MASTERDOWN") || says("CLUSTERDOWN") {
        ErrorKind::NotReady
    } else {
        ErrorKind::Server
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Deadline => "the Redis server has not answered in time",
            ErrorKind::Down => "the Redis server is down",
            ErrorKind::Connection => "the connection to the Redis server failed",
            ErrorKind::NotReady => "the Redis server cannot serve now",
            ErrorKind::OutOfMemory => "the Redis server's memory is used up",
            ErrorKind::CrossSlot => "the keys of one decision lie on different Redis servers",
            ErrorKind::Server => "the Redis server reported an error",
            ErrorKind::Reply => "the Redis server's answer is not that of the script",
            ErrorKind::SameKey => "one decision names a key of one limiter twice",
        })?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Error {}
