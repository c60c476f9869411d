//! One request on a connection of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, SystemTime};

/// An answer's status, and those of its header fields that are about rates, by name in lower case.
pub struct Answer {
    pub status: u16,
    pub fields: BTreeMap<String, String>,
    /// Since 1970, both: before the request was sent, and after the answer had come.
    pub sent: Duration,
    pub received: Duration,
}

impl Answer {
    pub fn shown(&self) -> String {
        let lines: Vec<_> = self
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        lines.join(" | ")
    }
}

pub fn unix_now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a clock later than 1970")
}

pub fn get(port: u16, path: &str) -> Result<Answer, String> {
    let sent = unix_now();
    let text = exchange(port, path).map_err(|error| format!("port {port}{path}: {error}"))?;
    let received = unix_now();
    let head = text.split("\r\n\r\n").next().unwrap_or("");
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .ok_or_else(|| format!("port {port}{path}: no status in '{head}'"))?;
    let mut fields = BTreeMap::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| format!("port {port}{path}: no header line: '{line}'"))?;
        let name = name.to_ascii_lowercase();
        if name.contains("ratelimit") || name == "retry-after" {
            let twice = fields.insert(name, value.trim().to_owned());
            if twice.is_some() {
                return Err(format!("port {port}{path}: twice: '{line}'"));
            }
        }
    }
    Ok(Answer {
        status,
        fields,
        sent,
        received,
    })
}

fn exchange(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
