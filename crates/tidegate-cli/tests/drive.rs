//! A known number of requests, over real sockets of this machine.
#![cfg(all(feature = "serve", unix))]

mod common;
#[path = "common/server.rs"]
mod server;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;

use common::{stderr, stdout, tidegate};
use serde_json::Value;
use server::Server;

const CLIENT_1: &str = "x-api-key: key-of-client-1";

#[test]
fn it_obeys_retry_after() {
    let policy = "on-failure = \"refuse\"\n\
        policy = [{ name = \"all\", key = \"everyone\", quota = \"1/s\" }]";
    let server = Server::start(Some(("obey.toml", policy)), &[]);
    // Two requests may be a second apart, on a busy machine.
    let promises = (0..10).map(|_| {
        let driven = server.drive("/foo", &["-n", "4", "--obey"]);
        let promises = &driven["summary"]["retry_after"];
        assert_eq!(promises["broken"], 0, "{driven}");
        let requests = driven["requests"].as_array().unwrap();
        let refused = requests[..3]
            .iter()
            .filter(|request| request["status"] == 429);
        assert_eq!(promises["kept"], refused.count(), "{driven}");
        promises["kept"].as_u64().unwrap()
    });
    assert!(promises.into_iter().any(|kept| kept > 0));
    server.stop();
}

#[test]
fn the_report_for_people() {
    let server = Server::start(None, &[]);
    let url = format!("http://{}/bar", server.address);
    let output = tidegate()
        .args([
            "drive",
            &url,
            "-n",
            "6",
            "--interval",
            "10ms",
            "-H",
            CLIENT_1,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 9, "{text}");
    assert!(
        lines[0].contains("status   limit  remaining    reset  retry after"),
        "{text}"
    );
    for (line, status) in lines[1..7]
        .iter()
        .zip(["200", "200", "200", "200", "200", "429"])
    {
        assert_eq!(line.split_whitespace().nth(3), Some(status), "{text}");
    }
    assert!(lines[8].starts_with("6 requests in "), "{text}");
    assert!(
        lines[8].ends_with(" s: 5 of status 200, 1 of status 429; refused 16.67 %"),
        "{text}"
    );
    // Nobody is before its time.
    let driven = server.drive(
        "/foo",
        &[
            "-n",
            "3",
            "--interval",
            "20ms",
            "-X",
            "POST",
            "-H",
            CLIENT_1,
        ],
    );
    for (number, request) in driven["requests"].as_array().unwrap().iter().enumerate() {
        assert!(
            request["at_ms"].as_f64().unwrap() >= 20.0 * number as f64,
            "{driven}"
        );
    }
    server.stop();
}

#[test]
fn an_interrupted_one_reports() {
    let server = Server::start(None, &[]);
    let url = format!("http://{}/foo", server.address);
    let mut child = tidegate()
        .args(["drive", &url, "--interval", "1h"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    // The heading, and the first request.
    for _ in 0..2 {
        out.read_line(&mut text).unwrap();
    }
    server::signal(&child, "INT");
    out.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(
        text.contains("\nInterrupted: this is what was answered so far.\n\n1 request in "),
        "{text}"
    );
    assert!(
        text.ends_with(" s: 1 of status 401; refused 0.00 %\n"),
        "{text}"
    );
    server.stop();
}

#[test]
fn without_an_answer() {
    let drive = |url: &str| {
        tidegate()
            .args(["drive", url, "-n", "2", "--json"])
            .output()
            .unwrap()
    };
    // Hangs up on everybody.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let output = drive(&format!("http://{address}/"));
    assert_eq!(output.status.code(), Some(2));
    let driven: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(driven["summary"]["errors"], 2, "{driven}");
    assert!(driven["requests"][0]["error"].is_string(), "{driven}");
    assert!(driven["requests"][0]["status"].is_null(), "{driven}");

    // Never says anything.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let output = tidegate()
        .args(["drive", &url, "-n", "1", "--timeout", "50ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    assert!(text.contains(" ms  no answer within 50ms\n"), "{text}");
    assert!(
        text.ends_with(": 1 without an answer; refused 0.00 %\n"),
        "{text}"
    );
    for url in ["https://127.0.0.1/", "127.0.0.1", "not a url"] {
        let output = drive(url);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("is no URL"), "{}", stderr(&output));
    }
}
