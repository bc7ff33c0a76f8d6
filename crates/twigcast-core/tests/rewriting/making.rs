//! Random messages and queries.

/// The generator SplitMix64: equal seeds give equal numbers on all platforms.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    pub fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Returns elements that nest in themselves, with values, attributes, references, comments and sometimes namespaces.
pub(super) fn element(random: &mut Random, depth: usize, out: &mut String) {
    let name = random.of(&["a", "b", "c", "d", "e", "p:a", "x"]);
    out.push('<');
    out.push_str(name);
    if depth == 0 || name == "p:a" {
        out.push_str(" xmlns:p='urn:p'");
    }
    if depth > 0 && random.below(30) == 0 {
        out.push_str(" xmlns='urn:d'");
    }
    for attribute in ["k", "l"] {
        if random.below(3) == 0 {
            out.push_str(&format!(" {attribute}='{}'", random.of(&["1", "2", "01", "&#49;", "v", ""])));
        }
    }
    out.push('>');
    for _ in 0..if depth > 4 { 0 } else { random.below(5) } {
        element(random, depth + 1, out);
    }
    if random.below(2) == 0 {
        out.push_str(random.of(&["1", "2", " 2 ", "2.0", "v", "w", "&lt;", "<![CDATA[v]]>", "<!--c-->v", "]]&gt;"]));
    }
    out.push_str(&format!("</{name}>"));
}

fn steps(random: &mut Random, first: &[&str], most: usize) -> String {
    let mut path = String::new();
    for step in 0..1 + random.below(most) {
        path.push_str(if step == 0 { random.of(first) } else { random.of(&["/", "/", "//"]) });
        path.push_str(random.of(&["a", "b", "c", "d", "a", "b", "*", "p:a", "*:a"]));
    }
    path
}

fn relative(random: &mut Random) -> String {
    match random.below(12) {
        0 => "$v".to_owned(),
        _ => format!("$v{}", steps(random, &["/", "/", "//"], 2)),
    }
}

fn condition(random: &mut Random) -> String {
    let path = relative(random);
    match random.below(16) {
        0..5 => format!("{path} = {}", random.of(&["1", "2", "3"])),
        5..10 => format!("{path} = '{}'", random.of(&["1", "2", "v", "w", "<", ""])),
        10..14 => {
            let (name, constant) = (random.of(&["k", "l", "*"]), random.of(&["1", "'1'", "2", "'v'"]));
            format!("{path}{}@{name} = {constant}", random.of(&["/", "/", "//"]))
        }
        14 => format!("{path} > 1"),
        _ => format!("not({path} = 1)"),
    }
}

/// Returns a query, mostly of the form that the batch rewriter decides.
pub(super) fn query_text(random: &mut Random) -> String {
    let mut text = format!("for $v in {}", steps(random, &["/", "//", "//"], 3));
    let conditions: Vec<String> = (0..random.below(4)).map(|_| condition(random)).collect();
    if !conditions.is_empty() {
        text.push_str(&format!(" where {}", conditions.join(" and ")));
    }
    let columns: Vec<String> = (0..random.below(3))
        .map(|_| match random.below(12) {
            0 => format!("{{ {}/text() }}", relative(random)),
            1 => "constant".to_owned(),
            _ => format!("{{ {} }}", relative(random)),
        })
        .collect();
    text.push_str(&match random.below(12) {
        0 => " return $v".to_owned(),
        1 => format!(" return <r k='{{ $v/@k }}'>{}</r>", columns.join(" ")),
        _ => format!(" return <{0}>{1}</{0}>", random.of(&["r", "s"]), columns.join("")),
    });
    if random.below(6) == 0 { format!("<all>{{ {text} }}</all>") } else { text }
}
