//! What results are made of on whatever message: constant bytes around what columns lead to.

use rustc_hash::FxHashMap;

use super::super::family::Numbered;
use super::super::template::{Piece, Skeleton};
use super::guide::{ColumnId, ListId};

pub(super) type RecipeId = u32;

/// Bytes that are copied at once where no more are wanted: to copy so many takes no call and no loop.
pub(super) const RUN: usize = 32;

/// A part of what is made of a binding.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// Start and end among the constants.
    Constant(u32, u32),
    /// What the column leads to.
    Column(u32),
}

/// What is constant about results, ready to be copied.
#[derive(Debug)]
pub(super) struct Form {
    /// Before and after what is made of the bindings.
    pub prefix: Box<[u8]>,
    pub suffix: Box<[u8]>,
    /// What is made of a binding, from start to end tag.
    pub parts: Box<[Part]>,
    /// The constant parts one after the other, and a run of other bytes.
    pub constants: Box<[u8]>,
    /// Bytes of the constant parts.
    pub constant_bytes: usize,
    /// What is made of a binding if the columns lead to nothing, where that is something else.
    pub empty: Option<Box<[u8]>>,
}

impl Form {
    fn new(skeleton: &Skeleton) -> Self {
        let Skeleton { open, pieces, close, .. } = skeleton;
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
        let constant_bytes = constants.len();
        constants.resize(constant_bytes + RUN, 0);
        Self {
            prefix: skeleton.prefix.as_slice().into(),
            suffix: skeleton.suffix.as_slice().into(),
            parts: parts.into(),
            constants: constants.into(),
            constant_bytes,
            empty: (!skeleton.has_content()).then(|| skeleton.empty.as_slice().into()),
        }
    }

    /// Constant bytes in what is made of so many bindings, at most.
    pub fn constant_bytes_max(&self, bindings: usize) -> usize {
        let each = self.empty.as_ref().map_or(0, |empty| empty.len()).max(self.constant_bytes);
        self.prefix.len() + bindings * each + self.suffix.len()
    }
}

/// What results of the bindings of a list are made of.
#[derive(Clone, Copy, Debug)]
struct Recipe {
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
    /// By list: where its recipes begin.
    starts: Vec<RecipeId>,
    /// By list: all columns that its recipes need.
    needed: Vec<Box<[ColumnId]>>,
    /// The columns of any of them, at most.
    columns_max: usize,
}

impl Recipes {
    /// Adds those of the next list, each a skeleton and its columns.
    pub fn add_list<'a>(&mut self, recipes: impl Iterator<Item = (&'a Numbered<Skeleton>, &'a [ColumnId])>) {
        self.starts.push(self.list.len() as RecipeId);
        let first = self.columns.len();
        for (skeleton, columns) in recipes {
            let form = *self.form_of.entry(skeleton.id).or_insert_with(|| {
                self.forms.push(Form::new(&skeleton.object));
                self.forms.len() as u32 - 1
            });
            let start = self.columns.len() as u32;
            self.columns.extend_from_slice(columns);
            self.list.push(Recipe { form, columns: (start, self.columns.len() as u32) });
            self.columns_max = self.columns_max.max(columns.len());
        }
        let mut needed = self.columns[first..].to_vec();
        needed.sort_unstable();
        needed.dedup();
        self.needed.push(needed.into());
    }

    /// The bytes of any result, at most, where lists have so many bindings and columns so many bytes.
    pub fn bytes_max(&self, bindings: usize, column_bytes: usize) -> usize {
        let constant = self.forms.iter().map(|form| form.constant_bytes_max(bindings)).max().unwrap_or_default();
        constant + self.columns_max * column_bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The number of the first recipe of a list, and how many it has.
    pub fn of_list(&self, list: ListId) -> (RecipeId, usize) {
        let start = self.starts[list as usize];
        let end = self.starts.get(list as usize + 1).map_or(self.list.len(), |&end| end as usize);
        (start, end - start as usize)
    }

    /// All columns that the recipes of a list need.
    pub fn needed(&self, list: ListId) -> &[ColumnId] {
        &self.needed[list as usize]
    }

    /// The columns that a recipe needs.
    #[inline]
    pub fn columns(&self, id: RecipeId) -> &[ColumnId] {
        let (start, end) = self.list[id as usize].columns;
        &self.columns[start as usize..end as usize]
    }

    /// The number of a recipe's form.
    #[inline]
    pub fn form_of(&self, id: RecipeId) -> u32 {
        self.list[id as usize].form
    }

    /// The form of this number.
    #[inline]
    pub fn form(&self, number: u32) -> &Form {
        &self.forms[number as usize]
    }
}
