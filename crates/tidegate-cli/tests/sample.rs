//! The made-up log.

mod common;

use common::{json, stdout, tidegate, workspace};

fn sample(args: &[&str]) -> String {
    let output = tidegate()
        .arg("sample")
        .args(args)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0));
    stdout(&output)
}

#[test]
fn the_example_is_the_default_sample() {
    let example = std::fs::read_to_string(workspace().join("examples/access.log")).unwrap();
    assert!(
        example == sample(&[]),
        "examples/access.log is out of date: tidegate sample > examples/access.log"
    );
    assert!(example.len() < 400_000);
}

#[test]
fn the_seed_decides() {
    let args = |seed| ["--requests", "200", "--seed", seed];
    assert_eq!(sample(&args("7")), sample(&args("7")));
    assert_ne!(sample(&args("7")), sample(&args("8")));
    assert_eq!(sample(&args("7")).lines().count(), 200);
}

#[test]
fn the_readme_command_works() {
    let output = tidegate()
        .current_dir(workspace())
        .args([
            "replay",
            "examples/access.log",
            "--limit",
            "10/min",
            "--json",
        ])
        .output()
        .expect("the program runs");
    let report = json(&output);
    assert_eq!(report["requests"], 3_000);
    assert_eq!(report["unreadable"], 0);
    assert_eq!(report["backward"]["requests"], 0);
    let candidate = &report["candidates"][0];
    assert!(candidate["keys"].as_u64() > Some(100));
    // The scraper is hurt, and nobody who looks at pages much.
    assert_eq!(candidate["top"][0]["key"], "192.0.2.200");
    assert!(candidate["keys_refused"].as_u64() < Some(10));
}
