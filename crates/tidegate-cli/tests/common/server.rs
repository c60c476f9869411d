//! A server on a free port, and what is asked of it over loopback.

// Each test file uses a part of this.
#![allow(dead_code)]

use core::net::SocketAddr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::common::{json, scratch, tidegate};

/// A running `tidegate serve`; stopped when it goes.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    messages: BufReader<ChildStderr>,
    config: Option<PathBuf>,
}

impl Server {
    /// With the built-in policies, or these, and more arguments.
    pub(crate) fn start(config: Option<(&str, &str)>, args: &[&str]) -> Self {
        let mut command = tidegate();
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args);
        let config = config.map(|(name, text)| {
            let path = scratch(name);
            std::fs::write(&path, text).unwrap();
            command.arg("--config").arg(&path);
            path
        });
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut messages = BufReader::new(child.stderr.take().expect("is piped"));
        let mut first = String::new();
        messages.read_line(&mut first).unwrap();
        let address = first.strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{first}"));
        Self {
            address: address.trim().parse().unwrap(),
            child,
            messages,
            config,
        }
    }

    /// The next line it says.
    pub(crate) fn message(&mut self) -> String {
        let mut line = String::new();
        self.messages.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Writes other policies to its file, and has it read them. What it says then.
    pub(crate) fn reload(&mut self, config: &str) -> String {
        std::fs::write(self.config.as_ref().unwrap(), config).unwrap();
        signal(&self.child, "HUP");
        self.message()
    }

    /// Lets it stop, and succeed. What it says.
    pub(crate) fn stop(mut self) -> String {
        signal(&self.child, "TERM");
        let mut rest = String::new();
        self.messages.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }

    /// `tidegate drive` to this path, with these arguments.
    pub(crate) fn drive(&self, path: &str, args: &[&str]) -> Value {
        let url = format!("http://{}{path}", self.address);
        json(
            &tidegate()
                .args(["drive", &url, "--json"])
                .args(args)
                .output()
                .expect("the program runs"),
        )
    }

    /// Sends these bytes, and reads until the server closes.
    pub(crate) fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Head and body of the answer to a GET.
    pub(crate) fn get(&self, path: &str, headers: &str) -> (String, String) {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        let answer = String::from_utf8(self.raw(request.as_bytes())).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("is HTTP");
        (head.to_ascii_lowercase(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(config) = &self.config {
            let _ = std::fs::remove_file(config);
        }
    }
}

/// Sends a signal, such as `TERM`.
pub(crate) fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill")
        .args([&format!("-{signal}"), &child.id().to_string()])
        .status()
        .expect("there is a kill");
    assert!(status.success());
}

/// How many requests of a drive had each of these statuses, and none another.
pub(crate) fn statuses<const N: usize>(driven: &Value, statuses: [u16; N]) -> [u64; N] {
    let counts = statuses.map(|status| {
        let count = &driven["summary"]["statuses"][status.to_string()];
        count.as_u64().unwrap_or(0)
    });
    let all = driven["summary"]["requests"].as_u64().unwrap();
    assert_eq!(counts.iter().sum::<u64>(), all, "{}", driven["summary"]);
    counts
}
