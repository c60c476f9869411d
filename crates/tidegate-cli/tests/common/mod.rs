//! Running the program on small logs.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program.
pub(crate) fn tidegate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

/// Feeds `input` to `tidegate replay -` with these arguments.
pub(crate) fn replay(input: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let mut child = tidegate()
        .args(["replay", "-"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut stdin = child.stdin.take().expect("is piped");
    // It may end without reading, on bad usage.
    let _ = stdin.write_all(input.as_ref());
    drop(stdin);
    child.wait_with_output().expect("the program ends")
}

/// The same with `--json`, which must succeed.
pub(crate) fn replay_json(input: impl AsRef<[u8]>, args: &[&str]) -> Value {
    json(&replay(input, &[args, &["--json"]].concat()))
}

/// What a successful run has printed.
pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    assert_eq!(stderr(output), "");
    serde_json::from_slice(&output.stdout).expect("is JSON")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("is text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("is text")
}

/// Runs `tidegate simulate` with these arguments.
pub(crate) fn simulate(args: &[&str]) -> Output {
    tidegate()
        .arg("simulate")
        .args(args)
        .output()
        .expect("the program runs")
}

/// A request of `client` at a time such as `04:11:25`, on one day in UTC.
pub(crate) fn line(client: &str, time: &str) -> String {
    format!("{client} - - [25/Oct/2015:{time} +0000] \"GET /a?b=c HTTP/1.1\" 200 12\n")
}

/// Admitted and refused requests, and refused keys, of candidate number `at`.
pub(crate) fn verdict(report: &Value, at: usize) -> (u64, u64, u64) {
    let verdict = &report["candidates"][at];
    let number = |name: &str| verdict[name].as_u64().expect("is a number");
    (
        number("admitted"),
        number("refused"),
        number("keys_refused"),
    )
}

/// The top of the checkout.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A path for a file that this test alone writes.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    folder.join(format!("{}-{name}", std::process::id()))
}
