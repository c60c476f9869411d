//! Several processes share a limit, on one server.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::Server;

/// The example, which `cargo test` builds beside the tests.
fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples").join("several_processes")
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// `before` is what it is run by.
    fn start(before: &[&str], server: &Server, way: &str, limit: u64, requests: u64) -> Self {
        let program = program();
        let mut words: Vec<&std::ffi::OsStr> = before.iter().map(|it| it.as_ref()).collect();
        words.push(program.as_os_str());
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .args([
                &server.url(),
                way,
                &limit.to_string(),
                &requests.to_string(),
            ])
            .env("DONT_FAKE_MONOTONIC", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}: ci/redis.sh installs it", words[0]));
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self {
            child,
            input,
            output,
        };
        assert_eq!(process.line(), "ready");
        process
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn go(&mut self) {
        writeln!(self.input).unwrap();
    }

    fn admitted(mut self) -> u64 {
        let admitted = self.line().parse().unwrap();
        assert!(self.child.wait().unwrap().success());
        admitted
    }
}

/// How many of 400 requests by two processes pass, of 100 that may.
fn two(before: [&[&str]; 2], server: &Server, way: &str) -> u64 {
    let mut processes = before.map(|before| Process::start(before, server, way, 100, 200));
    for process in &mut processes {
        process.go();
    }
    processes.into_iter().map(Process::admitted).sum()
}

const WAYS: [&str; 5] = ["bucket", "fixed", "anchored", "sliding", "log"];

#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn two_processes_admit_the_limit_exactly() {
    let server = Server::start();
    for way in WAYS {
        assert_eq!(two([&[], &[]], &server, way), 100, "{way}");
    }
}

/// So the test above can fail.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn reading_deciding_and_writing_admits_more() {
    let server = Server::start();
    assert!(two([&[], &[]], &server, "naive") > 100);
}

/// An hour ahead, and an hour behind: the server's clock is the only one.
#[test]
#[ignore = "needs redis-server and faketime: ci/redis.sh"]
fn clocks_of_the_processes_do_not_matter() {
    let server = Server::start();
    let skewed: [&[&str]; 2] = [&["faketime", "-f", "+1h"], &["faketime", "-f", "-1h"]];
    for way in WAYS {
        assert_eq!(two(skewed, &server, way), 100, "{way}");
        // Long windows that begin now would be others, an hour before and after.
        let all: Vec<String> = server.command(&["KEYS", &format!("tidegate:{way}:*")]);
        assert_eq!(all.len(), 1);
    }
}
