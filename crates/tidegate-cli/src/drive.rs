//! `tidegate drive`: a known number of requests at a known interval.

mod fields;
mod options;
mod report;

use core::time::Duration;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use axum::body::Bytes;
use axum::http::{Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::{Semaphore, mpsc};

use fields::Told;
use report::Report;

pub(crate) use options::DriveArgs;

/// Bad usage, or no answer at all.
const UNANSWERED: u8 = 2;

/// Ended by Ctrl-C: 128 and the signal's number.
const INTERRUPTED: u8 = 130;

/// How much of a response is read, in bytes; the rest is of no interest.
const BODY_MAX: usize = 1 << 20;

/// One request, and what came of it. Times are since the start.
#[derive(Debug)]
struct Sent {
    /// Counted from 1.
    number: u64,
    at: Duration,
    latency: Duration,
    answer: Result<Answer>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    told: Told,
}

impl Sent {
    /// How long to wait, if it was refused and told so.
    fn retry_after(&self) -> Option<Duration> {
        let answer = self.answer.as_ref().ok()?;
        let is_refused = matches!(answer.status, 429 | 503);
        answer
            .told
            .retry_after
            .filter(|_| is_refused)
            .map(Duration::from_secs)
    }
}

/// Sends the requests and reports.
///
/// # Errors
///
/// If a request cannot be made of the options, or the report not be written.
pub(crate) fn run(args: &DriveArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut report = Report::new(args);
    let interrupted = runtime.block_on(drive(args, &mut report))?;
    let mut out = BufWriter::new(io::stdout().lock());
    report.end(&mut out, interrupted)?;
    out.flush()?;
    Ok(if interrupted {
        ExitCode::from(INTERRUPTED)
    } else if report.answers() == 0 {
        ExitCode::from(UNANSWERED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Whether it was interrupted.
async fn drive(args: &DriveArgs, report: &mut Report) -> Result<bool> {
    let (results, mut sent) = mpsc::channel(args.concurrency);
    let sender = Arc::new(Sender::new(args)?);
    let sending = send_all(args, sender, results);
    let mut sending = core::pin::pin!(sending);
    let mut interrupt = core::pin::pin!(tokio::signal::ctrl_c());
    let mut is_sending = true;
    loop {
        tokio::select! {
            () = sending.as_mut(), if is_sending => is_sending = false,
            next = sent.recv() => match next {
                Some(sent) => report.sent(&mut io::stdout().lock(), sent)?,
                None => return Ok(false),
            },
            pressed = interrupt.as_mut() => {
                pressed.context("cannot listen for Ctrl-C")?;
                return Ok(true);
            }
        }
    }
}

/// Starts each request when its time has come, and as soon as there are not too many under way.
async fn send_all(args: &DriveArgs, sender: Arc<Sender>, results: mpsc::Sender<Sent>) {
    let room = Arc::new(Semaphore::new(args.concurrency));
    let start = Instant::now();
    let mut due = Duration::ZERO;
    for number in 1..=args.requests {
        tokio::time::sleep_until((start + due).into()).await;
        due += args.interval();
        if args.obey {
            let sent = sender.send(number, start).await;
            if let Some(wait) = sent.retry_after() {
                due = due.max(sent.at + sent.latency + wait);
            }
            if results.send(sent).await.is_err() {
                return;
            }
            continue;
        }
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let (sender, results) = (Arc::clone(&sender), results.clone());
        tokio::spawn(async move {
            // If nobody listens any more, it was interrupted.
            let _ = results.send(sender.send(number, start).await).await;
            drop(permit);
        });
    }
}

struct Sender {
    client: Client<HttpConnector, Empty<Bytes>>,
    request: Request<()>,
    timeout: Duration,
}

impl Sender {
    fn new(args: &DriveArgs) -> Result<Self> {
        let mut request = Request::new(());
        *request.method_mut() = args.method.clone();
        *request.uri_mut() = args.url.clone();
        for (name, value) in &args.headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            request,
            timeout: args.timeout(),
        })
    }

    async fn send(&self, number: u64, start: Instant) -> Sent {
        let begun = Instant::now();
        let answer = tokio::time::timeout(self.timeout, self.answer());
        let answer = answer
            .await
            .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {:?}", self.timeout)));
        Sent {
            number,
            at: begun - start,
            latency: begun.elapsed(),
            answer,
        }
    }

    async fn answer(&self) -> Result<Answer> {
        let request = self.request.clone().map(|()| Empty::new());
        let response = self.client.request(request).await?;
        let told = Told::of(response.headers(), SystemTime::now());
        let status = response.status().as_u16();
        // So that the connection can be used again. One that is too long, or ends early, has been answered all the same.
        let _ = Limited::new(response.into_body(), BODY_MAX).collect().await;
        Ok(Answer { status, told })
    }
}

/// Reads a URL that can be driven.
fn url_from_str(text: &str) -> Result<Uri> {
    let url: Uri = text
        .parse()
        .with_context(|| format!("{text:?} is no URL"))?;
    anyhow::ensure!(
        url.scheme_str() == Some("http") && url.host().is_some(),
        "{text:?} is no URL with http://: others are not supported"
    );
    Ok(url)
}
