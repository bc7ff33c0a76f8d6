//! Namespace nodes. The other axes are in the corpus.

use super::check;

#[test]
fn namespace_nodes() {
    let xml = r#"<r xmlns="urn:d" xmlns:o="urn:one"><a xmlns=""/><b xmlns:o="urn:two"/></r>"#;
    check(
        xml,
        &[
            ("/*/namespace::*", "->urn:d o->urn:one xml->http://www.w3.org/XML/1998/namespace"),
            ("count(//a/namespace::*)", "2"),
            ("string(//*[2]/namespace::o)", "urn:two"),
            ("count(//namespace::o)", "3"),
            ("name(/*/namespace::*[2])", "o"),
            ("namespace-uri(/*/namespace::*[2])", ""),
            ("count(//namespace::*[. = 'urn:one'])", "2"),
            ("//namespace::o/..", "r a b"),
        ],
    );
}
