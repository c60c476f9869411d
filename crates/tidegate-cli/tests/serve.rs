//! The server over real sockets of this machine.
#![cfg(all(feature = "serve", unix))]

mod common;
#[path = "common/server.rs"]
mod server;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use common::{replay_json, scratch, stderr, stdout, tidegate, verdict};
use server::{Server, statuses};

const CLIENT_1: &str = "x-api-key: key-of-client-1";

/// Nothing comes back while a test runs, on whatever day.
fn policies(limit: &str) -> String {
    format!(
        "on-failure = \"refuse\"\n\
         tiers = {{ header = \"x-api-key\", clients = {{ some = [\"a\"] }} }}\n\
         [[policy]]\nname = \"log\"\nroutes = [\"/bar\"]\nkey = \"header:x-api-key\"\n\
         algorithm = \"sliding-log\"\n{limit}\n"
    )
}

#[test]
fn five_a_minute_of_fifteen() {
    let server = Server::start(None, &[]);
    let driven = server.drive("/bar", &["-n", "15", "-H", CLIENT_1]);
    let seen: Vec<_> = driven["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| (request["status"].as_u64(), request["remaining"].as_u64()))
        .collect();
    let expected = [4, 3, 2, 1, 0].map(|left| (Some(200), Some(left)));
    let expected = expected.into_iter().chain([(Some(429), Some(0)); 10]);
    assert_eq!(seen, expected.collect::<Vec<_>>());
    for request in driven["requests"].as_array().unwrap() {
        assert_eq!(
            (&request["limit"], &request["fields"]),
            (&5.into(), &"draft-10".into())
        );
        let wait = request["retry_after"].as_u64();
        assert_eq!(wait.is_some(), request["status"] == 429);
        assert!(wait.is_none_or(|wait| (1..=60).contains(&wait)));
    }
    assert_eq!(driven["summary"]["refused"], 10);
    // The other client, and the other route, have their own.
    let other = server.drive("/bar", &["-n", "10", "-H", "x-api-key: key-of-client-2"]);
    assert_eq!(statuses(&other, [200]), [10]);
    let other = server.drive("/foo", &["-n", "1", "-H", CLIENT_1]);
    assert_eq!(statuses(&other, [200]), [1]);
    server.stop();
}

#[test]
fn of_400_at_once_exactly_100() {
    for (algorithm, quota) in [
        ("sliding-log", "100/day"),
        ("fixed-window", "100/10000 days"),
        ("anchored-window", "100/day"),
    ] {
        let policy = format!(
            "on-failure = \"refuse\"\n\
             policy = [{{ name = \"all\", key = \"everyone\", algorithm = \"{algorithm}\", quota = \"{quota}\" }}]"
        );
        let server = Server::start(Some((&format!("{algorithm}.toml"), &policy)), &[]);
        let driven = server.drive("/foo", &["-n", "400", "-c", "400"]);
        assert_eq!(statuses(&driven, [200, 429]), [100, 300], "{algorithm}");
        server.stop();
    }
}

#[test]
fn who_has_no_key() {
    let server = Server::start(None, &[]);
    for (headers, says) in [
        ("", "This needs an API key, in the header x-api-key.\n"),
        ("x-api-key: wrong\r\n", "This API key is not known.\n"),
        ("x-api-key: \r\n", "This API key is not known.\n"),
        ("x-api-key: \u{e9}\r\n", "This API key is not known.\n"),
    ] {
        let (head, body) = server.get("/foo", headers);
        assert!(head.starts_with("http/1.1 401 "), "{head}");
        assert!(
            head.contains("\r\nwww-authenticate: apikey realm=\"tidegate\""),
            "{head}"
        );
        assert!(head.contains("\r\nratelimit: \"per-address\";r="), "{head}");
        assert_eq!(body, says);
    }
    // Which of the two is meant, nobody can tell.
    let (head, _) = server.get(
        "/foo",
        "x-api-key: key-of-client-1\r\nx-api-key: key-of-client-2\r\n",
    );
    assert!(head.starts_with("http/1.1 400 "), "{head}");
    for path in ["/", "/page.js", "/page.css", "/status.json", "/metrics"] {
        let (head, _) = server.get(path, "");
        assert!(head.starts_with("http/1.1 200 "), "{path}: {head}");
    }
    server.stop();
}

#[test]
fn what_is_no_http_or_too_much() {
    let server = Server::start(None, &[]);
    let field = |bytes: usize| {
        let mut request =
            b"GET /foo HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: ".to_vec();
        request.resize(request.len() + bytes, b'a');
        request.extend(b"\r\n\r\n");
        request
    };
    for (request, status) in [
        (field(8 << 10), "401"),
        (b"\x16\x03\x01 nonsense\r\n\r\n".to_vec(), "400"),
    ] {
        let answer = String::from_utf8(server.raw(&request)).unwrap();
        let told = answer.strip_prefix("HTTP/1.1 ").unwrap_or(&answer);
        assert!(told.starts_with(status), "{answer}");
    }
    // It is answered and closed while there is more to read, which may cut off the answer too.
    let mut stream = TcpStream::connect(server.address).unwrap();
    let _ = stream.write_all(&field(128 << 10));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
    let driven = server.drive("/bar", &["-n", "1", "-H", CLIENT_1]);
    assert_eq!(statuses(&driven, [200]), [1]);
    server.stop();
}

#[test]
fn a_reload_keeps_what_was_used() {
    let five = policies("tiers = { some = \"5/day\" }");
    let mut server = Server::start(Some(("reload.toml", &five)), &[]);
    let drive = |server: &Server, requests: &str| {
        statuses(
            &server.drive("/bar", &["-n", requests, "-H", "x-api-key: a"]),
            [200, 401, 429],
        )
    };
    assert_eq!(drive(&server, "4"), [4, 0, 0]);

    let wrong = policies("tiers = { some = \"7/day\" }\nburst = 3");
    let said = server.reload(&wrong);
    assert!(
        said.starts_with("not reloaded, the old policies stay: "),
        "{said}"
    );
    assert!(
        said.contains("reload.toml: line 9, field `burst`: "),
        "{said}"
    );
    assert_eq!(drive(&server, "2"), [1, 0, 1]);

    let said = server.reload(&policies("tiers = { some = \"7/day\" }"));
    assert!(
        said.starts_with("reloaded ") && said.ends_with("reload.toml"),
        "{said}"
    );
    // Five of seven are used.
    assert_eq!(drive(&server, "4"), [2, 0, 2]);
    let (_, metrics) = server.get("/metrics", "");
    assert_eq!(
        metric(&metrics, "tidegate_serve_reloads_total{result=\"done\"}"),
        Some(1.0)
    );
    assert_eq!(
        metric(&metrics, "tidegate_serve_reloads_total{result=\"failed\"}"),
        Some(1.0)
    );

    // Who is no client any more is told so.
    let other = policies("tiers = { some = \"7/day\" }").replace("[\"a\"]", "[\"b\"]");
    assert!(server.reload(&other).starts_with("reloaded "));
    assert_eq!(drive(&server, "1"), [0, 1, 0]);
    server.stop();
}

/// The value of a metric, by its name and labels, in a text of which each line must be in Prometheus' format.
fn metric(text: &str, name: &str) -> Option<f64> {
    let mut found = None;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(
                comment.starts_with("HELP ") || comment.starts_with("TYPE "),
                "{line}"
            );
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a name and a value");
        let value: f64 = value.parse().expect("a number");
        let (base, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(
            base.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{line}"
        );
        assert!(labels.ends_with('}'), "{line}");
        if series == name {
            assert!(found.is_none(), "{name} is there twice");
            found = Some(value);
        }
    }
    found
}

#[test]
fn metrics_count_what_was_answered() {
    let server = Server::start(None, &[]);
    server.drive("/bar", &["-n", "8", "-H", CLIENT_1]);
    server.drive("/foo", &["-n", "3"]);
    server.drive("/no/such/path", &["-n", "2"]);
    let (head, text) = server.get("/metrics", "");
    assert!(text.contains("# HELP tidegate_live_keys "), "{text}");
    assert!(
        head.contains("\r\ncontent-type: text/plain; version=0.0.4"),
        "{head}"
    );
    for (name, value) in [
        (
            "tidegate_serve_responses_total{route=\"/bar\",status=\"200\"}",
            5.0,
        ),
        (
            "tidegate_serve_responses_total{route=\"/bar\",status=\"429\"}",
            3.0,
        ),
        (
            "tidegate_serve_responses_total{route=\"/foo\",status=\"401\"}",
            3.0,
        ),
        (
            "tidegate_serve_responses_total{route=\"other\",status=\"404\"}",
            2.0,
        ),
        ("tidegate_admitted_total{policy=\"bar\"}", 5.0),
        ("tidegate_refused_total{policy=\"bar\"}", 3.0),
        ("tidegate_admitted_total{policy=\"per-address\"}", 8.0),
        ("tidegate_serve_log_lines_lost_total", 0.0),
        (
            "tidegate_live_keys{policy=\"bar\",tier=\"client-1\",candidate=\"false\"}",
            1.0,
        ),
        (
            "tidegate_live_keys{policy=\"bar\",tier=\"client-2\",candidate=\"false\"}",
            0.0,
        ),
    ] {
        assert_eq!(metric(&text, name), Some(value), "{name} in\n{text}");
    }
    server.stop();
}

#[test]
fn the_log_can_be_replayed() {
    let path = scratch("access.log");
    let log = path.to_str().unwrap();
    let server = Server::start(None, &["--access-log", log]);
    let driven = server.drive(
        "/bar",
        &["-n", "15", "-H", CLIENT_1, "-H", "user-agent: a \"b\" \\ c"],
    );
    let [admitted, refused] = statuses(&driven, [200, 429]);
    let said = server.stop();
    assert!(
        said.ends_with("access log: 15 lines written, 0 lost\n"),
        "{said}"
    );

    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("127.0.0.1 - client-1 ["), "{first}");
    assert!(
        first.ends_with("] \"GET /bar HTTP/1.1\" 200 16 \"-\" \"a \\\"b\\\" \\\\ c\""),
        "{first}"
    );
    assert!(!text.contains("key-of"), "{text}");
    let report = replay_json(&text, &["--limit", "5/min", "--algorithm", "sliding-log"]);
    assert_eq!(report["unreadable"], 0);
    assert_eq!(verdict(&report, 0), (admitted, refused, 1));
}

/// Nobody reads the log: requests are answered all the same, and what is lost is counted.
#[test]
fn no_request_waits_for_the_log() {
    const REQUESTS: u64 = 2_000;
    let mut server = Server::start(None, &["--access-log", "-"]);
    let agent = format!("user-agent: {}", "x".repeat(500));
    let driven = server.drive(
        "/none",
        &["-n", &REQUESTS.to_string(), "-c", "200", "-H", &agent],
    );
    assert_eq!(statuses(&driven, [404]), [REQUESTS]);
    let (_, metrics) = server.get("/metrics", "");
    let lost = metric(&metrics, "tidegate_serve_log_lines_lost_total").unwrap();
    assert!(lost > 0.0, "{metrics}");
    let log = server.child.stdout.take().unwrap();
    let reading =
        std::thread::spawn(move || BufReader::new(log).lines().map(Result::unwrap).count() as u64);
    let said = server.stop();
    let written = reading.join().unwrap();
    let lost = REQUESTS + 1 - written;
    assert!(written > 0 && lost > 0);
    let told = format!("access log: {written} lines written, {lost} lost\n");
    assert!(said.ends_with(&told), "{said} is not {told}");
}

/// Connections that are open and idle, or in the middle of a request, do not keep it from stopping.
#[test]
fn it_stops_though_clients_stay() {
    let server = Server::start(None, &[]);
    let mut idle = TcpStream::connect(server.address).unwrap();
    idle.write_all(b"GET /foo HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 401");
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.write_all(b"GET /foo HTT").unwrap();
    assert_eq!(server.stop(), "stopping\n");
    let mut rest = Vec::new();
    // Closed, or cut.
    let _ = idle.read_to_end(&mut rest);
    let _ = slow.read_to_end(&mut rest);
}

#[test]
fn the_built_in_policies_are_a_file_to_begin_with() {
    let output = tidegate()
        .args(["serve", "--print-config"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let server = Server::start(Some(("printed.toml", &text)), &[]);
    let driven = server.drive("/bar", &["-n", "6", "-H", CLIENT_1]);
    assert_eq!(statuses(&driven, [200, 429]), [5, 1]);
    server.stop();
}

#[test]
fn what_it_cannot_start_with() {
    let path = scratch("wrong.toml");
    std::fs::write(
        &path,
        "on-failure = \"refuse\"\n[[policy]]\nname = \"a\"\nkey = \"peer\"\nquota = \"0/s\"\n",
    )
    .unwrap();
    let start = |args: &[&str]| {
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let output = tidegate().args(args).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stdout(&output), "");
        stderr(&output)
    };
    let said = start(&["--config", path.to_str().unwrap()]);
    assert!(
        said.contains("wrong.toml: line 5, field `quota`: "),
        "{said}"
    );
    std::fs::remove_file(&path).unwrap();
    let said = start(&["--config", "/no/such/file"]);
    assert!(said.starts_with("error: /no/such/file: "), "{said}");
    let said = start(&["--access-log", "/no/such/folder/log"]);
    assert!(
        said.starts_with("error: cannot write the access log /no/such/folder/log: "),
        "{said}"
    );
}
