//! Accept and reject tables, spans, namespaces, limits, truncation.

use super::{ScanOptions, Scanner};
use crate::document::{Document, Message, NO_NODE, NodeKind};
use crate::error::{MessageError, MessageErrorKind};
use crate::limits::Limits;
use crate::vocabulary::{Name, NamespaceId, Vocabulary};

const WANTS: [ScanOptions; 4] = [
    ScanOptions { attributes: false, text: false },
    ScanOptions { attributes: true, text: false },
    ScanOptions { attributes: false, text: true },
    ScanOptions::ALL,
];

/// Scans with each combination of what to record; all must agree.
fn scan_with(source: &[u8], vocabulary: &Vocabulary, limits: &Limits) -> Result<Document, MessageError> {
    let mut scanner = Scanner::new();
    let mut results = WANTS.map(|options| {
        let mut document = Document::default();
        scanner.scan(source, vocabulary, limits, options, &mut document).map(|()| document)
    });
    let all = results[3].as_ref().map(drop);
    for (options, result) in WANTS.iter().zip(&results) {
        assert_eq!(
            result.as_ref().map(drop),
            all,
            "{options:?} changes the answer to {:?}",
            String::from_utf8_lossy(source)
        );
    }
    std::mem::replace(&mut results[3], Ok(Document::default()))
}

fn scan(source: impl AsRef<[u8]>) -> Result<Document, MessageError> {
    scan_with(source.as_ref(), &Vocabulary::new(), &Limits::default())
}

fn accepted(source: &str) -> Document {
    scan(source).unwrap_or_else(|error| panic!("{source:?} is well-formed, but: {error}"))
}

fn rejected(source: impl AsRef<[u8]>) -> MessageError {
    let source = source.as_ref();
    match scan(source) {
        Err(error) => error,
        Ok(_) => panic!("{:?} is not well-formed", String::from_utf8_lossy(source)),
    }
}

#[test]
fn well_formed_messages_pass() {
    for source in [
        "<a/>",
        "<a></a >",
        "\u{FEFF}<a/>",
        "\u{FEFF}<?xml version='1.0'?><a/>",
        "<?xml version = \"1.0\"\tencoding='utf-8' standalone = 'yes' ?>\r\n<a/>\n",
        "<?xml version='1.0' encoding='us-ascii'?><a/>",
        "<?xml version='1.7'?><a/>",
        "<?xml-stylesheet href='x'?><!-- c --><a/><!----><?p?>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a:b SYSTEM 'x>y\"' ><a/>",
        "<!DOCTYPE a PUBLIC \"-//X//Y 1.0//EN\" \"u\"><a>&amp;</a>",
        "<a b = '1'\n\tc=\"'\" d='\">]]>'/>",
        "<a>&lt;&gt;&amp;&quot;&apos;&#9;&#xD;&#x10FFFF;&#0000065;</a>",
        "<a>]] > ]]&gt; ]>\u{7F}</a>",
        "<a><![CDATA[]]><![CDATA[<&]]]]></a>",
        "<a><!-- - -> <x> & --><?t ? > ??></a>",
        "<_é.-1·/>",
        "<\u{10000}\u{EFFFF}/>",
        "<p:a xmlns:p='u'><p:b p:c='' c=''/></p:a>",
        "<p:a p:b='' xmlns:p='u'/>",
        "<a xmlns='u'><b xmlns=''/></a>",
        "<a xml:lang='en' xmlns:xml='http://www.w3.org/XML/1998/namespace'><xml:b/></a>",
        "<a xmlns:p='u' xmlns:q='v' p:x='' q:x='' x=''/>",
        "<a xmlns:p=' '/>",
    ] {
        accepted(source);
    }
}

/// Source, where it goes wrong, and a part of the reason that names the thing.
const MALFORMED: &[(&str, (u32, u32), &str)] = &[
    ("", (1, 1), "the message is empty: it has no root element"),
    ("\u{FEFF}", (1, 1), "the message is empty: it has no root element"),
    (" \r\n\t", (2, 2), "the message is empty but for white space: it has no root element"),
    ("<!-- c -->", (1, 11), "the message has no root element"),
    ("<?xml version='1.0'?>\n", (2, 1), "the message has no root element"),
    ("x<a/>", (1, 1), "only markup may stand before the root"),
    ("\u{FEFF}\u{FEFF}<a/>", (1, 1), "only markup may stand before the root"),
    ("&amp;<a/>", (1, 1), "only markup"),
    ("<a/>x", (1, 5), "only comments may follow the root element, found 'x'"),
    ("<a/>&#32;", (1, 5), "found '&'"),
    ("<a/>\n<b/>", (2, 1), "second root element"),
    ("<a/></a>", (1, 5), "second root element or end tag"),
    ("</a>", (1, 2), "expected the name of the element, found '/'"),
    ("<a/><!DOCTYPE a>", (1, 5), "DOCTYPE may not stand after"),
    ("<![CDATA[]]><a/>", (1, 1), "\"<!\" starts neither"),
    ("<a><b></a></b>", (1, 7), "end tag \"a\" does not match the start tag \"b\""),
    ("<a></ab>", (1, 4), "end tag \"ab\" does not match"),
    ("<ab></a>", (1, 5), "end tag \"a\" does not match"),
    ("<a></ a>", (1, 6), "expected the name of the end tag"),
    ("<a></a b=''>", (1, 8), "'b' may not stand in an end tag"),
    ("<a>", (1, 4), "before the end tag of the element \"a\""),
    ("<a>x<b>y</b>", (1, 13), "before the end tag of the element \"a\""),
    ("< a/>", (1, 2), "expected the name of the element"),
    ("<1/>", (1, 2), "found '1'"),
    ("<:a/>", (1, 2), "starts with a colon"),
    ("<a:/>", (1, 4), "no local part"),
    ("<a:1/>", (1, 4), "no local part"),
    ("<a:b:c/>", (1, 5), "second colon"),
    ("<a×/>", (1, 3), "'×' may not follow the name"),
    ("<a/ >", (1, 3), "\"/\" in the start tag of \"a\""),
    ("<a b='1'/ >", (1, 9), "\"/\" in the start tag of \"a\""),
    ("<a b/>", (1, 4), "attribute \"b\" has no value"),
    ("<a b=1/>", (1, 6), "value of the attribute \"b\" is not quoted"),
    ("<a b='1'c='2'/>", (1, 9), "white space must separate"),
    ("<a b='1' b='2'/>", (1, 10), "attribute \"b\" stands twice"),
    ("<a b='<'/>", (1, 7), "\"<\" may not stand in the value of the attribute \"b\""),
    ("<a b='1/>", (1, 10), "ends inside the value of the attribute \"b\""),
    ("<a b='&'/>", (1, 7), "a name must follow"),
    ("<a =''/>", (1, 4), "expected the name of the attribute"),
    ("<a>]]></a>", (1, 4), "\"]]>\""),
    ("<a>]]]></a>", (1, 5), "\"]]>\""),
    ("<a>& </a>", (1, 4), "a name must follow"),
    ("<a>&lt</a>", (1, 4), "must end with \";\""),
    ("<a>&nbsp;</a>", (1, 4), "undeclared entity \"nbsp\""),
    ("<a b='&é;'/>", (1, 7), "undeclared entity \"é\""),
    ("<!DOCTYPE a><a>&e;</a>", (1, 16), "undeclared entity \"e\""),
    ("<?xml version='1.0' standalone='yes'?><!DOCTYPE a SYSTEM 'x'><a>&e;</a>", (1, 65), "undeclared entity \"e\""),
    ("<a>&#;</a>", (1, 4), "must consist of digits"),
    ("<a>&#x;</a>", (1, 4), "must consist of digits"),
    ("<a>&#X41;</a>", (1, 4), "must consist of digits"),
    ("<a>&#1a;</a>", (1, 4), "must consist of digits"),
    ("<a>&#0;</a>", (1, 4), "\"&#0;\" stands for a character that XML does not allow"),
    ("<a>&#xD800;</a>", (1, 4), "does not allow"),
    ("<a>&#xFFFE;</a>", (1, 4), "does not allow"),
    ("<a>&#x110000;</a>", (1, 4), "does not allow"),
    ("<a>&#99999999999999999999;</a>", (1, 4), "does not allow"),
    ("<a>\n\u{1}</a>", (2, 1), "control character U+0001"),
    ("<a>\u{FFFE}</a>", (1, 4), "U+FFFE"),
    ("<a b='\u{FFFF}'/>", (1, 7), "U+FFFF"),
    ("<a><!-- a -- b --></a>", (1, 11), "\"--\" may not stand in a comment"),
    ("<a><!-- a---></a>", (1, 10), "\"--\""),
    ("<a><!-- ", (1, 4), "comment is not closed"),
    ("<a><!---></a>", (1, 4), "comment is not closed"),
    ("<a><!x></a>", (1, 4), "\"<!\" starts neither"),
    ("<a><![CDATA[x]]</a>", (1, 4), "CDATA section is not closed"),
    ("<a><![cdata[x]]></a>", (1, 4), "\"<!\" starts neither"),
    ("<a><? x?></a>", (1, 4), "needs a target"),
    ("<a><?p", (1, 4), "not closed"),
    ("<a><?p/x?></a>", (1, 4), "'/' may not stand in the target"),
    ("<a><?p?x?></a>", (1, 7), "white space"),
    ("<a><?p:q x?></a>", (1, 4), "colon"),
    ("<?XML version='1.0'?><a/>", (1, 1), "\"XML\" of a processing instruction is reserved"),
    (" <?xml version='1.0'?><a/>", (1, 2), "very start"),
    ("<a><?xml version='1.0'?></a>", (1, 4), "very start"),
    ("<?xml?><a/>", (1, 6), "has no version"),
    ("<?xml encoding='utf-8'?><a/>", (1, 7), "version, encoding and standalone in this order"),
    ("<?xml version='1.0' standalone='no' encoding='utf-8'?><a/>", (1, 37), "in this order"),
    ("<?xml version='1.0' version='1.0'?><a/>", (1, 21), "in this order"),
    ("<?xml version='1.0'encoding='utf-8'?><a/>", (1, 20), "needs white space before \"encoding\""),
    ("<?xml version='1.0' encoding='1'?><a/>", (1, 21), "no name of one"),
    ("<?xml version='1.0' standalone='YES'?><a/>", (1, 21), "neither yes nor no"),
    ("<?xml version='1.0' charset='utf-8'?><a/>", (1, 21), "does not know \"charset\""),
    ("<?xml version=1.0?><a/>", (1, 15), "quoted value"),
    ("<?xml version='1.0\"?><a/>", (1, 15), "does not close"),
    ("<?xml version='2.0'?><a/>", (1, 7), "version \"2.0\""),
    ("<?xml version='1.0' encoding='latin-1'", (1, 39), "must end with"),
    ("<?xml version='1.0' encoding='latin-1' x", (1, 41), "needs \"=\""),
    ("<?xml version='1.0'><a/>", (1, 20), "must end with \"?>\""),
    ("<!DOCTYPE><a/>", (1, 10), "white space"),
    ("<!DOCTYPE a SYSTEM><a/>", (1, 19), "white space"),
    ("<!DOCTYPE a SYSTEM x><a/>", (1, 20), "quoted system identifier"),
    ("<!DOCTYPE a PUBLIC 'x'><a/>", (1, 23), "white space"),
    ("<!DOCTYPE a PUBLIC 'x''y'><a/>", (1, 23), "white space"),
    ("<!DOCTYPE a PUBLIC '{' 'y'><a/>", (1, 21), "'{' may not stand in a public identifier"),
    ("<!DOCTYPE a SYSTEM 'x", (1, 20), "not closed"),
    ("<!DOCTYPE a b><a/>", (1, 13), "must end with \">\", found 'b'"),
    ("<!doctype a><a/>", (1, 1), "\"<!\" starts neither"),
    ("<!DOCTYPE a><!DOCTYPE a><a/>", (1, 13), "second DOCTYPE"),
    ("<p:a/>", (1, 2), "prefix \"p\" is not bound"),
    ("<a p:b=''/>", (1, 4), "prefix \"p\" is not bound"),
    ("<a><b xmlns:p='u'/><p:c/></a>", (1, 21), "prefix \"p\" is not bound"),
    ("<xmlns:a/>", (1, 2), "prefix \"xmlns\" is not bound"),
    ("<a xmlns:p=''/>", (1, 10), "prefix \"p\" must not be bound to the empty namespace name"),
    ("<a xmlns:xmlns='u'/>", (1, 10), "\"xmlns\" must not be declared"),
    ("<a xmlns:xml='u'/>", (1, 10), "\"xml\" must not be bound"),
    ("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", (1, 10), "reserved namespace"),
    ("<a xmlns:p='http://www.w3.org/2000/xmlns/'/>", (1, 10), "reserved namespace"),
    ("<a xmlns='http://www.w3.org/XML/1998/namespac&#101;'/>", (1, 4), "must not be the default namespace"),
    ("<a xmlns:p='u' xmlns:p='v'/>", (1, 16), "attribute \"xmlns:p\" stands twice"),
    ("<a xmlns='u' xmlns='u'/>", (1, 14), "attribute \"xmlns\" stands twice"),
    ("<a xmlns:p='u' xmlns:q='&#117;' p:x='' q:x=''/>", (1, 40), "\"p:x\" and \"q:x\" have the same expanded name"),
];

#[test]
fn malformed_messages_are_rejected_with_place_and_reason() {
    for &(source, position, reason) in MALFORMED {
        let error = rejected(source);
        assert_eq!(error.kind, MessageErrorKind::Malformed, "{source:?}");
        assert!(error.reason.contains(reason), "{source:?}: {:?} lacks {reason:?}", error.reason);
        assert_eq!((error.line, error.column), position, "{source:?}: {}", error.reason);
    }
}

#[test]
fn bytes_that_are_not_utf8_are_rejected() {
    for bytes in [&b"<a>\xFF</a>"[..], b"<a>\xC3</a>", b"<a>\xED\xA0\x80</a>", b"<a>\xC0\x80</a>", b"<a b='\xE9'/>"] {
        let error = rejected(bytes);
        assert_eq!(error.kind, MessageErrorKind::Malformed);
        assert!(error.reason.contains("UTF-8"), "{}", error.reason);
    }
    let error = rejected("<?xml version='1.0' encoding='us-ascii'?><a>é</a>");
    assert!(error.reason.contains("US-ASCII"), "{}", error.reason);
}

#[test]
fn what_has_to_be_converted_first_is_told_apart() {
    for source in [
        &b"\xFE\xFF\0<\0a\0/\0>"[..],
        b"\xFF\xFE<\0a\0/\0>\0",
        b"\0<\0a\0/\0>",
        b"<\0a\0/\0>\0",
        b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xE9</a>",
        b"<?xml version='1.0' encoding='GB2312'?><a/>",
        b"<!DOCTYPE a PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'><a>&eacute;</a>",
        b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
        b"<!DOCTYPE a [<!ATTLIST a b CDATA 'x'>]><a/>",
        b"<!DOCTYPE a [<!ATTLIST a b NMTOKEN #IMPLIED>]><a b=' x'/>",
        b"<!DOCTYPE a SYSTEM 'x'><a>&e;</a>",
        b"<!DOCTYPE a SYSTEM 'x'><a b='&e;'/>",
    ] {
        assert_eq!(rejected(source).kind, MessageErrorKind::NeedsConversion, "{:?}", String::from_utf8_lossy(source));
    }
}

#[test]
fn every_prefix_of_a_message_is_rejected() {
    let source = "\u{FEFF}<?xml version='1.0' encoding='UTF-8'?>\n<!DOCTYPE a PUBLIC 'p' 's'>\n<!-- c --><?p i?>\
                  <a xmlns:n='u' b='&lt;é'>t&#x41;€<n:b c=\"\"/><![CDATA[x]]><!-- c --><?p?>\r\n<b\t></b\n></a>";
    accepted(source);
    for end in 0..source.len() {
        let error = rejected(&source.as_bytes()[..end]);
        assert_eq!(error.kind, MessageErrorKind::Malformed, "cut at {end}");
    }
}

#[test]
fn nodes_form_the_tree_and_spans_index_the_source() {
    let source = "\u{FEFF}<a>x<b c='1'/>y<!--c--><?p?><b>z</b></a>";
    let document = accepted(source);
    let seen: Vec<_> = document
        .nodes
        .iter()
        .map(|n| (n.kind, n.parent, n.end, &source[n.span.start as usize..n.span.end as usize]))
        .collect();
    use NodeKind::{Comment, Document as Root, Element, ProcessingInstruction, Text};
    assert_eq!(
        seen,
        [
            (Root, NO_NODE, 9, source),
            (Element, 0, 9, &source[3..]),
            (Text, 1, 3, "x"),
            (Element, 1, 4, "<b c='1'/>"),
            (Text, 1, 5, "y"),
            (Comment, 1, 6, "<!--c-->"),
            (ProcessingInstruction, 1, 7, "<?p?>"),
            (Element, 1, 9, "<b>z</b>"),
            (Text, 7, 9, "z"),
        ]
    );
    assert_eq!(document.nodes[1].content_start, 6);
    assert_eq!(document.nodes[3].content_start, document.nodes[3].span.end);
    assert_eq!(document.attributes_of(3).len(), 1);
    assert_eq!(document.attributes_of(7).len(), 0);
    assert_eq!(document.children(1).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
}

#[test]
fn text_runs_join_cdata_and_references_and_end_at_markup() {
    let source = "<a><![CDATA[]]><b/><![CDATA[]]>x&amp;<![CDATA[<y>]]>z<!---->\r\n</a>";
    let document = accepted(source);
    let message = Message { source: source.as_bytes(), document: &document };
    let texts: Vec<_> = (0..document.nodes.len() as u32)
        .filter(|&node| document.nodes[node as usize].kind == NodeKind::Text)
        .map(|node| (document.nodes[node as usize].encoded, message.text(node).into_owned()))
        .collect();
    assert_eq!(texts, [(true, "x&<y>z".to_string()), (true, "\n".to_string())]);
    assert_eq!(message.string_value(0), "x&<y>z\n");
}

#[test]
fn attribute_values_are_normalised() {
    let source = "<a b='1&lt;\t2' c='plain' d='\"'/>";
    let document = accepted(source);
    let message = Message { source: source.as_bytes(), document: &document };
    let values: Vec<_> = document.attributes.iter().map(|a| message.attribute_value(a)).collect();
    assert_eq!(values, ["1< 2", "plain", "\""]);
    assert_eq!(document.attributes.iter().map(|a| a.encoded).collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn names_are_expanded_at_their_place() {
    let mut vocabulary = Vocabulary::new();
    let (u, v) = (vocabulary.intern_namespace("u"), vocabulary.intern_namespace("v&"));
    let (a, b) = (vocabulary.intern_local("a"), vocabulary.intern_local("b"));
    let source = "<a b='' p:b='' xmlns='u' xmlns:p='v&amp;'><p:a xmlns:p='w'/><a xmlns='' p:b='' xml:b=''/><p:b/></a>";
    let document = scan_with(source.as_bytes(), &vocabulary, &Limits::default()).expect("well-formed");
    let elements: Vec<Name> = document.nodes[1..].iter().map(|node| node.name).collect();
    let name = |namespace, local| Name { namespace, local };
    assert_eq!(elements, [name(u, a), name(NamespaceId::UNKNOWN, a), name(NamespaceId::NONE, a), name(v, b)]);
    let attributes: Vec<Name> = document.attributes.iter().map(|attribute| attribute.name).collect();
    assert_eq!(attributes, [name(NamespaceId::NONE, b), name(v, b), name(v, b), name(NamespaceId::XML, b)]);
    let declared: Vec<_> =
        document.declarations.iter().map(|d| (d.owner, d.prefix.of(source.as_bytes()), d.namespace)).collect();
    let expected: [(u32, &[u8], NamespaceId); 4] =
        [(1, b"", u), (1, b"p", v), (2, b"p", NamespaceId::UNKNOWN), (3, b"", NamespaceId::NONE)];
    assert_eq!(declared, expected);
}

#[test]
fn many_prefixes_resolve_and_scopes_end() {
    let declare =
        |from: usize, uri: &str| (from..from + 40).map(|i| format!(" xmlns:p{i}='{uri}{i}'")).collect::<String>();
    let inner: String = (0..40).map(|i| format!("<p{i}:x p{i}:a=''/>")).collect();
    accepted(&format!("<r{}><s{}>{inner}</s>{inner}</r>", declare(0, "u"), declare(20, "v")));
    let error = rejected(format!("<r><s{}>{inner}</s><p3:x/></r>", declare(0, "u")));
    assert!(error.reason.contains("\"p3\""), "{}", error.reason);
    let clash: String = (0..40).map(|i| format!(" p{i}:a=''")).collect();
    accepted(&format!("<r{}{clash}/>", declare(0, "u")));
    let error = rejected(format!("<r{} xmlns:q='u7'{clash} q:a=''/>", declare(0, "u")));
    assert!(error.reason.contains("same expanded name"), "{}", error.reason);
}

#[test]
fn duplicates_among_many_attributes_are_found() {
    let attributes: String = (0..500).map(|i| format!(" a{i}=''")).collect();
    accepted(&format!("<a{attributes}/>"));
    let error = rejected(format!("<a{attributes} a250=''/>"));
    assert!(error.reason.contains("\"a250\" stands twice"), "{}", error.reason);
    assert_eq!(error.column as usize, format!("<a{attributes} ").len() + 1);
}

#[test]
fn limits_name_themselves() {
    let limits = Limits { message_bytes_max: 100, depth_max: 3, attributes_max: 2, ..Limits::default() };
    let check = |source: &str, limit: &'static str, value: usize| {
        let error = scan_with(source.as_bytes(), &Vocabulary::new(), &limits).map(drop).expect_err(source);
        assert_eq!(error.kind, MessageErrorKind::Limit { limit, value });
        assert!(error.reason.contains(limit) && error.reason.contains(&value.to_string()), "{}", error.reason);
    };
    for fits in ["<a><a><a/></a></a>", "<a b='' xmlns=''/>", &format!("<a>{}</a>", "x".repeat(93))] {
        scan_with(fits.as_bytes(), &Vocabulary::new(), &limits).expect(fits);
    }
    check(&format!("<a>{}</a>", "x".repeat(94)), "message_bytes_max", 100);
    check("<a><a><a><a/></a></a></a>", "depth_max", 3);
    check("<a b='' c='' xmlns=''/>", "attributes_max", 2);
}

#[test]
fn depth_needs_no_stack() {
    let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    assert!(matches!(rejected(deep(100_000)).kind, MessageErrorKind::Limit { limit: "depth_max", .. }));
    let limits = Limits { depth_max: 1_000_000, ..Limits::default() };
    scan_with(deep(1_000_000).as_bytes(), &Vocabulary::new(), &limits).expect("deep, but within the limit");
}

#[test]
fn a_scanner_forgets_the_message_before() {
    let (mut scanner, mut document, vocabulary) = (Scanner::new(), Document::default(), Vocabulary::new());
    let mut scan = |source: &str| {
        scanner.scan(source.as_bytes(), &vocabulary, &Limits::default(), ScanOptions::ALL, &mut document)
    };
    assert!(scan("<a xmlns:p='u' xmlns='v' p:x='' q:y=''>").is_err());
    assert!(scan("<a>text <p:b/>").is_err());
    scan("<a>x</a>").expect("well-formed");
    assert_eq!(document.nodes[1].name.namespace, NamespaceId::NONE);
    assert_eq!(document.nodes.len(), 3);
}

/// Shapes that would take minutes if any step looked at the same bytes again and again.
#[test]
fn hostile_shapes_take_linear_time() {
    const N: usize = 200_000;
    let nested: String = (0..1_900).map(|i| format!("<a xmlns:p{i}='u{i}'>")).collect();
    let rebound: String = (0..1_900).map(|i| format!("<a xmlns:p='u{i}'>")).collect();
    let uses: String = (0..N / 4).map(|i| format!("<p{}:x/>", i % 1_900)).collect();
    let long = "u".repeat(N);
    let shapes = [
        format!("<a>{}</a>", "]".repeat(4 * N)),
        format!("<a><!--{}--></a>", "- ".repeat(N)),
        format!("<a><?p {}?></a>", "?".repeat(N)),
        format!("<a><![CDATA[{}]]></a>", "]>".repeat(N)),
        format!("<a>{}</a>", "<![CDATA[]]>".repeat(N)),
        format!("<a b='{}'>{}</a>", "&amp;\r\n".repeat(N), "&#x41;\r\n".repeat(N)),
        format!("<a>&#{}65;</a>", "0".repeat(4 * N)),
        format!("<{long}></{long}>"),
        format!("<a{}/>", (0..9_999).map(|i| format!(" a{i}=''")).collect::<String>()),
        format!("{nested}{uses}{}", "</a>".repeat(1_900)),
        format!("{rebound}{}{}", "<p:x/>".repeat(N), "</a>".repeat(1_900)),
        // Two namespaces that differ in their last character only, compared by each element.
        format!("<r xmlns:p='{long}1' xmlns:q='{long}2'>{}</r>", "<e p:a='' q:a=''/>".repeat(N / 4)),
    ];
    for shape in shapes {
        let start = std::time::Instant::now();
        let document = accepted(&shape);
        let message = Message { source: shape.as_bytes(), document: &document };
        document.attributes.iter().for_each(|attribute| drop(message.attribute_value(attribute)));
        drop(message.string_value(0));
        let seconds = start.elapsed().as_secs_f64();
        assert!(seconds < 10.0, "{seconds} s for {}...", &shape[..40]);
    }
}
