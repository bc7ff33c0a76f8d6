//! Populations of paths with value conditions on attributes and text children, all operators, `not()` included, against a
//! plain search: on their own elements and on ancestors, few and many at a state, in flat and in deep messages, as they
//! come and go, with memory and without.

mod testing;

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use testing::Random;

const NAMES: [&str; 3] = ["a", "b", "c"];
const ATTRIBUTES: [&str; 3] = ["x", "y", "longer-name"];
/// In place of an attribute.
const TEXT: &str = "text()";
const VALUES: [&str; 12] = ["1", "2", "3", "10", "-1", "2.5", " 2 ", "02", "", "word", "a longer word", "1e3"];
const OPERATORS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

struct Element {
    name: &'static str,
    /// Attributes, and texts under the name [`TEXT`].
    values: Vec<(&'static str, &'static str)>,
    parent: Option<usize>,
}

fn message(random: &mut Random, depth: usize) -> (Vec<Element>, String) {
    let (mut elements, mut text) = (Vec::new(), String::new());
    grow(random, None, depth, &mut elements, &mut text);
    (elements, text)
}

/// A value as it stands in a message, in one of two ways.
fn spelt(random: &mut Random, value: &str) -> String {
    if random.below(3) == 0 { value.replace('2', "&#50;").replace('w', "&#x77;") } else { value.to_string() }
}

fn grow(random: &mut Random, parent: Option<usize>, depth: usize, elements: &mut Vec<Element>, text: &mut String) {
    let name = random.one(&NAMES);
    text.push_str(&format!("<{name}"));
    let mut values = Vec::new();
    for attribute in ATTRIBUTES {
        if random.below(2) == 0 {
            let value = random.one(&VALUES);
            text.push_str(&format!(" {attribute}='{}'", spelt(random, value)));
            values.push((attribute, value));
        }
    }
    text.push('>');
    let this = elements.len();
    elements.push(Element { name, values, parent });
    grow_text(random, &mut elements[this], text);
    // In deep messages one child goes on, and the others do not.
    let children = if depth > 4 { 1 + random.below(2) } else { random.below(4).min(depth * 4) };
    for child in 0..children {
        let below = if child == 0 || depth <= 4 { depth - 1 } else { random.below(2) };
        grow(random, Some(this), below, elements, text);
    }
    if children > 0 {
        grow_text(random, &mut elements[this], text);
    }
    text.push_str(&format!("</{name}>"));
}

fn grow_text(random: &mut Random, element: &mut Element, text: &mut String) {
    let value = random.one(&VALUES);
    if random.below(3) == 0 && !value.is_empty() {
        text.push_str(&spelt(random, value));
        element.values.push((TEXT, value));
    }
}

#[derive(Clone, Copy)]
enum Right {
    Text(&'static str),
    Number(f64),
}

#[derive(Clone, Copy)]
struct Condition {
    attribute: &'static str,
    /// Operator and right side; existence without.
    compared: Option<(&'static str, Right)>,
    negated: bool,
}

struct Step {
    descendant: bool,
    name: &'static str,
    conditions: Vec<Condition>,
}

fn query(random: &mut Random, steps_max: usize) -> (Vec<Step>, String) {
    let (mut steps, mut text) = (Vec::new(), String::new());
    for _ in 0..=random.below(steps_max) {
        let mut step =
            Step { descendant: random.below(4) == 0, name: random.one(&["a", "b", "c", "*"]), conditions: vec![] };
        text.push_str(if step.descendant { "//" } else { "/" });
        text.push_str(step.name);
        for _ in 0..random.one(&[0, 0, 1, 1, 2]) {
            let condition = condition(random);
            text.push_str(&format!("[{}]", written(condition)));
            step.conditions.push(condition);
        }
        steps.push(step);
    }
    (steps, text)
}

fn condition(random: &mut Random) -> Condition {
    let right = match random.below(3) {
        0 => Right::Text(random.one(&VALUES)),
        _ => Right::Number(random.one(&[-1.0, 0.0, 1.0, 2.0, 2.5, 3.0, 10.0, 1000.0])),
    };
    let compared = (random.below(8) > 0).then(|| (random.one(&OPERATORS), right));
    let attribute = if random.below(5) == 0 { TEXT } else { random.one(&ATTRIBUTES) };
    Condition { attribute, compared, negated: random.below(6) == 0 }
}

fn written(condition: Condition) -> String {
    let sign = if condition.attribute == TEXT { "" } else { "@" };
    let left = format!("{sign}{}", condition.attribute);
    let bare = match condition.compared {
        None => left,
        Some((operator, Right::Text(text))) => format!("{left} {operator} '{text}'"),
        Some((operator, Right::Number(number))) => format!("{left} {operator} {number}"),
    };
    if condition.negated { format!("not({bare})") } else { bare }
}

/// As XPath 1.0 reads a number; none of the values has a plus sign or names a number in words.
fn number(text: &str) -> f64 {
    if text.contains('e') { f64::NAN } else { text.trim().parse().unwrap_or(f64::NAN) }
}

fn holds(element: &Element, condition: Condition) -> bool {
    let mut values = element.values.iter().filter(|(name, _)| *name == condition.attribute).map(|(_, value)| *value);
    let bare = values.any(|value| match condition.compared {
        None => true,
        Some(("=", Right::Text(text))) => value == text,
        Some(("!=", Right::Text(text))) => value != text,
        Some((operator, right)) => {
            let bound = match right {
                Right::Text(text) => number(text),
                Right::Number(bound) => bound,
            };
            match operator {
                "=" => number(value) == bound,
                "!=" => number(value) != bound,
                "<" => number(value) < bound,
                "<=" => number(value) <= bound,
                ">" => number(value) > bound,
                _ => number(value) >= bound,
            }
        }
    });
    bare != condition.negated
}

/// Can the element stand for the last of the steps?
fn stands(elements: &[Element], at: Option<usize>, steps: &[Step]) -> bool {
    let Some((last, before)) = steps.split_last() else { return at.is_none() };
    let Some(element) = at.map(|at| &elements[at]) else { return false };
    if last.name != "*" && last.name != element.name || !last.conditions.iter().all(|&c| holds(element, c)) {
        return false;
    }
    let mut above = element.parent;
    loop {
        if stands(elements, above, before) {
            return true;
        }
        match above {
            Some(next) if last.descendant => above = elements[next].parent,
            _ => return false,
        }
    }
}

/// Room for all that is learnt; for none of it; for so little that it is forgotten again and again.
const CACHES: [usize; 3] = [1 << 26, 1, 20_000];

/// How many queries there are, of how many steps, how many messages, and how deep these are.
type Sizes = (usize, usize, usize, usize);

fn check(seed: u64, (queries, steps_max, messages, depth): Sizes, cache_bytes_max: usize) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
    let mut matcher = Matcher::new();
    let mut population: Vec<Option<(Vec<Step>, String)>> = Vec::new();
    let mut before: Vec<(Vec<Element>, String)> = Vec::new();
    for round in 0..3 {
        for key in 0..queries {
            if round > 0 && random.below(3) > 0 {
                continue;
            }
            if random.below(4) == 0 && round > 0 {
                engine.remove(&key.to_string());
                population[key] = None;
                continue;
            }
            let (steps, text) = query(&mut random, steps_max);
            engine.add(&key.to_string(), &text, &QueryContext::default(), true).expect("a valid query");
            population.resize_with(population.len().max(key + 1), || None);
            population[key] = Some((steps, text));
        }
        for _ in 0..messages {
            // Half of the messages were there before, when other queries were: what is remembered of them must not mislead.
            if before.is_empty() || random.below(2) == 0 {
                before.push(message(&mut random, depth));
            }
            let (elements, text) = &before[random.below(before.len())];
            engine.run(&mut matcher, text.as_bytes()).expect("a well-formed message");
            let mut slots = Vec::new();
            engine.slots(&matcher, &mut slots);
            let mut matched: Vec<&str> = slots.iter().filter_map(|&slot| engine.key(slot)).collect();
            matched.sort_unstable();
            for (key, entry) in population.iter().enumerate() {
                let key = key.to_string();
                let result = matched.binary_search(&key.as_str()).is_ok();
                let Some((steps, query)) = entry else {
                    assert!(!result);
                    continue;
                };
                let expected = (0..elements.len()).any(|at| stands(elements, Some(at), steps));
                assert_eq!(result, expected, "seed {seed}: {query} on {text}");
            }
        }
    }
}

#[test]
fn few_queries_and_many_messages() {
    (1..25).for_each(|seed| check(seed, (40, 4, 40, 4), CACHES[seed as usize % 3]));
}

/// So many at few states that these have tables of their own.
#[test]
fn crowds() {
    (100..102).for_each(|seed| check(seed, (6_000, 2, 4, 4), CACHES[0]));
}

/// More steps than values: what stands below an element with values is structure.
#[test]
fn paths_below_values() {
    (200..203).for_each(|seed| check(seed, (1_500, 6, 8, 4), CACHES[seed as usize % 3]));
}

/// Levels beyond those that ancestors are told apart by at a glance.
#[test]
fn deep_messages() {
    (300..312).for_each(|seed| check(seed, (60, 3, 6, 20 + seed as usize % 4 * 20), CACHES[seed as usize % 3]));
}
