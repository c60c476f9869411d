//! The program end to end, on logs made here.

mod common;

use std::fs;

use common::{json, line, replay, replay_json, scratch, stderr, stdout, tidegate, verdict};

const LIMIT: [&str; 2] = ["--limit", "10/min"];

/// Ten requests a second before the minute and one a second after it: what windows are bad at.
#[test]
fn a_burst_at_the_boundary() {
    let log = line("192.0.2.1", "04:11:59").repeat(10) + &line("192.0.2.1", "04:12:01");
    let candidates = [
        "fixed-window",
        "fixed-window-anchored",
        "sliding-window",
        "sliding-log",
        "token-bucket",
    ]
    .map(|algorithm| format!("{algorithm} 10/min"));
    let args: Vec<&str> = candidates
        .iter()
        .flat_map(|candidate| ["--candidate", candidate])
        .collect();
    let report = replay_json(log, &args);
    let verdicts: Vec<_> = (0..5).map(|at| verdict(&report, at)).collect();
    assert_eq!(
        verdicts,
        [(11, 0, 0), (10, 1, 1), (10, 1, 1), (10, 1, 1), (10, 1, 1)]
    );
    for (candidate, verdict) in candidates
        .iter()
        .zip(report["candidates"].as_array().unwrap())
    {
        assert_eq!(verdict["policy"], candidate.as_str());
    }
}

#[test]
fn the_report_for_people() {
    let log = line("192.0.2.1", "04:11:25").repeat(1_207) + &line("192.0.2.2", "05:11:25");
    let output = replay(log, &["--limit", "5/min", "--candidate", "sliding-log 1/h"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
    assert_eq!(
        stdout(&output),
        "\
standard input: 1,208 requests from 2 clients, 2015-10-25 04:11:25 to 2015-10-25 05:11:25 UTC (1 h 0 min)

  candidate           requests  admitted  refused    share  keys  keys refused
  token-bucket 5/min     1,208         6    1,202  99.50 %     2             1
  sliding-log 1/h        1,208         2    1,206  99.83 %     2             1

Hurt most by token-bucket 5/min:
  ip         refused  of requests
  192.0.2.1    1,202        1,207

Hurt most by sliding-log 1/h:
  ip         refused  of requests
  192.0.2.1    1,206        1,207

Smallest limit per min that would have refused at most so many keys:
  algorithm                    no key  0.1 % (0 of 2)  1 % (0 of 2)
  token-bucket, burst = limit   1,207           1,207         1,207
  fixed-window                  1,207           1,207         1,207
  fixed-window-anchored         1,207           1,207         1,207
  sliding-window                1,207           1,207         1,207
  sliding-log                   1,207           1,207         1,207
"
    );
}

#[test]
fn the_report_for_programs() {
    let log = line("192.0.2.1", "04:11:25").repeat(4)
        + &line("192.0.2.2", "04:11:26").repeat(3)
        + "rubbish\n"
        + &line("192.0.2.1", "04:11:20");
    let report = replay_json(log, &["--limit", "2/min", "--burst", "1", "--top", "1"]);
    assert_eq!(report["requests"], 8);
    assert_eq!(report["unreadable"], 1);
    assert_eq!(report["unreadable_lines"][0]["line"], 8);
    assert_eq!(report["unreadable_lines"][0]["text"], "rubbish");
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["first"], "2015-10-25T04:11:20Z");
    assert_eq!(report["last"], "2015-10-25T04:11:26Z");
    assert_eq!(report["backward"]["requests"], 1);
    assert_eq!(report["backward"]["most_ns"], 6_000_000_000_u64);
    let candidate = &report["candidates"][0];
    assert_eq!(candidate["policy"], "token-bucket 2/min burst 1");
    assert_eq!(candidate["key"], "ip");
    assert_eq!(candidate["keys"], 2);
    assert_eq!(candidate["keys_refused"], 2);
    assert_eq!(candidate["refused_percent"], 75.0);
    assert_eq!(
        candidate["top"],
        serde_json::json!([{"key": "192.0.2.1", "refused": 4, "requests": 5}])
    );
    let sizes = report["sizing"]["algorithms"].as_array().unwrap();
    assert_eq!(report["sizing"]["period_ns"], 60_000_000_000_u64);
    assert_eq!(sizes.len(), 6);
    assert_eq!(sizes[0]["algorithm"], "token-bucket");
    assert_eq!(sizes[0]["limits"][0]["limit"], 5);
    // Four come at once, and the burst is one.
    assert_eq!(sizes[1]["burst"], 1);
    assert_eq!(sizes[1]["limits"][0]["limit"], serde_json::Value::Null);
    assert_eq!(sizes[1]["keys_beyond_any_limit"], 2);
}

#[test]
fn bad_usage_ends_with_2_and_says_why() {
    for (args, says) in [
        (vec![], "--limit"),
        (
            vec!["--limit", "10/fortnight"],
            "in the limit \"10/fortnight\", at byte 3: not a unit of time",
        ),
        (vec!["--limit", "0/min"], "the limit is 0"),
        (vec!["--limit", "5/min", "--burst", "0"], "--burst"),
        (
            vec!["--limit", "5/min", "--algorithm", "leaky"],
            "possible values: token-bucket, fixed-window",
        ),
        (
            vec![
                "--limit",
                "5/min",
                "--burst",
                "2",
                "--algorithm",
                "sliding-log",
            ],
            "only a token-bucket has a burst",
        ),
        (
            vec!["--limit", "9999999/min", "--algorithm", "sliding-window"],
            "counting to this limit",
        ),
        (vec!["--candidate", "5/min"], "\"5/min\" is no algorithm"),
        (
            vec!["--candidate", "token-bucket 5/min burst many"],
            "\"many\" is no burst",
        ),
        (
            vec!["--limit", "5/min", "--key", "cookie"],
            "possible values: ip, net, path, ip+path, all",
        ),
    ] {
        let output = replay(line("192.0.2.1", "04:11:25"), &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert!(
            stderr(&output).contains(says),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn bad_input_ends_with_2_and_says_why() {
    let output = tidegate()
        .args(["replay", "/no/such/file", "--limit", "5/min"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot read /no/such/file: No such file"),
        "{}",
        stderr(&output)
    );

    let folder = tidegate()
        .args(["replay", env!("CARGO_MANIFEST_DIR"), "--limit", "5/min"])
        .output()
        .unwrap();
    assert_eq!(folder.status.code(), Some(2));
    assert!(
        stderr(&folder).contains("is a directory"),
        "{}",
        stderr(&folder)
    );

    for (input, says) in [
        ("", "error: standard input is empty\n"),
        ("\n\r\n", "error: standard input is empty\n"),
        (
            "one\ntwo\n",
            "error: no line of standard input is Common or Combined Log Format:
  line 1: no time in brackets: one
  line 2: no time in brackets: two\n",
        ),
        (
            "{\"time\":1}\n",
            "error: no line of standard input is Common or Combined Log Format:
  line 1: no time in brackets: {\"time\":1}
It looks like JSON: try --format json-lines.\n",
        ),
    ] {
        let output = replay(input, &LIMIT);
        assert_eq!(output.status.code(), Some(2), "{input:?}");
        assert_eq!(stdout(&output), "", "{input:?}");
        assert_eq!(stderr(&output), says, "{input:?}");
    }
}

#[test]
fn unreadable_lines_are_counted_and_shown() {
    let mut log = Vec::new();
    for number in 0..9 {
        log.extend(line("192.0.2.1", "04:11:25").bytes());
        log.extend(format!("rubbish {number} \u{1b}[31m\n").bytes());
    }
    log.extend(b"\n\n");
    let output = replay(&log, &LIMIT);
    let text = stdout(&output);
    assert!(
        text.contains(
            "9 lines could not be read:
  line 2: no time in brackets: rubbish 0 \\u{1b}[31m
  line 4: no time in brackets: rubbish 1 \\u{1b}[31m
  line 6: no time in brackets: rubbish 2 \\u{1b}[31m
  line 8: no time in brackets: rubbish 3 \\u{1b}[31m
  line 10: no time in brackets: rubbish 4 \\u{1b}[31m
  and 4 more\n"
        ),
        "{text}"
    );
    assert!(
        text.starts_with("standard input: 9 requests from 1 client, "),
        "{text}"
    );
}

#[test]
fn awkward_bytes() {
    let mut log = b"\xef\xbb\xbf".to_vec();
    log.extend(line("192.0.2.1", "04:11:25").replace('\n', "\r\n").bytes());
    log.extend(b"\xff\xfe\x00 - - [25/Oct/2015:04:11:25 +0000] \"\xc3\x28\" 400 0\r\n");
    // Longer than can be read, and as long as can be.
    log.extend(line(&"x".repeat(1 << 20), "04:11:25").bytes());
    let short = line("", "04:11:25").len() - 1;
    log.extend(line(&"y".repeat((1 << 20) - short), "04:11:25").bytes());
    // No line ending.
    log.extend(line("192.0.2.1", "04:11:26").trim_end().bytes());
    let report = replay_json(&log, &["--limit", "1/min", "--top", "9"]);
    assert_eq!(report["requests"], 4);
    assert_eq!(report["unreadable"], 1);
    assert_eq!(report["unreadable_lines"][0]["line"], 3);
    assert_eq!(report["unreadable_lines"][0]["why"], "longer than 1 MiB");
    assert_eq!(report["candidates"][0]["keys"], 3);
    assert_eq!(report["candidates"][0]["top"][0]["key"], "192.0.2.1");
}

#[test]
fn a_host_name_that_is_no_text() {
    let log = b"\xff\xfe - - [25/Oct/2015:04:11:25 +0000] \"GET / HTTP/1.1\" 400 0\n".repeat(3);
    let report = replay_json(&log, &["--limit", "1/min"]);
    assert_eq!(report["candidates"][0]["top"][0]["key"], "\u{fffd}\u{fffd}");
    assert_eq!(verdict(&report, 0), (1, 2, 1));
}

#[test]
fn time_zones() {
    // The same instant, four times over.
    let at = |time: &str| format!("192.0.2.1 - - [{time}] \"GET / HTTP/1.1\" 200 1\n");
    let log = at("25/Oct/2015:04:11:25 +0100")
        + &at("24/Oct/2015:22:11:25 -0500")
        + &at("25/Oct/2015:08:56:25 +0545")
        + &at("25/Oct/2015:03:11:25 +0000");
    let report = replay_json(log, &["--limit", "1/s"]);
    assert_eq!(report["first"], report["last"]);
    assert_eq!(report["first"], "2015-10-25T03:11:25Z");
    assert_eq!(report["backward"]["requests"], 0);
    assert_eq!(verdict(&report, 0), (1, 3, 1));
}

#[test]
fn keys() {
    let at = "04:11:25";
    let log = [
        line("192.0.2.1", at),
        line("192.0.2.200", at),
        line("::ffff:192.0.2.1", at),
        line("2001:db8:0:1ff::1", at),
        line("2001:0DB8:0:1ff:0::1", at).replace("/a?b=c", "/b"),
        line("2001:db8:0:100::1", at),
        line("crawler.example", at),
    ]
    .concat();
    for (key, keys, admitted) in [
        ("ip", 5, 5),
        ("net", 3, 3),
        ("path", 2, 2),
        ("ip+path", 6, 6),
        ("all", 1, 1),
    ] {
        let report = replay_json(&log, &["--limit", "1/min", "--key", key]);
        assert_eq!(report["candidates"][0]["key"], key);
        assert_eq!(report["candidates"][0]["keys"], keys, "{key}");
        assert_eq!(verdict(&report, 0).0, admitted, "{key}");
    }
    let report = replay_json(&log, &["--limit", "1/min", "--key", "net"]);
    let top = report["candidates"][0]["top"].as_array().unwrap();
    let names: Vec<_> = top
        .iter()
        .map(|hurt| hurt["key"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["192.0.2.0/24", "2001:db8:0:100::/56"]);
}

#[test]
fn time_that_runs_backwards_is_counted_and_earns_nothing() {
    let log = line("192.0.2.1", "04:11:59").repeat(2)
        + &line("192.0.2.2", "04:11:30")
        + &line("192.0.2.1", "04:11:00")
        + &line("192.0.2.1", "04:11:59");
    let algorithms = [
        "token-bucket",
        "fixed-window",
        "fixed-window-anchored",
        "sliding-window",
        "sliding-log",
    ];
    for algorithm in algorithms {
        let args = ["--limit", "2/min", "--algorithm", algorithm];
        let report = replay_json(&log, &args);
        assert_eq!(report["backward"]["requests"], 2);
        assert_eq!(report["backward"]["most_ns"], 59_000_000_000_u64);
        assert_eq!(verdict(&report, 0), (3, 2, 1), "{algorithm}");
    }
    let text = stdout(&replay(&log, &LIMIT));
    let says = "Time runs backwards: 2 requests are older than one before, by up to 59 s.\n";
    assert!(text.contains(says), "{text}");
}

/// The word of a token bucket of 4,095 a second wraps after 2^60 / 819 ns. A key that comes back half an hour
/// before that has been away for 16 days, whatever its word looks like.
#[test]
fn a_key_that_returns_after_a_wrap_is_fresh() {
    let away = ((1_u64 << 60) / 819) / 1_000_000_000 - 1_800;
    let mut log = String::new();
    for visit in 0..4 {
        let time = 1_000_000_000 + visit * away;
        log += &format!("{{\"time\":{time},\"ip\":\"192.0.2.1\"}}\n").repeat(5);
    }
    let args = [
        "--format",
        "json-lines",
        "--candidate",
        "token-bucket 4095/s burst 5",
    ];
    assert_eq!(verdict(&replay_json(log, &args), 0), (20, 0, 0));
}

#[test]
fn json_lines() {
    let log = "\
{\"ts\":1445742685.25,\"request\":{\"remote_ip\":\"192.0.2.1\",\"uri\":\"/a?x\"},\"status\":200}
{\"ts\":\"2015-10-25T03:11:25.5Z\",\"request\":{\"remote_ip\":\"192.0.2.1\",\"uri\":\"/a?y\"}}
{\"ts\":\"25/Oct/2015:04:11:26 +0100\",\"request\":{\"remote_ip\":\"192.0.2.1\",\"uri\":\"/b\"}}
{\"ts\":1445742686,\"request\":{\"remote_ip\":null}}
not json
";
    let fields = [
        "--format",
        "json-lines",
        "--time-field",
        "ts",
        "--key-field",
        "request.remote_ip",
        "--limit",
        "1/min",
    ];
    let report = replay_json(log, &fields);
    assert_eq!(
        (&report["requests"], &report["unreadable"]),
        (&3.into(), &2.into())
    );
    assert_eq!(report["first"], "2015-10-25T03:11:25.25Z");
    assert_eq!(verdict(&report, 0), (1, 2, 1));

    let path = ["--key", "path", "--path-field", "request.uri"];
    let report = replay_json(log, &[&fields[..], &path].concat());
    assert_eq!(verdict(&report, 0), (2, 1, 1));
    assert_eq!(report["candidates"][0]["top"][0]["key"], "/a");

    let output = replay("{\"ts\":1}\n", &fields);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "error: no line of standard input is JSON lines with these fields:
  line 1: the key field is missing, or neither text nor number: {\"ts\":1}\n"
    );
}

#[test]
fn the_plot() {
    let log = line("192.0.2.1", "04:11:25").repeat(3) + &line("192.0.2.1", "04:12:00");
    let file = scratch("plot.svg");
    let path = file.to_str().unwrap();
    let args = [
        "--limit",
        "1/min",
        "--candidate",
        "sliding-log 2/min",
        "--plot",
        path,
        "--json",
    ];
    json(&replay(&log, &args));
    let svg = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(svg.starts_with("<svg "), "{svg}");
    for text in [
        "Requests per second, by verdict",
        "token-bucket 1/min: 3 of 4 refused",
        "sliding-log 2/min: 2 of 4 refused",
        "admitted",
        "refused (on top)",
        "time on 2015-10-25 (UTC)",
        "04:11:30",
        "requests per second",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // A legend's and an area's in each of two panels.
    assert_eq!(svg.matches("#C22A12").count(), 3);

    let nowhere = replay(
        &log,
        &["--limit", "1/min", "--plot", "/no/such/folder/x.svg"],
    );
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(
        stderr(&nowhere).contains("cannot write the plot /no/such/folder/x.svg"),
        "{}",
        stderr(&nowhere)
    );
}

#[test]
fn help_has_examples() {
    let output = tidegate().args(["replay", "-h"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for text in [
        "tidegate replay access.log --limit 10/min",
        "--candidate <POLICY>",
        "Exit status:",
    ] {
        assert!(help.contains(text), "{help}");
    }
}
