//! Tests of the interpreter as tables of message, query and payload.

use crate::document::{Document, Message};
use crate::error::QueryError;
use crate::limits::Limits;
use crate::query::{Dialect, ParseOptions, Query, matching::matching_condition, parse};
use crate::scan::{ScanOptions, Scanner};
use crate::vocabulary::Vocabulary;

use super::{ExtractError, Interner, Interpreter, Payloads, Program};

const NAMESPACES: [(&str, &str); 3] = [("p", "urn:p"), ("q", "urn:q"), ("d", "urn:d")];

type Delivered = Result<Option<Vec<u8>>, ExtractError>;

/// Returns what programs deliver of one message.
fn all_delivered(
    message: Message<'_>,
    vocabulary: &Vocabulary,
    interner: &Interner,
    limits: &Limits,
    programs: &[&Program],
) -> Vec<Delivered> {
    let mut payloads = Payloads::default();
    let mut session = Interpreter::new(message, vocabulary, interner, limits, &mut payloads);
    let numbers: Vec<_> = programs.iter().map(|program| session.deliver(program)).collect();
    let bytes = |number: u32| payloads.get(number as usize).expect("it is finished").to_vec();
    numbers.into_iter().map(|number| number.map(|number| number.map(bytes))).collect()
}

fn delivered(xml: &str, query: &str, limits: &Limits) -> Result<Option<String>, ExtractError> {
    let mut vocabulary = Vocabulary::new();
    let options = ParseOptions::new(&NAMESPACES, Dialect::XPath, limits);
    let parsed: Result<Query, QueryError> = parse(query, &options, &mut vocabulary);
    let Ok(Query::Flwr(query)) = parsed else { panic!("{query}: {parsed:?}") };
    // Three equal programs are enough for all their parts to be shared.
    let mut interner = Interner::default();
    let programs: Vec<Program> = (0..3).map(|_| Program::compile(&query, &vocabulary, &mut interner)).collect();
    let mut own = Interner::default();
    let alone = Program::compile(&query, &vocabulary, &mut own);
    let mut document = Document::default();
    Scanner::new().scan(xml.as_bytes(), &vocabulary, limits, ScanOptions::ALL, &mut document).expect(xml);
    let message = Message { source: xml.as_bytes(), document: &document };
    let result = all_delivered(message, &vocabulary, &own, limits, &[&alone]).remove(0);
    if limits.query_visits_max == Limits::default().query_visits_max {
        for cache_bytes_max in [limits.cache_bytes_max, 0, 100, 300, 1000, 3000] {
            let limits = Limits { cache_bytes_max, ..limits.clone() };
            let programs: Vec<&Program> = programs.iter().collect();
            for shared in all_delivered(message, &vocabulary, &interner, &limits, &programs) {
                assert_eq!(shared, result, "shared, in {cache_bytes_max} bytes: {xml}");
            }
        }
    }
    if let Ok(payload) = &result {
        let mut payloads = Payloads::default();
        let mut session = Interpreter::new(message, &vocabulary, &own, limits, &mut payloads);
        assert_eq!(session.matches(&alone), Ok(payload.is_some()), "matches: {xml}");
        let condition = matching_condition(&query);
        let evaluator = crate::eval::Evaluator::new(message, &vocabulary, &[]);
        let holds = evaluator.boolean(&condition.expr, crate::eval::Context::DOCUMENT).expect("no budget");
        assert!(holds || payload.is_none(), "the condition is necessary: {xml}");
        assert!(!condition.exact || holds == payload.is_some(), "the condition is exact: {xml}");
    }
    result.map(|payload| payload.map(|bytes| String::from_utf8(bytes).expect("UTF-8")))
}

/// Returns the payload, or `-` if nothing is delivered.
fn payload(xml: &str, query: &str) -> String {
    match delivered(xml, query, &Limits::default()) {
        Ok(payload) => payload.unwrap_or_else(|| "-".to_owned()),
        Err(error) => format!("error: {error}"),
    }
}

fn check(xml: &str, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        assert_eq!(payload(xml, query), *expected, "{query}");
    }
}

const DIGEST: &str = "<digest><item id=\"1\" prio=\"high\"><head>Port</head><item id=\"2\" prio=\"low\"><head>Cranes</head>\
    <pic src=\"p1\"><cap>Quay</cap></pic></item><pic src=\"p2\"><cap>Harbour</cap></pic></item>\
    <item id=\"3\" prio=\"high\"><head>Rail</head></item></digest>";

#[test]
fn bindings_conditions_and_returned_paths() {
    check(
        DIGEST,
        &[
            (
                "for $i in //item[@prio='high'] where $i/head='Port' return <n>{ $i/head }{ $i//pic }</n>",
                "<n><head>Port</head><pic src=\"p1\"><cap>Quay</cap></pic><pic src=\"p2\"><cap>Harbour</cap></pic></n>",
            ),
            (
                "<pics>{ for $p in //item[@id<=2]//pic where $p/cap='Quay' return <pic>{ $p/cap }</pic> }</pics>",
                "<pics><pic><cap>Quay</cap></pic></pics>",
            ),
            (
                "for $i in //item return <e><k>{ $i/pic/cap }</k>{ $i/head }</e>",
                "<e><k><cap>Harbour</cap></k><head>Port</head></e><e><k><cap>Quay</cap></k><head>Cranes</head></e>\
                 <e><k/><head>Rail</head></e>",
            ),
            ("for $i in //item where $i/head='Nope' return <e>{ $i/head }</e>", "-"),
            ("<x>{ for $i in //item where $i/head='Nope' return $i }</x>", "-"),
            ("for $i in //item where $i/@id = 3 return $i/nothing", ""),
            (
                "for $i in //item//head return <h>{ $i }</h>",
                "<h><head>Port</head></h><h><head>Cranes</head></h><h><head>Rail</head></h>",
            ),
            (
                "for $i in /digest/item, $j in $i//head where $i/@id = 1 return $j",
                "<head>Port</head><head>Cranes</head>",
            ),
            (
                "for $i in //item, $j in //item where $i/@id < $j/@id return <p a='{$i/@id}' b='{$j/@id}'/>",
                "<p a=\"1\" b=\"2\"/><p a=\"1\" b=\"3\"/><p a=\"2\" b=\"3\"/>",
            ),
            ("for $i in //item let $n := count($i//cap) where $n > 1 return <n c='{$n}'/>", "<n c=\"2\"/>"),
            ("let $h := //item[@prio = 'high'] for $i in $h where $i/@id = 3 return <n>{ count($h) }</n>", "<n>2</n>"),
            (
                "for $i in //item let $s := $i/item let $c := $s/pic return <n>{ $c/cap/text() }</n>",
                "<n>Quay</n><n/><n/>",
            ),
            (
                "for $i in //item where //pic[@src = concat('p', $i/@id)] return <n>{ $i/@id }</n>",
                "<n id=\"1\"/><n id=\"2\"/>",
            ),
            (
                "for $i in //item return <n>{ //item[@id = $i/@id]/head/text() }</n>",
                "<n>Port</n><n>Cranes</n><n>Rail</n>",
            ),
            (
                "for $d in $doc return <n>{ $d/digest/item/@id }</n>",
                "error: the attribute id was selected for an element that already has it",
            ),
            ("for $d in $doc where $d//cap return count($d//item)", "3"),
        ],
    );
}

#[test]
fn order() {
    check(
        "<r><a k='b' n='10'/><a k='a' n='9'/><a n='x'/><a k='b' n='2'/><a k='a'/></r>",
        &[
            (
                "for $a in //a order by $a/@k return <i>{ $a/@* }</i>",
                "<i n='x'/><i k='a' n='9'/><i k='a'/><i k='b' n='10'/><i k='b' n='2'/>",
            ),
            (
                "for $a in //a order by $a/@k descending return <i>{ $a/@* }</i>",
                "<i k='b' n='10'/><i k='b' n='2'/><i k='a' n='9'/><i k='a'/><i n='x'/>",
            ),
            (
                "for $a in //a order by $a/@k empty greatest, number($a/@n) return <i>{ $a/@n }</i>",
                "<i/><i n='9'/><i n='2'/><i n='10'/><i n='x'/>",
            ),
            (
                "for $a in //a order by number($a/@n) return <i>{ $a/@n }</i>",
                "<i n='x'/><i/><i n='2'/><i n='9'/><i n='10'/>",
            ),
            (
                "for $a in //a order by number($a/@n) descending empty greatest return <i>{ $a/@n }</i>",
                "<i n='x'/><i/><i n='10'/><i n='9'/><i n='2'/>",
            ),
            (
                "for $a in //a where $a/@k order by $a/@n, $a/@k return <i>{ for $b in $a/@k return string($b) }</i>",
                "<i>a</i><i>b</i><i>b</i><i>a</i>",
            ),
            (
                "for $a in //a order by $a/@k = 'a' return <i>{ $a/@k }</i>",
                "<i k='b'/><i/><i k='b'/><i k='a'/><i k='a'/>",
            ),
        ],
    );
}

#[test]
fn values_and_text() {
    check(
        "<r><a>x</a><a>y &amp; z</a><b>1.50</b><c><![CDATA[<&]]></c><d>]]</d><e>&gt;</e><f>></f><g>]</g><h>]></h></r>",
        &[
            ("for $r in /r return <n>{ count($r/a) }</n>", "<n>2</n>"),
            ("for $r in /r return <n>{ 1, 'b', $r/b + 1, true() }</n>", "<n>1 b 2.5 true</n>"),
            ("for $r in /r return <n>{ 1 }{ 2 }</n>", "<n>12</n>"),
            ("for $r in /r return <n>{ 1, <m/>, 2, 3 }</n>", "<n>1<m/>2 3</n>"),
            ("for $r in /r return <n>{ 1, $r/a/text(), 2 }</n>", "<n>1xy &amp; z2</n>"),
            ("for $r in /r return <n>{ for $a in $r/a return string($a) }</n>", "<n>x y &amp; z</n>"),
            ("for $a in //a return string($a)", "x y &amp; z"),
            ("for $a in //a return $a/text()", "xy &amp; z"),
            ("for $r in /r return <n v='{ $r/a }|{ $r/b }'/>", "<n v=\"x y &amp; z|1.50\"/>"),
            ("for $r in /r return <n v='{ $r/c }'>{ $r/c/text() }</n>", "<n v=\"&lt;&amp;\"><![CDATA[<&]]></n>"),
            ("for $r in /r return <n>{ string($r/c) }</n>", "<n>&lt;&amp;</n>"),
            ("for $r in /r return <n>{ $r/d/text() }{ $r/e/text() }</n>", "<n>]]&gt;</n>"),
            ("for $r in /r return <n>{ $r/d/text() }{ $r/f/text() }</n>", "<n>]]&gt;</n>"),
            ("for $r in /r return <n>]{ $r/h/text() }</n>", "<n>]]&gt;</n>"),
            ("for $r in /r return <n>{ $r/g/text() }]{ $r/f/text() }</n>", "<n>]]&gt;</n>"),
            ("for $r in /r return <n>{ $r/d/text(), string($r/f) }</n>", "<n>]]&gt;</n>"),
            ("for $r in /r return <n>{ '' }</n>", "<n/>"),
            (
                "for $r in /r return <n>{ 1 div 0, -1 div 0, 0 div 0, 100000000000000000000 }</n>",
                "<n>Infinity -Infinity NaN 100000000000000000000</n>",
            ),
            ("for $r in /r return <n v='&#10;{ '&#13;' }'>&#13;{ '&#13;' }</n>", "<n v=\"&#10;&#13;\">&#13;&#13;</n>"),
            ("for $r in /r return if ($r/a = 'x') then <t/> else <f/>", "<t/>"),
            ("for $r in /r return if ($r/a = 'q') then <t/> else ()", ""),
            ("if (/r/q) then for $r in /r return 1 else for $a in //a return 2", "2 2"),
            ("if (/r/q) then for $r in /r return 1 else ()", "-"),
            ("(for $r in /q return 1, 2, for $a in /r return 3)", "2 3"),
            ("for $r in /r return (<!--c-->, <?t d?>, <n><!--e--></n>)", "<!--c--><?t d?><n><!--e--></n>"),
        ],
    );
}

#[test]
fn slices_are_copied_unchanged() {
    let xml = "<?xml version='1.0'?><!--0--><r><a x='&lt;\"' y = \"'&#10;\"><!-- c --><?p i?><![CDATA[<]]>&#x41;<b/></a ></r><!--9-->";
    check(
        xml,
        &[
            ("for $a in //a return $a", "<a x='&lt;\"' y = \"'&#10;\"><!-- c --><?p i?><![CDATA[<]]>&#x41;<b/></a >"),
            (
                "for $a in //a return <n>{ $a/@* }{ $a/node() }</n>",
                "<n x='&lt;\"' y=\"'&#10;\"><!-- c --><?p i?><![CDATA[<]]>&#x41;<b/></n>",
            ),
            (
                "for $d in $doc return <n>{ $d }</n>",
                "<n><!--0--><r><a x='&lt;\"' y = \"'&#10;\"><!-- c --><?p i?><![CDATA[<]]>&#x41;<b/></a ></r><!--9--></n>",
            ),
            ("for $a in //a return <n>{ $a/b, $a/b }</n>", "<n><b/><b/></n>"),
        ],
    );
}

#[test]
fn copies_declare_the_namespaces_that_they_need() {
    let xml = "<p:r xmlns:p='urn:p' xmlns:q=\"urn:q\" xmlns='urn:d'><p:a q:x='1' p:y='2'>t</p:a><b/>\
        <p:c><q:e/></p:c><f xmlns=''><g/></f><h t='q:name'>see p:a</h><i xmlns:q='urn:other'><q:j/></i></p:r>";
    check(
        xml,
        &[
            ("for $a in //p:a return $a", "<p:a xmlns:p=\"urn:p\" xmlns:q=\"urn:q\" q:x='1' p:y='2'>t</p:a>"),
            ("for $a in //d:b return $a", "<b xmlns=\"urn:d\"/>"),
            ("for $a in //d:b return <n>{ $a }</n>", "<n><b xmlns=\"urn:d\"/></n>"),
            ("for $a in //d:b return <n xmlns='urn:d'>{ $a }</n>", "<n xmlns=\"urn:d\"><b/></n>"),
            ("for $a in //d:b return <d:n>{ $a }</d:n>", "<d:n xmlns:d=\"urn:d\"><b xmlns=\"urn:d\"/></d:n>"),
            (
                "for $a in //p:c return <p:n>{ $a }</p:n>",
                "<p:n xmlns:p=\"urn:p\"><p:c xmlns:q=\"urn:q\"><q:e/></p:c></p:n>",
            ),
            ("for $a in //f return <n>{ $a/g }</n>", "<n><g/></n>"),
            ("for $a in //f return <n xmlns='urn:x'>{ $a/g }</n>", "<n xmlns=\"urn:x\"/>"),
            (
                "for $a in //f return <q:n xmlns:q='urn:x' xmlns='urn:d'>{ $a/*:g }</q:n>",
                "<q:n xmlns:q=\"urn:x\" xmlns=\"urn:d\"><g xmlns=\"\"/></q:n>",
            ),
            (
                "for $a in //d:h return $a",
                "<h xmlns=\"urn:d\" xmlns:p=\"urn:p\" xmlns:q=\"urn:q\" t='q:name'>see p:a</h>",
            ),
            ("for $a in //d:i/* return <q:n>{ $a }</q:n>", "<q:n xmlns:q=\"urn:q\"><q:j xmlns:q=\"urn:other\"/></q:n>"),
            ("for $a in //p:a return <n>{ $a/@q:x }</n>", "<n xmlns:q=\"urn:q\" q:x='1'/>"),
            ("for $a in //p:a return <q:n>{ $a/@q:x }</q:n>", "<q:n xmlns:q=\"urn:q\" q:x='1'/>"),
            (
                "for $a in //p:a return <q:n xmlns:q='urn:z'>{ $a/@*:x }</q:n>",
                "<q:n xmlns:q=\"urn:z\" xmlns:ns0=\"urn:q\" ns0:x='1'/>",
            ),
            (
                "for $a in //p:a return <q:n xmlns:q='urn:z' xmlns:k='urn:q'>{ $a/@*:x }</q:n>",
                "<q:n xmlns:q=\"urn:z\" xmlns:k=\"urn:q\" k:x='1'/>",
            ),
            (
                "for $a in //p:a return <n>{ $a/@q:x }{ $a/@p:y }{ $a }</n>",
                "<n xmlns:q=\"urn:q\" q:x='1' xmlns:p=\"urn:p\" p:y='2'><p:a q:x='1' p:y='2'>t</p:a></n>",
            ),
        ],
    );
}

/// The prefix of a copied attribute does not change what prefixes mean in the constructors inside.
#[test]
fn prefixes_of_copied_attributes_do_not_hide_those_of_constructors() {
    let xml = "<r xmlns:p='urn:other' xmlns:q='urn:q'><a p:x='1' q:y='2'/></r>";
    let copied = "<n xmlns:ns0=\"urn:other\" ns0:x='1'>";
    check(
        xml,
        &[
            (
                "for $a in //a return <p:m><n>{ $a/@*:x }<p:k/></n></p:m>",
                &format!("<p:m xmlns:p=\"urn:p\">{copied}<p:k/></n></p:m>"),
            ),
            (
                "for $a in //a return <m p:z='0'>{ <n>{ $a/@*:x, <p:k>{ $a/@*:x }</p:k> }</n> }</m>",
                &format!("<m xmlns:p=\"urn:p\" p:z=\"0\">{copied}<p:k ns0:x='1'/></n></m>"),
            ),
            (
                "for $a in //a return <m xmlns:p='urn:p'><n>{ $a/@*:x }{ for $b in $a return <k p:z='{ $b/@*:x }'/> }</n></m>",
                &format!("<m xmlns:p=\"urn:p\">{copied}<k p:z=\"1\"/></n></m>"),
            ),
            (
                "<p:m>{ for $a in //a return <n>{ $a/@*:x }<p:k/></n> }</p:m>",
                &format!("<p:m xmlns:p=\"urn:p\">{copied}<p:k/></n></p:m>"),
            ),
            (
                "for $a in //a return <p:m xmlns:ns0='urn:0'><n>{ $a/@* }<ns0:k/><p:k q:z='3'/></n></p:m>",
                "<p:m xmlns:ns0=\"urn:0\" xmlns:p=\"urn:p\"><n xmlns:ns1=\"urn:other\" ns1:x='1' xmlns:q=\"urn:q\" q:y='2'>\
                 <ns0:k/><p:k xmlns:q=\"urn:q\" q:z=\"3\"/></n></p:m>",
            ),
            (
                "for $a in //a return <n>{ $a/@*:x }<p:k/></n>",
                "<n xmlns:p=\"urn:other\" p:x='1'><p:k xmlns:p=\"urn:p\"/></n>",
            ),
        ],
    );
}

/// There are as many attributes as the limit allows. Comparing each with all others would take minutes.
#[test]
fn a_repeated_attribute_among_very_many_is_reported() {
    let attributes: String = (0..10_000).map(|number| format!(" x{number}='{number}'")).collect();
    check(
        &format!("<r><a{attributes}/></r>"),
        &[
            ("for $a in //a return <n>{ $a/@* }</n>", &format!("<n{attributes}/>")),
            (
                "for $a in //a return <n>{ $a/@*, $a/@x9998 }</n>",
                "error: the attribute x9998 was selected for an element that already has it",
            ),
        ],
    );
}

#[test]
fn attributes_that_cannot_be_placed_reject_the_delivery() {
    check(
        "<r><a x='1' y='2'/></r>",
        &[
            ("for $a in //a return <n>{ $a/@x }</n>", "<n x='1'/>"),
            ("for $a in //a return <n z='0'>{ $a/@x, $a/@y }t</n>", "<n z=\"0\" x='1' y='2'>t</n>"),
            ("for $a in //a return <n>{ '' }{ $a/@x }</n>", "<n x='1'/>"),
            ("for $a in //a return <n>{ string($a/@z), $a/@x, '', $a/@y, '' }t</n>", "<n x='1' y='2'>t</n>"),
            ("for $a in //a return <n>{ if ($a/@z) then 'z' else '' }{ for $b in $a return $b/@x }</n>", "<n x='1'/>"),
            ("for $a in //a return <n>{ '', 'v', '' }{ '' }{ '', '' }</n>", "<n> v  </n>"),
            (
                "for $a in //a return <n>{ '', '', $a/@x }</n>",
                "error: the attribute x was selected after content of the element it should go to",
            ),
            (
                "for $a in //a return <n>t{ $a/@x }</n>",
                "error: the attribute x was selected after content of the element it should go to",
            ),
            (
                "for $a in //a return <n>{ $a, $a/@x }</n>",
                "error: the attribute x was selected after content of the element it should go to",
            ),
            (
                "for $a in //a return <n x='0'>{ $a/@x }</n>",
                "error: the attribute x was selected for an element that already has it",
            ),
            (
                "for $a in //a return <n>{ $a/@x, $a/@x }</n>",
                "error: the attribute x was selected for an element that already has it",
            ),
            ("for $a in //a/@*[. = 1] | //a return <n>{ $a }</n>", "<n><a x='1' y='2'/></n><n x='1'/>"),
            ("for $a in //a return if ($a) then <n/> else $a", "<n/>"),
            ("for $a in (//a/@x)[1] return <n>{ $a }</n>", "<n x='1'/>"),
            ("for $a in //a/@*[1]/../@y[..] return <n v='{ $a }'/>", "<n v=\"2\"/>"),
            ("for $a in id('none') | //a let $b := ($a | $a/@x)[2] return <m>{ $b }</m>", "<m x='1'/>"),
        ],
    );
}

#[test]
fn limits_reject_deliveries() {
    let limits = Limits { result_bytes_max: 40, ..Limits::default() };
    let xml = "<r><a>0123456789</a><a>0123456789</a></r>";
    let two = delivered(xml, "for $a in //a return $a", &limits);
    assert_eq!(two, Ok(Some("<a>0123456789</a><a>0123456789</a>".to_owned())));
    let three = delivered(xml, "for $a in //a return ($a, $a)", &limits);
    assert_eq!(three, Err(ExtractError::TooLarge { bytes_max: 40 }));
    let limits = Limits { query_visits_max: 1_000, ..Limits::default() };
    let wide = format!("<r>{}</r>", "<a/>".repeat(100));
    let join = "for $a in //a, $b in //a, $c in //a where $a/x < $b/x and $b/x < $c/x return 1";
    assert!(matches!(delivered(&wide, join, &limits), Err(ExtractError::Evaluation(_))));
}
