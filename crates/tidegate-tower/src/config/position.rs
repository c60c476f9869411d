//! Where in a text something is.

/// A line, and the field whose value begins there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) field: Option<String>,
}

impl Position {
    /// Of this byte of the text.
    pub(super) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        // A value stands after its key and an equals sign, also in an inline table.
        let field = before
            .trim_end_matches([' ', '\t'])
            .strip_suffix('=')
            .map(str::trim_end)
            .and_then(|before| before.rsplit(['\n', ',', '{', ' ', '\t']).next());
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
            let position = Position::of(text, text.find(needle).unwrap());
            (position.line, position.field)
        };
        assert_eq!(of("1"), (1, Some("a".to_owned())));
        assert_eq!(of("{"), (2, Some("b-c".to_owned())));
        assert_eq!(of("2"), (2, Some("d".to_owned())));
        assert_eq!(of("3"), (2, Some("e".to_owned())));
        assert_eq!(of("[x"), (3, None));
        assert_eq!(Position::of(text, 1_000).line, 4);
    }
}
