//! Where in a text something is.

use core::ops::Range;

/// A line, and the field whose name or value is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) field: Option<String>,
}

impl Position {
    /// Of this part of the text.
    pub(super) fn of(text: &str, span: Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let is_name = text
            .get(span.end..)
            .is_some_and(|after| after.trim_start_matches([' ', '\t']).starts_with('='));
        let field = if is_name {
            text.get(span)
        } else {
            // A value stands after its name and an equals sign, also in an inline table.
            before
                .trim_end_matches([' ', '\t'])
                .strip_suffix('=')
                .map(str::trim_end)
                .and_then(|before| before.rsplit(['\n', ',', '{', ' ', '\t']).next())
        };
        Self {
            line,
            field: field.map(|field| field.trim_matches('"').to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_fields() {
        let text = "a = 1\n  b-c =  { d = 2, \"e\"=3 }\n[x]\n";
        let of = |needle: &str| {
            let start = text.find(needle).unwrap();
            let position = Position::of(text, start..start + needle.len());
            (position.line, position.field)
        };
        assert_eq!(of("1"), (1, Some("a".to_owned())));
        assert_eq!(of("{"), (2, Some("b-c".to_owned())));
        assert_eq!(of("2"), (2, Some("d".to_owned())));
        assert_eq!(of("3"), (2, Some("e".to_owned())));
        assert_eq!(of("[x"), (3, None));
        assert_eq!(of("b-c"), (2, Some("b-c".to_owned())));
        assert_eq!(Position::of(text, 1_000..1_001).line, 4);
    }
}
