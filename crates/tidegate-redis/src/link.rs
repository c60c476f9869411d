//! The connection: used while the server is alive, and made anew in the background when it is not.
//!
//! There is no state "half open": a request never finds out whether a server is back. It is down, and costs a load of
//! a pointer, until a task that runs beside the requests has reached it, and seen it write.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError, Value};
use tidegate::Clock;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind};
use crate::queue::Queue;
use crate::script::Scripts;
use crate::stats::Counts;

/// Where the server is.
#[derive(Clone)]
pub(crate) enum Target {
    Single(Box<redis::Client>),
    #[cfg(feature = "cluster")]
    Cluster(Box<redis::cluster::ClusterClient>),
}

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    #[cfg(feature = "cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl Connection {
    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let value = match self {
            Self::Single(connection) => connection.clone().req_packed_command(command).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(connection) => connection.clone().req_packed_command(command).await,
        };
        value?.extract_error()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Of a decision.
    pub(crate) deadline: Duration,
    /// Of making a connection.
    pub(crate) connect_deadline: Duration,
    /// Decisions in a row that miss the deadline before the server counts as dead.
    pub(crate) patience: u32,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) prefix: String,
}

pub(crate) struct Link {
    target: Target,
    pub(crate) options: Options,
    pub(crate) scripts: Scripts,
    pub(crate) counts: Counts,
    /// None while the server is down.
    up: ArcSwapOption<Up>,
    /// Whether a task is about to connect.
    connecting: AtomicBool,
    /// Whether a task is about to look for the marker.
    looking: AtomicBool,
    /// Missed deadlines since the last answer.
    missed: AtomicU32,
    /// When the first of these was, in nanoseconds of the clock.
    missed_since: AtomicU64,
    clock: Clock,
    /// Connections in a row that did not last.
    flaps: AtomicU32,
    /// What this server was called when it was last seen.
    marker: Mutex<Option<String>>,
    pub(crate) refunds: Queue,
}

struct Up {
    connection: Connection,
    since: Instant,
}

impl Link {
    pub(crate) fn new(target: Target, options: Options) -> Arc<Self> {
        Arc::new(Self {
            target,
            options,
            scripts: Scripts::new(),
            counts: Counts::default(),
            up: ArcSwapOption::empty(),
            connecting: AtomicBool::new(false),
            looking: AtomicBool::new(false),
            missed: AtomicU32::new(0),
            missed_since: AtomicU64::new(0),
            clock: Clock::new(),
            flaps: AtomicU32::new(0),
            marker: Mutex::new(None),
            refunds: Queue::default(),
        })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        match self.target {
            Target::Single(_) => false,
            #[cfg(feature = "cluster")]
            Target::Cluster(_) => true,
        }
    }

    /// Whether decisions are sent; if not, they fail at once.
    pub(crate) fn is_up(&self) -> bool {
        self.up.load().is_some()
    }

    /// Sends a command that names a script by its hash, or, if the server does not know it, holds it in full; within
    /// the deadline.
    pub(crate) async fn run(
        self: &Arc<Self>,
        command: impl Fn(bool) -> Cmd,
    ) -> Result<Value, Error> {
        let result = self.try_run(command).await;
        if let Err(error) = &result {
            self.counts.error(error.kind());
        }
        result
    }

    async fn try_run(self: &Arc<Self>, command: impl Fn(bool) -> Cmd) -> Result<Value, Error> {
        let Some(up) = self.up.load_full() else {
            self.reconnect();
            return Err(Error::new(ErrorKind::Down));
        };
        let reply = timeout(self.options.deadline, async {
            match up.connection.send(&command(false)).await {
                Err(error) if is_unknown_script(&error) => {
                    self.counts.scripts_sent.add(1);
                    self.look_for_marker(&up);
                    up.connection.send(&command(true)).await
                }
                reply => reply,
            }
        });
        match reply.await {
            Ok(Ok(value)) => {
                // Most of the time it is 0, and the line stays shared.
                if self.missed.load(Ordering::Relaxed) != 0 {
                    self.missed.store(0, Ordering::Relaxed);
                }
                Ok(value)
            }
            Ok(Err(error)) => {
                let error = Error::from(error);
                if matches!(error.kind(), ErrorKind::Connection | ErrorKind::NotReady) {
                    if self.is_cluster() {
                        self.miss(&up);
                    } else {
                        self.lose(&up);
                    }
                }
                Err(error)
            }
            Err(_) => {
                self.miss(&up);
                Err(Error::new(ErrorKind::Deadline))
            }
        }
    }

    /// No answer, which may not mean that there never is one.
    fn miss(self: &Arc<Self>, up: &Arc<Up>) {
        let now = self.clock.now().as_nanos();
        let missed = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
        if missed == 1 {
            self.missed_since.store(now, Ordering::Relaxed);
        }
        if missed < self.options.patience {
            return;
        }
        // One dead node of a cluster is no reason to give up the others, whose answers would have been here by now.
        let since = now.saturating_sub(self.missed_since.load(Ordering::Relaxed));
        if !self.is_cluster() || u128::from(since) >= 10 * self.options.deadline.as_nanos() {
            self.lose(up);
        }
    }

    /// This connection is of no use any more.
    fn lose(self: &Arc<Self>, up: &Arc<Up>) {
        let before = self.up.compare_and_swap(up, None);
        if !before
            .as_ref()
            .is_some_and(|before| Arc::ptr_eq(before, up))
        {
            // Somebody else has found that out already.
            return;
        }
        if up.since.elapsed() < self.options.backoff.1 {
            self.flaps.fetch_add(1, Ordering::Relaxed);
        } else {
            self.flaps.store(0, Ordering::Relaxed);
        }
        self.reconnect();
    }

    /// Starts the task that connects, unless it runs, or this is no runtime to run it on.
    pub(crate) fn reconnect(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        // AcqRel: with the swap of a task that ends, in `is_done`. Whoever finds the flag set has lost the connection
        // before, and that task sees it.
        if self.connecting.swap(true, Ordering::AcqRel) {
            return;
        }
        runtime.spawn(connect_until_up(Arc::downgrade(self)));
    }

    /// Whether the task that has connected may end: not if the connection is lost again already, and whoever lost it
    /// took this task to be at work still.
    fn is_done(&self) -> bool {
        // AcqRel: with the swap in `reconnect`. If that came before, it found the flag set, and what it has lost is seen
        // here; if it comes after, it finds the flag cleared, and starts a task.
        self.connecting.swap(false, Ordering::AcqRel);
        self.up.load().is_some() || self.connecting.swap(true, Ordering::AcqRel)
    }

    /// Connects once.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<(), Error> {
        let connection = timeout(self.options.connect_deadline, self.target.connect())
            .await
            .map_err(|_| Error::new(ErrorKind::Deadline))??;
        timeout(self.options.deadline, self.meet(&connection))
            .await
            .map_err(|_| Error::new(ErrorKind::Deadline))??;
        self.counts.connections.add(1);
        self.missed.store(0, Ordering::Relaxed);
        self.up.store(Some(Arc::new(Up {
            connection,
            since: Instant::now(),
        })));
        Ok(())
    }

    /// Sees whether the server can write, and whether it is the one that was there before: one that has lost its data
    /// has lost its marker.
    async fn meet(&self, connection: &Connection) -> Result<(), RedisError> {
        let key = format!("{}:server", self.options.prefix);
        let name = format!("{:016x}", ahash::RandomState::new().hash_one(0));
        let mut set = redis::cmd("SET");
        match connection.send(set.arg(&key).arg(name).arg("NX")).await {
            Ok(_) => {}
            // It still refuses what it must, and says so for the rest.
            Err(error) if error.code() == Some("OOM") => {}
            Err(error) => return Err(error),
        }
        let found = connection.send(redis::cmd("GET").arg(&key)).await?;
        let found: Option<String> = redis::from_redis_value(found)?;
        let mut marker = self.marker.lock().unwrap_or_else(PoisonError::into_inner);
        if marker.is_some() && *marker != found {
            self.counts.state_lost.add(1);
        }
        if found.is_some() {
            *marker = found;
        }
        Ok(())
    }

    /// A server that does not know the scripts may be another one. Many find that out at once: one of them looks.
    fn look_for_marker(self: &Arc<Self>, up: &Arc<Up>) {
        /// Also if the runtime ends before the task does.
        struct Done(Arc<Link>);

        impl Drop for Done {
            fn drop(&mut self) {
                self.0.looking.store(false, Ordering::Relaxed);
            }
        }

        // Relaxed: it only keeps a second task from starting.
        if self.looking.swap(true, Ordering::Relaxed) {
            return;
        }
        let (done, up) = (Done(Arc::clone(self)), Arc::clone(up));
        tokio::spawn(async move {
            let link = &done.0;
            // If this fails, so do the decisions.
            let _ = timeout(link.options.deadline, link.meet(&up.connection)).await;
        });
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript)
}

impl Target {
    async fn connect(&self) -> Result<Connection, RedisError> {
        match self {
            Self::Single(client) => {
                // Deadlines are set here.
                let config = redis::AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None);
                let connection = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Connection::Single(connection.await?))
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(client) => Ok(Connection::Cluster(client.get_async_connection().await?)),
        }
    }
}

/// The task that connects, until the server is up or nobody is interested any more.
async fn connect_until_up(link: Weak<Link>) {
    /// Also if the runtime ends before the task does: the link may be used from another.
    struct Done(Option<Weak<Link>>);

    impl Drop for Done {
        fn drop(&mut self) {
            if let Some(link) = self.0.take().and_then(|link| link.upgrade()) {
                // Release: with the swap in `reconnect`.
                link.connecting.store(false, Ordering::Release);
            }
        }
    }

    let mut done = Done(Some(Weak::clone(&link)));
    let Some(first) = link.upgrade() else { return };
    let (least, most) = first.options.backoff;
    // A server that takes connections and then does not answer is asked more and more seldom.
    let mut doublings = first.flaps.load(Ordering::Relaxed);
    drop(first);
    let mut at_once = doublings == 0;
    loop {
        if !at_once {
            let pause = least.saturating_mul(1 << doublings.min(20)).min(most);
            // Between half and all of it, so that not all machines come back together.
            let share = ahash::RandomState::new().hash_one(0) as u32;
            let half = pause / 2;
            tokio::time::sleep(half + half.mul_f64(f64::from(share) / f64::from(u32::MAX))).await;
            doublings = doublings.saturating_add(1);
        }
        at_once = false;
        let Some(link) = link.upgrade() else { return };
        if link.connect().await.is_ok() && link.is_done() {
            // The flag may be somebody else's by now.
            done.0 = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Arc<Link> {
        let client = redis::Client::open("redis://127.0.0.1/").unwrap();
        let options = Options {
            deadline: Duration::from_millis(50),
            connect_deadline: Duration::from_millis(50),
            patience: 5,
            backoff: (Duration::from_millis(1), Duration::from_millis(1)),
            prefix: "p".to_owned(),
        };
        Link::new(Target::Single(Box::new(client)), options)
    }

    /// Whoever loses a connection just after it was made finds the flag still set, and starts no task.
    #[test]
    fn a_connection_lost_at_once_is_made_anew() {
        let link = link();
        link.connecting.store(true, Ordering::Relaxed);
        assert!(!link.is_done(), "the task must go on");
        assert!(link.connecting.load(Ordering::Relaxed));
    }

    #[test]
    fn without_a_runtime_nothing_panics_and_nothing_is_claimed() {
        let link = link();
        link.reconnect();
        assert!(!link.connecting.load(Ordering::Relaxed));
    }
}
