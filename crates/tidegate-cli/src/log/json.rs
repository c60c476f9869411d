//! JSON lines: one object a line, of which two or three fields matter.

use core::fmt;
use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Record, Unreadable, path_of, time};

/// Which fields matter, and room for their texts.
///
/// `a.b` names the field `b` of the object `a`, unless there is a field that is called `a.b`.
#[derive(Debug)]
pub(crate) struct Fields {
    time: String,
    key: String,
    path: Option<String>,
    key_text: String,
    path_text: String,
}

impl Fields {
    /// The names of the fields; without one for the path there is none.
    pub(crate) fn new(time: String, key: String, path: Option<String>) -> Self {
        Self {
            time,
            key,
            path,
            key_text: String::new(),
            path_text: String::new(),
        }
    }

    /// Reads one line.
    pub(crate) fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Record<'a>, Unreadable> {
        // Names may hold bytes that are no text; what the program needs from the line must be text.
        let line = core::str::from_utf8(line).map_err(|_| Unreadable::NotJson)?;
        let path = self.path.as_deref().unwrap_or_default();
        let found = lookup(line, [&self.time, &self.key, path]).ok_or(Unreadable::NotJson)?;
        let [time, key, path] = found;

        let time = time.ok_or(Unreadable::NoTimeField)?.get();
        let time = if time.starts_with('"') {
            let text: Cow<'_, str> = text(time).ok_or(Unreadable::BadTime)?;
            time::parse_text(&text)
        } else {
            time::parse_number(time)
        };
        let time = time.ok_or(Unreadable::BadTime)?;

        self.key_text.clear();
        let key = key.ok_or(Unreadable::NoKeyField)?.get();
        if key.starts_with('"') {
            self.key_text += &text(key).ok_or(Unreadable::NoKeyField)?;
        } else if key.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            self.key_text += key;
        } else {
            return Err(Unreadable::NoKeyField);
        }

        self.path_text.clear();
        if self.path.is_some() {
            let path = path.ok_or(Unreadable::NoPathField)?.get();
            self.path_text += &text(path).ok_or(Unreadable::NoPathField)?;
        }
        Ok(Record {
            time,
            client: self.key_text.as_bytes(),
            path: path_of(self.path_text.as_bytes()),
        })
    }
}

/// A JSON string's text, copied only if it has escapes.
fn text(raw: &str) -> Option<Cow<'_, str>> {
    if let Ok(plain) = serde_json::from_str::<&str>(raw) {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// The raw values of the named fields; `None` if the line is not a JSON object.
fn lookup<'a>(line: &'a str, names: [&str; 3]) -> Option<[Option<&'a RawValue>; 3]> {
    let Object(fields) = serde_json::from_str(line).ok()?;
    // The last of several fields with the same name counts, as in most parsers.
    let direct = |name: &str| {
        let named = fields.iter().rev().find(|(field, _)| field == name);
        named.map(|(_, raw)| *raw)
    };
    let nested = |name: &str| {
        let (outer, inner) = name.split_once('.')?;
        let outer = direct(outer)?.get();
        lookup(outer, [inner, "", ""])?[0]
    };
    Some(names.map(|name| direct(name).or_else(|| nested(name))))
}

/// The fields of an object, unread.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::with_capacity(16);
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// A field's name, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        fields: [&str; 2],
        path: Option<&str>,
        line: &str,
    ) -> Result<(u64, String, String), Unreadable> {
        let [time, key] = fields.map(str::to_owned);
        Fields::new(time, key, path.map(str::to_owned))
            .parse(line.as_bytes())
            .map(|record| {
                (
                    record.time / 1_000_000_000,
                    String::from_utf8_lossy(record.client).into_owned(),
                    String::from_utf8_lossy(record.path).into_owned(),
                )
            })
    }

    #[test]
    fn readable() {
        let ok = |key: &str, path: &str| Ok((60, key.to_owned(), path.to_owned()));
        let plain = ["t", "k"];
        assert_eq!(read(plain, None, r#"{"t":60,"k":"a"}"#), ok("a", ""));
        assert_eq!(
            read(
                plain,
                None,
                r#" {"x":[{"t":1}],"t":"1970-01-01T00:01:00Z","k":7} "#
            ),
            ok("7", "")
        );
        assert_eq!(
            read(plain, None, r#"{"t":60.0,"k":"a\nb","t\u0032":1}"#),
            ok("a\nb", "")
        );
        assert_eq!(read(plain, None, r#"{"\u0074":"60","k":"é"}"#), ok("é", ""));
        assert_eq!(read(plain, None, r#"{"t":1,"t":60,"k":"a"}"#), ok("a", ""));
        assert_eq!(
            read(
                ["ts", "request.remote_ip"],
                Some("request.uri"),
                r#"{"ts":60.25,"request":{"remote_ip":"192.0.2.1","uri":"/a?b"}}"#
            ),
            ok("192.0.2.1", "/a")
        );
        assert_eq!(
            read(["a.b", "k"], None, r#"{"a.b":60,"a":{"b":5},"k":"x"}"#),
            ok("x", "")
        );
    }

    #[test]
    fn unreadable() {
        for (line, why) in [
            ("", Unreadable::NotJson),
            ("[1]", Unreadable::NotJson),
            ("{\"t\":60,\"k\":\"a\"", Unreadable::NotJson),
            ("{\"t\":60,\"k\":\"a\"} x", Unreadable::NotJson),
            ("{\"k\":\"a\"}", Unreadable::NoTimeField),
            ("{\"t\":null,\"k\":\"a\"}", Unreadable::BadTime),
            ("{\"t\":-5,\"k\":\"a\"}", Unreadable::BadTime),
            ("{\"t\":\"now\",\"k\":\"a\"}", Unreadable::BadTime),
            ("{\"t\":60}", Unreadable::NoKeyField),
            ("{\"t\":60,\"k\":null}", Unreadable::NoKeyField),
            ("{\"t\":60,\"k\":[1]}", Unreadable::NoKeyField),
        ] {
            assert_eq!(read(["t", "k"], None, line), Err(why), "{line}");
        }
        let path = Some("p");
        assert_eq!(
            read(["t", "k"], path, r#"{"t":60,"k":1}"#),
            Err(Unreadable::NoPathField)
        );
        assert_eq!(
            read(["t", "k"], path, r#"{"t":60,"k":1,"p":2}"#),
            Err(Unreadable::NoPathField)
        );
        let mut fields = Fields::new("t".to_owned(), "k".to_owned(), None);
        assert_eq!(
            fields.parse(b"{\"t\":60,\"k\":\"\xff\"}"),
            Err(Unreadable::NotJson)
        );
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        let line = format!("{{\"t\":60,\"k\":1,\"x\":{}", "[".repeat(500_000));
        assert_eq!(read(["t", "k"], None, &line), Err(Unreadable::NotJson));
    }
}
