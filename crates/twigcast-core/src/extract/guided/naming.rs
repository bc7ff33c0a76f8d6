//! Telling results apart: one for each different pair of a set of bindings and what is made of it.

use rustc_hash::FxHashMap;

use super::super::buffer::Buffer;
use super::super::family::NONE;
use super::prepared::{Make, Prepared};
use super::recipes::RecipeId;
use super::sets::{Sets, members};

/// Entries of a table that is not hashed, at most.
const DENSE_MAX: usize = 1 << 20;

/// The result cannot be made here, and has to be asked for by itself.
pub(crate) const ELSEWHERE: u32 = NONE - 1;

/// A recipe on the message in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    form: u32,
    /// Where it is noted where the entries of its columns begin.
    starts: (u32, u32),
    /// How many bindings its list has.
    pub bindings: u32,
    /// How many results are made by it.
    pub results: u32,
    /// The bytes of the result of all bindings, at most.
    pub bytes_max: usize,
}

/// The results of one message, told apart by number.
#[derive(Debug, Default)]
pub struct Named {
    used: Vec<Used>,
    starts: Vec<u32>,
    /// By result: what it is made by, and where the set of bindings begins.
    list: Vec<(u32, u32)>,
}

impl Named {
    /// How many results there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many bytes a result has; 0 if there is none of this number.
    pub fn size(&self, prepared: &Prepared, number: usize) -> usize {
        let Some((used, set)) = self.result(prepared, number) else { return 0 };
        prepared.size_of(self.make(prepared, used), set)
    }

    /// Puts a result together; nothing if there is none of this number. `message` is the one that it is made of, `memory` is
    /// for the bytes.
    pub fn write<'a>(&self, prepared: &Prepared, number: usize, message: &[u8], memory: &'a mut Vec<u8>) -> &'a [u8] {
        let Some((used, set)) = self.result(prepared, number) else { return &[] };
        let (make, source) = (self.make(prepared, used), prepared.source(message));
        let mut buffer = Buffer::within(std::mem::take(memory));
        buffer.append(prepared.size_of(make, set), |out| {
            out.push_all(&make.form.prefix);
            members(set).for_each(|binding| prepared.append_fragment(make, binding, source, out));
            out.push_all(&make.form.suffix);
        });
        let length = buffer.len();
        *memory = buffer.into_memory();
        &memory[..length]
    }

    #[inline]
    pub(super) fn make<'a>(&'a self, prepared: &'a Prepared, used: &Used) -> Make<'a> {
        let (start, end) = used.starts;
        Make { form: prepared.recipes().form(used.form), starts: &self.starts[start as usize..end as usize] }
    }

    /// What a result is made by, and of which bindings.
    #[inline]
    fn result<'a>(&'a self, prepared: &'a Prepared, number: usize) -> Option<(&'a Used, &'a [u64])> {
        let &(used, set) = self.list.get(number)?;
        let used = &self.used[used as usize];
        Some((used, prepared.set(set, used.bindings)))
    }

    /// The recipes used, by number.
    pub(super) fn used(&self) -> &[Used] {
        &self.used
    }

    /// By result: the number of the recipe used, and where the set of bindings begins.
    pub(super) fn list(&self) -> &[(u32, u32)] {
        &self.list
    }

    /// The numbers of the results that are larger than allowed, ascending.
    pub(super) fn too_large(&self, prepared: &Prepared, bytes_max: usize) -> Vec<u32> {
        if self.used.iter().all(|used| used.bytes_max <= bytes_max) {
            return Vec::new();
        }
        (0..self.len() as u32).filter(|&number| self.size(prepared, number as usize) > bytes_max).collect()
    }
}

/// Results of one list by set and recipe; where these are too many, hashed.
#[derive(Debug, Default)]
struct Table {
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    recipes: usize,
}

impl Table {
    fn reset(&mut self, recipes: usize) {
        self.recipes = recipes;
        self.dense.clear();
        self.sparse.clear();
    }

    /// The results of a set by recipe, [`NONE`] where there is none yet; `None`: they are hashed.
    #[inline]
    fn of_set(&mut self, set: u32) -> Option<&mut [u32]> {
        let start = set as usize * self.recipes;
        let end = start + self.recipes;
        if end > DENSE_MAX {
            return None;
        }
        if self.dense.len() < end {
            self.dense.resize(end, NONE);
        }
        Some(&mut self.dense[start..end])
    }
}

/// What is needed to name the results of a message.
#[derive(Debug, Default)]
pub(super) struct Namer {
    sets: Sets,
    made: Table,
    /// By recipe: its number among those used; [`NONE`] where it is not, [`ELSEWHERE`] where it cannot be.
    used: Vec<u32>,
    numbers: Vec<u32>,
    kept: (Vec<u32>, Vec<u32>),
}

impl Namer {
    /// Names the results, and tells the queries with the number of each one's: [`ELSEWHERE`] where it has to be asked for
    /// by itself. The queries in `without`, bits, are left out.
    pub fn name(
        &mut self,
        prepared: &Prepared,
        named: &mut Named,
        without: &[u64],
        mut tell: impl FnMut(&[u32], &[u32]),
    ) {
        named.used.clear();
        named.starts.clear();
        named.list.clear();
        self.used.clear();
        self.used.resize(prepared.recipes().len(), NONE);
        let mut in_hand = NONE;
        let mut first = 0;
        for group in prepared.groups() {
            if group.list != in_hand {
                in_hand = group.list;
                let recipes;
                (first, recipes) = prepared.recipes().of_list(group.list);
                self.made.reset(recipes);
                self.sets.reset();
            }
            let (local, set) = self.sets.intern(prepared.set(group.set, group.bindings), group.set);
            let (queries, rows) = prepared.selector().members(group.members);
            let Self { made, used, numbers, .. } = self;
            let mut add = |row: u32| {
                let number = &mut used[(first + row) as usize];
                if *number == NONE {
                    *number = named.begin_use(prepared, first + row, group.bindings);
                }
                if *number == ELSEWHERE {
                    return ELSEWHERE;
                }
                named.used[*number as usize].results += 1;
                named.list.push((*number, set));
                named.list.len() as u32 - 1
            };
            numbers.clear();
            if let Some(made) = made.of_set(local) {
                numbers.extend(rows.iter().map(|&row| {
                    let number = &mut made[row as usize];
                    if *number == NONE {
                        *number = add(row);
                    }
                    *number
                }));
            } else {
                let place = |row: u32| u64::from(local) << 32 | u64::from(row);
                numbers.extend(rows.iter().map(|&row| *made.sparse.entry(place(row)).or_insert_with(|| add(row))));
            }
            self.tell(without, queries, &mut tell);
        }
    }

    /// Passes queries and their numbers on, but for those that are to be left out.
    fn tell(&mut self, without: &[u64], queries: &[u32], tell: &mut impl FnMut(&[u32], &[u32])) {
        if without.is_empty() {
            return tell(queries, &self.numbers);
        }
        let (kept, numbers) = &mut self.kept;
        kept.clear();
        numbers.clear();
        for (&query, &number) in queries.iter().zip(&self.numbers) {
            if without.get(query as usize / 64).is_none_or(|word| word >> (query % 64) & 1 == 0) {
                kept.push(query);
                numbers.push(number);
            }
        }
        tell(kept, numbers);
    }
}

impl Named {
    /// The number of another recipe used; [`ELSEWHERE`]: what it needs is too much.
    fn begin_use(&mut self, prepared: &Prepared, recipe: RecipeId, bindings: u32) -> u32 {
        let recipes = prepared.recipes();
        let columns = recipes.columns(recipe);
        if columns.iter().any(|&column| prepared.is_too_much(column)) {
            return ELSEWHERE;
        }
        let form = recipes.form_of(recipe);
        let from_columns: usize = columns.iter().map(|&column| prepared.total(column)).sum();
        let bytes_max = recipes.form(form).constant_bytes_max(bindings as usize) + from_columns;
        let start = self.starts.len() as u32;
        self.starts.extend(columns.iter().map(|&column| prepared.start_of(column)));
        let starts = (start, self.starts.len() as u32);
        self.used.push(Used { form, starts, bindings, results: 0, bytes_max });
        self.used.len() as u32 - 1
    }
}
