//! Our server: the same paths and limits as the other, one connection at a time.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use sha2::{Digest, Sha256};
use tidegate::http::{Buffer, Draft, Headers, Policy, Problem, Standing};
use tidegate::{Clock, FixedWindow, Quota, Table};

use crate::WINDOW;
use crate::client::unix_now;

/// Starts it on a free port of the loopback device, and returns that. It runs as long as the process.
pub fn start() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        let server = Server::new();
        for stream in listener.incoming() {
            let served = stream.and_then(|stream| server.serve(stream));
            if let Err(error) = served {
                eprintln!("our server: {error}");
            }
        }
    });
    Ok(port)
}

struct Server {
    quota: Quota,
    clients: Table<FixedWindow, 64>,
    clock: Clock,
}

impl Server {
    fn new() -> Self {
        let quota = Quota::new(3, WINDOW).expect("3 per 10 s is a quota");
        Self {
            quota,
            clients: Table::new(FixedWindow::anchored(quota)),
            clock: Clock::new(),
        }
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = BufReader::new(stream.try_clone()?).lines();
        let first = head.next().transpose()?.unwrap_or_default();
        for line in head {
            if line?.is_empty() {
                break;
            }
        }
        let response = first
            .split(' ')
            .nth(1)
            .and_then(|target| self.answer(target))
            .unwrap_or_else(|| "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".into());
        stream.write_all(response.as_bytes())
    }

    /// `None` if this is not for us.
    fn answer(&self, target: &str) -> Option<String> {
        let (mode, client) = target.strip_prefix('/')?.split_once("?client=")?;
        let headers = match mode {
            "draft-6" => Headers::new().with_draft(Draft::V06),
            "draft-7" => Headers::new().with_draft(Draft::V07),
            "draft-8" => Headers::new().with_draft(Draft::V10),
            "legacy" => Headers::new().with_legacy(),
            _ => return None,
        };
        // Names and partition keys as express-rate-limit makes them.
        let mut key = String::new();
        for byte in &Sha256::digest(client.as_bytes())[..6] {
            write!(key, "{byte:02x}").ok()?;
        }
        let policy = Policy::new("3-in-10sec", self.quota).with_partition_key(key.as_bytes());

        let decision = self.clients.check(&(mode, client), self.clock.now());
        let standings = [Standing::new(policy, decision)];
        let problem = Problem::new(&standings);
        let status = problem.map_or(200, |problem| problem.status());
        let mut response = format!("HTTP/1.1 {status} \r\nConnection: close\r\n");
        let mut buffer = Buffer::<128>::new();
        for field in headers.fields(&standings, Some(unix_now())) {
            let value = buffer.render(field.value()).ok()?;
            write!(response, "{}: {value}\r\n", field.name()).ok()?;
        }
        let body = problem.map_or_else(|| "passed\n".into(), |problem| problem.to_string());
        write!(response, "Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
        Some(response)
    }
}
