//! The simulation end to end.

mod common;

use std::io::Write;
use std::process::{Output, Stdio};

use common::{json, line, simulate, stderr, stdout, tidegate, workspace};
use serde_json::Value;

const LIMIT: [&str; 2] = ["--limit", "10/min"];

/// Feeds `input` to `--traffic -`.
fn simulate_input(input: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let mut child = tidegate()
        .args(["simulate", "--traffic", "-"])
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

/// A lane's verdicts as a text of `+` and `-`, and the most admissions in a period.
fn lane<'a>(report: &'a Value, algorithm: &str) -> (String, u64, &'a Value) {
    let lanes = report["lanes"].as_array().expect("is a list");
    let lane = lanes.iter().find(|lane| lane["algorithm"] == algorithm);
    let lane = lane.expect("there is such a lane");
    let verdicts = lane["verdicts"].as_array().expect("is a list").iter();
    let text = verdicts.map(|verdict| match verdict.as_bool() {
        Some(true) => '+',
        _ => '-',
    });
    let most = lane["most_in_a_period"].as_u64().expect("is a number");
    (text.collect(), most, lane)
}

/// 10/min, and ten requests at 55.0, 55.5 .. 59.5 s, ten at 60.0 .. 64.5, and the same a minute later.
///
/// - `fixed-window`: the ten before 60 s fill the first window, the ten after it the second, which leaves nothing
///   for those before 120 s; the ten after it fill the third. From 55.0 to 64.5 s there are 20.
/// - `fixed-window-anchored`: the first window is from 55 to 115 s, the next from 115 to 175: the first ten of each.
/// - `sliding-log`: the ten before 60 s; the next comes when the first is a minute old, at 115 s, and so on: again ten.
/// - `sliding-window`: ten. After 60 s, they weigh 10 (60 - e) / 60, and one more passes only from e = 6 s on. At
///   115 + i/2 s they weigh (10 - i) / 12 in all, so that 9 pass, and the tenth not: 1/12 + 10 > 10. At 120 s
///   those nine weigh 9, and one passes; the next would from 9 (60 - e) / 60 + 2 <= 10, that is e = 6 2/3 s on.
///   In the minute up to 119.0 s there are 59.5 s and nine, which is the most again.
/// - `token-bucket`: a token every 6 s. It is full at 55 s, and has 10 - 10 + 4.5/6 = 0.75 left at 59.5 s, so that
///   there is one at 61.0 s, the third of the next ten, and none at 64.5 s. By 115 s there are 54/6 = 9, and the
///   tenth request, at 119.5 s, finds 9 - 9 + 4.5/6 = 0.75. At 121 s there is one. Up to 61.0 s, there are 11 in
///   a minute; from 115 s on, one goes for each that comes.
#[test]
fn the_boundary() {
    let report = json(&simulate(&[&LIMIT[..], &["--json"]].concat()));
    assert_eq!(report["limit"], 10);
    assert_eq!(report["period_ns"], 60_000_000_000_u64);
    let times = report["times_ns"].as_array().unwrap();
    let half = 500_000_000_u64;
    let wanted = (110..130).chain(230..250).map(|at| at * half);
    assert!(times.iter().map(|time| time.as_u64().unwrap()).eq(wanted));

    let (all, none) = ("++++++++++", "----------");
    let one_third = "--+-------";
    let but_the_last = "+++++++++-";
    for (algorithm, verdicts, most, most_at) in [
        (
            "token-bucket",
            [all, one_third, but_the_last, one_third],
            11,
            122,
        ),
        ("fixed-window", [all, all, none, all], 20, 129),
        ("fixed-window-anchored", [all, none, all, none], 10, 119),
        (
            "sliding-window",
            [all, none, but_the_last, "+---------"],
            10,
            119,
        ),
        ("sliding-log", [all, none, all, none], 10, 119),
    ] {
        let (text, found, lane) = lane(&report, algorithm);
        assert_eq!(text, verdicts.concat(), "{algorithm}");
        assert_eq!(found, most, "{algorithm}");
        assert_eq!(lane["most_at_ns"], most_at * half, "{algorithm}");
        let admitted = text.matches('+').count();
        assert_eq!(lane["admitted"], admitted, "{algorithm}");
        assert_eq!(lane["refused"], 40 - admitted, "{algorithm}");
    }
}

#[test]
fn lanes_in_the_terminal() {
    let args = ["--width", "60", "--algorithm", "sliding-log"];
    let also = ["--algorithm", "fixed-window"];
    let output = simulate(&[&LIMIT[..], &args, &also].concat());
    assert_eq!(stderr(&output), "");
    assert_eq!(
        stdout(&output),
        "\
What 10/min admits of 40 requests
10 requests in the 5 s before each window's end, and 10 in the 5 s after it
● admitted   ◆ admitted, beyond 10 in the last 60 s
○ refused   │ a window begins

fixed-window 10/min   30 admitted, 10 refused
most in any 60 s: 20 of 10
         │                │◆               │●
         │               ●│◆              ○│●
         │               ●│◆              ○│●
         │               ●│◆              ○│●
         │               ●│◆              ○│●
         │              ●●│◆             ○○│●
         │              ●●│◆◆            ○○│●●
requests │              ●●│◆◆            ○○│●●
 over 10 │                │▆██████████████▅│
 in 60 s │              ▂█│████████████████│████████████████

sliding-log 10/min   20 admitted, 20 refused
most in any 60 s: 10 of 10
         │                │○               │○
         │               ●│○              ●│○
         │               ●│○              ●│○
         │               ●│○              ●│○
         │               ●│○              ●│○
         │              ●●│○             ●●│○
         │              ●●│○○            ●●│○○
requests │              ●●│○○            ●●│○○
 in 60 s │              ▂█│████████████████│███████████████▅
         0 s              60 s             120 s
"
    );
    let ascii = simulate(&[&LIMIT[..], &args, &also, &["--ascii"]].concat());
    assert!(stdout(&ascii).is_ascii());
    for text in [
        " over 10 |                |*@@@@@@@@@@@@@@+|\n",
        "requests |              ##|!!            oo|##\n",
    ] {
        assert!(stdout(&ascii).contains(text), "{text}");
    }
}

#[test]
fn lanes_fit_the_width() {
    for width in [40, 57, 80, 200] {
        for limit in ["10/min", "3/s", "500/s", "100/day"] {
            for traffic in ["boundary", "steady", "burst", "poisson"] {
                let text = width.to_string();
                let args = ["--limit", limit, "--traffic", traffic, "--width", &text];
                let output = stdout(&simulate(&args));
                // The first two lines are sentences.
                for line in output.lines().skip(2) {
                    assert!(line.chars().count() <= width, "{args:?}: {line}");
                    assert_eq!(line.trim_end(), line, "{args:?}");
                }
                assert!(output.contains("sliding-log"), "{args:?}");
            }
        }
    }
}

#[test]
fn traffic_that_the_options_shape() {
    let times = |args: &[&str]| -> Vec<f64> {
        let report = json(&simulate(&[&LIMIT[..], args, &["--json"]].concat()));
        let times = report["times_ns"].as_array().unwrap();
        times
            .iter()
            .map(|time| time.as_f64().unwrap() / 1e9)
            .collect()
    };
    assert_eq!(
        times(&[
            "--traffic",
            "steady",
            "--rate",
            "6/min",
            "--duration",
            "25s"
        ]),
        [0.0, 10.0, 20.0]
    );
    assert_eq!(
        times(&["--traffic", "steady", "--requests", "2"]),
        [0.0, 4.0]
    );
    assert_eq!(
        times(&["--requests", "1", "--duration", "2min"]),
        [55.0, 60.0]
    );
    assert_eq!(
        times(&["--traffic", "burst", "--rate", "1/min", "--requests", "2"]),
        [0.0, 60.0, 75.0, 77.5, 120.0]
    );
}

#[test]
fn poisson_is_reproducible() {
    let run = |seed: &[&str]| {
        let args = [&LIMIT[..], &["--traffic", "poisson", "--csv"], seed].concat();
        stdout(&simulate(&args))
    };
    assert_eq!(run(&[]), run(&["--seed", "1"]));
    assert_ne!(run(&[]), run(&["--seed", "2"]));
    assert!(run(&[]).starts_with(
        "seconds,token-bucket,fixed-window,fixed-window-anchored,sliding-window,sliding-log\n"
    ));
}

#[test]
fn a_burst_for_the_token_bucket_alone() {
    let args = ["--burst", "3", "--json"];
    let report = json(&simulate(&[&LIMIT[..], &args].concat()));
    let (verdicts, _, bucket) = lane(&report, "token-bucket");
    assert_eq!(bucket["policy"], "token-bucket 10/min burst 3");
    // The next token comes at 61 s, six after the first was taken.
    assert_eq!(verdicts[..20], *"+++---------+-------");
    assert_eq!(lane(&report, "fixed-window").1, 20);
}

#[test]
fn times_from_a_file() {
    let output = simulate_input(
        "# begun at noon\r\n0\r\n0.5\n\n 1.25\n1e0\n",
        &["--limit", "2/s", "--algorithm", "sliding-log", "--csv"],
    );
    assert_eq!(
        stderr(&output),
        "Time runs backwards in standard input: 1 request is older than the one before. \
         They are taken in order of time.\n"
    );
    assert_eq!(
        stdout(&output),
        "seconds,sliding-log
0.000000000,admitted
0.500000000,admitted
1.000000000,admitted
1.250000000,refused\n"
    );

    let output = simulate_input(
        "\u{feff}2015-10-25T03:11:25.5Z\nnoon\n2015-10-25T03:11:26Z\n",
        &["--limit", "1/s", "--algorithm", "fixed-window"],
    );
    assert_eq!(
        stderr(&output),
        "1 of the lines of standard input could not be read:
  line 2: the time is not one, or not between 1970 and 2554: noon\n"
    );
    let text = stdout(&output);
    for part in [
        "standard input: requests, 2015-10-25 03:11:25 to 2015-10-25 03:11:26 UTC\n",
        "fixed-window 1/s   2 admitted, 0 refused   most in any 1 s: 2 of 1\n",
        "time on 2015-10-25 (UTC)\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_access_log() {
    let log = line("192.0.2.1", "04:11:59").repeat(2)
        + "rubbish\n"
        + &line("192.0.2.2", "04:11:59")
        + &line("192.0.2.1", "04:12:00").repeat(2);
    let args = ["--limit", "2/min", "--json"];
    let report = json_with_notes(&simulate_input(&log, &args));
    assert_eq!(
        report["traffic"],
        "standard input: requests of 2 clients together, \
         2015-10-25 04:11:59 to 2015-10-25 04:12:00 UTC"
    );
    assert_eq!(lane(&report, "fixed-window").0, "++-++");
    assert_eq!(lane(&report, "sliding-log").0, "++---");

    let client = ["--client", "192.0.2.2"];
    let report = json_with_notes(&simulate_input(&log, &[&args[..], &client].concat()));
    assert_eq!(lane(&report, "fixed-window").0, "+");

    let first = ["--duration", "1s"];
    let report = json_with_notes(&simulate_input(&log, &[&args[..], &first].concat()));
    assert_eq!(lane(&report, "fixed-window").0, "++-");
    let about = report["traffic"].as_str().unwrap();
    assert!(about.ends_with(", the first 3 of 5"), "{about}");
}

/// Of a run that had something to say of the line `rubbish`.
fn json_with_notes(output: &Output) -> Value {
    assert_eq!(
        stderr(output),
        "1 of the lines of standard input could not be read:\n  line 3: no time in brackets: rubbish\n"
    );
    serde_json::from_slice(&output.stdout).expect("is JSON")
}

/// Replay and simulation are two ways to ask the same question.
#[test]
fn as_the_replay_says() {
    let log = workspace().join("examples/access.log");
    let log = log.to_str().unwrap();
    let client = "192.0.2.200";
    let simulated = json(&simulate(&[
        "--limit",
        "20/min",
        "--traffic",
        log,
        "--client",
        client,
        "--json",
    ]));
    for (algorithm, refused) in [
        "token-bucket",
        "fixed-window",
        "fixed-window-anchored",
        "sliding-window",
        "sliding-log",
    ]
    .map(|algorithm| (algorithm, &lane(&simulated, algorithm).2["refused"]))
    {
        let replayed = tidegate()
            .args(["replay", log, "--limit", "20/min", "--json", "--top", "1"])
            .args(["--algorithm", algorithm])
            .output()
            .unwrap();
        let top = &json(&replayed)["candidates"][0]["top"][0];
        assert_eq!(top["key"], client, "{algorithm}");
        assert_eq!(&top["refused"], refused, "{algorithm}");
    }
}

#[test]
fn bad_usage_and_bad_input_end_with_2_and_say_why() {
    for (args, says) in [
        (vec![], "--limit"),
        (
            vec!["--limit", "10/fortnight"],
            "at byte 3: not a unit of time",
        ),
        (
            vec!["--limit", "10/min", "--duration", "90x"],
            "in the time \"90x\", at byte 2: not a unit of time",
        ),
        (
            vec!["--limit", "10/min", "--traffic", "steady", "--rate", "fast"],
            "in the rate \"fast\", at byte 0: a whole number",
        ),
        (
            vec!["--limit", "10/min", "--traffic", "bursty"],
            "\"bursty\" is neither boundary, steady, burst or poisson traffic nor a file to read: No such file",
        ),
        (
            vec!["--limit", "10/min", "--traffic", env!("CARGO_MANIFEST_DIR")],
            "is a directory",
        ),
        (
            vec!["--limit", "10/min", "--rate", "5/min"],
            "boundary traffic has no --rate",
        ),
        (
            vec!["--limit", "10/min", "--seed", "5"],
            "boundary traffic is not random: --seed is for poisson traffic",
        ),
        (
            vec!["--limit", "10/min", "--client", "192.0.2.1"],
            "boundary traffic has no clients",
        ),
        (
            vec!["--limit", "10/min", "--traffic", "-", "--requests", "5"],
            "traffic from a file has its own number of requests",
        ),
        (
            vec!["--limit", "10/min", "--duration", "60s"],
            "boundary traffic needs a --duration longer than the limit's period, 60 s",
        ),
        (
            vec![
                "--limit",
                "10/min",
                "--traffic",
                "burst",
                "--duration",
                "75s",
            ],
            "the first burst comes after 75 s",
        ),
        (
            vec!["--limit", "1000000000/s", "--traffic", "steady"],
            "that would be 4,500,000,000 requests, and at most 10,000,000 are simulated",
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
        (
            vec!["--limit", "5/min", "--algorithm", "leaky"],
            "possible values: token-bucket, fixed-window",
        ),
        (
            vec!["--limit", "5/min", "--svg", "/no/such/folder/x.svg"],
            "cannot write the picture /no/such/folder/x.svg",
        ),
    ] {
        let output = simulate(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert!(
            stderr(&output).contains(says),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    for (input, client, says) in [
        ("", None, "error: standard input is empty\n"),
        (
            "one\ntwo\n",
            None,
            "error: no line of standard input is a time (seconds such as 12.5, or RFC 3339) or in Common or \
             Combined Log Format:
  line 1: no time in brackets: one
  line 2: no time in brackets: two\n",
        ),
        (
            "1.5\n",
            Some("192.0.2.1"),
            "error: standard input is a list of times, without clients: --client is for an access log\n",
        ),
        (
            &line("192.0.2.1", "04:11:59"),
            Some("192.0.2.2"),
            "error: no request in standard input is of the client \"192.0.2.2\"\n",
        ),
    ] {
        let client = client.map(|client| ["--client", client]);
        let client = client.as_ref().map_or(&[][..], |client| client);
        let output = simulate_input(input, &[&LIMIT[..], client].concat());
        assert_eq!(output.status.code(), Some(2), "{input:?}");
        assert_eq!(stderr(&output), says, "{input:?}");
    }
}

#[test]
fn what_cannot_be_shown_is_left_out_by_name() {
    let args = [
        "--limit",
        "9999999/min",
        "--traffic",
        "steady",
        "--requests",
        "5",
    ];
    let output = simulate(&args);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).starts_with("Left out: sliding-window 9999999/min: counting to this limit"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("sliding-log 9999999/min"));
    assert!(!stdout(&output).contains("sliding-window"));
}

#[test]
fn help_explains_each_traffic() {
    let output = simulate(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for text in [
        "\n  boundary  ",
        "\n  steady    ",
        "\n  burst     ",
        "\n  poisson   ",
        "\n  FILE      ",
        "tidegate simulate --limit 10/min\n",
    ] {
        assert!(help.contains(text), "{help}");
    }
}
