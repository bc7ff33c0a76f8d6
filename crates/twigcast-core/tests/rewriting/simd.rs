//! Tests that each implementation of the assembly kernel makes the same results.

use std::collections::BTreeMap;

use twigcast_core::engine::{Engine, Matcher};
use twigcast_core::limits::Limits;

use super::{Random, check, context};

/// Returns queries and a message whose results have pieces of all lengths, one to five columns, and sets of several
/// words.
fn of_all_lengths(random: &mut Random) -> (BTreeMap<String, String>, Vec<String>) {
    let constant = |random: &mut Random| "constant ".repeat(random.below(6) * random.below(2));
    let mut queries = BTreeMap::new();
    for number in 0..40 {
        let columns: Vec<String> = (0..1 + random.below(5))
            .map(|_| format!("{}{{ $v/{} }}{}", constant(random), random.one(&["a", "b", "c", "*"]), constant(random)))
            .collect();
        let name = format!("n{}", "m".repeat(random.below(3) * random.below(40)));
        let condition = format!("$v/{} = {}", random.one(&["a", "b", "c"]), 1 + random.below(3));
        let text = format!("for $v in //i where {condition} return <{name}>{}</{name}>", columns.join(""));
        let text = if random.below(4) == 0 { format!("<all of='them'>{{ {text} }}</all>") } else { text };
        queries.insert(number.to_string(), text);
    }
    let messages = [1, 5, 90, 0, 30].map(|items| {
        let mut xml = "<m>".to_owned();
        for _ in 0..items {
            xml.push_str("<i>");
            for _ in 0..random.below(6) {
                let space = " ".repeat([random.below(4), random.below(140), random.below(600)][random.below(3)]);
                let name = random.one(&["a", "b", "c", "d"]);
                xml.push_str(&format!("<{name}>{space}{}</{name}>", 1 + random.below(3)));
            }
            xml.push_str("</i>");
        }
        xml + "</m>"
    });
    (queries, messages.into())
}

/// Each implementation of the kernel makes the same results. The choice holds for the whole process: the other tests,
/// which run at the same time, may have either.
#[test]
fn all_kernels_make_the_same_results() {
    let mut result = 0;
    for wide in [false, true] {
        #[cfg(target_arch = "x86_64")]
        if wide && twigcast_core::simd::has_avx2() {
            // SAFETY: the processor has the features.
            unsafe { twigcast_core::use_avx2() }
        }
        for seed in 1..9 {
            println!("seed {seed}, wide: {wide}");
            let (queries, messages) = of_all_lengths(&mut Random(seed));
            let mut engine = Engine::new(Limits::default());
            for (key, text) in &queries {
                engine.add(key, text, &context(), false).expect(text);
            }
            let mut matcher = Matcher::new();
            for xml in &messages {
                result += check(&engine, &mut matcher, &queries, xml, seed);
            }
        }
    }
    assert!(result > 1_000, "{result} deliveries are too few to mean anything");
}
