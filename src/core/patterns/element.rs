//! A pattern list taken apart: elements, their form, and the `:own` behind them.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    pub form: Form,
    /// `:own` stood behind it: no two ranks share such a file.
    pub own: bool,
    /// As written, without `:own`.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// `ckpt/step_{id}/*`: the whole path has to match.
    Glob(String),
    /// `re:ckpt/step_(?<id>\d+)/.*`: the whole path has to match.
    Regex(String),
    /// `0-N:regex`, the form of the 2013 interposer: the expression may match anywhere in the
    /// absolute path, on these ranks only.
    Classic {
        first: u64,
        /// `None` for `N`.
        last: Option<u64>,
        regex: String,
    },
}

/// Takes a list apart. `token` separates elements in the classic form. The error is a sentence that
/// names the element.
pub fn split(list: &str, token: &str) -> Result<Vec<Element>, String> {
    let classic = classic(list.trim())?.is_some();
    let parts: Vec<&str> = match token {
        "" | "," => split_at_commas(list),
        token if classic => list.split(token).collect(),
        _ => split_at_commas(list),
    };
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| element(part, classic)).collect()
}

fn element(part: &str, in_classic_list: bool) -> Result<Element, String> {
    let (text, own) = match part.strip_suffix(":own") {
        Some(text) => (text.trim_end(), true),
        None => (part, false),
    };
    if text.is_empty() {
        return Err(format!("'{part}' is no pattern"));
    }
    let form = if in_classic_list {
        classic(text)?.ok_or_else(|| {
            format!("'{text}' is not of the form 0-N:regex, as the list's first element is")
        })?
    } else if let Some(regex) = text.strip_prefix("re:") {
        Form::Regex(regex.to_string())
    } else {
        Form::Glob(text.to_string())
    };
    Ok(Element { form, own, text: text.to_string() })
}

/// Reads `0-N:regex`, `0-7:regex` or `3:regex`; `Ok(None)` for anything else.
fn classic(text: &str) -> Result<Option<Form>, String> {
    let Some((range, regex)) = text.split_once(':') else { return Ok(None) };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    if !digits(first) || !(digits(last) || last == "N") {
        return Ok(None);
    }
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| format!("'{range}' is not a range of ranks"));
    let first = number(first)?;
    let last = if last == "N" { None } else { Some(number(last)?) };
    if last.is_some_and(|last| last < first) {
        return Err(format!("'{range}' is not a range of ranks: it ends before it begins"));
    }
    Ok(Some(Form::Classic { first, last, regex: regex.to_string() }))
}

/// Splits at commas outside braces; a backslash takes the meaning from the next character.
fn split_at_commas(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut depth, mut escaped) = (0, 0usize, false);
    for (index, byte) in list.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&list[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &str) -> Vec<(String, bool)> {
        let elements = split(list, ",").expect(list);
        elements.into_iter().map(|element| (element.text, element.own)).collect()
    }

    #[test]
    fn commas_separate_outside_braces_only() {
        let list = "a/{id}/*, b_{x,y}.dat:own ,, re:c_\\d{1,3}\\,z,d\\,e";
        let expected = [
            ("a/{id}/*", false),
            ("b_{x,y}.dat", true),
            ("re:c_\\d{1,3}\\,z", false),
            ("d\\,e", false),
        ];
        assert_eq!(texts(list), expected.map(|(text, own)| (text.to_string(), own)));
    }

    #[test]
    fn re_takes_the_rest_of_its_element() {
        let elements = split("re:a:b_(?<id>\\d+):own", ",").expect("a list");
        assert_eq!(elements[0].form, Form::Regex("a:b_(?<id>\\d+)".to_string()));
        assert!(elements[0].own);
    }

    #[test]
    fn the_classic_form_has_ranks_and_its_own_separator() {
        let elements = split("0-N:ckpt.*;3:head,er;1-2:x", ";").expect("a list");
        let ranks: Vec<_> = elements
            .iter()
            .map(|element| match &element.form {
                Form::Classic { first, last, regex } => (*first, *last, regex.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [(0, None, "ckpt.*"), (3, Some(3), "head,er"), (1, Some(2), "x")];
        assert_eq!(ranks, expected);
        assert!(matches!(
            &split("0-N:a,1:b", ",").expect("a list")[1].form,
            Form::Classic { first: 1, .. }
        ));
        // The separator is of the classic form only.
        assert_eq!(split("a;b,c", ";").expect("a list").len(), 2);
    }

    #[test]
    fn malformed_lists_are_named() {
        for (list, part) in [
            (":own", "no pattern"),
            ("7-3:x", "ends before"),
            ("0-N:x, plain", "'plain'"),
            ("0-99999999999999999999999:x", "range"),
        ] {
            let message = split(list, ",").expect_err(list);
            assert!(message.contains(part), "{message}");
        }
    }
}
