//! The simulation's picture.

mod common;

use std::fs;

use common::{scratch, simulate, stderr, workspace};

/// All texts of a picture, which must be well-formed.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("is XML");
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    let nodes = root.descendants().filter(|node| node.has_tag_name("text"));
    nodes
        .filter_map(|node| node.text())
        .map(|text| text.trim().to_owned())
        .collect()
}

fn picture(name: &str, args: &[&str]) -> String {
    let file = scratch(name);
    let output = simulate(&[args, &["--svg", file.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let svg = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    svg
}

#[test]
fn the_picture_in_the_readme() {
    let svg = picture(
        "readme.svg",
        &["--limit", "10/min", "--traffic", "boundary"],
    );
    let kept = fs::read_to_string(workspace().join("docs/simulate.svg")).unwrap();
    assert!(
        svg == kept,
        "docs/simulate.svg is out of date: \
         tidegate simulate --limit 10/min --traffic boundary --svg docs/simulate.svg"
    );
    let texts = texts(&svg);
    for text in [
        "What 10/min admits of 40 requests",
        "10 requests in the 5 s before each window's end, and 10 in the 5 s after it",
        "admitted, beyond 10 in the last 60 s",
        "window of 60 s",
        "an anchored window",
        "30 admitted, 10 refused",
        "20 of 10",
        "120 s",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
    let count = |text: &str| texts.iter().filter(|found| *found == text).count();
    assert_eq!(count("most in any 60 s:"), 5);
    assert_eq!(count("10 of 10"), 3);
    // Ten diamonds in the fixed window's lane, one and nine in the token bucket's, and one in the legend; an area in
    // each lane, and what is above the limit in two.
    assert_eq!(svg.matches("<polygon ").count(), 10 + 10 + 1 + 5 + 2);
}

#[test]
fn pictures_of_any_traffic() {
    let log = workspace().join("examples/access.log");
    let log = log.to_str().unwrap();
    for (number, (limit, traffic)) in [
        ("10/min", "steady"),
        ("10/min", "burst"),
        ("1000/s", "poisson"),
        ("1/ns", "boundary"),
        ("5/day", log),
        ("5/s", log),
    ]
    .into_iter()
    .enumerate()
    {
        let args = ["--limit", limit, "--traffic", traffic];
        let svg = picture(&format!("{number}.svg"), &args);
        assert!(
            texts(&svg).iter().any(|text| text == "sliding-log"),
            "{args:?}"
        );
        // Nothing of the folders of whoever drew it.
        assert!(!svg.contains("examples"), "{args:?}");
    }
    // The last instant that can be told.
    let file = scratch("last.txt");
    fs::write(&file, format!("{}\n", u64::MAX)).unwrap();
    picture(
        "last.svg",
        &["--limit", "2/min", "--traffic", file.to_str().unwrap()],
    );
    fs::remove_file(&file).unwrap();
    // A name that is markup.
    let file = scratch("<a>&\"b.txt");
    fs::write(&file, "1\n2\n").unwrap();
    let args = ["--limit", "1/s", "--traffic", file.to_str().unwrap()];
    let svg = picture("markup.svg", &args);
    fs::remove_file(&file).unwrap();
    assert!(
        texts(&svg)
            .iter()
            .any(|text| text.contains("<a>&\"b.txt: requests"))
    );
}
