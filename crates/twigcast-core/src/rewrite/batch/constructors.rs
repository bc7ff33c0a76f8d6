//! What results are made of on whatever message: constant bytes around what columns lead to.

use std::array;

use rustc_hash::FxHashMap;

use super::super::program::family::Interned;
use super::super::program::template::{Skeleton, TemplatePiece};
use super::super::run_buffer::{STEP, ShortConstant};
use super::data_guide::{BindingColumnId, BindingListId};

pub(super) type ResultConstructorId = u32;

/// Columns of a recipe that are kept with it.
pub(super) const FIRSTS: usize = 3;

/// Start and end among the constants of a form.
pub(super) type ConstantRange = (u32, u32);

/// What is constant about results, ready to be copied.
#[derive(Debug)]
pub(super) struct ConstructorForm {
    /// Before and after what is made of the bindings.
    pub prefix: Box<[u8]>,
    pub suffix: Box<[u8]>,
    /// What is made of a binding begins with: the start tag, and what is behind it before any column; and where the columns
    /// lead to nothing.
    pub heads: [ConstantRange; 2],
    /// For each column which it is, and what is behind it, up to the end tag.
    pub columns: Box<[(u32, ConstantRange)]>,
    /// What is behind the columns is there so many times; and where these lead to nothing.
    pub tails: [u32; 2],
    /// The constant parts one after the other, and a step of other bytes.
    pub constants: Box<[u8]>,
    /// Bytes of the constant parts of a binding; and where the columns lead to nothing.
    pub constant_bytes: [usize; 2],
    /// The constant parts of a binding, if each is short.
    pub shorts: Option<ShortConstants>,
}

/// Short constants around columns.
#[derive(Debug)]
pub(super) struct ShortConstants {
    pub head: ShortConstant,
    /// In place of all, where the columns lead to nothing; `None`: that makes no difference.
    pub nothing: Option<ShortConstant>,
    /// For each column which it is, and what is behind it.
    pub columns: Box<[(u32, ShortConstant)]>,
}

impl ShortConstants {
    fn of(form: &ConstructorForm, constants: &[u8]) -> Option<Self> {
        let short = |(start, end): ConstantRange| ShortConstant::new(&constants[start as usize..end as usize]);
        let nothing = if form.tails[1] == 0 { Some(short(form.heads[1])?) } else { None };
        let columns = form.columns.iter().map(|&(column, constant)| Some((column, short(constant)?)));
        Some(Self { head: short(form.heads[0])?, nothing, columns: columns.collect::<Option<_>>()? })
    }
}

impl ConstructorForm {
    fn new(skeleton: &Skeleton) -> Self {
        let Skeleton { open, pieces, close, .. } = skeleton;
        let (mut columns, mut constants) = (Vec::<(u32, ConstantRange)>::new(), open.clone());
        let mut head = (0, open.len() as u32);
        for piece in pieces.iter().chain([&TemplatePiece::Constant(close.clone())]) {
            match piece {
                TemplatePiece::Constant(bytes) => {
                    constants.extend_from_slice(bytes);
                    columns.last_mut().map_or(&mut head, |(_, behind)| behind).1 = constants.len() as u32;
                }
                TemplatePiece::Column(column) => {
                    columns.push((*column as u32, (constants.len() as u32, constants.len() as u32)))
                }
            }
        }
        let bytes = constants.len();
        let mut form = Self {
            prefix: skeleton.prefix.as_slice().into(),
            suffix: skeleton.suffix.as_slice().into(),
            heads: [head; 2],
            columns: columns.into(),
            tails: [1; 2],
            constants: Box::default(),
            constant_bytes: [bytes; 2],
            shorts: None,
        };
        if !skeleton.has_content() {
            constants.extend_from_slice(&skeleton.empty);
            form.heads[1] = (bytes as u32, constants.len() as u32);
            form.tails[1] = 0;
            form.constant_bytes[1] = skeleton.empty.len();
        }
        form.shorts = ShortConstants::of(&form, &constants);
        constants.resize(constants.len() + STEP, 0);
        form.constants = constants.into();
        form
    }

    /// Constant bytes in what is made of so many bindings, at most.
    pub fn constant_bytes_max(&self, bindings: usize) -> usize {
        let [some, none] = self.constant_bytes;
        self.prefix.len() + bindings * some.max(none) + self.suffix.len()
    }
}

/// What results of the bindings of a list are made of.
#[derive(Clone, Copy, Debug)]
struct ResultConstructor {
    form: u32,
    /// Where its columns are among those of all.
    columns: (u32, u32),
    /// The first of them as they stand in results; any in place of one that there is not.
    firsts: [BindingColumnId; FIRSTS],
}

/// All recipes. There are many and each message uses many, so they lie close together.
#[derive(Debug, Default)]
pub(super) struct ResultConstructors {
    list: Vec<ResultConstructor>,
    columns: Vec<BindingColumnId>,
    forms: Vec<ConstructorForm>,
    /// By number of the skeleton.
    form_of: FxHashMap<u32, u32>,
    /// By list: where its recipes begin.
    starts: Vec<ResultConstructorId>,
    /// By list: all columns that its recipes need.
    needed: Vec<Box<[BindingColumnId]>>,
    /// The columns of any of them, at most.
    columns_max: usize,
}

impl ResultConstructors {
    /// Adds those of the next list, each a skeleton and its columns.
    pub fn add_list<'a>(&mut self, recipes: impl Iterator<Item = (&'a Interned<Skeleton>, &'a [BindingColumnId])>) {
        self.starts.push(self.list.len() as ResultConstructorId);
        let first = self.columns.len();
        for (skeleton, columns) in recipes {
            let form = *self.form_of.entry(skeleton.id).or_insert_with(|| {
                self.forms.push(ConstructorForm::new(&skeleton.object));
                self.forms.len() as u32 - 1
            });
            let start = self.columns.len() as u32;
            self.columns.extend_from_slice(columns);
            let firsts = array::from_fn(|position| {
                let column = self.forms[form as usize].columns.get(position);
                column.map_or(0, |&(column, _)| columns[column as usize])
            });
            self.list.push(ResultConstructor { form, columns: (start, self.columns.len() as u32), firsts });
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
    pub fn of_list(&self, list: BindingListId) -> (ResultConstructorId, usize) {
        let start = self.starts[list as usize];
        let end = self.starts.get(list as usize + 1).map_or(self.list.len(), |&end| end as usize);
        (start, end - start as usize)
    }

    /// All columns that the recipes of a list need.
    pub fn needed(&self, list: BindingListId) -> &[BindingColumnId] {
        &self.needed[list as usize]
    }

    /// The columns that a recipe needs.
    #[inline]
    pub fn columns(&self, id: ResultConstructorId) -> &[BindingColumnId] {
        let (start, end) = self.list[id as usize].columns;
        &self.columns[start as usize..end as usize]
    }

    /// The first columns of a recipe as they stand in results; any in place of one that there is not.
    #[inline]
    pub fn firsts(&self, id: ResultConstructorId) -> [BindingColumnId; FIRSTS] {
        self.list[id as usize].firsts
    }

    /// The number of a recipe's form.
    #[inline]
    pub fn form_of(&self, id: ResultConstructorId) -> u32 {
        self.list[id as usize].form
    }

    /// The form of this number.
    #[inline]
    pub fn form(&self, number: u32) -> &ConstructorForm {
        &self.forms[number as usize]
    }
}
