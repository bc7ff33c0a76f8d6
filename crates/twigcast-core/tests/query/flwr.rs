//! The grammar of For-Where-Return queries as a table, and what parsing makes of it.

use twigcast_core::query::flwr::{ElementContent, ItemExpr};
use twigcast_core::query::{Dialect, Query, flwr, json};
use twigcast_core::vocabulary::{NamespaceId, Vocabulary};

use super::{parse_with, prefixes, printed};

/// Queries and their printed form; an empty second column says that it prints as it stands.
const QUERIES: &[(&str, &str)] = &[
    ("for $a in /b return $a", ""),
    ("for $a in $doc/b return $a", "for $a in /b return $a"),
    ("for $a in $msg//b return $a", "for $a in //b return $a"),
    ("for $a in $doc return $a/b", "for $a in (/) return $a/b"),
    ("for $doc in /a return $doc/b", ""),
    ("for $a in /b return $a/c", ""),
    ("for $a in /b return $a//c/@d/..", ""),
    ("for $a in /b[c = 'x']//d return $a", ""),
    ("for $a in /b | /c return $a", "for $a in /b | /c return $a"),
    ("for $a in (/b | /c)[1] return $a", ""),
    ("for $a in /b return $a[1]", ""),
    ("for $a in /b return count($a/c)", ""),
    ("for $a in /b return 'x'", ""),
    ("for $a in /b return 1 + 2", ""),
    ("for $a in /b return ()", ""),
    ("for $a in /b return (())", "for $a in /b return ()"),
    ("for $a in /b return ($a/c, $a/d)", ""),
    ("for $a in /b return ($a/c)", "for $a in /b return $a/c"),
    ("for $a in /b return (($a/c), (1, 'x'))", "for $a in /b return ($a/c, (1, 'x'))"),
    ("for $a in /b return ((($a/c, 1)), 'x')", "for $a in /b return (($a/c, 1), 'x')"),
    ("for $a in /b return ((($a/c, 1)))", "for $a in /b return ($a/c, 1)"),
    ("for $a in /b return (((concat('x', $a/c))))", "for $a in /b return concat('x', $a/c)"),
    ("for $a in /b return ((($a/c)[d = concat(1, 2)]) | $a/e)", "for $a in /b return ($a/c)[d = concat(1, 2)] | $a/e"),
    ("for $a in /b return (($a/c)[1], 2)", ""),
    ("for $a in /b return $a, for $c in /d return $c", ""),
    ("(for $a in /b return $a, /c)", "for $a in /b return $a, /c"),
    ("for $a in /b, $c in $a/d return $c", "for $a in /b for $c in $a/d return $c"),
    ("for $a in /b for $c in $a/d return $c", ""),
    ("for $a in /b let $c := $a/d return $c", ""),
    (
        "for $a in /b let $c := count($a/d), $e := 'x' return $c",
        "for $a in /b let $c := count($a/d) let $e := 'x' return $c",
    ),
    ("let $a := /b return $a", ""),
    ("let $a := 1 for $b in /c where $b/d = $a return $b", ""),
    ("for $a in /b where $a/c = 'x' return $a", ""),
    ("for $a in /b where $a/c return $a", ""),
    ("for $a in /b where $a/c = 'x' and not($a/d > 5) or $a/e return $a", ""),
    ("for $a in /b where $a/@c = /d/@e return $a", ""),
    ("for $a in /b where count($a/c[@d = $a/@d]) > 1 return $a", ""),
    ("for $a in /b order by $a/c return $a", ""),
    ("for $a in /b order by $a/c ascending return $a", "for $a in /b order by $a/c return $a"),
    ("for $a in /b order by $a/c descending return $a", ""),
    (
        "for $a in /b stable order by number($a/c) empty greatest, $a/d descending empty least return $a",
        "for $a in /b order by number($a/c) empty greatest, $a/d descending return $a",
    ),
    ("for $a in /b return if ($a/c) then $a/d else $a/e", ""),
    ("for $a in /b return if ($a/c = 1) then <x/> else ()", ""),
    ("for $a in /b return if ($a/c) then if ($a/d) then 1 else 2 else 3", ""),
    ("if (/a) then for $b in /c return $b else ()", ""),
    ("for $a in /b return for $c in $a/d return $c", ""),
    ("for $a in /b return <x>{ for $a in $a/c return $a/d }{ $a }</x>", ""),
    ("for $return in /where return $return/for", ""),
    ("for $for in /if/then/else return $for/in", ""),
    ("for $a in /b return <x/>", ""),
    ("for $a in /b return <x></x>", "for $a in /b return <x/>"),
    ("for $a in /b return <x >t</x >", "for $a in /b return <x>t</x>"),
    ("for $a in /b return <x>{ $a/c }{$a/d}</x>", "for $a in /b return <x>{ $a/c }{ $a/d }</x>"),
    ("for $a in /b return <x> { $a/c } </x>", "for $a in /b return <x>{ $a/c }</x>"),
    ("for $a in /b return <x>\n<y> t </y>\n</x>", "for $a in /b return <x><y> t </y></x>"),
    ("for $a in /b return <x>&#32;<y/></x>", ""),
    ("for $a in /b return <x> <![CDATA[]]> <y/></x>", "for $a in /b return <x>&#32; <y/></x>"),
    ("for $a in /b return <x><![CDATA[<&{]]></x>", "for $a in /b return <x>&lt;&amp;{{</x>"),
    ("for $a in /b return <x>{{ }}</x>", ""),
    ("for $a in /b return <x>&lt;&amp;&gt;&quot;&apos;&#x41;</x>", "for $a in /b return <x>&lt;&amp;&gt;\"'A</x>"),
    ("for $a in /b return <x><!-- c --><?t d?><?u?></x>", ""),
    ("for $a in /b return (<!--c-->, <?t d ?>)", ""),
    ("for $a in /b return <x> <!-- c --> </x>", "for $a in /b return <x><!-- c --></x>"),
    ("for $a in /b return <x y='1' z=\"2\"/>", "for $a in /b return <x y=\"1\" z=\"2\"/>"),
    ("for $a in /b return <x y='{ $a/@c }'/>", "for $a in /b return <x y=\"{ $a/@c }\"/>"),
    ("for $a in /b return <x y=\"a{$a/@c}b{{c}}\"/>", "for $a in /b return <x y=\"a{ $a/@c }b{{c}}\"/>"),
    ("for $a in /b return <x y=\"{ $a/c[@d = 'e'] }\"/>", ""),
    ("for $a in /b return <x y=\"{ if ($a/c) then 'd' else 'e' }\"/>", ""),
    (
        "for $a in /b return <x y='it''s' z=\"say \"\"x\"\"\"/>",
        "for $a in /b return <x y=\"it's\" z=\"say &quot;x&quot;\"/>",
    ),
    ("for $a in /b return <x y='\n\t'/>", "for $a in /b return <x y=\"  \"/>"),
    ("for $a in /b return <x y='&#10;&#9;'/>", "for $a in /b return <x y=\"&#10;&#9;\"/>"),
    ("for $a in /b return <x>{ $a/c, 'd', <y/> }</x>", ""),
    ("for $a in /b return <x>{ 1 }{ 2 }</x>", ""),
    ("<x>{ for $a in /b return $a }</x>", ""),
    ("<x y=\"{ for $a in /b return string($a) }\"/>", ""),
    ("(: note :) for $a in (: (: nested :) :) /b (::) return $a", "for $a in /b return $a"),
    ("for$a in/b return$a", "for $a in /b return $a"),
    ("for $a in /b return 'it''s'", "for $a in /b return \"it's\""),
    ("for $a in /b return \"a&lt;&#x42;\"", "for $a in /b return 'a<B'"),
    ("for $a in /b[c < 3 and d <e] return $a", "for $a in /b[c < 3 and d < e] return $a"),
    ("for $a in /b return <p:x>{ $a/p:c }</p:x>", "for $a in /b return <p:x xmlns:p=\"urn:p\">{ $a/p:c }</p:x>"),
    (
        "for $a in /b return <x xmlns:r='urn:r'>{ $a/r:c }</x>",
        "for $a in /b return <x xmlns:r=\"urn:r\">{ $a/ns1:c }</x>",
    ),
    (
        "for $a in /b return <x xmlns:p='urn:r'>{ $a/p:c }</x>",
        "for $a in /b return <x xmlns:p=\"urn:r\">{ $a/ns1:c }</x>",
    ),
    ("for $a in /b return <x p:y='1' xmlns:p='urn:r'/>", "for $a in /b return <x xmlns:p=\"urn:r\" p:y=\"1\"/>"),
    ("for $a in /b return <p:x><p:y/></p:x>", "for $a in /b return <p:x xmlns:p=\"urn:p\"><p:y/></p:x>"),
    (
        "for $a in /b return <x xmlns='urn:d'><y xmlns=''/></x>",
        "for $a in /b return <x xmlns=\"urn:d\"><y xmlns=\"\"/></x>",
    ),
    ("for $a in /b return <x xml:lang='en'/>", "for $a in /b return <x xml:lang=\"en\"/>"),
];

fn flwr_of(text: &str, vocabulary: &mut Vocabulary) -> flwr::FlwrQuery {
    match parse_with(text, &prefixes(), Dialect::XPath, vocabulary) {
        Ok(Query::Flwr(query)) => query,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn queries_mean_what_the_table_says_and_read_back() {
    for &(text, expected) in QUERIES {
        let mut vocabulary = Vocabulary::new();
        let query = Query::Flwr(flwr_of(text, &mut vocabulary));
        let text_again = printed(&query, &vocabulary);
        assert_eq!(text_again.text, if expected.is_empty() { text } else { expected });
        let reread = parse_with(&text_again.text, &text_again.namespaces, Dialect::XPath, &mut vocabulary);
        assert_eq!(reread, Ok(query), "{text} read back from {}", text_again.text);
    }
}

#[test]
fn a_default_namespace_reaches_constructors_and_paths_inside() {
    let namespaces = [(String::new(), "urn:d".to_owned())].into();
    let mut vocabulary = Vocabulary::new();
    let query =
        parse_with("for $a in /b return <x>{ $a/@c }</x>", &namespaces, Dialect::XPath, &mut vocabulary).unwrap();
    assert_eq!(printed(&query, &vocabulary).text, "for $a in /ns1:b return <x xmlns=\"urn:d\">{ $a/@c }</x>");
    let query = flwr_of("for $a in /b return <x xmlns='urn:d'><y>{ $a/c }</y></x>", &mut vocabulary);
    let ItemExpr::Flwr(flwr) = &query.body else { panic!() };
    let ItemExpr::Element(element) = &flwr.result else { panic!() };
    assert_eq!(vocabulary.namespace_uri(element.name.namespace), "urn:d");
    let [ElementContent::Constructor(ItemExpr::Element(inner))] = &element.content[..] else { panic!() };
    assert_eq!(vocabulary.namespace_uri(inner.name.namespace), "urn:d");
    assert!(inner.declarations.is_empty());
    assert_eq!(
        printed(&Query::Flwr(query.clone()), &vocabulary).text,
        "for $a in /b return <x xmlns=\"urn:d\"><y>{ $a/ns1:c }</y></x>"
    );
}

#[test]
fn an_element_in_no_namespace_undeclares_the_default() {
    let mut vocabulary = Vocabulary::new();
    let query = flwr_of("for $a in /b return <p:x xmlns=''><y/></p:x>", &mut vocabulary);
    let ItemExpr::Flwr(flwr) = &query.body else { panic!() };
    let ItemExpr::Element(element) = &flwr.result else { panic!() };
    let [ElementContent::Constructor(ItemExpr::Element(inner))] = &element.content[..] else { panic!() };
    assert_eq!(inner.name.namespace, NamespaceId::NONE);
    assert!(inner.declarations.is_empty());
}

#[test]
fn variables_are_numbered_in_order_of_declaration() {
    let mut vocabulary = Vocabulary::new();
    let query =
        flwr_of("for $a in /b, $c in $a/d let $n := 1 return <x>{ for $a in $c/e return $a }</x>", &mut vocabulary);
    let names: Vec<&str> = query.variables.iter().map(|variable| &*variable.name).collect();
    assert_eq!(names, ["a", "c", "n", "a"]);
    assert_eq!(query.outermost().len(), 1);
}

#[test]
fn json_tells_everything() {
    let mut vocabulary = Vocabulary::new();
    let query = Query::Flwr(flwr_of(
        "for $a in /b where $a order by $a descending return if ($a) then <p:x y='1{$a}'>t{$a}<!--c--><?d e?></p:x> else ()",
        &mut vocabulary,
    ));
    let variable = r#"{"kind":"path","start":{"kind":"variable","name":"a","id":0},"steps":[]}"#;
    let expected = [
        r#"{"kind":"flwr-query","body":{"kind":"flwr","clauses":[{"kind":"for","name":"a","id":0,"position":null,"source":"#,
        r#"{"kind":"path","start":{"kind":"root"},"steps":[{"axis":"child","#,
        r#""test":{"kind":"name","namespace":"","local":"b"},"predicates":[]}]}}],"where":"#,
        variable,
        r#","grouping":null,"order":[{"key":"#,
        variable,
        r#","descending":true,"empty_greatest":false}],"return":{"kind":"if","condition":"#,
        variable,
        r#","then":{"kind":"element","qname":"p:x","namespace":"urn:p","local":"x","#,
        r#""declarations":[{"prefix":"p","uri":"urn:p"}],"attributes":[{"kind":"attribute","qname":"y","#,
        r#""namespace":"","local":"y","value":[{"kind":"text","value":"1"},{"kind":"enclosed","item":"#,
        variable,
        r#"}]}],"content":[{"kind":"text","value":"t"},{"kind":"enclosed","item":"#,
        variable,
        r#"},{"kind":"comment-constructor","value":"c"},"#,
        r#"{"kind":"processing-instruction-constructor","target":"d","data":"e"}]},"#,
        r#""else":{"kind":"sequence","items":[]}}}}"#,
    ]
    .concat();
    assert_eq!(json::query(&query, &vocabulary), expected);
}
