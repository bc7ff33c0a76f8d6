//! Which values lead to a query follows what messages show; who gets a message does not.

mod testing;

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use testing::Random;

const ASKING: usize = 1_500;

/// A set in which the population says that `status='Actual'` is rarer than `code='K'`.
fn engine() -> Engine {
    let mut engine = Engine::new(Limits::default());
    let context = QueryContext::default();
    for number in 0..9_000 {
        engine.add(&format!("s{number}"), &format!("/m[status='S{number}']"), &context, false).expect("a valid query");
    }
    for number in 0..ASKING {
        let query = format!("/m[status='Actual' and code='K' and not(@x='{number}')]");
        engine.add(&format!("q{number}"), &query, &context, false).expect("a valid query");
    }
    engine
}

fn cover(engine: &Engine, key: &str) -> String {
    let slot = engine.slot_of(key).expect("a subscription");
    engine.describe(slot).expect("in use").expect("a valid query").cover.expect("a cover")
}

/// Matches messages with these values, each of which must reach exactly the subscriptions that ask for them.
fn publish(engine: &mut Engine, matcher: &mut Matcher, count: usize, status: &str, code: impl Fn(usize) -> String) {
    for number in 0..count {
        let (x, code) = (number % (2 * ASKING), code(number));
        let message = format!("<m x='{x}'><status>{status}</status><code>{code}</code></m>");
        engine.run(matcher, message.as_bytes()).expect("a well-formed message");
        let both = status == "Actual" && code == "K";
        let expected = if both { ASKING - usize::from(x < ASKING) } else { usize::from(status.starts_with('S')) };
        assert_eq!(engine.match_count(matcher), expected, "{message}");
        if engine.is_cover_choice_due() {
            engine.choose_covers();
        }
    }
}

#[test]
fn a_value_that_most_messages_have_is_not_looked_up_where_a_rarer_one_is() {
    let (mut engine, mut matcher) = (engine(), Matcher::new());
    assert!(cover(&engine, "q7").contains("status = 'Actual'"), "{}", cover(&engine, "q7"));
    publish(&mut engine, &mut matcher, 300, "Actual", |number| format!("C{}", number % 50));
    for key in ["q0", "q7", "q199"] {
        assert!(cover(&engine, key).contains("code = 'K'"), "{}", cover(&engine, key));
    }
    // The next query profits at once.
    engine.add("new", "/m[status='Actual' and code='L']", &QueryContext::default(), false).expect("a valid query");
    assert!(cover(&engine, "new").contains("code = 'L'"), "{}", cover(&engine, "new"));
    publish(&mut engine, &mut matcher, 100, "Actual", |number| if number % 10 == 0 { "K".into() } else { "C".into() });
}

#[test]
fn covers_follow_when_messages_shift() {
    let (mut engine, mut matcher) = (engine(), Matcher::new());
    publish(&mut engine, &mut matcher, 300, "Actual", |number| format!("C{}", number % 50));
    assert!(cover(&engine, "q7").contains("code = 'K'"), "{}", cover(&engine, "q7"));
    publish(&mut engine, &mut matcher, 6_000, "Exercise", |_| "K".into());
    assert!(cover(&engine, "q7").contains("status = 'Actual'"), "{}", cover(&engine, "q7"));
    publish(&mut engine, &mut matcher, 50, "Actual", |_| "K".into());
}

/// Where nothing better is known, covers stay, and choosing is not tried over and over.
#[test]
fn covers_stay_where_no_value_is_rarer() {
    let (mut engine, mut matcher) = (engine(), Matcher::new());
    let mut choices = 0;
    for _ in 0..3_000 {
        let message = "<m x='a'><status>Actual</status><code>K</code><code>L</code></m>";
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        choices += usize::from(engine.is_cover_choice_due());
        engine.choose_covers();
    }
    assert!(choices < 5, "{choices}");
    assert!(cover(&engine, "q7").contains("status = 'Actual'"), "{}", cover(&engine, "q7"));
}

/// Values that are too long to be sampled are all taken for rare. It is remembered that those which were looked up are not.
#[test]
fn covers_do_not_go_back_and_forth() {
    let (long, context) = ("v".repeat(200), QueryContext::default());
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    for number in 0..4_000 {
        for (name, other) in [("status", "code"), ("code", "status")] {
            let query = format!("/m[{name}='{number}' and not(contains({other}, '{number}x'))]");
            engine.add(&format!("{name}{number}"), &query, &context, false).expect("a valid query");
        }
    }
    for number in 0..300 {
        let query = format!("/m[status='S{long}' and code='K{long}' and not(@x='z') and not(@y='{number}')]");
        engine.add(&format!("q{number}"), &query, &context, false).expect("a valid query");
    }
    let message = format!("<m x='z'><status>S{long}</status><code>K{long}</code></m>");
    let mut changes = 0;
    for _ in 0..6_000 {
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        assert_eq!(engine.match_count(&matcher), 0);
        changes += usize::from(engine.choose_covers() > 0);
    }
    assert!((1..=4).contains(&changes), "covers changed {changes} times");
}

/// Many ask for a word that no message has, beside words that each message has: what messages show counts, for all of them,
/// though there are more than are looked at in one go.
#[test]
fn the_word_that_is_rare_in_messages_is_looked_up() {
    let (mut engine, mut matcher, context) = (Engine::new(Limits::default()), Matcher::new(), QueryContext::default());
    let count = 6_000;
    for number in 0..count {
        let query = format!("/m[not(@x='{number}')] contains text \"name\" ftand \"word{}\"", number % 60);
        engine.add(&format!("q{number}"), &query, &context, false).expect("a valid query");
    }
    assert!(cover(&engine, "q7").contains("'word7'"), "{}", cover(&engine, "q7"));
    let words: String = (0..60).map(|number| format!("word{number} ")).collect();
    let message = format!("<m>{words}</m>");
    for _ in 0..100 {
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        assert_eq!(engine.match_count(&matcher), 0);
        engine.choose_covers();
    }
    for number in 0..count {
        let cover = cover(&engine, &format!("q{number}"));
        assert!(cover.contains("'name'"), "{cover}");
    }
    engine.run(&mut matcher, message.replace("word7 ", "name word7 ").as_bytes()).expect("a well-formed message");
    assert_eq!(engine.match_count(&matcher), count);
}

/// Among thousands of values, those that occurred are rarer than it looks. Nothing better is there, and nothing changes.
#[test]
fn values_that_occurred_by_chance_are_looked_up_as_before() {
    let (mut engine, mut matcher, context) = (Engine::new(Limits::default()), Matcher::new(), QueryContext::default());
    for number in 0..20_000 {
        let (code, event) = (number % 300, number % 49);
        let query = format!("/m[code='C{code}' and event='E{event}' and not(@x='{number}')]");
        engine.add(&format!("q{number}"), &query, &context, false).expect("a valid query");
    }
    let mut random = Random(7);
    let (mut choices, mut changes) = (0, 0);
    for _ in 0..1_500 {
        let codes: String = (0..6).map(|_| format!("<code>C{}</code>", random.below(300))).collect();
        let message = format!("<m x='a'>{codes}<event>E{}</event></m>", random.below(49));
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        choices += usize::from(engine.is_cover_choice_due());
        changes += engine.choose_covers();
    }
    assert!(choices > 0, "too few queries are verified in vain to test anything");
    assert_eq!(changes, 0);
}

/// Nearly all messages have the status that queries exclude, and all have the code that they ask for. The first queries are
/// found by the code, which may still be rare; they are too few to be worth another choice.
#[test]
fn what_is_excluded_is_looked_up_where_nearly_all_messages_have_it() {
    let forms: [fn(usize) -> String; 6] = [
        |number| format!("/m[status!='Actual'][code='K' and @x!='{number}' or code='{number}' and code='K']"),
        |number| format!("/m[not(status='Actual')][code='K' and not(@x='{number}')]"),
        |number| format!("/m[not(status='Actual' or status='Test' or status='{number}')][code='K']"),
        |number| format!("/m[status!='Actual' and status!='Test'][code='K' and @x!='{number}']"),
        // Triggers, which nothing but what messages show turns into accesses.
        |number| format!("/m[not(@status='Actual')][@code='K' and not(@x='{number}')]"),
        |number| format!("/m[@code='K'][not(@status='Actual' or @x='{number}')]"),
    ];
    for form in forms {
        let (mut engine, mut matcher, context) =
            (Engine::new(Limits::default()), Matcher::new(), QueryContext::default());
        for number in 0..3_000 {
            engine.add(&format!("q{number}"), &form(number), &context, false).expect("a valid query");
        }
        for _ in 0..300 {
            let message = b"<m x='a' status='Actual' code='K'><status>Actual</status><code>K</code></m>";
            engine.run(&mut matcher, message).expect("a well-formed message");
            assert_eq!(engine.match_count(&matcher), 0);
            engine.choose_covers();
        }
        let covers: Vec<_> = (0..3_000).map(|number| cover(&engine, &format!("q{number}"))).collect();
        let excluding = covers.iter().filter(|cover| cover.contains("'Actual'") && !cover.contains("'K'")).count();
        assert!(excluding > 2_900, "{excluding} of {}", form(3));
        engine.add("late", &form(3_001), &context, false).expect("a valid query");
        assert!(cover(&engine, "late").contains("'Actual'"), "{}", cover(&engine, "late"));
        let message = b"<m x='a' status='Exercise' code='K'><status>Exercise</status><code>K</code></m>";
        engine.run(&mut matcher, message).expect("a well-formed message");
        assert_eq!(engine.match_count(&matcher), 3_001);
    }
}

/// Beside many triggers, a few accesses wait as triggers too: by the key of each, unless messages show that it is common.
#[test]
fn what_is_excluded_is_looked_up_beside_triggers() {
    let (mut engine, mut matcher, context) = (Engine::new(Limits::default()), Matcher::new(), QueryContext::default());
    let mut add = |key: String, query: &str| engine.add(&key, query, &context, false).expect("a valid query");
    (0..3_000).for_each(|number| _ = add(format!("s{number}"), &format!("/m[@id='{number}']")));
    let excluding = |number: usize| format!("/m[@status!='Actual'][@code='K' and @x!='{number}']");
    (0..150).for_each(|number| _ = add(format!("q{number}"), &excluding(number)));
    assert!(cover(&engine, "q7").contains("@code = 'K'"), "{}", cover(&engine, "q7"));
    for number in 0..300 {
        let message = format!("<m x='a' id='{number}' status='Actual' code='K'/>");
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        assert_eq!(engine.match_count(&matcher), 1);
        engine.choose_covers();
    }
    engine.add("late", &excluding(151), &context, false).expect("a valid query");
    for key in ["q0", "q7", "q149", "late"] {
        assert!(cover(&engine, key).contains("@status != 'Actual'"), "{key}: {}", cover(&engine, key));
    }
    engine.run(&mut matcher, b"<m x='a' status='Test' code='K'/>").expect("a well-formed message");
    assert_eq!(engine.match_count(&matcher), 151);
}
