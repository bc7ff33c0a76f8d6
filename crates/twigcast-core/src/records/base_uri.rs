//! Resolving of base URIs against outer ones (RFC 3986, section 5.2).

/// The parts of a URI reference, without its fragment, which no base has.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

fn parts(reference: &str) -> Parts<'_> {
    let reference = reference.split_once('#').map_or(reference, |(before, _)| before);
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = match reference.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, reference),
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Parts { scheme, authority: Some(authority), path, query }
        }
        None => Parts { scheme, authority: None, path: rest, query },
    }
}

/// Returns what a URI reference means where `base` is the base URI.
pub fn resolve(base: &str, reference: &str) -> String {
    let (outer, inner) = (parts(base), parts(reference));
    let mut result = Parts { scheme: inner.scheme.or(outer.scheme), ..parts("") };
    let path;
    if inner.scheme.is_some() || inner.authority.is_some() {
        (result.authority, result.query) = (inner.authority, inner.query);
        path = without_dots(inner.path);
    } else {
        result.authority = outer.authority;
        result.query = if inner.path.is_empty() { inner.query.or(outer.query) } else { inner.query };
        path = if inner.path.is_empty() {
            outer.path.to_owned()
        } else if inner.path.starts_with('/') {
            without_dots(inner.path)
        } else if outer.authority.is_some() && outer.path.is_empty() {
            without_dots(&format!("/{}", inner.path))
        } else {
            let folder = outer.path.rfind('/').map_or("", |slash| &outer.path[..=slash]);
            without_dots(&format!("{folder}{}", inner.path))
        };
    }
    let scheme = result.scheme.map_or_else(String::new, |scheme| format!("{scheme}:"));
    let authority = result.authority.map_or_else(String::new, |authority| format!("//{authority}"));
    let query = result.query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{scheme}{authority}{path}{query}")
}

/// Returns a path without `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let is_rooted = path.starts_with('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    for segment in path.split('/').skip(usize::from(is_rooted)) {
        match segment {
            "." => {}
            ".." if segments.last().is_some_and(|&last| last != "..") => {
                segments.pop();
            }
            ".." if is_rooted => {}
            _ => segments.push(segment),
        }
    }
    if matches!(last, "." | "..") && segments.last().is_some_and(|last| !last.is_empty()) {
        segments.push("");
    }
    format!("{}{}", if is_rooted { "/" } else { "" }, segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::resolve;

    /// The examples of RFC 3986, section 5.4, without fragments.
    #[test]
    fn references_are_resolved_as_the_rfc_does() {
        for (reference, expected) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/../h", "http://a/b/c/h"),
        ] {
            assert_eq!(resolve("http://a/b/c/d;p?q", reference), expected, "{reference}");
        }
        assert_eq!(resolve("folder/file", "other"), "folder/other");
        assert_eq!(resolve("", "other"), "other");
        assert_eq!(resolve("http://a", "b"), "http://a/b");
    }
}
