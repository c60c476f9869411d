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
    /// The server is up and cannot serve: it loads its data, has become a replica, is kept from writing, or its cluster
    /// is not complete.
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
            _ => match error.code() {
                Some("OOM") => ErrorKind::OutOfMemory,
                Some("BUSY" | "NOREPLICAS" | "MISCONF") => ErrorKind::NotReady,
                _ if error.is_unrecoverable_error() => ErrorKind::Connection,
                _ => in_script(error.detail()),
            },
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
    const NOT_READY: [&str; 5] = [
        "READONLY",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "NOREPLICAS",
        "MISCONF",
    ];
    if says("OOM") {
        ErrorKind::OutOfMemory
    } else if NOT_READY.into_iter().any(says) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the server says, as it says it.
    fn kind(said: &str) -> ErrorKind {
        let value = redis::parse_redis_value(format!("-{said}\r\n").as_bytes()).unwrap();
        Error::from(value.extract_error().unwrap_err()).kind()
    }

    #[test]
    fn what_servers_say() {
        for (said, expected) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                ErrorKind::OutOfMemory,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 0123, on @user_script:20.",
                ErrorKind::OutOfMemory,
            ),
            // Redis 6 and before.
            (
                "ERR Error running script (call to f_0123): @user_script:20: @user_script: 20: -OOM command not allowed",
                ErrorKind::OutOfMemory,
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                ErrorKind::NotReady,
            ),
            (
                "READONLY You can't write against a read only replica.",
                ErrorKind::NotReady,
            ),
            (
                "ERR Error running script (call to f_0123): @user_script:20: -READONLY You can't write against a read \
                 only replica.",
                ErrorKind::NotReady,
            ),
            ("MASTERDOWN Link with MASTER is down", ErrorKind::NotReady),
            ("CLUSTERDOWN The cluster is down", ErrorKind::NotReady),
            ("CLUSTERDOWN Hash slot not served", ErrorKind::NotReady),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                ErrorKind::NotReady,
            ),
            ("MOVED 3999 127.0.0.1:6381", ErrorKind::NotReady),
            ("ASK 3999 127.0.0.1:6381", ErrorKind::NotReady),
            ("BUSY Redis is busy running a script.", ErrorKind::NotReady),
            (
                "NOREPLICAS Not enough good replicas to write.",
                ErrorKind::NotReady,
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's unable to",
                ErrorKind::NotReady,
            ),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                ErrorKind::CrossSlot,
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                ErrorKind::Server,
            ),
            ("NOAUTH Authentication required.", ErrorKind::Server),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                ErrorKind::Server,
            ),
            ("ERR unknown command", ErrorKind::Server),
            ("ERR a key that is called OOMPH", ErrorKind::Server),
        ] {
            assert_eq!(kind(said), expected, "{said}");
        }
    }

    #[test]
    fn names_differ() {
        let mut names = ErrorKind::ALL.map(ErrorKind::as_str);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
