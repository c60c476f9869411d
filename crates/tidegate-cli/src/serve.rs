//! `tidegate serve`: HTTP behind rate limits, to try them on.

mod access_log;
mod app;
mod busiest;
mod connections;
mod limits;
mod options;
mod redis;
mod status;
mod telemetry;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;

use access_log::AccessLog;
use app::App;
use limits::{Limits, Source};

pub(crate) use options::ServeArgs;

/// How long the last lines of the access log may take.
const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until a signal.
///
/// # Errors
///
/// If the configuration has a mistake, or the address or the log cannot be had.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    if args.print_config {
        io::stdout().write_all(limits::BUILT_IN.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let source = match &args.config {
        Some(path) => Source::File(path.clone()),
        None => Source::BuiltIn,
    };
    let metrics = telemetry::install()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let redis = match &args.redis[..] {
        [] => None,
        urls => {
            let store = runtime.block_on(redis::open(urls, args.redis_deadline()));
            Some(store.context("cannot understand the URL of the Redis server")?)
        }
    };
    let limits = Limits::open(source, redis)?;
    let log = args.access_log.as_deref().map(open_log).transpose()?;
    let app = Arc::new(App::new(limits, log, metrics));
    runtime.block_on(serve(args, Arc::clone(&app)))?;
    // Connections that did not end in time are cut.
    runtime.shutdown_background();
    if let Some(log) = app.log() {
        let (written, lost) = log.close(LOG_PATIENCE);
        eprintln!("access log: {written} lines written, {lost} lost");
    }
    Ok(ExitCode::SUCCESS)
}

fn open_log(path: &Path) -> Result<AccessLog> {
    let opened = if path.as_os_str() == "-" {
        AccessLog::new(io::stdout())
    } else {
        let file = File::options().append(true).create(true).open(path);
        file.and_then(AccessLog::new)
    };
    opened.with_context(|| format!("cannot write the access log {}", path.display()))
}

async fn serve(args: &ServeArgs, app: Arc<App>) -> Result<()> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let (stop, stopped) = watch::channel(false);
    eprintln!("listening on http://{}", listener.local_addr()?);
    if let Some(store) = app.limits().redis() {
        tokio::spawn(redis::tell(store.clone()));
    }
    let serving = tokio::spawn(connections::serve(
        listener,
        app::router(Arc::clone(&app)),
        stopped,
    ));
    while signals.next().await == Signal::Reload {
        let source = app.limits().source();
        let reloaded = app.limits().reload();
        telemetry::reloaded(reloaded.is_ok());
        match reloaded {
            Ok(()) => eprintln!("reloaded {source}"),
            Err(error) => eprintln!("not reloaded, the old policies stay: {error:#}"),
        }
    }
    eprintln!("stopping");
    // It fails only if nobody serves any more.
    let _ = stop.send(true);
    serving.await.context("the server has failed")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Reload,
    Stop,
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        let _ = tokio::signal::ctrl_c().await;
        Signal::Stop
    }
}
