//! Results that are known but not put together: of which constant bytes and which slices of the message each is.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::document::NodeId;

use super::super::family::Numbered;
use super::super::run::Session;
use super::super::template::{Piece, Skeleton};
use super::guide::{ColumnId, ListId};
use super::sets::{Frozen, SetId, members};

/// Slices that the columns of one message are of, at most.
const SLICES_MAX: usize = 1 << 20;

pub(super) type RecipeId = u32;

/// Bytes of the message, or of those kept beside it.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: u32,
    end: u32,
    is_kept: bool,
}

/// What a column leads to from one binding.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u32,
    end: u32,
    bytes: u32,
}

/// A part of what is made of a binding.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Start and end among the constants.
    Constant(u32, u32),
    /// What the column leads to.
    Column(u32),
}

/// What is constant about results, ready to be copied.
#[derive(Debug)]
struct Form {
    skeleton: Arc<Numbered<Skeleton>>,
    /// What is made of a binding, from start to end tag.
    parts: Box<[Part]>,
    /// The constant parts one after the other.
    constants: Box<[u8]>,
    /// Each binding's element has content, whatever the columns lead to.
    has_content: bool,
}

impl Form {
    fn new(skeleton: Arc<Numbered<Skeleton>>) -> Self {
        let Skeleton { open, pieces, close, .. } = &skeleton.object;
        let (mut parts, mut constants, mut start) = (Vec::new(), open.clone(), 0);
        for piece in pieces {
            match piece {
                Piece::Constant(bytes) => constants.extend_from_slice(bytes),
                Piece::Column(column) => {
                    if start < constants.len() {
                        parts.push(Part::Constant(start as u32, constants.len() as u32));
                    }
                    parts.push(Part::Column(*column as u32));
                    start = constants.len();
                }
            }
        }
        constants.extend_from_slice(close);
        parts.push(Part::Constant(start as u32, constants.len() as u32));
        let has_content = skeleton.object.has_content();
        Self { skeleton, parts: parts.into(), constants: constants.into(), has_content }
    }

    /// Before and after what is made of the bindings.
    fn around(&self) -> (&[u8], &[u8]) {
        (&self.skeleton.object.prefix, &self.skeleton.object.suffix)
    }
}

/// What results of the bindings of a list are made of, on whatever message.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    list: ListId,
    form: u32,
    /// Where its columns are among those of all.
    columns: (u32, u32),
}

/// All recipes. There are many and each message uses many, so they lie close together.
#[derive(Debug, Default)]
pub(super) struct Recipes {
    list: Vec<Recipe>,
    columns: Vec<ColumnId>,
    forms: Vec<Form>,
    /// By number of the skeleton.
    form_of: FxHashMap<u32, u32>,
}

impl Recipes {
    /// The number of another recipe.
    pub fn add(&mut self, list: ListId, skeleton: &Arc<Numbered<Skeleton>>, columns: &[ColumnId]) -> RecipeId {
        let form = *self.form_of.entry(skeleton.id).or_insert_with(|| {
            self.forms.push(Form::new(Arc::clone(skeleton)));
            self.forms.len() as u32 - 1
        });
        let start = self.columns.len() as u32;
        self.columns.extend_from_slice(columns);
        self.list.push(Recipe { list, form, columns: (start, self.columns.len() as u32) });
        self.list.len() as RecipeId - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The list that the bindings are of, and the columns.
    #[inline]
    pub fn needs(&self, id: RecipeId) -> (ListId, &[ColumnId]) {
        let Recipe { list, columns: (start, end), .. } = self.list[id as usize];
        (list, &self.columns[start as usize..end as usize])
    }

    #[inline]
    fn form(&self, id: RecipeId) -> &Form {
        &self.forms[self.list[id as usize].form as usize]
    }
}

/// A recipe on the message in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub recipe: RecipeId,
    /// Where its columns begin among those of all.
    columns: u32,
    /// Where its fragments begin in a table of those written.
    pub fragments: u32,
    /// The bytes of the result of all bindings, at most.
    pub bytes_max: usize,
}

/// A column that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Where its entries begin.
    start: u32,
    bytes: usize,
}

/// The results of one message, told apart by number. Whoever keeps the message can have their bytes at any time.
#[derive(Debug, Default)]
pub struct Prepared {
    recipes: Arc<Recipes>,
    pub(super) used: Vec<Used>,
    /// Of the recipes used, one after the other: where the entries of each column begin.
    columns: Vec<u32>,
    /// By result.
    pub(super) list: Vec<(u32, SetId)>,
    pub(super) sets: Frozen,
    entries: Vec<Entry>,
    slices: Vec<Slice>,
    kept: Vec<u8>,
}

impl Prepared {
    /// None yet, with as much room as these take.
    pub(super) fn as_large_as(&self) -> Self {
        Self {
            recipes: Arc::clone(&self.recipes),
            used: Vec::with_capacity(self.used.len()),
            columns: Vec::with_capacity(self.columns.len()),
            list: Vec::with_capacity(self.list.len()),
            sets: Frozen::default(),
            entries: Vec::with_capacity(self.entries.len()),
            slices: Vec::with_capacity(self.slices.len()),
            kept: Vec::with_capacity(self.kept.len()),
        }
    }

    /// How many results there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many bytes a result has; 0 if there is none of this number.
    pub fn size(&self, number: usize) -> usize {
        self.list.get(number).map_or(0, |&(used, set)| self.size_of(used, self.sets.bits(set)))
    }

    pub(super) fn size_of(&self, used: u32, set: &[u64]) -> usize {
        let used = self.used[used as usize];
        let (prefix, suffix) = self.around(used);
        let fragments: usize = members(set).map(|binding| self.fragment_size(used, binding)).sum();
        prefix.len() + fragments + suffix.len()
    }

    /// Appends a result. `source` is the message that it is made of.
    pub fn write(&self, number: usize, source: &[u8], out: &mut Vec<u8>) {
        let Some(&(used, set)) = self.list.get(number) else { return };
        let used = self.used[used as usize];
        let (prefix, suffix) = self.around(used);
        out.extend_from_slice(prefix);
        for binding in members(self.sets.bits(set)) {
            self.append_fragment(used, binding, source, out);
        }
        out.extend_from_slice(suffix);
    }

    /// What stands before and after what is made of the bindings.
    pub(super) fn around(&self, used: Used) -> (&[u8], &[u8]) {
        self.recipes.form(used.recipe).around()
    }

    pub(super) fn reset(&mut self, recipes: &Arc<Recipes>) {
        if !Arc::ptr_eq(&self.recipes, recipes) {
            self.recipes = Arc::clone(recipes);
        }
        self.used.clear();
        self.columns.clear();
        self.list.clear();
        self.entries.clear();
        self.slices.clear();
        self.kept.clear();
    }

    /// The number of another result.
    #[inline]
    pub(super) fn add(&mut self, used: u32, set: SetId) -> u32 {
        self.list.push((used, set));
        self.list.len() as u32 - 1
    }

    /// The number of another recipe used, on so many bindings.
    pub(super) fn add_use(
        &mut self,
        recipe: RecipeId,
        columns: impl Iterator<Item = Kept>,
        bindings: usize,
        fragments: u32,
    ) -> u32 {
        let start = self.columns.len() as u32;
        let mut bytes = 0;
        for column in columns {
            bytes += column.bytes;
            self.columns.push(column.start);
        }
        let Form { skeleton, constants, .. } = self.recipes.form(recipe);
        let Skeleton { prefix, empty, suffix, .. } = &skeleton.object;
        let bytes_max = prefix.len() + bytes + bindings * constants.len().max(empty.len()) + suffix.len();
        self.used.push(Used { recipe, columns: start, fragments, bytes_max });
        self.used.len() as u32 - 1
    }

    /// Keeps what a column leads to, given as (number of the binding, node), ascending. `None`: it is too much.
    pub(super) fn add_column(
        &mut self,
        nodes: &[(u32, NodeId)],
        bindings: usize,
        session: &mut Session<'_>,
    ) -> Option<Kept> {
        if self.slices.len() + nodes.len() > SLICES_MAX || self.entries.len() + bindings > SLICES_MAX {
            return None;
        }
        let start = self.entries.len();
        let mut total = 0;
        let mut rest = nodes.iter().peekable();
        for number in 0..bindings as u32 {
            let first = self.slices.len();
            let mut bytes = 0_u32;
            while let Some(&(_, node)) = rest.next_if(|(of, _)| *of == number) {
                let slice = self.slice(session, node)?;
                bytes = bytes.checked_add(slice.end - slice.start)?;
                match self.slices[first..].last_mut() {
                    Some(last) if last.end == slice.start && last.is_kept == slice.is_kept => last.end = slice.end,
                    _ => self.slices.push(slice),
                }
            }
            total += bytes as usize;
            self.entries.push(Entry { first: first as u32, end: self.slices.len() as u32, bytes });
        }
        Some(Kept { start: start as u32, bytes: total })
    }

    /// An element as it is copied to a result; `None`: not here.
    fn slice(&mut self, session: &mut Session<'_>, node: NodeId) -> Option<Slice> {
        let message = session.message;
        if message.document.declarations.is_empty() {
            let span = message.document.nodes[node as usize].span;
            return Some(Slice { start: span.start, end: span.end, is_kept: false });
        }
        let start = self.kept.len();
        session.keep_copy(node, &mut self.kept).ok()?;
        let end = u32::try_from(self.kept.len()).ok()?;
        Some(Slice { start: start as u32, end, is_kept: true })
    }

    #[inline]
    fn entry(&self, used: Used, column: usize, binding: u32) -> Entry {
        self.entries[(self.columns[used.columns as usize + column] + binding) as usize]
    }

    /// Bytes that the columns lead to from a binding.
    fn column_bytes(&self, used: Used, binding: u32) -> usize {
        let columns = self.recipes.needs(used.recipe).1.len();
        (0..columns).map(|column| self.entry(used, column, binding).bytes as usize).sum()
    }

    fn fragment_size(&self, used: Used, binding: u32) -> usize {
        let form = self.recipes.form(used.recipe);
        let bytes = self.column_bytes(used, binding);
        if bytes == 0 && !form.has_content { form.skeleton.object.empty.len() } else { form.constants.len() + bytes }
    }

    /// Appends what is made of one binding.
    #[inline]
    pub(super) fn append_fragment(&self, used: Used, binding: u32, source: &[u8], out: &mut Vec<u8>) {
        let written: Result<(), std::convert::Infallible> = self.fragment(used, binding, source, |from, start, end| {
            out.extend_from_slice(&from[start..end]);
            Ok(())
        });
        match written {
            Ok(()) => {}
        }
    }

    /// Hands over the bytes that are made of one binding, in runs: what they are in, start and end.
    #[inline]
    pub(super) fn fragment<E>(
        &self,
        used: Used,
        binding: u32,
        source: &[u8],
        mut push: impl FnMut(&[u8], usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let form = self.recipes.form(used.recipe);
        if !form.has_content && self.column_bytes(used, binding) == 0 {
            let empty = &form.skeleton.object.empty;
            return push(empty, 0, empty.len());
        }
        for part in &form.parts {
            match *part {
                Part::Constant(start, end) => push(&form.constants, start as usize, end as usize)?,
                Part::Column(column) => {
                    let Entry { first, end, .. } = self.entry(used, column as usize, binding);
                    for slice in &self.slices[first as usize..end as usize] {
                        let from = if slice.is_kept { &self.kept[..] } else { source };
                        push(from, slice.start as usize, slice.end as usize)?;
                    }
                }
            }
        }
        Ok(())
    }
}
