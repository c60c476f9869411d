//! The access log: lines in Combined Log Format, written by a thread that no request waits for.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Instant;

use axum::http::{Method, Version};
use jiff::Timestamp;

use super::telemetry;

/// How many lines may wait for the writer. Their memory is bounded by this and [`TARGET_MAX`] and [`FIELD_MAX`].
const QUEUE: usize = 1_024;

/// How many bytes are written at once.
const BATCH: usize = 64 << 10;

/// How much is logged of a request target and of each header, in bytes; the rest is cut off.
const TARGET_MAX: usize = 2_048;
const FIELD_MAX: usize = 512;

/// What is logged of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) peer: IpAddr,
    /// Who has been authenticated.
    pub(crate) user: Option<&'a str>,
    /// When the request came.
    pub(crate) at: Timestamp,
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) version: Version,
    pub(crate) status: u16,
    /// How long the body of the response is, if that is known.
    pub(crate) bytes: Option<u64>,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) agent: Option<&'a [u8]>,
}

impl Line<'_> {
    /// The line, with its end.
    fn to_bytes(self) -> Vec<u8> {
        let mut line = Vec::with_capacity(256);
        // Writing to memory does not fail.
        let _ = write!(line, "{} - ", self.peer.to_canonical());
        word(&mut line, self.user.unwrap_or("-").as_bytes(), FIELD_MAX);
        let at = self.at.strftime("%d/%b/%Y:%H:%M:%S +0000");
        let _ = write!(line, " [{at}] \"");
        word(&mut line, self.method.as_str().as_bytes(), FIELD_MAX);
        line.push(b' ');
        word(&mut line, self.target.as_bytes(), TARGET_MAX);
        let _ = write!(line, " {:?}\" {} ", self.version, self.status);
        match self.bytes {
            Some(bytes) if bytes > 0 => {
                let _ = write!(line, "{bytes}");
            }
            _ => line.push(b'-'),
        }
        for field in [self.referer, self.agent] {
            line.extend(b" \"");
            escape(&mut line, field.unwrap_or(b"-"), FIELD_MAX);
            line.push(b'"');
        }
        line.push(b'\n');
        line
    }
}

/// Appends text as Apache's httpd does, so that it neither ends its quotes nor the line nor writes to a terminal.
fn escape(line: &mut Vec<u8>, text: &[u8], most: usize) {
    for &byte in &text[..text.len().min(most)] {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', byte]),
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            b'\t' => line.extend(b"\\t"),
            b' '..=b'~' => line.push(byte),
            _ => {
                // Writing to memory does not fail.
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
}

/// Appends text that stands between blanks.
fn word(line: &mut Vec<u8>, text: &[u8], most: usize) {
    for (at, part) in text[..text.len().min(most)]
        .split(|byte| *byte == b' ')
        .enumerate()
    {
        if at > 0 {
            line.extend(b"\\x20");
        }
        escape(line, part, most);
    }
}

enum Message {
    Line(Vec<u8>),
    End,
}

/// How many lines were written, and how many lost.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

impl Counts {
    // They order nothing: Relaxed.
    fn add_written(&self, lines: u64) {
        self.written.fetch_add(lines, Ordering::Relaxed);
        telemetry::log_lines_written(lines);
    }

    fn add_lost(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        telemetry::log_lines_lost(lines);
    }
}

/// A log that a thread writes.
#[derive(Debug)]
pub(crate) struct AccessLog {
    messages: SyncSender<Message>,
    counts: Arc<Counts>,
    writer: JoinHandle<()>,
}

impl AccessLog {
    /// Starts the thread.
    pub(crate) fn new(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (messages, to_write) = mpsc::sync_channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let writer = std::thread::Builder::new()
            .name("access log".to_owned())
            .spawn(move || write_all(&to_write, out, &counted))?;
        Ok(Self {
            messages,
            counts,
            writer,
        })
    }

    /// Queues a line. Does not wait: if the queue is full, the line is lost, and counted as such.
    pub(crate) fn write(&self, line: &Line<'_>) {
        if self
            .messages
            .try_send(Message::Line(line.to_bytes()))
            .is_err()
        {
            self.counts.add_lost(1);
        }
    }

    /// Waits for all lines to be written, but not for ever. Tells how many were written and how many lost.
    pub(crate) fn close(&self, patience: Duration) -> (u64, u64) {
        let until = Instant::now() + patience;
        let mut is_told = false;
        while !self.writer.is_finished() && Instant::now() < until {
            is_told = is_told || self.messages.try_send(Message::End).is_ok();
            std::thread::sleep(Duration::from_millis(5));
        }
        (
            self.counts.written.load(Ordering::Relaxed),
            self.counts.lost.load(Ordering::Relaxed),
        )
    }
}

/// Writes until the end is told, whatever is queued at once.
fn write_all(messages: &Receiver<Message>, mut out: impl Write, counts: &Counts) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut is_cut = false;
    let mut is_told = false;
    let mut is_end = false;
    while !is_end {
        let Ok(Message::Line(first)) = messages.recv() else {
            return;
        };
        batch.clear();
        if is_cut {
            batch.push(b'\n');
        }
        batch.extend(first);
        let mut lines = 1;
        while batch.len() < BATCH {
            match messages.try_recv() {
                Ok(Message::Line(line)) => {
                    batch.extend(line);
                    lines += 1;
                }
                Ok(Message::End) => {
                    is_end = true;
                    break;
                }
                Err(_) => break,
            }
        }
        match out.write_all(&batch).and_then(|()| out.flush()) {
            Ok(()) => {
                counts.add_written(lines);
                is_cut = false;
            }
            Err(error) => {
                counts.add_lost(lines);
                if !is_told {
                    eprintln!("error: cannot write the access log: {error}");
                    is_told = true;
                }
                // Part of a line may be there.
                is_cut = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::clf;
    use crate::log::time::ClfTimes;
    use proptest::prelude::*;
    use std::sync::Mutex;

    fn line<'a>(target: &'a str, user: Option<&'a str>, agent: &'a [u8]) -> Line<'a> {
        Line {
            peer: "::ffff:192.0.2.1".parse().unwrap(),
            user,
            at: Timestamp::from_millisecond(61_999).unwrap(),
            method: &Method::GET,
            target,
            version: Version::HTTP_11,
            status: 200,
            bytes: Some(16),
            referer: None,
            agent: Some(agent),
        }
    }

    #[test]
    fn lines() {
        let text = |line: Line<'_>| String::from_utf8(line.to_bytes()).unwrap();
        assert_eq!(
            text(line("/foo?a=b", Some("client-1"), b"curl/8")),
            "192.0.2.1 - client-1 [01/Jan/1970:00:01:01 +0000] \"GET /foo?a=b HTTP/1.1\" 200 16 \"-\" \"curl/8\"\n"
        );
        let forged = b"x\" 200 1\n203.0.113.9 - - [\\\x1b[2J\xff\t";
        assert_eq!(
            text(Line {
                bytes: None,
                referer: Some(b"http://r/"),
                ..line("/\"\\", Some("a [b"), forged)
            }),
            "192.0.2.1 - a\\x20[b [01/Jan/1970:00:01:01 +0000] \"GET /\\\"\\\\ HTTP/1.1\" 200 - \"http://r/\" \
             \"x\\\" 200 1\\n203.0.113.9 - - [\\\\\\x1b[2J\\xff\\t\"\n"
        );
        let long = "/".repeat(100_000);
        let most = TARGET_MAX + FIELD_MAX + 128;
        assert!(line(&long, None, long.as_bytes()).to_bytes().len() < most);
    }

    proptest! {
        /// Whatever a client sends, it is one line, of that client, that `tidegate replay` reads.
        #[test]
        fn whatever_is_sent_reads_back(target: String, user: Option<String>, agent: Vec<u8>) {
            let bytes = line(&target, user.as_deref(), &agent).to_bytes();
            let (end, text) = bytes.split_last().unwrap();
            prop_assert_eq!(*end, b'\n');
            prop_assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)));
            let mut times = ClfTimes::default();
            let record = clf::parse(text, &mut times).unwrap();
            prop_assert_eq!(record.client, b"192.0.2.1");
            prop_assert_eq!(record.time, 61_000_000_000);
        }
    }

    /// Takes bytes, or fails.
    #[derive(Clone, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<core::sync::atomic::AtomicBool>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_lines_and_says_so() {
        let disk = Disk::default();
        let log = AccessLog::new(disk.clone()).unwrap();
        let one = line("/foo", None, b"-");
        let until = |condition: &dyn Fn() -> bool| {
            while !condition() {
                std::thread::yield_now();
            }
        };
        log.write(&one);
        until(&|| log.counts.written.load(Ordering::SeqCst) == 1);
        disk.is_full.store(true, Ordering::SeqCst);
        log.write(&one);
        until(&|| log.counts.lost.load(Ordering::SeqCst) == 1);
        disk.is_full.store(false, Ordering::SeqCst);
        log.write(&one);
        assert_eq!(log.close(Duration::from_secs(60)), (2, 1));
        let bytes = disk.bytes.lock().unwrap().clone();
        // An empty line ends what may have been cut.
        assert_eq!(
            bytes,
            [one.to_bytes(), b"\n".to_vec(), one.to_bytes()].concat()
        );
    }
}
