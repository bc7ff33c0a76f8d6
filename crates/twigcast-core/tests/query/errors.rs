//! What the parser would have accepted where a query is refused. How queries are refused is in the corpus.

use twigcast_core::query::Dialect;
use twigcast_core::vocabulary::Vocabulary;

use super::try_xpath;

#[test]
fn what_was_expected_is_listed() {
    let error = try_xpath("/a[b", Dialect::XPath, &mut Vocabulary::new()).unwrap_err();
    assert_eq!(error.expected, ["]"]);
    let error = try_xpath("/a/", Dialect::XPath, &mut Vocabulary::new()).unwrap_err();
    assert!(error.expected.contains(&"a name".to_owned()));
}
