//! On the log of a real web site, where it is at hand: exact numbers, worked out independently.

mod common;

use common::{json, tidegate, verdict, workspace};
use serde_json::Value;

/// A replay of the log; `None` if it is not here.
fn replay(args: &[&str]) -> Option<Value> {
    let log = workspace().join("../shared/data/web-access.log");
    if !log.exists() {
        println!("skipped: there is no {}", log.display());
        return None;
    }
    let output = tidegate()
        .arg("replay")
        .arg(log)
        .args(args)
        .arg("--json")
        .output()
        .expect("the program runs");
    Some(json(&output))
}

#[test]
fn verdicts_are_exact() {
    let Some(report) = replay(&[
        "--limit",
        "10/min",
        "--burst",
        "5",
        "--candidate",
        "token-bucket 3/10s",
        "--candidate",
        "fixed-window 5/min",
        "--candidate",
        "fixed-window-anchored 5/min",
        "--candidate",
        "sliding-window 5/min",
        "--candidate",
        "sliding-log 5/min",
    ]) else {
        return;
    };
    assert_eq!(report["requests"], 3_456);
    assert_eq!(report["unreadable"], 0);
    assert_eq!(report["candidates"][0]["keys"], 520);
    let verdicts: Vec<_> = (0..6).map(|at| verdict(&report, at)).collect();
    assert_eq!(
        verdicts,
        [
            (3_353, 103, 62),
            (2_904, 552, 243),
            (3_166, 290, 193),
            (3_116, 340, 224),
            (3_118, 338, 224),
            (3_116, 340, 224),
        ]
    );
    let first = &report["candidates"][0];
    assert_eq!(first["policy"], "token-bucket 10/min burst 5");
    assert_eq!(first["top"][0]["key"], "198.18.36.189");
    assert_eq!(first["top"][0]["refused"], 11);
}

/// Every limit that the sizing names refuses as many keys as it says, and one less refuses too many.
#[test]
fn sizing_is_exact() {
    let Some(report) = replay(&["--limit", "10/min", "--burst", "5"]) else {
        return;
    };
    let number = |value: &Value| value.as_u64().expect("is a number");
    let mut checked = 0;
    for size in report["sizing"]["algorithms"]
        .as_array()
        .expect("is a list")
    {
        for goal in size["limits"].as_array().expect("is a list") {
            let refused = |limit: u64| {
                let policy = format!("{} {limit}/min", size["algorithm"].as_str().unwrap());
                let policy = match size["burst"].as_u64() {
                    Some(burst) => format!("{policy} burst {burst}"),
                    None => policy,
                };
                let report = replay(&["--candidate", &policy]).expect("was there a moment ago");
                verdict(&report, 0).2
            };
            let limit = number(&goal["limit"]);
            assert_eq!(refused(limit), number(&goal["keys_refused"]), "{size}");
            assert!(refused(limit - 1) > number(&goal["keys_at_most"]), "{size}");
            checked += 1;
        }
    }
    assert_eq!(checked, 6 * 3);
}
