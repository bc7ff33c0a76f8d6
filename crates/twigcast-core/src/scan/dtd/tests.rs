use super::expand::{OtherDeclarations, expand};
use super::markup_search::MarkupSearch;
use super::text_table::NameFilter;
use crate::document::Document;
use crate::error::MessageErrorKind;
use crate::limits::Limits;
use crate::scan::{ScanOptions, Scanner};
use crate::testing::Random;
use crate::util::packed_name::PackedName;
use crate::vocabulary::Vocabulary;

fn expanded(source: &str) -> Result<String, String> {
    let other = OtherDeclarations::default();
    match expand(source.as_bytes(), other, &Limits::default()) {
        Ok(mut message) => {
            message.xml.drain(message.remains);
            Ok(String::from_utf8(message.xml).expect("text of a text"))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn declarations_take_effect_and_all_else_stays() {
    for (subset, content, expected) in [
        ("<!ENTITY e 'x'>", "<a>1&e;2&amp;</a>", "<a>1x2&amp;</a>"),
        ("<!ENTITY e '&lt;&#38;amp;'>", "<a>&e;</a>", "<a>&lt;&amp;</a>"),
        ("<!ENTITY e '<b>x</b>'>", "<a>1&e;2</a>", "<a>1<b>x</b>2</a>"),
        ("<!ENTITY e 'x'>", "<a b='&e;&#10;\"' c='1'  />", "<a b='x&#10;\"' c='1'  />"),
        ("<!ENTITY e 'x'>", "<a b='1'>&e;<b c = '&e;'/>&e;</a>", "<a b='1'>x<b c = 'x'/>x</a>"),
        (
            "<!ENTITY e 'x'>",
            "<a><![CDATA[&e;]]><!--&e;--><?p &e;?>&e;</a>",
            "<a><![CDATA[&e;]]><!--&e;--><?p &e;?>x</a>",
        ),
        ("<!ENTITY e ''>", "<a><b>1</b&e;></a>", "<a><b>1</b&e;></a>"),
        ("<!ENTITY e ''><!ATTLIST c d CDATA #IMPLIED>", "<a><b>1</b&e;></a>", "<a><b>1</b&e;></a>"),
        ("<!ENTITY e 'x'>", "<a b='>'>&amp;&e;</a>", "<a b='>'>&amp;x</a>"),
        ("<!ENTITY e 'x'>", "<a b='>&amp;&e;' c='&e;'>&e;</a>", "<a b='>&amp;x' c='x'>x</a>"),
        (
            "<!ENTITY e 'x'><!ATTLIST c d CDATA #IMPLIED>",
            "<a b='>&amp;&e;' c='&e;'>&e;</a>",
            "<a b='>&amp;x' c='x'>x</a>",
        ),
        (
            "<!ENTITY e 'x'>",
            "<a><?p &e;?>&e;<!--&e;--><?p?>&e;<!-- -->&e;<b/></a>",
            "<a><?p &e;?>x<!--&e;--><?p?>x<!-- -->x<b/></a>",
        ),
        ("<!ENTITY e '&#34;&#39;'>", "<a b='&e;' c=\"&e;\">&e;</a>", "<a b='&quot;&apos;' c=\"&quot;&apos;\">\"'</a>"),
        (
            "<!ENTITY e-of-twenty-bytes-1 'x'><!ENTITY e-of-twenty-bytes-2 'y'>",
            "<a b='&e-of-twenty-bytes-2;'>&e-of-twenty-bytes-1;</a>",
            "<a b='y'>x</a>",
        ),
        ("<!ENTITY été 'x'><!ENTITY ét 'y'>", "<a b='&été;'>&été;&ét;</a>", "<a b='x'>xy</a>"),
        (
            "<!ATTLIST été b CDATA 'x'><!ATTLIST e-of-twenty-bytes-1 b CDATA 'y'>",
            "<été><e-of-twenty-bytes-1/><e-of-twenty-bytes-2/><ét/></été>",
            "<été b=\"x\"><e-of-twenty-bytes-1 b=\"y\"/><e-of-twenty-bytes-2/><ét/></été>",
        ),
        (
            "<!ATTLIST p:b c CDATA 'x'>",
            "<a xmlns:p='u'><p:b/><p:c/><b/></a>",
            "<a xmlns:p='u'><p:b c=\"x\"/><p:c/><b/></a>",
        ),
        (
            "<!ATTLIST b c CDATA 'x'>",
            "<a><!--<b>--><![CDATA[<b>]]><?p <b>?><b/><a d='>'/><b>1</b></a>",
            "<a><!--<b>--><![CDATA[<b>]]><?p <b>?><b c=\"x\"/><a d='>'/><b c=\"x\">1</b></a>",
        ),
        ("<!ATTLIST a b NMTOKENS ' 1  2 '>", "<a b='  3 &amp;   4 '/>", "<a b='3 &amp; 4'/>"),
        ("<!ATTLIST a b NMTOKENS ' '>", "<a b='   '><a b=''/><a/></a>", "<a b=''><a b=''/><a b=\"\"/></a>"),
        ("<!ENTITY e 'x=\"1\"'>", "<a>&e;<b &e;/>&e;</a>", "<a>x=\"1\"<b &e;/>&e;</a>"),
        ("<!ENTITY e ']]'>", "<a>&e;></a>", "<a>&#93;&#93;></a>"),
        ("<!ENTITY e '&#13;'>", "<a b='&e;'>&e;</a>", "<a b=' '>&#13;</a>"),
        ("<!ENTITY e '1&f;1'><!ENTITY f '2'><!ENTITY f '3'>", "<a>&e;</a>", "<a>121</a>"),
        ("<!ATTLIST a b NMTOKENS ' 1  2 ' c CDATA 'é'>", "<a/>", "<a b=\"1 2\" c=\"é\"/>"),
        ("<!ATTLIST a b NMTOKENS ' 1  2 ' c CDATA 'é'>", "<a c='&#32;' b=' x '></a>", "<a c='&#32;' b='x'></a>"),
        ("<!ATTLIST p:a xmlns:p CDATA 'u'>", "<p:a/>", "<p:a xmlns:p=\"u\"/>"),
        ("<!ENTITY e '<b/>'><!ATTLIST b c CDATA '&#60;'>", "<a>&e;</a>", "<a><b c=\"&lt;\"/></a>"),
        ("<!ENTITY % p \"<!ENTITY e 'x'>\">%p;", "<a>&e;</a>", "<a>x</a>"),
        ("<!ENTITY % x '&#37;y;'><!ENTITY % y '&#60;!ENTITY e \"z\">'>%x;", "<a>&e;</a>", "<a>z</a>"),
        ("<!ELEMENT a (#PCDATA|b)*><!ELEMENT b ((c,d)|(e?,f*)+)><!NOTATION n PUBLIC 'p'><!--c--><?p?>", "<a/>", "<a/>"),
    ] {
        assert_eq!(expanded(&format!("<!DOCTYPE a [{subset}]>{content}")), Ok(expected.into()), "{subset} {content}");
    }
}

#[test]
fn what_is_wrong_with_an_entity_is_an_error() {
    for (subset, content, reason) in [
        ("", "<a>&e;</a>", "undeclared entity \"e\""),
        ("<!ENTITY e '&e;'>", "<a>&e;</a>", "refers to itself"),
        ("<!ENTITY e '<b>'>", "<a>&e;</b></a>", "begin and end within it"),
        ("<!ENTITY e '</a><a>'>", "<a>&e;</a>", "begin and end within it"),
        ("<!ENTITY e '<!--'>", "<a>&e;--></a>", "begin and end within it"),
        ("<!ENTITY e '&#38;'>", "<a>&e;lt;</a>", "is not whole"),
        ("<!ENTITY e '<'>", "<a b='&e;'/>", "may not stand in the value"),
        ("<!ENTITY e SYSTEM 'file:///x'>", "<a>&e;</a>", "the entity \"e\" is external (SYSTEM \"file:///x\")"),
        ("<!NOTATION n SYSTEM 'n'><!ENTITY e SYSTEM 'x' NDATA n>", "<a>&e;</a>", "is no text"),
        ("<!ENTITY e '%p;'>", "<a/>", "may not stand in a declaration"),
        ("<!ENTITY % p SYSTEM 'p'>%p;", "<a>&e;</a>", "its DTD (SYSTEM \"p\") is not read"),
        ("%p;", "<a>&e;</a>", "the message does not declare the entity \"e\""),
        ("<!ELEMENT a (b,c|d)>", "<a/>", "\",\", \"|\" or \")\""),
        ("<!ELEMENT a (#PCDATA|b)>", "<a/>", "\"*\""),
        ("<!ATTLIST a b CDATA>", "<a/>", "white space"),
        ("<!ATTLIST a b CDATA '&e;'>", "<a/>", "undeclared entity"),
    ] {
        let error = expanded(&format!("<!DOCTYPE a [{subset}]>{content}")).expect_err(subset);
        assert!(error.contains(reason), "{subset} {content}: {error}");
    }
}

#[test]
fn expansion_is_bounded() {
    let levels: String = (1..30).map(|n| format!("<!ENTITY e{n} '{}'>", format!("&e{};", n - 1).repeat(10))).collect();
    let bomb = format!("<!DOCTYPE a [<!ENTITY e0 'ha'>{levels}]><a>&e29;</a>");
    assert!(expanded(&bomb).expect_err("too long").contains("far more than the message"));
    let long = format!("<!DOCTYPE a [<!ENTITY e '{}'>]><a>{}</a>", "x".repeat(100_000), "&e;".repeat(100_000));
    assert!(expanded(&long).expect_err("too long").contains("far more than the message"));
}

/// Whatever a hostile message repeats, each byte is looked at a bounded number of times: else this takes hours.
#[test]
fn references_where_none_may_stand_take_no_longer_than_others() {
    for attributes in ["", "<!ATTLIST b c CDATA 'x'>"] {
        for (start, repeated) in [
            ("<a>&e;</a ", "&e;"),
            ("<a>&e;<c ", "&e;"),
            ("<a>&e;<c d='", "&e;"),
            ("<a>&e;<c d='>", "&e;\">"),
            ("<a>&e;", "&amp;"),
            ("<a>&e;", "&e"),
            ("<a>&e;", "<"),
            ("<a>&e;", "<!-->-->&e;"),
        ] {
            let source = format!("<!DOCTYPE a [<!ENTITY e 'x'>{attributes}]>{start}{}", repeated.repeat(400_000));
            assert!(expanded(&source).is_ok(), "what is not whole is left for the scanner");
        }
    }
}

/// One of some tags of elements with declared attributes, written as most are and otherwise.
fn tag(random: &mut Random) -> String {
    let mut tag = format!("<{}", ["e", "p:e", "x", "été", "e-of-twenty-bytes-1"][random.below(5)]);
    for _ in 0..random.below(4) {
        tag.push_str([" ", " ", " ", "  ", "\n", ""][random.below(6)]);
        tag.push_str(["a", "b", "c", "p:d", "other", "a-name-of-twenty-byt"][random.below(6)]);
        tag.push_str(["=", "=", "=", " = "][random.below(4)]);
        let value =
            ["", "1", " 1  2 ", "a value that is longer than thirty-two bytes  ", "&amp; x ", "&e;", "\t1", "é "];
        let quote = ["\"", "\"", "\"", "'"][random.below(4)];
        tag.push_str(&[quote, value[random.below(8)], quote].concat());
    }
    tag.push_str([">1</e>", "/>", " />", "/ >", ""][random.below(5)]);
    tag
}

const SUBSET: &str = "<!ENTITY e 'x'><!ATTLIST e a CDATA '1' b NMTOKENS ' 2  3 ' p:d CDATA #IMPLIED c ID #IMPLIED>\
    <!ATTLIST p:e p:d NMTOKEN '4' a CDATA 'é'><!ATTLIST x a-name-of-twenty-byt NMTOKENS #IMPLIED a CDATA '5'>\
    <!ATTLIST été a NMTOKENS #IMPLIED b CDATA '6'><!ATTLIST e-of-twenty-bytes-1 a CDATA '7'>";

/// The first tag of an element is read in full; what is then kept for the further ones changes none of them.
#[test]
fn each_tag_of_an_element_is_written_like_the_first() {
    for seed in 1..4_000_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let tag = tag(&mut random);
        let earlier = ["<e/>", "<p:e/>", "<x/>", "<été/>", "<e-of-twenty-bytes-1/>"].concat();
        let alone = expanded(&format!("<!DOCTYPE r [{SUBSET}]><r>{tag}")).expect("nothing is wrong with the entity");
        let further = expanded(&format!("<!DOCTYPE r [{SUBSET}]><r>{earlier}{tag}")).expect("nor here");
        let start = expanded(&format!("<!DOCTYPE r [{SUBSET}]><r>{earlier}")).expect("nor here").len();
        assert_eq!(further[start..], alone["<r>".len()..], "{tag}");
    }
}

/// A part of the content of an element, which the declarations change or not.
fn piece(random: &mut Random) -> String {
    const PIECES: [&str; 10] = [
        "&e;é\r\n",
        "<y q='1'/>",
        "text",
        "<![CDATA[&e;]]>",
        "<!--&e;-->",
        "<?p &e;?>",
        "<z xmlns='u' xmlns:p='v'><e b='2 3' p:d='' a=''/><e/></z>",
        "a<![CDATA[b]]>c&e;",
        "<z xmlns='u' k='&e;' xmlns:q='&e;' q:l=''/>",
        "<z xmlns='u'><p:e xmlns:p='w' p:d=' &e; ' a=''>1&e;2</p:e></z><z/>",
    ];
    if random.below(3) == 0 { tag(random) } else { PIECES[random.below(PIECES.len())].into() }
}

/// A scanner that expands reads what one reads that is given the expanded message.
#[test]
fn a_scanner_reads_what_a_doctype_changes() {
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    for seed in 1..2_000_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let content: String = (0..random.below(7)).map(|_| piece(&mut random)).collect();
        let doctype =
            ["", "<!DOCTYPE r>", "<!DOCTYPE r SYSTEM 'r.dtd'>", "<!DOCTYPE r PUBLIC '-//W3C//DTD XHTML 1.0//EN' 'x'>"];
        let doctype = [doctype[random.below(4)].into(), format!("<!DOCTYPE r [{SUBSET}]>")][random.below(2)].clone();
        let source = format!(
            "{}{doctype}<r xmlns:p='p'>{content}</r>",
            ["", "\u{FEFF}", "<?xml version='1.0'?>\n"][random.below(3)]
        );
        let (mut one, mut other) = (Document::default(), Document::default());
        let bytes = source.as_bytes();
        let read = Scanner::new()
            .scan_message(bytes, &vocabulary, &limits, ScanOptions::ALL, &mut one, true)
            .map(|mut scanned| scanned.take_expanded());
        let mut expected =
            Scanner::new().scan(bytes, &vocabulary, &limits, ScanOptions::ALL, &mut other).map(|()| None);
        if expected.as_ref().is_err_and(|error| error.kind == MessageErrorKind::NeedsConversion)
            && !doctype.contains("W3C")
        {
            expected = expand(bytes, OtherDeclarations::default(), &limits).and_then(|message| {
                Scanner::new().scan(&message.xml, &vocabulary, &limits, ScanOptions::ALL, &mut other)?;
                Ok(Some(String::from_utf8(message.xml).expect("text of a text")))
            });
        }
        // Of an expanded message all before the first change is as it was, its DOCTYPE, too.
        let from_root = |text: &str| text[text.find("<r xmlns:p").unwrap_or(0)..].to_owned();
        match (&read, &expected) {
            (Ok(read), Ok(expected)) => {
                assert_eq!(read.as_deref().map(from_root), expected.as_deref().map(from_root), "{source}");
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{source}");
            }
            (Err(read), Err(expected)) => {
                assert_eq!(
                    (read.kind, &read.reason, read.line),
                    (expected.kind, &expected.reason, expected.line),
                    "{source}"
                );
            }
            _ => panic!("{read:?} instead of {expected:?}: {source}"),
        }
    }
}

/// Each `&`, and each `<` that begins what is looked for, wherever the search begins and wherever it is taken up again.
#[test]
fn markup_is_found_where_it_stands() {
    for seed in 1..200_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let source: Vec<u8> = (0..random.below(400)).map(|_| b"xxxxxxxxyy<<<&/!?>;\xC3"[random.below(20)]).collect();
        let mut at = random.below(source.len() + 1);
        let first = [None, Some(b'x')][random.below(2)];
        let mut search = MarkupSearch::new(&source, at, first);
        loop {
            let expected = (at..source.len()).find(|&at| match (source[at], source.get(at + 1), first) {
                (b'<', Some(b'!' | b'?'), _) => true,
                (b'<', next, Some(first)) => next == Some(&first),
                (b'<', next, None) => next != Some(&b'/'),
                (other, _, _) => other == b'&',
            });
            assert_eq!(search.next(at), expected);
            let Some(found) = expected else { break };
            at = (found + 1 + random.below(2) * random.below(150)).min(source.len());
        }
    }
}

/// A filter knows all names that were added, and few others.
#[test]
fn a_filter_has_all_names_that_were_added() {
    for count in [0, 1, 2, 63, 64, 65, 5_000] {
        let mut filter = NameFilter::default();
        (0..count).for_each(|number| filter.add(format!("name{number}:x").as_bytes()));
        assert_eq!(filter.is_empty(), count == 0);
        assert!((0..count).all(|number| filter.may_have(PackedName::of(format!("name{number}").as_bytes()))));
        let others = (0..10_000).filter(|number| filter.may_have(PackedName::of(format!("other{number}").as_bytes())));
        assert!(others.count() < 1_000, "{count}");
    }
}
