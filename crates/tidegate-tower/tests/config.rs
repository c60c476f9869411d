//! Policies from TOML, and what is said when it is wrong.
#![cfg(feature = "config")]

mod common;

use common::{Hand, from, get, header, send, status, with};
use tidegate_tower::{ConfigReader, Extension, Key};

const WHOLE: &str = r#"
on-failure = { fallback = "100/s" }
on-full = "refuse"
headers = ["draft-07", "legacy", "details"]
ipv6-prefix = 64
proxies = { count = 1, trusted = ["10.0.0.0/8"], header = "forwarded" }

[tiers]
header = "x-api-key"
clients = { client-1 = ["one"], client-2 = ["two", "zwei"] }

[[policy]]
name = "foo"
key = ["client", "header:x-api-key"]
algorithm = "fixed-window"
routes = ["/foo"]
methods = ["GET", "HEAD"]
tiers = { client-1 = "10/min", client-2 = "20/min" }

[[policy]]
name = "bar"
key = "client"
algorithm = "sliding-log"
routes = ["/bar"]
quota = "5/min"
capacity = 100
candidate = "3/min"
give-back = "failures"
on-no-key = "admit"

[[policy]]
name = "all"
key = "everyone"
quota = "1000/s"
burst = 2000
cost = 2
monitor = true
"#;

#[tokio::test]
async fn a_whole_file() {
    let hand = Hand::new();
    let config = ConfigReader::new().parse(WHOLE).unwrap();
    let layer = config.builder().clock(hand.clock()).build().unwrap();
    for (key, limit) in [("one", 10), ("zwei", 20)] {
        let mut admitted = 0;
        for _ in 0..30 {
            let request = with(get("/foo", "192.0.2.1"), "x-api-key", key.as_bytes());
            admitted += u32::from(status(&layer, request).await == 200);
        }
        assert_eq!(admitted, limit);
    }
    let told = || with(get("/bar", "10.0.0.1"), "forwarded", b"for=192.0.2.1");
    for left in (0..5).rev() {
        let response = send(&layer, told()).await;
        assert_eq!(
            header(&response, "x-ratelimit-remaining"),
            Some(&*left.to_string())
        );
        assert_eq!(
            header(&response, "x-ratelimit-strategy"),
            Some("sliding-log")
        );
        assert_eq!(
            header(&response, "ratelimit").map(|told| told.contains("limit=5")),
            Some(true)
        );
    }
    assert_eq!(status(&layer, told()).await, 429);
    let stats = layer.stats();
    assert_eq!(stats.policy("bar").unwrap().candidate_only_refuses, 2);
    assert_eq!(stats.policy("all").unwrap().admitted, 10 + 20 + 5);
}

/// Each of these changes of the whole file is a mistake; on which line, of which field, and what is said.
#[test]
fn mistakes_name_the_line_and_the_field() {
    let mistakes = [
        (
            "on-failure = { fallback = \"100/s\" }\n",
            "\n",
            Some(1),
            None,
            "missing field `on-failure`",
        ),
        (
            "\"100/s\"",
            "\"0/s\"",
            Some(2),
            Some("fallback"),
            "limit is 0",
        ),
        (
            "\"refuse\"",
            "\"pass\"",
            Some(3),
            Some("on-full"),
            "unknown variant `pass`",
        ),
        (
            "\"legacy\"",
            "\"draft-10\"",
            Some(4),
            Some("headers"),
            "choose one",
        ),
        (
            "= 64",
            "= 129",
            Some(5),
            Some("ipv6-prefix"),
            "at most 128 bits",
        ),
        (
            "[\"10.0.0.0/8\"]",
            "[]",
            Some(6),
            Some("proxies"),
            "no network of trusted proxies",
        ),
        (
            "count = 1",
            "count = 0",
            Some(6),
            Some("proxies"),
            "0 proxies",
        ),
        (
            "10.0.0.0/8",
            "10.0.0.0/33",
            Some(6),
            Some("proxies"),
            "`10.0.0.0/33` is no network",
        ),
        (
            "\"x-api-key\"\nclients",
            "\"x api\"\nclients",
            Some(9),
            Some("header"),
            "no name of a header",
        ),
        (
            "\"zwei\"",
            "\"one\"",
            Some(10),
            Some("client-2"),
            "of the tier `client-1` already",
        ),
        (
            "client-2 = [",
            "client-3 = [",
            Some(18),
            Some("tiers"),
            "`client-2` is not one of the tiers",
        ),
        (
            "name = \"bar\"",
            "name = \"foo\"",
            Some(21),
            Some("name"),
            "another policy has the same name",
        ),
        (
            "name = \"bar\"",
            "name = \"b\\nr\"",
            Some(21),
            Some("name"),
            "printable ASCII",
        ),
        (
            "\"client\"\n",
            "\"user\"\n",
            Some(22),
            Some("key"),
            "`user` is no key",
        ),
        (
            "[\"/bar\"]",
            "[\"bar\"]",
            Some(24),
            Some("routes"),
            "`bar` is no route",
        ),
        ("\"5/min\"", "\"5/mim\"", Some(25), Some("quota"), ""),
        (
            "\"5/min\"",
            "\"5000/min\"",
            Some(25),
            Some("quota"),
            "up to 1024 permits",
        ),
        (
            "[\"GET\", ",
            "[\"G T\", ",
            Some(17),
            Some("methods"),
            "`G T` is no method",
        ),
        (
            "burst = 2000",
            "brust = 2000",
            Some(35),
            Some("brust"),
            "unknown field `brust`",
        ),
        (
            "burst = 2000",
            "burst = 0",
            Some(35),
            Some("burst"),
            "admit nothing",
        ),
        (
            "\"3/min\"",
            "\"9999/min\"",
            Some(27),
            Some("candidate"),
            "policy `bar`, candidate: the exact log is for up to 1024 permits",
        ),
        (
            "client-2 = \"20/min\"",
            "client-2 = \"18446744073709551615/min\"",
            Some(18),
            Some("tiers"),
            "policy `foo`, tier `client-2`: ",
        ),
        (
            "\"100/s\"",
            "\"18446744073709551615/d\"",
            Some(2),
            Some("on-failure"),
            "fallback when its store fails: ",
        ),
        (
            "on-full = \"refuse\"",
            "on-full = { fallback = \"18446744073709551615/d\" }",
            Some(3),
            Some("on-full"),
            "fallback when there is no room: ",
        ),
        (
            "burst = 2000",
            "capacity = 9000000000000000000",
            Some(35),
            Some("capacity"),
            "no memory for so many keys",
        ),
        (
            "burst = 2000",
            "capacity = 1000000000000000",
            Some(35),
            Some("capacity"),
            "no memory for so many keys",
        ),
        (
            "name = \"all\"",
            "name = \"\"",
            Some(32),
            Some("name"),
            "must not be empty",
        ),
        (
            "cost = 2",
            "unit = \"\u{e9}\"",
            Some(36),
            Some("unit"),
            "must be printable ASCII",
        ),
        (
            "monitor = true",
            "monitor = ",
            Some(37),
            Some("monitor"),
            "",
        ),
    ];
    for (what, instead, line, field, message) in mistakes {
        assert_eq!(WHOLE.matches(what).count(), 1, "{what}");
        let text = WHOLE.replace(what, instead);
        let read = ConfigReader::new().parse(&text);
        let error = read.and_then(|config| config.layer()).unwrap_err();
        assert!(error.to_string().contains(message), "{instead}: {error}");
        assert_eq!(
            (error.line(), error.field()),
            (line, field),
            "{instead}: {error}"
        );
    }
}

#[tokio::test]
async fn extractors_of_the_program_and_reloading() {
    #[derive(Clone)]
    struct User(u64);
    let hand = Hand::new();
    let reader =
        ConfigReader::new().extractor("user", Extension::new(|user: &User| Key::Number(user.0)));
    let text =
        "on-failure = \"admit\"\n[[policy]]\nname = \"a\"\nkey = \"user\"\nquota = \"2/min\"\n";
    let layer = reader
        .parse(text)
        .unwrap()
        .builder()
        .clock(hand.clock())
        .build()
        .unwrap();
    let request = || {
        let mut request = from("192.0.2.1");
        request.extensions_mut().insert(User(7));
        request
    };
    for expected in [200, 200, 429] {
        assert_eq!(status(&layer, request()).await, expected);
    }
    let more = reader.parse(&text.replace("2/min", "3/min")).unwrap();
    more.reload(&layer).unwrap();
    for expected in [200, 429] {
        assert_eq!(status(&layer, request()).await, expected);
    }
}

/// A store elsewhere that cannot be had is a mistake in the file.
#[test]
fn a_store_elsewhere_that_cannot_be() {
    let config = ConfigReader::new().parse(WHOLE).unwrap();
    let failing = config.builder().stores(|request| match request.policy() {
        "bar" => Err("out of reach".into()),
        _ => Ok(None),
    });
    let error = config.locate(&failing.build().unwrap_err());
    assert_eq!(error.field(), Some("quota"));
    let line = WHOLE.lines().nth(error.line().unwrap() - 1).unwrap();
    assert!(line.starts_with("quota = ") && error.to_string().ends_with(": out of reach"));
}

#[test]
fn files() {
    let directory = std::env::temp_dir().join(format!("tidegate-tower-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("limits.toml");
    std::fs::write(&path, "on-failure = \"admit\"\n[[policy]]\nname = 7\n").unwrap();
    let wrong = ConfigReader::new().read(&path).unwrap_err().to_string();
    let begins = format!("{}: line 3, field `name`: ", path.display());
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(wrong.starts_with(&begins), "{wrong}");
    let missing = ConfigReader::new().read(&path).unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with(&format!("{}: ", path.display()))
    );
    assert_eq!(missing.line(), None);
}
