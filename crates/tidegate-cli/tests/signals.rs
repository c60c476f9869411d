//! Ctrl-C, and readers that have seen enough.
#![cfg(unix)]

mod common;

use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use common::{line, stderr, stdout, tidegate};

fn start(args: &[&str]) -> (Child, ChildStdin) {
    let mut child = tidegate()
        .args(["replay", "-", "--limit", "10/min"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let stdin = child.stdin.take().expect("is piped");
    (child, stdin)
}

fn interrupt(child: &Child) {
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("there is a kill");
    assert!(status.success());
}

/// More than fits in a pipe and in the chunks that may wait: when all of it is written, some has been counted.
fn plenty() -> String {
    line("192.0.2.1", "04:11:25").repeat(20_000)
}

#[test]
fn an_interrupt_reports_what_was_read() {
    let (child, mut stdin) = start(&["--json"]);
    stdin.write_all(plenty().as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    // Standard input stays open: the program is blocked in it.
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    let requests = report["requests"].as_u64().unwrap();
    assert!((1..=20_000).contains(&requests), "{requests}");
    assert_eq!(report["candidates"][0]["admitted"], 10);
}

#[test]
fn an_interrupted_report_says_so() {
    let (child, mut stdin) = start(&[]);
    stdin.write_all(plenty().as_bytes()).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("\nInterrupted: this is what was read so far.\n"),
        "{text}"
    );
    assert!(text.contains("token-bucket 10/min"), "{text}");
}

#[test]
fn an_interrupt_before_the_first_request() {
    let (child, mut stdin) = start(&[]);
    // A line that does not end. All of it is written: so the program reads.
    stdin.write_all(&[b'x'; 1 << 20]).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert_eq!(
        stderr(&output),
        "interrupted before the first request was read\n"
    );
}

#[test]
fn a_broken_pipe_is_no_error() {
    let mut child = tidegate()
        .args(["sample", "--requests", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");

    let (mut child, mut stdin) = start(&["--json"]);
    drop(child.stdout.take());
    stdin
        .write_all(line("192.0.2.1", "04:11:25").as_bytes())
        .unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}
