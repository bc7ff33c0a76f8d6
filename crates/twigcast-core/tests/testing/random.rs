//! Random numbers, messages and paths for tests. The unit tests of the crate include this file too.

#![allow(dead_code, reason = "no test uses all of it")]

/// The generator SplitMix64: equal seeds give equal numbers on all platforms.
pub struct Random(pub u64);

/// The integers that [`Random`] makes.
pub trait Bound: Copy {
    /// Returns the bound as 64 bits.
    fn to_bits(self) -> u64;
    /// Returns a number below the bound.
    fn from_bits(number: u64) -> Self;
}

macro_rules! bounds {
    ($($integer:ty)*) => {$(
        impl Bound for $integer {
            fn to_bits(self) -> u64 {
                self as u64
            }

            fn from_bits(number: u64) -> Self {
                number as Self
            }
        }
    )*};
}

bounds!(u32 u64 usize i32);

impl Random {
    /// Returns any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number from 0 up to below a bound.
    pub fn below<T: Bound>(&mut self, bound: T) -> T {
        T::from_bits(self.bits() % bound.to_bits())
    }

    /// Returns `true` in so many of a hundred cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Returns one of several.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A kind of messages: what their elements are called and what they hold.
pub struct Messages<'a> {
    /// The names of elements.
    pub names: &'a [&'a str],
    /// What the start tag of the root element has besides: declarations of namespaces.
    pub declarations: &'a str,
    /// What other start tags have besides, in so many cases of a hundred.
    pub redeclarations: (&'a [&'a str], u32),
    /// The names of attributes, and how many elements of a hundred have each.
    pub attributes: (&'a [&'a str], u32),
    /// The values of attributes.
    pub values: &'a [&'a str],
    /// What stands before, between and behind child elements, each in so many cases of a hundred.
    pub contents: (&'a [&'a str], u32),
    /// One more than the most children of an element, and the level from which on there are none.
    pub children: (usize, usize),
}

impl Messages<'_> {
    /// Elements without names, attributes or content.
    pub const EMPTY: Messages<'static> = Messages {
        names: &[],
        declarations: "",
        redeclarations: (&[], 0),
        attributes: (&[], 0),
        values: &[],
        contents: (&[], 0),
        children: (0, 0),
    };

    /// Returns a message.
    pub fn one(&self, random: &mut Random) -> String {
        let mut message = String::new();
        self.append(random, 0, &mut message);
        message
    }

    /// Appends an element on a level; 0 is that of the root.
    pub fn append(&self, random: &mut Random, level: usize, message: &mut String) {
        let name = random.one(self.names);
        *message += &format!("<{name}");
        if level == 0 {
            *message += self.declarations;
        } else if random.chance(self.redeclarations.1) {
            *message += random.one(self.redeclarations.0);
        }
        for attribute in self.attributes.0 {
            if random.chance(self.attributes.1) {
                *message += &format!(" {attribute}='{}'", random.one(self.values));
            }
        }
        *message += ">";
        self.append_content(random, message);
        let (children_bound, levels) = self.children;
        for _ in 0..if level < levels { random.below(children_bound) } else { 0 } {
            self.append(random, level + 1, message);
            self.append_content(random, message);
        }
        *message += &format!("</{name}>");
    }

    fn append_content(&self, random: &mut Random, message: &mut String) {
        if random.chance(self.contents.1) {
            *message += random.one(self.contents.0);
        }
    }
}

/// A kind of paths.
pub struct Paths<'a> {
    /// What they begin with.
    pub starts: &'a [&'a str],
    /// What stands between two steps.
    pub between: &'a [&'a str],
    /// The name tests of steps.
    pub tests: &'a [&'a str],
    /// The most steps.
    pub steps_max: usize,
}

impl Paths<'_> {
    /// Returns a path without predicates.
    pub fn one(&self, random: &mut Random) -> String {
        self.with_predicates(random, &mut |_| String::new())
    }

    /// Returns a path; `predicates` makes those of each step, with their brackets.
    pub fn with_predicates(&self, random: &mut Random, predicates: &mut dyn FnMut(&mut Random) -> String) -> String {
        let mut path = random.one(self.starts).to_owned();
        for step in 0..=random.below(self.steps_max) {
            if step > 0 {
                path += random.one(self.between);
            }
            path += random.one(self.tests);
            path += &predicates(random);
        }
        path
    }
}
